"""Sheets of figures, one row for each way of doing a thing; terminal and HTML draw them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rich.text import Text

from dure.sim.figures import TableColumn, WideTable

BEST_MARK = "*"
"""Says what is best of a column to readers who see no colours."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure."""

    text: str
    value: float | None = None
    best: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """One measure over all rows."""

    title: str
    """In at most two lines."""
    cells: tuple[Cell, ...]
    words: bool = False
    """Whether its cells are words, not figures."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table."""

    title: str
    corner: str
    """What rows are."""
    rows: tuple[str, ...]
    columns: tuple[Column, ...]
    caption: str = ""


Better = Callable[..., str]
"""`min` or `max`, whichever is better."""


def column_of(
    title: str,
    values: Iterable[float | None],
    show: Callable[[float | None], str],
    better: Better | None = None,
) -> Column:
    """A column with its best cells marked, where they differ as shown."""
    cells = [Cell(show(value), value) for value in values]
    known = {cell.text: cell.value for cell in cells if cell.value is not None}
    if better is None or len(known) < 2:
        return Column(title, tuple(cells))
    best = better(known, key=lambda text: known[text])
    return Column(title, tuple(Cell(cell.text, cell.value, cell.text == best) for cell in cells))


def wide_table(sheet: Sheet) -> WideTable:
    """The sheet for a terminal."""
    columns = [TableColumn(sheet.corner, tuple(Text(name) for name in sheet.rows), left=True)]
    for column in sheet.columns:
        room = 1 if any(cell.best for cell in column.cells) else 0
        title = "\n".join(f"{line}{'':{room}}" for line in column.title.split("\n"))
        cells = tuple(
            Text(
                f"{cell.text}{BEST_MARK if cell.best else '':<{room}}",
                "bold green" if cell.best else "",
            )
            for cell in column.cells
        )
        columns.append(TableColumn(title, cells, left=column.words))
    return WideTable(sheet.title, tuple(columns))
