"""The whole bench on the emulator: agent, `dure run`, every row, page. No figure is judged."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dure.bench.kernel import equal
from dure.bench.kernel.rows import ROWS, Substrate
from dure.bench.kernel.shard import Settings
from dure.bench.kernel.specials import SPECIALS
from dure.bench.kernel.store import Store
from dure.devices import library
from dure.domain.errors import InputError

PARTS = ("libdure.so", "libdure_plane.so", "emulator/libcuda.so.1", "emulator/libnvidia-ml.so.1")
DURE = (sys.executable, "-c", "from dure.cli.main import main; main()")
LIMIT_S = 400

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    try:
        for part in PARTS:
            library.path(part)
    except InputError as error:
        pytest.skip(str(error))


def bench(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*DURE, "bench", "kernel", "--emulated", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_every_row_of_a_pair_runs_and_makes_a_page_that_says_emulated(tmp_path: Path) -> None:
    kept = tmp_path / "shards"
    done = bench(
        *("--pair", "b", "--seconds", 2, "--repeats", 1, "--ramp", 0.3, "--json", "--out", kept)
    )
    assert done.returncode == 0, done.stderr
    store = Store(kept / "b")
    assert store.failed() == {}
    cells = {cell.row: cell for cell in store.cells()}
    assert set(ROWS) <= set(cells)
    for name, row in ROWS.items():
        answers = cells[name].tenants
        assert answers["train"].done + answers["resnet"].done > 0, name
        if row.substrate in {Substrate.DURE_ISOLATED, Substrate.DURE_MPS}:
            tenants = {tenant["name"]: tenant for tenant in cells[name].status["tenants"]}
            assert {len(tenant["clients"]) for tenant in tenants.values()} == {1}, name
    assert json.loads(done.stdout)["simulated"] is True
    page = tmp_path / "kernel.md"
    merged = bench("--merge", "--out", kept, "--page", page)
    assert merged.returncode == 0, merged.stderr
    assert "**Emulated**" in page.read_text(encoding="utf-8")
    assert page.with_suffix(".svg").is_file()


def test_switches_are_seen_to_take_effect(tmp_path: Path) -> None:
    done = bench("--pair", "switch", "--scale", 0.2, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    found = Store(tmp_path / "switch").noted("parts") or {}
    assert len(found["waits_ms"]) == 20
    assert found["errors"] == []
    assert found["forgotten"] == []


def test_killed_tenants_harm_nobody(tmp_path: Path) -> None:
    done = bench("--pair", "kills", "--scale", 0.2, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    found = Store(tmp_path / "kills").noted("parts") or {}
    assert {name: part["errors"] for name, part in found.items()} == {"isolated": [], "mps": []}
    assert {part["killed"] for part in found.values()} == {4}


@pytest.mark.parametrize("name", ["jct", "sets", "overhead", "equal"])
def test_every_other_shard_runs_to_its_end(tmp_path: Path, name: str) -> None:
    done = bench(
        "--pair", name, "--scale", 0.02, "--seconds", 0.3, "--ramp", 0.1, "--out", tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "still missing" not in done.stderr
    assert "broke off" not in done.stderr
    found = Store(tmp_path / name).noted("parts") or {}
    assert SPECIALS[name].complete(found, Settings())
    assert SPECIALS[name].verdicts(found)
    if name == "equal":
        assert {verdict.passed for verdict in equal.verdicts(found)} == {True}


def test_a_bench_that_is_told_to_end_leaves_nobody_behind_and_goes_on_next_time(
    tmp_path: Path,
) -> None:
    options = ("--pair", "b", "--rows", "slo", "--seconds", "0.5", "--repeats", "1")
    arguments = ["bench", "kernel", "--emulated", *options, "--out", str(tmp_path / "shards")]
    own = tmp_path / "scratch"
    own.mkdir()
    environment = {**os.environ, "TMPDIR": str(own)}
    with subprocess.Popen(
        [*DURE, *arguments], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "solo+resnet 1/1" in line)
        assert len(started_with(str(own))) > 3, "the bench, tenants and an agent"
        process.terminate()
        process.stderr.read()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert [word for word in started_with(str(own)) if "dure-broker" not in word] == []
    assert list(own.iterdir()) == []
    done = bench(*options, "--out", tmp_path / "shards")
    assert done.returncode == 0, done.stderr
    assert "solo+resnet" not in done.stderr, "what was measured is not measured again"
    assert Store(tmp_path / "shards" / "b").has("slo", 0)


def started_with(text: str) -> list[str]:
    """Commands of the processes that have it in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and text.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return [command for command in found if command]
