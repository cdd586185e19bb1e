"""The whole bench on the emulator: agent, `dure run`, every row, page. No figure is judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dure.bench.kernel.rows import ROWS, Substrate
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
    found = Store(tmp_path / "switch").noted("result") or {}
    assert len(found["waits_ms"]) == 20
    assert found["errors"] == []
    assert found["forgotten"] == []


def test_killed_tenants_harm_nobody(tmp_path: Path) -> None:
    done = bench("--pair", "kills", "--scale", 0.2, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    found = Store(tmp_path / "kills").noted("result") or {}
    assert {name: part["errors"] for name, part in found.items()} == {"isolated": [], "mps": []}
    assert {part["killed"] for part in found.values()} == {4}
