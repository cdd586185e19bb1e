"""`dure bench kernel`: tenants that share a real GPU, with Dure and without, shard by shard."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.measuring import Json, tables
from dure.cli.shards import listed, write_page
from dure.cli.terminal import output_console

if TYPE_CHECKING:
    from dure.sim.benches.report import BenchReport

_WIDTH = 180
_PAGE = Path("docs/results/kernel.md")


def kernel(
    pair: Annotated[
        str, typer.Option(help="Shards to run, as 'a,b'; all of them unless stated.")
    ] = "",
    rows: Annotated[str, typer.Option(help="Rows to run, as 'mps,slo'; all unless stated.")] = "",
    seconds: Annotated[float, typer.Option(help="Window of one measurement.", min=0.2)] = 12.0,
    repeats: Annotated[int, typer.Option(help="Measurements of each row.", min=1)] = 5,
    ramp: Annotated[float, typer.Option(help="Seconds of load before each window.", min=0.0)] = 1.0,
    limit: Annotated[
        float | None,
        typer.Option(help="Begin nothing that would end after so many seconds; go on next time."),
    ] = None,
    apart: Annotated[
        bool,
        typer.Option("--apart", help="Keep processes of one substrate at a time, not interleaved."),
    ] = False,
    scale: Annotated[
        float,
        typer.Option(help="Part of the full size of jct, switch and kills.", min=0.01, max=1.0),
    ] = 1.0,
    out: Annotated[Path, typer.Option(help="Folder where every measurement is kept.")] = Path(
        "out/kernel"
    ),
    merge: Annotated[
        bool, typer.Option("--merge", help="Run nothing; make page and plot of what was kept.")
    ] = False,
    page: Annotated[Path, typer.Option(help="The page that --merge writes.")] = _PAGE,
    emulated: Annotated[
        bool, typer.Option("--emulated", help="On the emulator: a test of the bench itself.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Tenants that share one GPU: latency, throughput and goodput under every way of sharing."""
    from dure.bench.kernel.merge import merged
    from dure.bench.kernel.run import known_shards, run_shards
    from dure.bench.kernel.shard import Settings

    names = listed(pair, "--pair", known_shards())
    finished = True
    if not merge:
        settings = Settings(
            seconds,
            repeats,
            ramp,
            _rows(rows),
            limit if limit is not None else float("inf"),
            apart,
            scale,
        )
        finished = run_shards(
            names, settings, out, emulated=emulated, tell=lambda said: typer.echo(said, err=True)
        )
    report = merged(out, () if merge and not pair else names)
    if merge:
        _write_page(report, out, page)
    if as_json:
        typer.echo(json.dumps(report.data(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        output_console(_WIDTH).print(tables(report))
    if not finished:
        typer.echo("Some cells are still missing: run the same command again.", err=True)


def _rows(text: str) -> tuple[str, ...]:
    from dure.bench.kernel.rows import ROWS

    return listed(text, "--rows", tuple(ROWS)) if text else ()


def _write_page(report: "BenchReport", folder: Path, page: Path) -> None:
    """The page, and the plot beside it."""
    from dure.bench.kernel.chart import plot
    from dure.bench.kernel.merge import scenarios_of

    scenarios = scenarios_of(folder)
    title = "Tail of the service against best effort"
    write_page(report, folder, page, (title, plot(scenarios)) if scenarios else None)
