"""Loads of services: what instances say, and what is seen of them from outside, for the local stage
and for the centre.

Two accounts of the same load, by its instances and by those who ask them, are not added: the larger
counts. Where nobody says how many requests come, those count that the service's owner expects.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.events import LoadsObserved
from dure.domain.fleet.protocol.reports import ServiceLoad
from dure.domain.fleet.protocol.services import LoadSignal
from dure.domain.fleet.workloads import Service
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.member.core.signals import Parts, SignalBook
from dure.member.ports import Loaded

LOOK_NS = 2 * NS_PER_S
"""How often the local stage hears of loads, where there is news of them."""
HEARD_NS = 30 * NS_PER_S
"""How long what an instance said counts; it may say something seldom."""

Lives = Callable[[InstanceId], bool]


@dataclass(slots=True)
class _Figures:
    service: Service
    latest: dict[int, tuple[int, Loaded]] = field(default_factory=dict)
    """By instance: when it said something last, and what."""
    news: bool = False
    """Whether anything was heard since the last look."""
    told: int = 0
    """Looks since the centre was last told."""
    violated: int = 0
    requests_per_s: float = 0.0
    """Sum over those looks."""


@dataclass(slots=True)
class Loads:
    """What was heard lately."""

    signals: SignalBook = field(default_factory=SignalBook)
    _services: dict[WorkloadId, _Figures] = field(default_factory=dict)
    _look_ns: int = 0

    def hear(self, load: Loaded, service: Service, now_ns: int) -> None:
        """An instance said how it fares."""
        figures = self._services.setdefault(load.instance.workload, _Figures(service))
        figures.latest[load.instance.index] = (now_ns, load)
        figures.service, figures.news = service, True

    def signal(self, signal: LoadSignal, service: Service, now_ns: int) -> None:
        """Somebody outside said what is asked of a service."""
        if self.signals.hear(signal, now_ns):
            figures = self._services.setdefault(signal.workload, _Figures(service))
            figures.service, figures.news = service, True

    def look(self, now_ns: int, lives: Lives) -> LoadsObserved | None:
        """All of which there is news, once in a while."""
        heard = {name: each for name, each in self._services.items() if each.news}
        if now_ns < self._look_ns or not heard:
            return None
        self._look_ns = now_ns + LOOK_NS
        names = tuple(sorted(heard))
        rates, queues, latencies = (np.zeros(len(names)) for _ in range(3))
        for row, name in enumerate(names):
            figures = heard[name]
            figures.news = False
            inside = _inside(figures, now_ns, lives)
            outside = self.signals.parts(name, now_ns)
            rates[row], queues[row], latencies[row] = _together(inside, outside, figures.service)
            figures.told += 1
            figures.violated += latencies[row] > figures.service.target_latency_ms
            figures.requests_per_s += float(rates[row])
        return LoadsObserved(now_ns, names, rates, queues, latencies)

    def tell(self, replicas: Mapping[WorkloadId, int]) -> tuple[ServiceLoad, ...]:
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
            figures.told, figures.violated, figures.requests_per_s = 0, 0, 0.0
        self._services = {name: each for name, each in self._services.items() if name in replicas}
        self.signals.keep_only(replicas)
        return tuple(told)


def _inside(figures: _Figures, now_ns: int, lives: Lives) -> Parts | None:
    """What the instances say that are there; None: nothing."""
    figures.latest = {
        index: (at_ns, load)
        for index, (at_ns, load) in figures.latest.items()
        if now_ns - at_ns < HEARD_NS and lives(load.instance)
    }
    loads = [load for _, load in figures.latest.values()]
    if not loads:
        return None
    return Parts(
        sum(each.requests_per_s for each in loads),
        sum(each.queue_length for each in loads),
        max(each.latency_ms for each in loads),
    )


def _together(
    inside: Parts | None, outside: Parts | None, service: Service
) -> tuple[float, float, float]:
    """Requests a second, queue and latency by both accounts."""
    accounts = [each for each in (inside, outside) if each is not None]
    rates = [each.requests_per_s for each in accounts if each.requests_per_s is not None]
    expected = service.requests_per_s / max(1, service.spread)
    queues = [each.queue_length for each in accounts if each.queue_length is not None]
    latencies = [each.latency_ms for each in accounts if each.latency_ms is not None]
    return max(rates, default=expected), max(queues, default=0.0), max(latencies, default=0.0)
