import io
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from dure.bench.node.bed import Bed, make_image, real_bed
from dure.bench.node.cells import Cell, Outcome, Store
from dure.bench.node.rows import ROWS, rows_for
from dure.bench.node.sets import LARGE, MIXED, SETS, SMALL
from dure.bench.node.shard import Settings, Shard
from tests.emulator.driving import Emulator

EMULATED = Bed({"emulated": True}, {}, (), scale=0.1, turns_per_us=7)


def shard_of(folder: Path, name: str, settings: Settings) -> Shard:
    return Shard(SETS[name], settings, Store(folder), print)


def test_the_largest_count_comes_first_for_all_rows_and_then_again(tmp_path: Path) -> None:
    shard = shard_of(tmp_path, LARGE, Settings(repeats=2))
    wanted = shard.missing(shard.settings.repeats, largest=True)
    assert {cell.count for cell in wanted} == {5}
    rows = [row.name for row in rows_for(SETS[LARGE])]
    assert [cell.row.name for cell in wanted] == rows * 2
    assert [cell.repeat for cell in wanted] == [0] * len(rows) + [1] * len(rows)


def test_other_counts_go_down_row_by_row_and_never_one_after_another(tmp_path: Path) -> None:
    settings = Settings(rows=("plain", "one-after-another", "dure-lock"), counts=(1, 4, 20))
    wanted = shard_of(tmp_path, SMALL, settings).missing(1, largest=False)
    assert [(cell.row.name, cell.count) for cell in wanted] == [
        ("plain", 4),
        ("plain", 1),
        ("dure-lock", 4),
        ("dure-lock", 1),
    ]


def test_what_was_kept_is_not_measured_again(tmp_path: Path) -> None:
    shard = shard_of(tmp_path, LARGE, Settings(repeats=1, rows=("plain", "paper")))
    shard.store.keep(Cell("plain", 5, 0, (Outcome("m00", 0, 1.0, 1.0),), True))
    assert [cell.row.name for cell in shard.missing(shard.settings.repeats, largest=True)] == [
        "paper"
    ]


def test_the_mixed_set_runs_whole_and_alone_has_a_row_under_the_shim(tmp_path: Path) -> None:
    assert shard_of(tmp_path, MIXED, Settings()).missing(1, largest=False) == []
    assert "dure-shim" in [row.name for row in rows_for(SETS[MIXED])]
    assert "dure-shim" not in [row.name for row in rows_for(SETS[LARGE])]
    assert len(SETS[MIXED].members(EMULATED)) == SETS[MIXED].most


def test_nothing_is_begun_that_would_end_too_late(tmp_path: Path) -> None:
    shard = shard_of(tmp_path, LARGE, Settings(repeats=1, limit_s=5.0))
    host = SimpleNamespace(bed=EMULATED)
    shard.run(host, 1, largest=True)  # type: ignore[arg-type]
    assert list(shard.store.cells()) == []


def test_every_strategy_has_a_row_and_rows_state_how_they_pause() -> None:
    managed = {(row.strategy, row.pause_with) for row in ROWS.values() if row.strategy}
    assert managed >= {
        ("paper", "docker"),
        ("paper-window", "docker"),
        ("dure", "docker"),
        ("dure", "cuda-lock"),
    }


def test_an_emulated_product_is_small_and_lasts_its_part_of_the_real_time() -> None:
    real = Bed({}, {}, ())
    assert real.matmul(19_456) == ("matmul", "--size", "19456")
    small = ("matmul", "--size", "304", "--work-us", "293000", "--memory-mib", "4332")
    assert EMULATED.matmul(19_456) == small


def test_a_container_sees_the_host_read_only_and_the_barrier_to_write(tmp_path: Path) -> None:
    bed = Bed({}, {"A": "b"}, (("/made", True),), ("/dev/nvidia0",), marks={"C": "d"})
    options = bed.options(tmp_path)
    assert options["network_mode"] == "none"
    assert options["devices"] == ["/dev/nvidia0"]
    assert options["volumes"] == [
        *("/usr:/usr:ro", "/opt:/opt:ro", "/etc:/etc:ro", "/made:/made:ro"),
        f"{tmp_path}:{tmp_path}",
    ]
    assert options["environment"]["A"] == "b"
    assert options["environment"]["C"] == "d"


def test_the_image_is_empty_folders_and_links_into_usr() -> None:
    given: dict[str, bytes] = {}

    def take(data: bytes, *, repository: str, tag: str) -> None:
        given[f"{repository}:{tag}"] = data

    client = SimpleNamespace(api=SimpleNamespace(import_image_from_data=take))
    name = make_image(client)
    with tarfile.open(fileobj=io.BytesIO(given[name])) as tar:
        links = {item.name: item.linkname for item in tar if item.issym()}
        folders = {item.name for item in tar.getmembers() if item.isdir()}
        assert not [item for item in tar.getmembers() if item.isfile()]
    assert links == {name: f"usr/{name}" for name in ("bin", "lib", "lib64", "sbin")}
    assert {"usr", "opt", "etc", "tmp", "dev", "proc"} <= folders


@pytest.mark.parametrize("name", list(SETS))
def test_names_of_members_are_unique(name: str) -> None:
    names = [member.name for member in SETS[name].members(EMULATED)]
    assert len(set(names)) == len(names)


def test_on_a_real_gpu_containers_get_its_devices_and_its_driver(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = tmp_path / "bin" / "nvidia-smi"
    stub.parent.mkdir()
    stub.write_text("#!/bin/sh\necho 'NVIDIA H200, 580.1, 143771 MiB, GPU-1'\n", encoding="utf-8")
    stub.chmod(0o755)
    for name, value in emulator.environment(PATH=f"{stub.parent}:/usr/bin:/bin").items():
        monkeypatch.setenv(name, value)
    with real_bed(tmp_path) as bed:
        options = bed.options(tmp_path / "barrier")
    driver = str(emulator.lib / "emulator")
    assert bed.machine["gpu"] == "NVIDIA H200"
    assert bed.turns_per_us > 0
    assert bed.environment["LD_LIBRARY_PATH"].split(":")[0] == driver
    assert f"{driver}:{driver}:ro" in options["volumes"]
    assert f"{emulator.lib}:{emulator.lib}:ro" in options["volumes"]
    assert f"{tmp_path}/cache:{tmp_path}/cache" in options["volumes"]
    assert set(options["devices"]) == {str(path) for path in Path("/dev").glob("nvidia[0cu]*")}
