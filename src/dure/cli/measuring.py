"""What every `dure bench` command shares: its options, running, and handing over what was found."""

import datetime
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dure.cli.terminal import (
    announce_compilation,
    output_console,
    progress_bar,
    refuse_unwritable,
)
from dure.domain.errors import InputError
from dure.kit.files import write_text
from dure.kit.host import describe_host

if TYPE_CHECKING:
    from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict

_WIDTH = 132
"""Columns the widest table needs."""
_MOST_NUMBERS = 10_000
"""More seeds or tenants than this are a slip of the hand."""
_STYLES = {"pass": "green", "FAIL": "bold red", "note": "dim"}

Json = Annotated[bool, typer.Option("--json", help="Print every figure as JSON instead of tables.")]
Out = Annotated[
    Path | None, typer.Option(help="Also write the result there, as a page of Markdown.")
]
Workers = Annotated[int, typer.Option(help="Processes to spread the runs over.", min=1)]


def run_bench(bench: "Callable[[Tell], BenchReport]", *, as_json: bool, out: Path | None) -> None:
    """Run a bench and hand over what it found."""
    from dure.sim.benches.page import Made, markdown
    from dure.sim.benches.report import silent

    refuse_unwritable(out, "--out")
    announce_compilation()
    with progress_bar() as tell:
        report = bench(tell or silent)
    if out is not None:
        today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
        command = shlex.join(["dure", *sys.argv[1:]])
        write_text(out, markdown(report, Made(today, describe_host("numba", "numpy"), command)))
    if as_json:
        typer.echo(json.dumps(report.data(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        output_console(_WIDTH).print(tables(report))


def tables(report: "BenchReport") -> RenderableType:
    """Everything a report says, for a terminal."""
    kind = (
        f"measured on {report.measured_on}"
        if report.measured_on
        else "simulated"
        if report.simulated
        else f"wall time of this machine, simulated {report.subject}"
    )
    heading = Text.assemble((report.title, "bold"), "   ", (kind, "italic"))
    parts = [_table(grid) for grid in report.grids]
    return Group(heading, Text(), *parts, *(_line(verdict) for verdict in report.verdicts))


def _table(grid: "Grid") -> Table:
    table = Table(
        title=grid.title,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for index, column in enumerate(grid.columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=index == 0)
    for row in grid.rows:
        table.add_row(*row)
    return table


def _line(verdict: "Verdict") -> Text:
    return Text.assemble(
        (f"{verdict.word}  ", _STYLES[verdict.word]), f"{verdict.claim}: {verdict.found}"
    )


def numbers(text: str, field: str, *, least: int = 0, most: int = 2**31) -> list[int]:
    """Numbers as people list them: '1-8', '4,16', '1-3,7'; each once, in that order."""
    found: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(
                f"'{text}' is not a list of numbers", "write '1-8' or '4,16'", field=field
            )
        low, high = int(first), int(last or first)
        if not least <= low <= high <= most or high - low >= _MOST_NUMBERS:
            raise InputError(
                f"'{part.strip()}' is out of range",
                f"use numbers from {least} to {most}, the smaller first",
                field=field,
            )
        found.update(dict.fromkeys(range(low, high + 1)))
    return list(found)
