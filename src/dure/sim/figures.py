"""Figures as people and files read them: what every report of a simulation shares."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

NOTHING = "–"
"""What stands where there is no figure."""


def percent(value: float | None) -> str:
    """A share as a percentage that never rounds a miss up to 100."""
    if value is None:
        return NOTHING
    shown = f"{100 * value:.1f}%"
    return "99.9%" if shown == "100.0%" and value < 1.0 else shown


def whole(value: float | None) -> str:
    """A count."""
    return NOTHING if value is None else f"{value:,.0f}"


def finite(value: Any) -> Any:
    """The same data, ready for JSON: None for what is not a finite number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def titled_table(title: str) -> Table:
    """A table without columns yet, in the look of all reports."""
    return Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a `WideTable`."""

    title: str
    cells: tuple[Text, ...]
    left: bool = False
    """Words read better from the left; figures stand below one another at the right."""

    @property
    def width(self) -> int:
        """Characters of its longest line."""
        lines = (*self.title.split("\n"), *(cell.plain for cell in self.cells))
        return max(cell_len(line) for line in lines)


@dataclass(frozen=True, slots=True)
class WideTable:
    """A table that becomes several below one another where it is wider than the terminal.

    No figure is ever cut: each part has the first column again and as many more as fit.
    """

    title: str
    columns: tuple[TableColumn, ...]
    """The first names the rows."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, columns in enumerate(self.parts(options.max_width)):
            # Not the table's own title, which would be broken to the width of a narrow table.
            yield Text(self.title if not number else f"{self.title} (continued)", "bold")
            yield _table(columns)

    def parts(self, width: int) -> list[list[TableColumn]]:
        """The columns of each part: as few parts as can be, about equally wide."""
        parts = self._filled(width)
        if len(parts) > 1:
            for narrower in range(max(sum(map(_room, part)) for part in parts), 0, -1):
                filled = self._filled(narrower)
                if len(filled) > len(parts):
                    break
                parts = filled
        return parts

    def _filled(self, width: int) -> list[list[TableColumn]]:
        """The columns in parts of that width, each as full as it gets."""
        first, *others = self.columns
        parts: list[list[TableColumn]] = [[first]]
        taken = start = _EDGE + _room(first)
        for column in others:
            if taken + _room(column) > width and len(parts[-1]) > 1:
                parts.append([first])
                taken = start
            parts[-1].append(column)
            taken += _room(column)
        return parts


_EDGE = 1
"""Characters left of a table in the look of all reports."""
_BETWEEN = 2
"""Characters after each of its columns."""


def _room(column: TableColumn) -> int:
    return column.width + _BETWEEN


def _table(columns: Sequence[TableColumn]) -> Table:
    table = titled_table("")
    for column in columns:
        table.add_column(
            column.title,
            justify="left" if column.left else "right",
            no_wrap=True,
            min_width=column.width,
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table
