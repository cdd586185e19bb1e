"""Loads of services: what instances say, gathered for the local stage and for the centre."""

from dataclasses import dataclass, field

import numpy as np

from dure.domain.fleet.events import LoadsObserved
from dure.domain.fleet.protocol import ServiceLoad
from dure.domain.fleet.workloads import Service
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.member.ports import Loaded

LOOK_NS = 10 * NS_PER_S
"""How often the local stage hears of loads."""


@dataclass(slots=True)
class _Figures:
    service: Service
    latest: dict[int, Loaded] = field(default_factory=dict)
    """By instance."""
    told: int = 0
    """Looks since the centre was last told."""
    violated: int = 0
    requests_per_s: float = 0.0
    """Sum over those looks."""


@dataclass(slots=True)
class Loads:
    """What was heard since the last look."""

    _services: dict[WorkloadId, _Figures] = field(default_factory=dict)
    _look_ns: int = 0

    def hear(self, load: Loaded, service: Service) -> None:
        """An instance said how it fares."""
        figures = self._services.setdefault(load.instance.workload, _Figures(service))
        figures.latest[load.instance.index] = load

    def look(self, now_ns: int) -> LoadsObserved | None:
        """All that was heard, once in a while."""
        heard = {name: each for name, each in self._services.items() if each.latest}
        if now_ns < self._look_ns or not heard:
            return None
        self._look_ns = now_ns + LOOK_NS
        names = tuple(sorted(heard))
        rates, queues, latencies = (np.zeros(len(names)) for _ in range(3))
        for row, name in enumerate(names):
            figures = heard[name]
            loads = figures.latest.values()
            rates[row] = sum(each.requests_per_s for each in loads)
            queues[row] = sum(each.queue_length for each in loads)
            latencies[row] = max(each.latency_ms for each in loads)
            figures.told += 1
            figures.violated += latencies[row] > figures.service.target_latency_ms
            figures.requests_per_s += float(rates[row])
            figures.latest = {}
        return LoadsObserved(now_ns, names, rates, queues, latencies)

    def tell(self, replicas: dict[WorkloadId, int]) -> tuple[ServiceLoad, ...]:
        """What the centre has not heard yet."""
        told = []
        for name, figures in sorted(self._services.items()):
            if figures.told:
                told.append(
                    ServiceLoad(
                        workload=name,
                        requests_per_s=figures.requests_per_s / figures.told,
                        replicas=replicas.get(name, 0),
                        violated_share=figures.violated / figures.told,
                    )
                )
        self._services = {name: each for name, each in self._services.items() if each.latest}
        return tuple(told)
