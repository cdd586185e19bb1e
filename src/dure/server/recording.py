"""Recordings of a centre that plans: what its machine is told and answers, for who listens.

The planner lets taps in between two steps, copies its machine for them, and goes on; what becomes
of the copy is done by others. A planner that begins anew gives every tap its new machine.
"""

import asyncio
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dure.domain.fleet.events import GlobalEvent
from dure.domain.fleet.instructions import GlobalInstruction
from dure.kit.taps import Tap

if TYPE_CHECKING:
    from dure.fleet.global_machine import GlobalMachine

MOST_AT_ONCE = 2
"""Recordings of one server: each may hold a copy of all that the centre knows."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """A machine as it was at one moment."""

    data: bytes


FleetTap = Tap[Frozen | tuple[GlobalEvent, list[GlobalInstruction]]]


@dataclass(slots=True)
class Recorder:
    """One for each server; the planner feeds it, REST empties it."""

    taps: list[FleetTap] = field(default_factory=list)
    waiting: list[FleetTap] = field(default_factory=list)
    """Those that have not got a machine yet."""

    def open(self) -> FleetTap | None:
        """A tap for a new recording; None: there are as many as there may be."""
        self.taps = [tap for tap in self.taps if not tap.why_over]
        if len(self.taps) >= MOST_AT_ONCE:
            return None
        tap: FleetTap = Tap()
        # In this order: the planner may note something at this very moment, in its thread.
        self.waiting.append(tap)
        self.taps.append(tap)
        return tap

    def begin_anew(self) -> None:
        """The planner has another machine than before."""
        self.waiting = [tap for tap in self.taps if not tap.why_over]

    async def let_in(self, machine: "GlobalMachine") -> None:
        """Give the machine to those who wait for it; between two events."""
        if not self.waiting:
            return
        admitted, self.waiting = self.waiting, []
        frozen = Frozen(await asyncio.to_thread(pickle.dumps, machine))
        for tap in admitted:
            tap.add(frozen)

    def note(self, event: GlobalEvent, answer: list[GlobalInstruction]) -> None:
        """The machine answered an event."""
        for tap in self.taps:
            if tap not in self.waiting:
                tap.add((event, answer))

    def end(self, why: str) -> None:
        """Nothing more is planned here."""
        for tap in self.taps:
            tap.end(why)
        self.taps, self.waiting = [], []


def header() -> bytes:
    """The first line of the journal."""
    from dure.sim.fleet.journal import (  # noqa: PLC0415 - brings compiled loops; a server has them
        header_line,
    )

    return header_line()


def line_of(entry: Any) -> bytes:
    """An entry of a tap as a line of the journal."""
    from dure.sim.fleet.journal import (  # noqa: PLC0415 - brings compiled loops; a server has them
        entry_line,
        machine_line,
    )

    if isinstance(entry, Frozen):
        return machine_line(pickle.loads(entry.data))
    return entry_line(*entry)
