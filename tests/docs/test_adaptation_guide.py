"""The guide to adaptation names every way, only commands there are, and figures that hold."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from dure.cli.main import app
from dure.domain.adaptation import AdaptBy
from dure.domain.metrics.catalogue import ALL
from dure.kernel.objective import Deeds
from tests.kernel.factories import service

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "adaptation.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^(dure .*?)(?:  +.*)?$", GUIDE, flags=re.MULTILINE)


@pytest.mark.parametrize("way", AdaptBy)
def test_every_way_is_in_the_table(way: AdaptBy) -> None:
    assert f"| `{way.value}` |" in GUIDE


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_of_the_guide_exists(line: str) -> None:
    command: Any = get_command(app)
    words = shlex.split(line)[1:]
    while words and words[0] in getattr(command, "commands", ()):
        command = command.commands[words.pop(0)]
    known = {option for each in command.params for option in each.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_metrics_of_the_guide_exist() -> None:
    named = set(re.findall(r"\| `(dure_[a-z_]+)` \|", GUIDE))
    assert len(named) == 3
    assert named <= {metric.name for metric in ALL}


def test_the_figures_of_the_objective_hold() -> None:
    figures = r"([\d.]+) at 1 % late, ([\d.]+) at 2 %, ([\d.]+) at 6 %, 0 from\s+11 %"
    told = re.search(figures, GUIDE)
    assert told is not None
    for late, figure in zip((10, 20, 60, 110), (*told.groups(), "0"), strict=True):
        found = Deeds(service("web"), 1e9, requests=1000, late=late).goodness
        assert found == pytest.approx(float(figure), abs=0.006)
