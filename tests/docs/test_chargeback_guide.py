"""The guide to bills names every column, and only commands and options there are."""

from pathlib import Path

from dure.api.bills import BillColumn, BillSum
from dure.server.rest.routes.bills import CSV_COLUMNS, MOST_LINES

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "chargeback.md").read_text(encoding="utf-8")


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
