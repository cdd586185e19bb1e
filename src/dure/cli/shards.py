"""What benches that are measured shard by shard share: options, names on the line, their page."""

import datetime
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.measuring import tables
from dure.cli.terminal import output_console
from dure.domain.errors import InputError
from dure.kit.files import write_text

if TYPE_CHECKING:
    from dure.sim.benches.report import BenchReport

Limit = Annotated[
    float | None,
    typer.Option(help="Begin nothing that would end after so many seconds; go on next time."),
]
Folder = Annotated[Path, typer.Option(help="Folder where every measurement is kept.")]
Merge = Annotated[
    bool, typer.Option("--merge", help="Run nothing; make page and plot of what was kept.")
]
Page = Annotated[Path, typer.Option(help="The page that --merge writes.")]
Emulated = Annotated[
    bool, typer.Option("--emulated", help="On the emulator: a test of the bench itself.")
]


def progress(said: str) -> None:
    """Where a bench stands, for people who wait."""
    typer.echo(said, err=True)


def show(report: "BenchReport", *, as_json: bool, width: int, finished: bool) -> None:
    """Print what was found, and whether something is still missing."""
    if as_json:
        typer.echo(json.dumps(report.data(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        output_console(width).print(tables(report))
    if not finished:
        typer.echo("Some cells are still missing: run the same command again.", err=True)


def listed(text: str, field: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Names as people list them, 'a,b'; all that are known where none is given."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in found:
        if name not in known:
            raise InputError(f"'{name}' is not known", f"use {', '.join(known)}", field=field)
    return found or known


def write_page(
    report: "BenchReport", folder: Path, page: Path, picture: tuple[str, str] | None
) -> None:
    """The page of a folder of shards; `picture`: what it shows, and its SVG, put beside it."""
    from dure.bench.common.machine import machine_of
    from dure.sim.benches.page import Made, markdown

    machine = machine_of(folder)
    made = Made(
        str(machine.get("date") or datetime.datetime.now(tz=datetime.UTC).date().isoformat()),
        str(machine.get("host", "unknown")),
        shlex.join(["dure", *sys.argv[1:]]),
    )
    text = markdown(report, made)
    if picture is not None:
        title, drawn = picture
        path = page.with_suffix(".svg")
        write_text(path, drawn)
        text += f"\n![{title}]({path.name})\n"
    write_text(page, text)
