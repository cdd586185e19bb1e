"""The guide to bills names every column, and only commands and options there are."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from dure.api.bills import BillColumn, BillSum
from dure.cli.main import app
from dure.server.rest.routes.bills import CSV_COLUMNS, MOST_LINES

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "chargeback.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^(dure .*?)(?:  +.*)?$", GUIDE, flags=re.MULTILINE)


def first_cells(title: str) -> list[str]:
    text = GUIDE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return [row.split("|")[1].strip().strip("`") for row in rows]


def test_the_columns_of_the_table_are_there_in_their_order() -> None:
    assert tuple(first_cells("CSV")) == CSV_COLUMNS
    assert {column.value for column in BillColumn} < set(CSV_COLUMNS)
    assert f"{MOST_LINES:,}" in GUIDE


def test_every_part_of_a_bill_is_explained() -> None:
    assert first_cells("What is paid") == ["rent", "energy", "egress"]
    assert {"rent", "energy", "egress"} < BillSum.model_fields.keys()


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_exists_with_its_options(line: str) -> None:
    command: Any = get_command(app)
    words = shlex.split(line)[1:]
    while words and words[0] in getattr(command, "commands", ()):
        command = command.commands[words.pop(0)]
    known = {option for each in command.params for option in each.opts}
    assert {word for word in words if word.startswith("--")} <= known
