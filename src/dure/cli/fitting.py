"""Tables that fit a terminal: the least important columns go before a line wraps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from dure.kit.words import printable

Row = TypeVar("Row")

_GAP = 2
"""Blanks between two columns."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column: its heading, what it says of a row, and how soon it is given up."""

    heading: str
    cell: Callable[[Row], str | Text]
    rank: int = 0
    """0 stays; the highest goes first."""
    right: bool = True


def fitting_table(columns: Sequence[Column[Row]], rows: Sequence[Row], width: int) -> Table:
    """The rows as a table of at most that width, as far as columns of rank 0 allow."""
    cells = [[_as_it_is(column.cell(row)) for column in columns] for row in rows]
    widths = [
        max([cell_len(column.heading), *(cell_len(str(line[index])) for line in cells)])
        for index, column in enumerate(columns)
    ]
    empty = [bool(rows) and not any(str(line[i]) for line in cells) for i in range(len(columns))]
    shown = [i for i, column in enumerate(columns) if not (empty[i] and column.rank)]
    while sum(widths[i] + _GAP for i in shown) - _GAP > width:
        worst = max(shown, key=lambda i: (columns[i].rank, i))
        if columns[worst].rank == 0:
            break
        shown.remove(worst)
    # The box adds one blank between columns.
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _GAP - 1, 0, 0),
        header_style="dim",
    )
    for i in shown:
        column = columns[i]
        table.add_column(
            column.heading,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
        )
    for line in cells:
        table.add_row(*(line[i] for i in shown))
    return table


def _as_it_is(cell: str | Text) -> Text:
    """What others wrote: no markup, and nothing that steers the terminal."""
    return cell if isinstance(cell, Text) else Text(printable(cell))
