"""Tables of the demo: its own scenarios, simulated, beside what is used today."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dure.demo.baselines import _SHEETS, SCENARIOS
from dure.demo.processes import DURE

SHORTER = {
    "kernel": ("--duration", "1s", "--modes", "mps,slo"),
    "node": (),
    "fleet": ("--modes", "first-fit,dure"),
}


def simulated(level: str) -> dict[str, Any]:
    line = [*DURE, "sim", level, str(SCENARIOS[level]), "--json", *SHORTER[level]]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("level", SCENARIOS)
def test_every_scenario_becomes_a_table_with_ours_last(level: str) -> None:
    found = simulated(level)
    sheet = _SHEETS[level](found)
    assert [row[0] for row in sheet.rows] == [mode["mode"] for mode in found["modes"]]
    assert all(len(row) == len(sheet.columns) for row in sheet.rows)
    assert sheet.is_ours(sheet.rows[-1])
    assert not sheet.is_ours(sheet.rows[0])


def test_scenarios_come_with_the_package() -> None:
    assert all(file.parent == Path(SCENARIOS["node"]).parent for file in SCENARIOS.values())
