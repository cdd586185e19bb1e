"""A recorded centre, run again by the code of today."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from dure.domain.errors import InputError
from dure.domain.fleet.instructions import GlobalInstruction, MoveWorkload, PlaceWorkload
from dure.domain.units import NS_PER_S
from dure.fleet.global_machine import GlobalMachine
from dure.sim.fleet.journal import Entry, JournalReader, same_answers, same_words

_MOST_SHOWN = 20
"""Differences that are told one by one."""
_SHOWN_CHARACTERS = 160


@dataclass(frozen=True, slots=True)
class Difference:
    """An event that is answered otherwise today."""

    line: int
    at_s: float
    """From the first event."""
    event: str
    recorded: str
    replayed: str


@dataclass(frozen=True, slots=True)
class FleetReplay:
    """What a replay found."""

    recorded_by: str
    """The version of Dure."""
    machines: int
    """Times that the centre began from what is stored, the first included."""
    events: int
    seconds: float
    differing: int
    """Events with another answer."""
    placements: int
    moves: int
    """As recorded."""
    kinds: tuple[tuple[str, int], ...]
    """Events by kind, the most frequent first."""
    differences: tuple[Difference, ...]
    note: str = ""


def replay(path: Path) -> FleetReplay:
    """Feed the recorded events to the recorded machine and compare what it answers."""
    reader = JournalReader(path)
    machine: GlobalMachine | None = None
    machines = differing = 0
    kinds: Counter[str] = Counter()
    deeds: Counter[type] = Counter()
    differences: list[Difference] = []
    first_ns = last_ns = 0
    for each in reader.entries():
        if isinstance(each, GlobalMachine):
            machine, machines = each, machines + 1
            continue
        if machine is None:
            raise InputError(
                "an event comes before any machine", "record anew", file=f"{path}, line {each.line}"
            )
        first_ns, last_ns = first_ns or each.event.now_ns, each.event.now_ns
        kinds[type(each.event).__name__] += 1
        deeds.update(type(deed) for deed in each.answer)
        today = machine.handle(each.event)
        if not same_answers(today, each.answer):
            differing += 1
            if len(differences) < _MOST_SHOWN:
                differences.append(_difference(each, today, first_ns))
    if machine is None:
        raise InputError("it holds no machine", "record for longer", file=str(path))
    return FleetReplay(
        reader.dure,
        machines,
        kinds.total(),
        (last_ns - first_ns) / NS_PER_S,
        differing,
        deeds[PlaceWorkload],
        deeds[MoveWorkload],
        tuple(kinds.most_common()),
        tuple(differences),
        reader.note,
    )


def _difference(entry: Entry, today: list[GlobalInstruction], first_ns: int) -> Difference:
    pairs = list(zip(entry.answer, today, strict=False))
    at = next((i for i, pair in enumerate(pairs) if not same_words(*pair)), len(pairs))
    return Difference(
        entry.line,
        (entry.event.now_ns - first_ns) / NS_PER_S,
        type(entry.event).__name__,
        _shown(entry.answer, at),
        _shown(today, at),
    )


def _shown(answer: list[GlobalInstruction], at: int) -> str:
    if at >= len(answer):
        return "nothing more"
    text = repr(answer[at])
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
