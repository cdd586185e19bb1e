"""The journal of a global machine: what it was, everything it was told and answered; JSON lines.

The first line says what wrote it. An `image` is the machine as it was then: one stands before the
first event, and another wherever the centre began to plan anew from what is stored.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dure import __version__
from dure.domain.errors import InputError
from dure.domain.fleet.events import GlobalEvent
from dure.domain.fleet.instructions import GlobalInstruction
from dure.fleet.global_machine import GlobalMachine
from dure.kit.files import FileProblem
from dure.kit.images import ImageError, image_of, value_of

FORMAT = "dure-fleet-journal"
VERSION = 1
"""Raised whenever an older reader would misread a line."""
_PACKAGES = ("dure.domain", "dure.fleet")
"""Where the parts of a machine, of events and of instructions come from."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One event, and what was answered."""

    line: int
    event: GlobalEvent
    answer: list[GlobalInstruction]


def header_line() -> bytes:
    """The first line."""
    return _line({"format": FORMAT, "version": VERSION, "dure": __version__})


def machine_line(machine: GlobalMachine) -> bytes:
    """The machine as it is now."""
    return _line({"image": image_of(machine)})


def entry_line(event: GlobalEvent, answer: list[GlobalInstruction]) -> bytes:
    """One event with its answer."""
    return _line({"event": image_of(event), "answer": image_of(answer)})


def same_answers(first: list[GlobalInstruction], second: list[GlobalInstruction]) -> bool:
    """Whether two answers say the same, arrays of numbers included."""
    return len(first) == len(second) and all(map(same_words, first, second))


def same_words(first: object, second: object) -> bool:
    """Whether two values are the same to the last bit."""
    return image_of(first) == image_of(second)


class JournalReader:
    """Reads a journal line by line, and says what is wrong with which."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0
        self.note = ""
        self.dure = ""
        """The version that recorded it."""
        self._lines = self._read_lines()
        self._read_header()

    def entries(self) -> Iterator[GlobalMachine | Entry]:
        """Machines as they were, each followed by what they were told; a torn last line ends it
        with a note."""
        for line in self._lines:
            if line.keys() == {"image"}:
                machine = self._value(line["image"])
                if not isinstance(machine, GlobalMachine):
                    raise self._wrong("holds no machine of a centre")
                yield machine
            elif line.keys() == {"event", "answer"}:
                event, answer = self._value(line["event"]), self._value(line["answer"])
                if not hasattr(event, "now_ns") or not isinstance(answer, list):
                    raise self._wrong("is no event with its answer")
                yield Entry(self._number, event, answer)
            else:
                raise self._wrong("is neither a machine nor an event with its answer")

    def _read_header(self) -> None:
        head = next(self._lines, None)
        if head is None:
            raise InputError("the file is empty", "record something first", file=str(self._path))
        if head.get("format") != FORMAT:
            raise InputError(
                "this is no recording of a fleet",
                "make one with `dure record --level fleet FILE`",
                file=f"{self._path}, line 1",
            )
        self.dure = str(head.get("dure", "?"))
        if head.get("version") != VERSION:
            raise InputError(
                f"the recording has format version {head.get('version')}, this is {VERSION}",
                "replay it with the version of Dure that recorded it",
                file=f"{self._path}, line 1",
            )

    def _read_lines(self) -> Iterator[dict[str, Any]]:
        try:
            with self._path.open("rb") as stream:
                for raw in stream:
                    self._number += 1
                    try:
                        line = json.loads(raw)
                    except ValueError:
                        line = None
                    if isinstance(line, dict):
                        yield line
                    elif raw.endswith(b"\n"):
                        raise self._wrong("is no JSON object")
                    else:
                        self.note = (
                            f"line {self._number} is cut off; what stands before it was replayed"
                        )
                        return
        except FileNotFoundError as error:
            raise FileProblem(self._path, "there is no such file", "check the path") from error
        except OSError as error:
            what = f"cannot be read ({error.strerror})"
            raise FileProblem(self._path, what, "name a readable file") from error

    def _value(self, image: object) -> Any:
        try:
            return value_of(image, _PACKAGES)
        except ImageError as error:
            raise InputError(
                f"Dure {self.dure} recorded what this version does not know ({error})",
                "replay it with the version of Dure that recorded it",
                file=f"{self._path}, line {self._number}",
            ) from error

    def _wrong(self, what: str) -> InputError:
        return InputError(
            f"the line {what}",
            "record anew, or cut the file off before this line",
            file=f"{self._path}, line {self._number}",
        )


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
