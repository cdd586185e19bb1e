"""`dure bench`: reproduce a published figure, and say whether it shows what it should."""

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
    duration_option_ns,
    output_console,
    progress_bar,
    refuse_unwritable,
)
from dure.domain.errors import InputError
from dure.domain.units import NS_PER_S
from dure.kit.files import write_text
from dure.kit.host import describe_host

if TYPE_CHECKING:
    from dure.sim.kernel.benches.report import BenchReport, Grid, Tell, Verdict

app = typer.Typer(help="Reproduce a published figure.", no_args_is_help=True)

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


@app.callback()
def _group() -> None:
    """Reproduce a published figure."""


@app.command("pairs")
def pairs(
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Draws of arrivals, as '1-8' or '1,3'; 1-8 unless stated, to fit 1-4.",
            show_default=False,
        ),
    ] = None,
    fit: Annotated[
        bool, typer.Option("--fit", help="Search the fitted parameters on pair (a) instead.")
    ] = False,
    duration: Annotated[str, typer.Option(help="Virtual time of a run.")] = "7.5s",
    workers: Workers = 2,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Simulated H200 pairs next to the measured table."""
    from dure.sim.kernel.benches.pairs import bench_pairs
    from dure.sim.kernel.benches.pairs_fit import fit_pairs

    run_s = duration_option_ns(duration, "--duration") / NS_PER_S
    chosen = _numbers(seeds or ("1-4" if fit else "1-8"), "--seeds")
    bench = fit_pairs if fit else bench_pairs
    _run(
        lambda tell: bench(seeds=chosen, run_s=run_s, workers=workers, tell=tell),
        as_json=as_json,
        out=out,
    )


@app.command("mixes")
def mixes(
    seeds: Annotated[str, typer.Option(help="Mixes to run, as '1-20' or '3,7'.")] = "1-20",
    duration: Annotated[str, typer.Option(help="Virtual time in which work arrives.")] = "20s",
    workers: Workers = 2,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Every baseline and every policy on made mixes of tenants."""
    from dure.sim.kernel.benches.mixes import bench_mixes

    chosen = _numbers(seeds, "--seeds")
    duration_ns = duration_option_ns(duration, "--duration")
    _run(
        lambda tell: bench_mixes(chosen, duration_ns=duration_ns, workers=workers, tell=tell),
        as_json=as_json,
        out=out,
    )


@app.command("search")
def search(
    tenants: Annotated[str, typer.Option(help="Numbers of tenants, as '5-8'.")] = "5-8",
    cases: Annotated[int, typer.Option(help="Made states for each number.", min=1)] = 50,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Loss of the bounded search for squads against trying every set."""
    from dure.sim.kernel.benches.search import MOST_TENANTS, bench_search

    counts = _numbers(tenants, "--tenants", least=2, most=MOST_TENANTS)
    _run(lambda tell: bench_search(counts, cases=cases, tell=tell), as_json=as_json, out=out)


@app.command("decide")
def decide(
    tenants: Annotated[str, typer.Option(help="Numbers of tenants, as '4,16'.")] = "4,16",
    events: Annotated[int, typer.Option(help="Decisions to time for each.", min=1)] = 500,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Time of a decision, on one core."""
    from dure.sim.kernel.benches.decide import MOST_TENANTS, bench_decide

    counts = _numbers(tenants, "--tenants", least=1, most=MOST_TENANTS)
    _run(lambda tell: bench_decide(counts, events=events, tell=tell), as_json=as_json, out=out)


@app.command("speed")
def speed(
    duration: Annotated[str, typer.Option(help="Virtual time of the shortest run.")] = "2s",
    repeats: Annotated[int, typer.Option(help="Runs of which the fastest counts.", min=1)] = 3,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Kernels simulated per second of wall time, for runs of growing length."""
    from dure.sim.kernel.benches.speed import bench_speed

    base_ns = duration_option_ns(duration, "--duration")
    _run(
        lambda tell: bench_speed(base_ns=base_ns, repeats=repeats, tell=tell),
        as_json=as_json,
        out=out,
    )


@app.command("switch")
def switch(
    switches: Annotated[int, typer.Option(help="Switches to make.", min=1)] = 100,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Policy switches at random times while work runs."""
    from dure.sim.kernel.benches.switch import bench_switch

    _run(lambda tell: bench_switch(switches=switches, tell=tell), as_json=as_json, out=out)


def _run(bench: "Callable[[Tell], BenchReport]", *, as_json: bool, out: Path | None) -> None:
    """Run a bench and hand over what it found."""
    from dure.sim.kernel.benches.page import Made, markdown
    from dure.sim.kernel.benches.report import silent

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
        output_console(_WIDTH).print(_tables(report))


def _tables(report: "BenchReport") -> RenderableType:
    kind = "simulated" if report.simulated else "wall time of this machine, simulated GPU"
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


def _numbers(text: str, field: str, *, least: int = 0, most: int = 2**31) -> list[int]:
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
