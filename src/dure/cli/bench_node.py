"""`dure bench node`: containers that share a GPU, with Dure and without, shard by shard."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.measuring import Json, numbers
from dure.cli.shards import Emulated, Folder, Limit, Merge, Page, listed, progress, show, write_page

if TYPE_CHECKING:
    from dure.bench.node.shard import Settings
    from dure.sim.benches.report import BenchReport

_WIDTH = 200

_Sets = Annotated[
    str,
    typer.Option(
        "--set", "--pair", help="Sets to run, as '19456,mixed'; all of them unless stated."
    ),
]
_Rows = Annotated[str, typer.Option(help="Rows to run, as 'plain,dure-lock'; all unless stated.")]
_Counts = Annotated[
    str,
    typer.Option(help="Numbers of containers besides the largest, as '1-5,10'; all unless stated."),
]
_Repeats = Annotated[int, typer.Option(help="Measurements at the largest count.", min=1)]
_Scale = Annotated[
    float, typer.Option(help="Part of the time things take, on the emulator.", min=0.001, max=1.0)
]
_DockerBin = Annotated[
    Path | None,
    typer.Option(help="Folder of a dockerd to start for the bench; else the one that runs."),
]

_Record = Annotated[
    bool,
    typer.Option(
        "--record", help="Keep what agents saw and decided, for `dure sim node --replay`."
    ),
]


def node(
    sets: _Sets = "",
    rows: _Rows = "",
    counts: _Counts = "",
    repeats: _Repeats = 3,
    limit: Limit = None,
    out: Folder = Path("out/node"),
    merge: Merge = False,
    page: Page = Path("docs/results/node.md"),
    emulated: Emulated = False,
    scale: _Scale = 0.1,
    docker_bin: _DockerBin = None,
    record: _Record = False,
    as_json: Json = False,
) -> None:
    """Containers that share one GPU: plain, by the paper, by Dure, one after another."""
    from dure.bench.node.merge import merged
    from dure.bench.node.run import on_the_emulator, on_this_gpu, run_sets
    from dure.bench.node.sets import SETS

    names = listed(sets, "--set", tuple(SETS))
    settings = replace(_settings(rows, counts, repeats, limit), record=record)
    finished = True
    if not merge:
        where = on_the_emulator(scale) if emulated else on_this_gpu
        finished = run_sets(names, settings, out, where=where, docker_bin=docker_bin, tell=progress)
    report = merged(out, () if merge and not sets else names)
    if merge:
        _write_page(report, out, page)
    show(report, as_json=as_json, width=_WIDTH, finished=finished)


def _settings(rows: str, counts: str, repeats: int, limit: float | None) -> "Settings":
    from dure.bench.node.rows import ROWS
    from dure.bench.node.shard import Settings

    return Settings(
        repeats,
        listed(rows, "--rows", tuple(ROWS)) if rows else (),
        tuple(numbers(counts, "--counts", least=1)) if counts else (),
        limit if limit is not None else float("inf"),
    )


def _write_page(report: "BenchReport", folder: Path, page: Path) -> None:
    from dure.bench.node.chart import plot
    from dure.bench.node.merge import sets_of

    write_page(report, folder, page, ("The paper's figures, measured here", plot(sets_of(folder))))
