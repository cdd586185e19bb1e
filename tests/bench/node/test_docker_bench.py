"""The whole bench with real Docker, on the emulator."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from dure.bench.node.cells import Cell, Store
from dure.bench.node.merge import merged
from dure.bench.node.run import on_the_emulator, run_sets
from dure.bench.node.sets import LARGE, MIXED, SERVER
from dure.bench.node.shard import Settings
from tests.emulator.driving import build

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

SCALE = 0.1


def run(folder: Path, names: Sequence[str], settings: Settings) -> tuple[bool, list[str]]:
    """Run on a daemon of its own, so that no other agent sees the containers."""
    build()
    dockerd = shutil.which("dockerd")
    assert dockerd is not None
    said: list[str] = []
    finished = run_sets(
        names,
        settings,
        folder,
        where=on_the_emulator(SCALE),
        docker_bin=Path(dockerd).parent,
        tell=said.append,
    )
    return finished, said


def leftovers() -> list[str]:
    """Processes of agents that this bench started."""
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in lines.stdout.splitlines() if "dure-run-" in line]


def cells(folder: Path, name: str) -> dict[tuple[str, int], Cell]:
    return {(cell.row, cell.count): cell for cell in Store(folder / name).cells()}


def test_containers_start_together_end_well_and_are_not_measured_twice(tmp_path: Path) -> None:
    settings = Settings(repeats=1, rows=("plain", "one-after-another", "dure-lock"), counts=(2,))
    finished, said = run(tmp_path, [LARGE], settings)
    found = cells(tmp_path, LARGE)
    assert finished, said
    assert set(found) == {
        *((row, 5) for row in settings.rows),
        ("plain", 2),
        ("dure-lock", 2),
    }
    for cell in found.values():
        assert [outcome.exit_code for outcome in cell.outcomes] == [0] * cell.count
    plain, serial = found["plain", 5], found["one-after-another", 5]
    alone_s = max(outcome.alone_s for outcome in serial.outcomes)
    # All compute side by side: none can be done before most of the work of all is.
    assert min(outcome.completion_s for outcome in plain.outcomes) > 2.5 * alone_s
    ends = [outcome.completion_s for outcome in serial.outcomes]
    assert ends == sorted(ends)
    managed = found["dure-lock", 5]
    assert managed.fresh
    assert managed.agent_share is not None
    assert all(outcome.waited_s is not None for outcome in managed.outcomes)

    assert leftovers() == []

    finished, said = run(tmp_path, [LARGE], settings)
    assert finished
    assert said == []
    assert merged(tmp_path).data()["simulated"] is True


def test_the_mixed_set_ends_well_also_with_its_server_under_the_shim(tmp_path: Path) -> None:
    rows = ("plain", "one-after-another", "dure-shim")
    finished, said = run(tmp_path, [MIXED], Settings(repeats=1, rows=rows))
    assert finished, said
    for cell in cells(tmp_path, MIXED).values():
        assert {outcome.exit_code for outcome in cell.outcomes} == {0}, cell
        (server,) = [outcome for outcome in cell.outcomes if outcome.name == SERVER]
        assert server.p95_ms is not None
        assert server.p95_ms > 0


def test_a_row_that_cannot_run_is_told_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dure.bench.common.agents.START_LIMIT_S", 0.0)
    settings = Settings(repeats=1, rows=("dure-lock", "one-after-another"), counts=(1,))
    finished, _ = run(tmp_path, [LARGE], settings)
    assert not finished
    assert set(cells(tmp_path, LARGE)) == {("one-after-another", 5)}
    assert "did not start" in Store(tmp_path / LARGE).failed()["dure-lock"]
