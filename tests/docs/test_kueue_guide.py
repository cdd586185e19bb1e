"""The guide to Kueue and shadow mode names every setting and property, and only real commands."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from dure.beside import profiles
from dure.beside.settings import KueueSettings
from dure.beside.shadow.prices import ShadowPrices
from dure.cli.centre import document
from dure.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "kueue.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^(dure .*?)(?:  +.*)?$", GUIDE, flags=re.MULTILINE)


def first_cells(title: str) -> list[str]:
    text = GUIDE.partition(f"{title}\n")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return [row.split("|")[1].strip().strip("`") for row in rows]


def test_every_setting_is_in_the_table_in_its_order() -> None:
    fields = [field.alias or name for name, field in KueueSettings.model_fields.items()]
    assert first_cells("### The settings file") == fields


def test_every_published_property_is_named() -> None:
    for name in (profiles.PRICE, profiles.DEVICES, profiles.HEADROOM, profiles.NODE_DEVICES):
        assert f"{name}ACCELERATOR" in GUIDE
    for name in (profiles.CURRENCY, profiles.CARBON, profiles.ELECTRICITY):
        assert name in GUIDE


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_of_the_guide_exists(line: str) -> None:
    command: Any = get_command(app)
    words = shlex.split(line)[1:]
    while words and words[0] in getattr(command, "commands", ()):
        command = command.commands[words.pop(0)]
    assert not getattr(command, "commands", ())
    known = {option for each in command.params for option in each.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_examples_say_everything_that_can_be_said() -> None:
    said = document(ROOT / "examples" / "kueue" / "settings.yaml", KueueSettings)
    assert said.model_fields_set == set(KueueSettings.model_fields)
    document(ROOT / "examples" / "kueue" / "prices.yaml", ShadowPrices)
