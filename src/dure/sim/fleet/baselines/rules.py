"""The rules by which baselines choose among sites that have room. Each is one small class."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dure.domain.fleet.policy import HOUR_NS
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import ArtefactId, ClusterId
from dure.fleet.fit import footprint, runtime_ns, speed
from dure.sim.fleet.baselines.places import Places
from dure.sim.fleet.savings import device_hour_cost

BYTES_PER_GB = 1e9


@dataclass(slots=True)
class Known:
    """What a rule may look at: the same that the global machine is told."""

    places: Places
    artefacts: dict[ArtefactId, tuple[int, frozenset[ClusterId]]] = field(default_factory=dict)
    """Size of each artefact, and where it is."""
    now_ns: int = 0
    _hour: int = -1
    _prices: dict[int, float] = field(default_factory=dict)

    def device_hour(self, row: int) -> float:
        """Rent or energy of a busy device for this hour, by site; kept until the hour is over."""
        hour = self.now_ns // HOUR_NS
        if hour != self._hour:
            self._hour = hour
            self._prices.clear()
        price = self._prices.get(row)
        if price is None:
            place, start_ns = self.places.rows[row], hour * HOUR_NS
            price = device_hour_cost(
                self.places.fleet,
                self.places.clusters[place.site.cluster],
                place.group,
                start_ns,
                start_ns + HOUR_NS,
            )
            self._prices[row] = price
        return price

    def job_cost(self, workload: Workload, row: int, instances: int, done: float) -> float:
        """What this workload would cost there: devices for its time, and what must be brought.

        A service is priced by the hour.
        """
        place = self.places.rows[row]
        shape = footprint(workload.demand, place.profile, place.group.mode)
        assert shape is not None
        hours = 1.0
        if workload.work is not None:
            hours = runtime_ns(workload, place.profile, workload.gang.workers, done) / HOUR_NS
        elif workload.service is not None:
            hours = 1.0 / speed(workload, place.profile)  # fewer replicas on a faster device
        cost = self.device_hour(row) * shape.device_share * instances * hours
        if workload.weights is not None or workload.data:
            cost += self._transfers(workload, place.site.cluster)
        return cost

    def _transfers(self, workload: Workload, target: ClusterId) -> float:
        wanted = workload.data if workload.weights is None else (workload.weights, *workload.data)
        cost = 0.0
        for name in wanted:
            size, places = self.artefacts.get(name, (0, frozenset()))
            if places and target not in places:
                egress = min(self.places.fleet.egress(place, target) for place in places)
                cost += size / BYTES_PER_GB * egress
        return cost


class Rule(Protocol):
    """Orders sites for a workload, the best first."""

    def rank(self, workload: Workload, rows: list[int], known: Known, done: float) -> list[int]:
        """The sites in the order they are tried."""


class CheapestFirst:
    """Where this job costs least: devices for as long as it takes there, and transfers."""

    def rank(self, workload: Workload, rows: list[int], known: Known, done: float) -> list[int]:
        """By the cost of this job, then by name."""
        workers = workload.gang.workers
        return sorted(rows, key=lambda row: (known.job_cost(workload, row, workers, done), row))


class LeastLoaded:
    """Where the largest share is free: work spreads evenly."""

    def rank(self, workload: Workload, rows: list[int], known: Known, done: float) -> list[int]:
        """By the free share of devices."""
        places = known.places.rows
        return sorted(rows, key=lambda row: (-places[row].free_share, row))


class FirstFit:
    """The first in a fixed order."""

    def rank(self, workload: Workload, rows: list[int], known: Known, done: float) -> list[int]:
        """As the sites joined."""
        return rows


@dataclass(slots=True)
class ByLot:
    """Any, by lot: what a race comes to where nobody starts first."""

    seed: int
    _rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def rank(self, workload: Workload, rows: list[int], known: Known, done: float) -> list[int]:
        """Shuffled."""
        return [rows[int(turn)] for turn in self._rng.permutation(len(rows))]
