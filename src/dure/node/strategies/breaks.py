"""Breaks for services: beside one of a higher class, jobs leave the GPU alone after each turn.

A launched kernel cannot be interrupted, and beside one job the slowest twentieth of a service's
requests takes 2.8 times as long as alone. Some time between turns keeps that below 2.5: with a
quarter of a turn it was 2.6 to 2.7 on an H200, with half of one it is 2.4 (simulated).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dure.domain.ids import GpuUuid
from dure.domain.units import NS_PER_S
from dure.node.units import Unit, UnitKey

BREAK_SHARE = 0.5
"""Of a turn that ended, for so long nobody of a lower class than the service follows."""
LONGEST_BREAK_NS = 3 * NS_PER_S // 2
"""Less than the 2 s for which somebody may be kept from a GPU on which nothing happens
(`idle_bound_ns`), though not by much: a first kernel 0.7 s after the break would come later than
that. The bound is on being kept, and holds: who is let go is no longer kept, its release starts the
time anew for those behind it, and where the GPU has been still for 2 s the first in line goes even
in a break. Nor are all held in one: the service for which it is made runs."""


@dataclass(slots=True)
class Breaks:
    """Follows turns from plan to plan."""

    _turns: dict[UnitKey, tuple[int, frozenset[GpuUuid]]] = field(default_factory=dict)
    """Since when each has its turn, and on which GPUs."""
    _until_ns: dict[GpuUuid, int] = field(default_factory=dict)

    def follow(self, units: Iterable[Unit], now_ns: int) -> None:
        """Notice whose turns have ended since the last plan."""
        turns = {
            unit.key: (unit.turn_ns, frozenset(unit.gpus))
            for unit in units
            if unit.turn_ns is not None
        }
        for key, (began_ns, gpus) in self._turns.items():
            if key not in turns:
                length_ns = min(round(BREAK_SHARE * (now_ns - began_ns)), LONGEST_BREAK_NS)
                for gpu in gpus:
                    self._until_ns[gpu] = max(self._until_ns.get(gpu, 0), now_ns + length_ns)
        self._turns = turns

    def until_ns(self, unit: Unit, own: int, services: Mapping[GpuUuid, int]) -> int:
        """Until when a unit of class `own` is not to begin a turn; `services`: their classes."""
        return max(
            (self._until_ns.get(gpu, 0) for gpu in unit.gpus if services.get(gpu, own) > own),
            default=0,
        )
