"""The guide to migration names every kind and step, and only commands and options there are."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from dure.api.jobs import Gang, JobSpec
from dure.cli.main import app
from dure.client.report import CHECKPOINT_DONE_FILE, CHECKPOINT_FILE, CONTROL_VARIABLE
from dure.domain.fleet.migrations import MoveKind, MoveStep
from dure.domain.fleet.windows import windows_of
from dure.member.kube import names
from dure.server.settings import ServerSettings

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "migration.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^(dure .*?)(?:  +.*)?$", GUIDE, flags=re.MULTILINE)


def first_cells(title: str) -> list[str]:
    text = GUIDE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return [row.split("|")[1].strip().strip("`") for row in rows]


def test_every_kind_and_every_step_is_in_its_table() -> None:
    words = [kind.value for kind in MoveKind] + [step.value for step in MoveStep]
    assert first_cells("How") == words


def test_what_can_be_called_off_is_said_as_it_is() -> None:
    rows = [line.split("|") for line in GUIDE.splitlines() if line.startswith("| `")]
    said = {row[1].strip().strip("`"): row[3].strip() for row in rows if len(row) > 4}
    for step in MoveStep:
        if not step.ended and step is not MoveStep.UNDOING:
            assert step.abortable == (not said[step.value].startswith("too late")), step


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_of_the_guide_exists(line: str) -> None:
    command: Any = get_command(app)
    words = shlex.split(line)[1:]
    command = command.commands[words[0]]
    known = {option for each in command.params for option in each.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_names_and_defaults_are_those_of_the_code() -> None:
    for name in (CONTROL_VARIABLE, CHECKPOINT_FILE, CHECKPOINT_DONE_FILE):
        assert name in GUIDE
    for name in (names.CHECKPOINT_REQUESTED, names.CHECKPOINT_DONE):
        assert f"`{name}`" in GUIDE
    assert Gang().checkpoint_wait == "10m"
    assert Gang().when_no_checkpoint.value == "stay"
    assert f"`warm-s` ({ServerSettings().warm_s:g} s)" in GUIDE


def test_the_windows_of_the_guide_are_windows() -> None:
    (block,) = re.findall(r"```yaml\n# part of a job.*?\n(.*?)```", GUIDE, flags=re.DOTALL)
    lines = yaml.safe_load(block)["windows"]
    assert len(windows_of(lines)) == len(lines)
    assert "windows" in JobSpec.model_fields
