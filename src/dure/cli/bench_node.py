"""`dure bench node`: containers that share a GPU, with Dure and without, shard by shard."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.measuring import Json, numbers, tables
from dure.cli.shards import listed, write_page
from dure.cli.terminal import output_console

if TYPE_CHECKING:
    from dure.sim.benches.report import BenchReport

_WIDTH = 200
_PAGE = Path("docs/results/node.md")


def node(
    sets: Annotated[
        str,
        typer.Option(
            "--set", "--pair", help="Sets to run, as '19456,mixed'; all of them unless stated."
        ),
    ] = "",
    rows: Annotated[
        str, typer.Option(help="Rows to run, as 'plain,dure-lock'; all unless stated.")
    ] = "",
    counts: Annotated[
        str,
        typer.Option(
            help="Numbers of containers besides the largest, as '1-5,10'; all unless stated."
        ),
    ] = "",
    repeats: Annotated[int, typer.Option(help="Measurements at the largest count.", min=1)] = 3,
    limit: Annotated[
        float | None,
        typer.Option(help="Begin nothing that would end after so many seconds; go on next time."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder where every measurement is kept.")] = Path(
        "out/node"
    ),
    merge: Annotated[
        bool, typer.Option("--merge", help="Run nothing; make page and plot of what was kept.")
    ] = False,
    page: Annotated[Path, typer.Option(help="The page that --merge writes.")] = _PAGE,
    emulated: Annotated[
        bool, typer.Option("--emulated", help="On the emulator: a test of the bench itself.")
    ] = False,
    scale: Annotated[
        float,
        typer.Option(help="Part of the time things take, on the emulator.", min=0.001, max=1.0),
    ] = 0.1,
    docker_bin: Annotated[
        Path | None,
        typer.Option(help="Folder of a dockerd to start for the bench; else the one that runs."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Containers that share one GPU: plain, by the paper, by Dure, one after another."""
    from dure.bench.node.merge import merged
    from dure.bench.node.rows import ROWS
    from dure.bench.node.run import on_the_emulator, on_this_gpu, run_sets
    from dure.bench.node.sets import SETS
    from dure.bench.node.shard import Settings

    names = listed(sets, "--set", tuple(SETS))
    settings = Settings(
        repeats,
        listed(rows, "--rows", tuple(ROWS)) if rows else (),
        tuple(numbers(counts, "--counts", least=1)) if counts else (),
        limit if limit is not None else float("inf"),
    )
    finished = True
    if not merge:
        finished = run_sets(
            names,
            settings,
            out,
            where=on_the_emulator(scale) if emulated else on_this_gpu,
            docker_bin=docker_bin,
            tell=lambda said: typer.echo(said, err=True),
        )
    report = merged(out, () if merge and not sets else names)
    if merge:
        _write_page(report, out, page)
    if as_json:
        typer.echo(json.dumps(report.data(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        output_console(_WIDTH).print(tables(report))
    if not finished:
        typer.echo("Some cells are still missing: run the same command again.", err=True)


def _write_page(report: "BenchReport", folder: Path, page: Path) -> None:
    from dure.bench.node.chart import plot
    from dure.bench.node.merge import sets_of

    write_page(report, folder, page, ("The paper's figures, measured here", plot(sets_of(folder))))
