"""What commands share: reading options, the bar of long work, a word before a slow start."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dure.domain.errors import InputError
from dure.domain.units import parse_duration_ns

Teller = Callable[[str, float], None]
"""Told what is being done, and the share of the whole that is over."""


def output_console(width: int) -> Console:
    """Standard output; of a given width where it is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


@contextmanager
def progress_bar() -> Iterator[Teller | None]:
    """A bar on stderr, where that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description:<24}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda what, share: bar.update(task, description=what, completed=share)


def announce_compilation() -> None:
    """Say why the first run of the simulator takes longer."""
    from dure.sim.kernel.compiled import is_compiled

    if not is_compiled():
        typer.echo(
            "Compiling the simulator for this machine, once; this takes about a minute.", err=True
        )


def refuse_unwritable(path: Path | None, field: str) -> None:
    """A file that cannot be written is known before the run, not after."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder", "name a file", field=field)
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(
            f"{path} cannot be written", "name a file in a writable folder", field=field
        )


def duration_option_ns(text: str, field: str) -> int:
    """A length of time from the command line."""
    try:
        length_ns = parse_duration_ns(text)
    except ValueError as error:
        what, _, remedy = str(error).partition("; ")
        raise InputError(what, remedy, field=field) from error
    if length_ns <= 0:
        raise InputError("must be longer than nothing", "write '5s'", field=field)
    return length_ns


def host_and_port(text: str, field: str) -> tuple[str, int]:
    """An address to listen at; without a host only this machine reaches it."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise InputError(
            f"'{text}' is not a host and port", "write it as 127.0.0.1:9400", field=field
        )
    return host.strip("[]") or "127.0.0.1", int(port)
