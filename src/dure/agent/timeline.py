"""Who ran on which compute units when: a slice for each tick of a GPU, kept for a minute.

A shim counts the device time of kernels when they end. So a long kernel's time is spread back
over the slices in which its tenant had work, whenever somebody looks; the newest slices may still
change.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dure.client.timeline import TimelinePart, TimelineSlice
from dure.devices.plane import TurnReading
from dure.domain.ids import TenantId
from dure.domain.plan import Plan, SmSet
from dure.domain.readings import TenantReading
from dure.domain.units import NS_PER_MS, NS_PER_S

_KEPT = 3000
"""Slices: a minute at a tick of 20 ms."""
_PLANS = 4
"""Plans that a slice may still belong to: what is published takes over at the next squad edge."""
_JUMP_NS = NS_PER_S
"""A clock of day that moved further was set; less is how late it was read, and makes no gap."""
_DIGITS = 4


class Part(NamedTuple):
    """One tenant in one slice."""

    tenant: TenantId
    sms: SmSet
    gpu_ns: int
    busy_ns: int
    held_ns: int


class Slice(NamedTuple):
    """From one tick to the next."""

    number: int
    end_unix_ns: int
    length_ns: int
    epoch: int
    squad: int
    squads: int
    """Squads that began in it."""
    parts: tuple[Part, ...]


@dataclass(slots=True)
class Timeline:
    """The last minute of one GPU; used in its own thread."""

    sms: int
    _slices: deque[Slice] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _plans: dict[int, Plan] = field(default_factory=dict)
    _last_ns: int = 0
    _edges: int = 0
    _number: int = 0
    _ahead_ns: int | None = None
    """Of the clock of day, beside that of ticks."""

    def publish(self, plan: Plan) -> None:
        """A plan may take over from now on."""
        self._plans[plan.epoch] = plan
        while len(self._plans) > _PLANS:
            del self._plans[min(self._plans)]

    def add(
        self, now_ns: int, unix_ns: int, turn: TurnReading, readings: Iterable[TenantReading]
    ) -> None:
        """A tick is over."""
        length_ns, self._last_ns = now_ns - self._last_ns, now_ns
        squads, self._edges = turn.edges - self._edges, turn.edges
        if length_ns == now_ns:
            return  # the very first: nobody knows since when
        self._number += 1
        ahead_ns = unix_ns - now_ns
        if self._ahead_ns is None or abs(ahead_ns - self._ahead_ns) > _JUMP_NS:
            self._ahead_ns = ahead_ns
        parts = tuple(
            Part(
                each.tenant,
                self._sms_of(each.tenant, turn),
                each.gpu_ns,
                min(each.busy_ns, length_ns),
                min(each.gated_ns, length_ns),
            )
            for each in readings
            if each.gpu_ns or each.busy_ns or each.gated_ns
        )
        self._slices.append(
            Slice(
                self._number,
                now_ns + self._ahead_ns,
                length_ns,
                turn.epoch,
                turn.squad,
                squads,
                parts,
            )
        )

    def since(self, after: int, length_ns: int) -> list[TimelineSlice]:
        """Slices after a number that are not older than a length, oldest first."""
        wanted: list[Slice] = []
        taken_ns = 0
        for each in reversed(self._slices):
            if each.number <= after or taken_ns >= length_ns:
                break
            wanted.append(each)
            taken_ns += each.length_ns
        return spread(wanted[::-1], self.sms)

    def _sms_of(self, tenant: TenantId, turn: TurnReading) -> SmSet:
        """Where a tenant's kernels go: in the squad of now, else in the next that has it."""
        plan = self._plans.get(turn.epoch)
        squads = plan.squads if plan is not None else ()
        for squad in (*squads[turn.squad :], *squads[: turn.squad]):
            for member in squad.members:
                if member.tenant == tenant and member.sms.count > 0:
                    return member.sms
        return SmSet(0, self.sms)


def spread(slices: Sequence[Slice], sms: int) -> list[TimelineSlice]:
    """Slices as people see them: device time where it was used, and the bubbles between."""
    carried: dict[TenantId, int] = {}
    shown: list[TimelineSlice] = []
    for each in reversed(slices):
        parts, later, carried = [], carried, {}
        for part in each.parts:
            due_ns = part.gpu_ns
            if part.busy_ns:  # only while it had work can a kernel that ended later have run
                due_ns += later.get(part.tenant, 0)
            ran_ns = min(due_ns, each.length_ns)
            carried[part.tenant] = due_ns - ran_ns
            parts.append(_part(part, ran_ns, each.length_ns))
        covered = min(1.0, sum(part.ran * part.sm_count / sms for part in parts))
        idle = 1.0
        for part in each.parts:
            idle *= 1.0 - part.busy_ns / each.length_ns
        shown.append(
            TimelineSlice(
                number=each.number,
                at_ms=(each.end_unix_ns - each.length_ns) / NS_PER_MS,
                length_ms=each.length_ns / NS_PER_MS,
                epoch=each.epoch,
                squad=each.squad,
                squads=each.squads,
                bubble=round(max(0.0, 1.0 - idle - covered), _DIGITS),
                parts=tuple(parts),
            )
        )
    return shown[::-1]


def _part(part: Part, ran_ns: int, length_ns: int) -> TimelinePart:
    return TimelinePart(
        tenant=part.tenant,
        sm_first=part.sms.first,
        sm_count=part.sms.count,
        ran=round(ran_ns / length_ns, _DIGITS),
        wanted=round(part.busy_ns / length_ns, _DIGITS),
        held=round(part.held_ns / length_ns, _DIGITS),
    )
