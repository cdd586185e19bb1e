"""Whoever watches the GPUs of a simulated host: raises the risks that a scenario states.

As the watcher of a real agent does, it raises a risk again as long as it lasts and clears it when
it is over; a machine that begins meanwhile hears of it the next time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from dure.domain.node_events import GpuRiskCleared, GpuRiskRaised
from dure.domain.risks import Risk, RiskKind
from dure.domain.units import NS_PER_S
from dure.sim.node.managing import Manager
from dure.sim.node.world import START_NS, World

_AGAIN_NS = 10 * NS_PER_S
"""How often a risk that lasts is raised."""
_SERIES = "scenario"


@dataclass(frozen=True, slots=True)
class StatedRisk:
    """A risk that is foreseen for a GPU from one moment of the run to another."""

    kind: RiskKind
    gpu: int
    at_ns: int
    length_ns: int
    reason: str

    @property
    def end_ns(self) -> int:
        """When it is over."""
        return self.at_ns + self.length_ns


class Watcher:
    """Tells an agent what the scenario says is coming."""

    def __init__(self, world: World, manager: Manager, risks: Sequence[StatedRisk]) -> None:
        self._world, self._manager, self._risks = world, manager, risks

    def start(self) -> None:
        """Note every risk, the earlier first: one that ends where another of its kind begins is
        cleared before that one is raised."""
        for stated in sorted(self._risks, key=attrgetter("at_ns")):
            self._world.agenda.note(START_NS + stated.at_ns, self._raise, stated)
            self._world.agenda.note(START_NS + stated.end_ns, self._clear, stated)

    def _raise(self, now_ns: int, stated: StatedRisk) -> None:
        risk = Risk(_SERIES, stated.kind, 1.0, stated.reason)
        gpu = self._world.gpus[stated.gpu].uuid
        self._manager.foreseen(GpuRiskRaised(now_ns, gpu, risk))
        if now_ns + _AGAIN_NS < START_NS + stated.end_ns:
            self._world.agenda.note(now_ns + _AGAIN_NS, self._raise, stated)

    def _clear(self, now_ns: int, stated: StatedRisk) -> None:
        gpu = self._world.gpus[stated.gpu].uuid
        self._manager.foreseen(GpuRiskCleared(now_ns, gpu, _SERIES, stated.kind))
