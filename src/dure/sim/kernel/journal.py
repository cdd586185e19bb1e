"""The journal of a kernel machine: everything it was told and answered, and its replay.

A journal is a file of JSON lines. The first says what the machine was, every other line holds one
event with the instructions it gave. A machine decides by its events alone, so a fresh one fed
the same events must answer the same; where it does not, the code that decides has changed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dure.domain.errors import InputError
from dure.domain.events import Event
from dure.domain.instructions import Instruction
from dure.kernel.machine import KernelMachine, MachineSettings
from dure.kit.files import FileProblem
from dure.sim.kernel.journal_codec import (
    VERSION,
    Beginning,
    MalformedLine,
    UnknownVersion,
    decode_entry,
    decode_header,
    encode_entry,
    encode_header,
)
from dure.sim.kernel.run import Recorder

_BUFFER_BYTES = 1 << 20
_SHOWN_CHARACTERS = 300
"""Of an instruction in a mismatch: enough to see what differs first."""

Entry = tuple[Event, tuple[Instruction, ...]]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An event to which the machine now answers something else."""

    line: int
    event: str
    recorded: str
    replayed: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.event}: recorded {self.recorded}, replayed {self.replayed}"


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay found."""

    policy: str
    """The policy the recorded machine started with."""
    events: int
    instructions: int
    """As recorded."""
    mismatches: int
    """Events with a different answer."""
    first_mismatch: Mismatch | None
    note: str = ""
    """What was odd about the file without being wrong."""

    @property
    def identical(self) -> bool:
        """Whether every event got the recorded answer."""
        return self.mismatches == 0


@contextmanager
def open_journal(path: Path, settings: MachineSettings) -> Iterator[Recorder]:
    """Start a journal; gives the recorder to hand to a run. What was recorded is kept on errors."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("wb", buffering=_BUFFER_BYTES)
    except OSError as error:
        raise _unwritable(path, error) from error
    finished = False

    def record(event: Event, instructions: tuple[Instruction, ...]) -> None:
        try:
            stream.write(encode_entry(event, instructions) + b"\n")
        except OSError as error:
            raise _unwritable(path, error) from error

    try:
        stream.write(encode_header(settings) + b"\n")
        yield record
        finished = True
    finally:
        try:
            stream.close()
        except OSError as error:
            if finished:
                raise _unwritable(path, error) from error


def replay_journal(path: Path) -> ReplayReport:
    """Feed the recorded events to a fresh machine and compare its instructions."""
    reader = JournalReader(path)
    machine = reader.machine()
    events = instructions = mismatches = 0
    first: Mismatch | None = None
    for event, recorded in reader.entries():
        answered = machine.handle(event)
        events += 1
        instructions += len(recorded)
        if answered != recorded:
            mismatches += 1
            first = first or _mismatch(reader.line, event, recorded, answered)
    policy = reader.begun.settings.policy
    return ReplayReport(policy, events, instructions, mismatches, first, reader.note)


class JournalReader:
    """Reads a journal line by line, and says what is wrong with which."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = self._raw_lines()
        self._last_ns = 0
        self.line = 0
        self.note = ""
        self.begun = self._read_header()

    def machine(self) -> KernelMachine:
        """A machine as the recorded one was at the first event."""
        try:
            return self.begun.machine()
        except InputError as error:
            raise error.located(file=f"{self._path}, line 1") from error
        except MalformedLine as error:
            raise InputError(
                f"Dure {self.begun.dure} recorded a machine that this version cannot be ({error})",
                "replay it with the version of Dure that recorded it",
                file=f"{self._path}, line 1",
            ) from error

    def entries(self) -> Iterator[Entry]:
        """Every event with its recorded instructions; a torn last line ends it with a note."""
        for raw in self._lines:
            try:
                entry = decode_entry(raw)
            except MalformedLine as error:
                if not raw.endswith(b"\n"):
                    self.note = (
                        f"line {self.line} is cut off, as after a crash; "
                        "the events before it were replayed"
                    )
                    return
                raise self._problem(f"is not an event with its instructions ({error})") from error
            now_ns = entry[0].now_ns
            if now_ns < self._last_ns:
                raise self._problem(f"holds an event of {now_ns} ns after one of {self._last_ns}")
            self._last_ns = now_ns
            yield entry

    def _read_header(self) -> Beginning:
        raw = next(self._lines, b"")
        if not raw:
            raise InputError("the file is empty", "record a journal first", file=str(self._path))
        try:
            return decode_header(raw)
        except UnknownVersion as error:
            raise InputError(
                f"the journal has format version {error.version}, this is version {VERSION}",
                "replay it with the version of Dure that recorded it",
                file=f"{self._path}, line 1",
            ) from error
        except MalformedLine as error:
            raise InputError(
                f"this is not the first line of a kernel journal ({error})",
                "name a file that a kernel run recorded as its journal",
                file=f"{self._path}, line 1",
            ) from error

    def _raw_lines(self) -> Iterator[bytes]:
        try:
            with self._path.open("rb") as stream:
                for raw in stream:
                    self.line += 1
                    yield raw
        except FileNotFoundError as error:
            raise FileProblem(self._path, "there is no such file", "check the path") from error
        except OSError as error:
            what = f"cannot be read ({error.strerror})"
            raise FileProblem(self._path, what, "name a readable file") from error

    def _problem(self, what: str) -> InputError:
        return InputError(
            f"the line {what}",
            "record the journal again, or cut the file off before this line",
            file=f"{self._path}, line {self.line}",
        )


def _mismatch(
    line: int, event: Event, recorded: tuple[Instruction, ...], answered: tuple[Instruction, ...]
) -> Mismatch:
    """The first instruction that differs, in both versions."""
    at = next(
        (i for i, pair in enumerate(zip(recorded, answered, strict=False)) if pair[0] != pair[1]),
        min(len(recorded), len(answered)),
    )
    return Mismatch(
        line,
        f"{type(event).__name__} at {event.now_ns} ns",
        _shown(recorded, at),
        _shown(answered, at),
    )


def _shown(instructions: tuple[Instruction, ...], at: int) -> str:
    if at >= len(instructions):
        return "nothing more"
    text = repr(instructions[at])
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _unwritable(path: Path, error: OSError) -> FileProblem:
    return FileProblem(
        path, f"cannot be written ({error.strerror})", "name a file in a writable folder"
    )
