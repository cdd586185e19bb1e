"""Figures as people and files read them: what every report of a simulation shares."""

import math
from typing import Any

from rich import box
from rich.table import Table

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
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
