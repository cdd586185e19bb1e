"""The guide to risk names every kind, every way weights follow, and only commands there are."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from dure.cli.main import app
from dure.domain.risks import RiskKind, WeightsBy
from dure.sim.kernel.scenario import read_scenario

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "risk.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^(dure .*?)(?:  +.*)?$", GUIDE, flags=re.MULTILINE)


@pytest.mark.parametrize("kind", RiskKind)
def test_every_kind_of_risk_is_explained(kind: RiskKind) -> None:
    assert f"`{kind.value}`" in GUIDE


@pytest.mark.parametrize("weights", WeightsBy)
def test_every_way_that_weights_follow_is_in_the_table(weights: WeightsBy) -> None:
    assert f"| `{weights.value}` |" in GUIDE


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_of_the_guide_exists(line: str) -> None:
    command: Any = get_command(app)
    words = shlex.split(line)[1:]
    while words and words[0] in getattr(command, "commands", ()):
        command = command.commands[words.pop(0)]
    known = {option for each in command.params for option in each.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_example_can_be_read() -> None:
    read = read_scenario(ROOT / "examples" / "scenarios" / "ramp.yaml")
    assert [mode.weights for mode in read.modes] == [WeightsBy.FROZEN, WeightsBy.FORESEEN]
