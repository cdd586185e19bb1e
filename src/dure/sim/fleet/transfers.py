"""Where weights, data and checkpoints are, how long it takes to bring them, and what that costs."""

from collections.abc import Iterable
from dataclasses import dataclass

from dure.domain.fleet.clusters import Fleet
from dure.domain.fleet.workloads import Artefact, Workload
from dure.domain.ids import ArtefactId, ClusterId
from dure.domain.units import NS_PER_S

BYTES_PER_GB = 1e9


@dataclass(frozen=True, slots=True)
class Transfer:
    """Something on its way to a cluster."""

    artefact: ArtefactId | None
    """None: a checkpoint."""
    size_bytes: int
    cost: float
    arrives_ns: int


class Stores:
    """What each cluster has. A first use brings an artefact there; from then on it stays."""

    def __init__(self, fleet: Fleet, artefacts: Iterable[Artefact]) -> None:
        self._fleet = fleet
        self._artefacts = {artefact.id: artefact for artefact in artefacts}
        self._ready_ns: dict[tuple[ArtefactId, ClusterId], int] = {
            (artefact.id, place): 0
            for artefact in self._artefacts.values()
            for place in artefact.places
        }
        self._places = {artefact.id: set(artefact.places) for artefact in self._artefacts.values()}

    def fetch(
        self, workload: Workload, cluster: ClusterId, now_ns: int
    ) -> tuple[int, list[Transfer]]:
        """When all that a workload needs is there, and the transfers that had to be begun.

        They share the link one after the other, as they would on one that is saturated.
        """
        ready_ns = now_ns
        begun: list[Transfer] = []
        link_ns = now_ns
        wanted = workload.data if workload.weights is None else (workload.weights, *workload.data)
        for name in wanted:
            known = self._ready_ns.get((name, cluster))
            if known is None:
                artefact = self._artefacts[name]
                link_ns += self.duration_ns(artefact.size_bytes)
                begun.append(
                    Transfer(name, artefact.size_bytes, self._cost(artefact, cluster), link_ns)
                )
                known = self._ready_ns[name, cluster] = link_ns
                self._places[name].add(cluster)
            ready_ns = max(ready_ns, known)
        return ready_ns, begun

    def checkpoint(
        self, workload: Workload, source: ClusterId, target: ClusterId, now_ns: int
    ) -> Transfer:
        """Carry a job's saved state from one cluster to another."""
        size = workload.gang.checkpoint_bytes
        cost = size / BYTES_PER_GB * self._fleet.egress(source, target)
        return Transfer(None, size, cost, now_ns + self.duration_ns(size))

    def places(self, name: ArtefactId) -> Artefact:
        """An artefact as it is now: with all places that have it or soon will."""
        artefact = self._artefacts[name]
        return Artefact(name, artefact.size_bytes, frozenset(self._places[name]))

    def duration_ns(self, size_bytes: int) -> int:
        """How long so much takes between clusters."""
        return round(size_bytes / self._fleet.bytes_per_s * NS_PER_S)

    def _cost(self, artefact: Artefact, target: ClusterId) -> float:
        """Egress from the cheapest place that has it; what nobody has comes from outside, free."""
        prices = (self._fleet.egress(place, target) for place in self._places[artefact.id])
        return artefact.size_bytes / BYTES_PER_GB * min(prices, default=0.0)
