"""`dure record`: what a running agent or centre is told and decides, into a file to be replayed."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import typer

from dure.cli.centre import InContext, centre
from dure.cli.terminal import duration_option_ns
from dure.domain.errors import DureError, InputError
from dure.domain.units import NS_PER_S, format_bytes, parse_bytes
from dure.kit.files import FileProblem

_NEARLY = 0.9
"""A recording that lasted so much of its time, or grew to so much of its size, is complete."""


def record(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where it goes; only you may read it.")
    ],
    level: Annotated[
        Literal["kernel", "node", "fleet"],
        typer.Option(
            help="kernel: a GPU of this host. node: its containers. fleet: the centre's planner."
        ),
    ] = "kernel",
    for_: Annotated[str, typer.Option("--for", help="How long; Ctrl-C ends it sooner.")] = "60s",
    most: Annotated[str, typer.Option(help="It ends before it is larger than this.")] = "64MiB",
    gpu: Annotated[
        str, typer.Option(help="Index or UUID, of the level kernel; the first where none is named.")
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Write over a file that is there.")
    ] = False,
    context: InContext = "",
) -> None:
    """Record what a running agent or centre is told and decides; `dure sim … --replay` reads it."""
    seconds = duration_option_ns(for_, "--for") / NS_PER_S
    most_bytes = _bytes(most)
    with ExitStack() as ends:
        stream = _opened(file, force=force)
        ends.callback(_drop_empty, file)
        ends.callback(_close, stream)
        if level == "fleet":
            source = ends.enter_context(centre(context)).record(seconds, most_bytes)
        else:
            source = _of_agent(ends, level, gpu, seconds, most_bytes)
        began_s = time.monotonic()
        written, lines = _write(file, stream, source)
    took_s = time.monotonic() - began_s
    if lines < _lines_at_least(level):
        raise DureError(
            "nothing was recorded",
            f"see the log of the {'server' if level == 'fleet' else 'agent'}",
        )
    early = took_s < seconds * _NEARLY and written < most_bytes * _NEARLY
    typer.echo(
        f"{lines - 1:,} lines, {format_bytes(written)} in {took_s:.0f} s"
        f"{', ended early' if early else ''}: dure sim {level} --replay {file}",
        err=True,
    )


def _lines_at_least(level: str) -> int:
    """The first line, and of a centre its machine."""
    return 2 if level == "fleet" else 1


def _of_agent(
    ends: ExitStack, level: Literal["kernel", "node"], gpu: str, seconds: float, most_bytes: int
) -> Iterator[bytes]:
    from pydantic import ValidationError

    from dure.client.api import find_agent
    from dure.client.recordings import LONGEST_S, MOST_BYTES, RecordingQuery

    try:
        asked = RecordingQuery(level=level, gpu=gpu, seconds=seconds, most_bytes=most_bytes)
    except ValidationError as error:
        raise InputError(
            f"a recording lasts {LONGEST_S:.0f} s and takes {format_bytes(MOST_BYTES)} at most",
            "ask for less",
        ) from error
    return ends.enter_context(find_agent()).record(asked)


def _bytes(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        what, _, remedy = str(error).partition("; ")
        raise InputError(what, remedy, field="--most") from error


def _opened(file: Path, *, force: bool) -> BinaryIO:
    """The file, for its owner alone: it tells what all tenants do."""
    how = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
    try:
        return os.fdopen(os.open(file, how, 0o600), "wb")
    except FileExistsError as error:
        raise FileProblem(file, "is there already", "name another, or add --force") from error
    except OSError as error:
        raise FileProblem(
            file, f"cannot be written ({error.strerror})", "name a file in a writable folder"
        ) from error


def _write(file: Path, stream: BinaryIO, source: Iterator[bytes]) -> tuple[int, int]:
    """Bytes and lines; what was written stays, whatever ends it."""
    written = lines = 0
    try:
        try:
            for data in source:
                stream.write(data)
                written += len(data)
                lines += data.count(b"\n")
        except KeyboardInterrupt:
            sys.stderr.write("\n")
        except DureError as error:
            if not lines:
                raise
            stream.flush()
            kept = f"the {lines:,} lines until then are in {file} and can be replayed"
            raise DureError(error.what, kept) from error
        stream.flush()
    except OSError as error:
        raise FileProblem(
            file, f"cannot be written ({error.strerror})", "make room, or name another file"
        ) from error
    return written, lines


def _close(stream: BinaryIO) -> None:
    """What could not be written was told when it was to be."""
    with suppress(OSError):
        stream.close()


def _drop_empty(file: Path) -> None:
    """Nothing is left of a recording that could not begin."""
    if file.is_file() and file.stat().st_size == 0:
        file.unlink()
