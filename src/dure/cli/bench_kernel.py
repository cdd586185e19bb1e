"""`dure bench kernel`: tenants that share a real GPU, with Dure and without, shard by shard."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.measuring import Json
from dure.cli.shards import Emulated, Folder, Limit, Merge, Page, listed, progress, show, write_page

if TYPE_CHECKING:
    from dure.sim.benches.report import BenchReport

_WIDTH = 180


def kernel(
    pair: Annotated[
        str, typer.Option(help="Shards to run, as 'a,b'; all of them unless stated.")
    ] = "",
    rows: Annotated[str, typer.Option(help="Rows to run, as 'mps,slo'; all unless stated.")] = "",
    seconds: Annotated[float, typer.Option(help="Window of one measurement.", min=0.2)] = 12.0,
    repeats: Annotated[int, typer.Option(help="Measurements of each row.", min=1)] = 5,
    ramp: Annotated[float, typer.Option(help="Seconds of load before each window.", min=0.0)] = 1.0,
    limit: Limit = None,
    apart: Annotated[
        bool,
        typer.Option("--apart", help="Keep processes of one substrate at a time, not interleaved."),
    ] = False,
    scale: Annotated[
        float,
        typer.Option(help="Part of the full size of jct, switch and kills.", min=0.01, max=1.0),
    ] = 1.0,
    out: Folder = Path("out/kernel"),
    merge: Merge = False,
    page: Page = Path("docs/results/kernel.md"),
    emulated: Emulated = False,
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
        finished = run_shards(names, settings, out, emulated=emulated, tell=progress)
    report = merged(out, () if merge and not pair else names)
    if merge:
        _write_page(report, out, page)
    show(report, as_json=as_json, width=_WIDTH, finished=finished)


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
