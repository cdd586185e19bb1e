"""Recordings of a node machine: everything it was told and answered, one JSON line each.

The first line says what the machine was started with, as its owner states it. A machine decides by
its events alone, so a fresh one that is fed the same events must answer the same.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pydantic import TypeAdapter, ValidationError

from dure.domain import node_events, node_instructions
from dure.domain.errors import InputError
from dure.domain.node_events import NodeEvent
from dure.domain.node_instructions import NodeInstruction

VERSION = 1
_KIND = "kind"
_EVENTS: dict[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind) for kind in node_events.NodeEvent.__args__
}
_INSTRUCTIONS: dict[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind) for kind in node_instructions.NodeInstruction.__args__
}

Entry = tuple[NodeEvent, tuple[NodeInstruction, ...]]


class Recording:
    """A file that is written while a machine runs; a line is whole or missing."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._stream: IO[str] = path.open("w", encoding="utf-8", buffering=1)
        except OSError as error:
            raise InputError(
                f"'{path}' cannot be written ({error.strerror})", "name another file"
            ) from error
        self._stream.write(header_line(header))

    def add(self, event: NodeEvent, instructions: tuple[NodeInstruction, ...]) -> None:
        """One event with its answer."""
        self._stream.write(entry_line(event, instructions))

    def close(self) -> None:
        """Nothing more is written."""
        self._stream.close()


def header_line(header: Mapping[str, Any]) -> str:
    """The first line of a recording."""
    return _line({"version": VERSION, **header})


def entry_line(event: NodeEvent, instructions: tuple[NodeInstruction, ...]) -> str:
    """The line of one event with its answer."""
    answer = [_plain(_INSTRUCTIONS, each) for each in instructions]
    return _line({"event": _plain(_EVENTS, event), "answer": answer})


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording that was read."""

    header: Mapping[str, Any]
    entries: tuple[Entry, ...]


def read_recording(path: Path) -> Recorded:
    """All of a recording; a torn last line is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("it cannot be read", "name a recording", file=str(path)) from error
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    read = list(_lines(path, lines))
    if not read or read[0].get("version") != VERSION:
        raise InputError(
            f"it is no recording of containers, or not of version {VERSION}",
            "make one with `dure record --level node FILE`",
            file=str(path),
        )
    entries = tuple(_entry(path, number, line) for number, line in enumerate(read[1:], 2))
    return Recorded(read[0], entries)


def _lines(path: Path, lines: list[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        try:
            read = json.loads(line)
        except ValueError as error:
            raise _wrong(path, number) from error
        if not isinstance(read, dict):
            raise _wrong(path, number)
        yield read


def _entry(path: Path, number: int, line: Mapping[str, Any]) -> Entry:
    try:
        event: NodeEvent = _value(_EVENTS, line["event"])
        return event, tuple(_value(_INSTRUCTIONS, each) for each in line["answer"])
    except (KeyError, TypeError, ValidationError) as error:
        raise _wrong(path, number) from error


def _plain(kinds: Mapping[str, TypeAdapter[Any]], value: object) -> dict[str, Any]:
    name = type(value).__name__
    return {_KIND: name, **kinds[name].dump_python(value, mode="json")}


def _value(kinds: Mapping[str, TypeAdapter[Any]], plain: Mapping[str, Any]) -> Any:
    fields = {name: value for name, value in plain.items() if name != _KIND}
    return kinds[plain[_KIND]].validate_python(fields)


def _wrong(path: Path, number: int) -> InputError:
    return InputError(
        f"line {number} is nothing that this version of Dure records",
        "replay it with the version that recorded it, or record anew",
        file=str(path),
    )
