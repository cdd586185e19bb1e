"""The right size of a workload from what it really uses: a high percentile and some headroom.

Use is kept as a histogram of shares of what was asked for, which does not grow with time; runs of
the same service add up, so that its next run starts with what earlier ones taught.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.events import UsageObserved
from dure.domain.fleet.instructions import Warn, WarnKind
from dure.domain.fleet.profiles import DeviceProfile, fits
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import Demand, Workload
from dure.domain.ids import TenantId
from dure.domain.units import format_bytes_like

_BINS = 80
_BIN_SHARE = 0.025
"""Width of a bin, as a share of what was asked: 80 of them reach to twice the request."""


@dataclass(frozen=True, slots=True)
class SizingRules:
    """When and how a size is recommended."""

    percentile: float = 0.98
    """Of observed use that must fit."""
    headroom: float = 0.15
    """Added on top, as a share."""
    enough_samples: int = 60
    """Observations at which confidence is 1 - 1/e = 63 %; an hour of them at one a minute."""
    least_confidence: float = 0.8
    """Below it nothing is recommended."""
    least_change: float = 0.2
    """Smallest change of a demand that is worth telling, as a share of it."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A better size for a workload."""

    workload: Workload
    demand: Demand
    """What it should ask for."""
    confidence: float
    """Between 0 and 1; grows with observations, less the more they have to say."""
    samples: int
    memory_share: float
    """Percentile of memory used, of what was asked."""
    compute_share: float

    @property
    def larger(self) -> bool:
        """Whether it should ask for more of anything: the urgent kind."""
        asked = self.workload.demand
        more_memory = self.demand.memory_bytes > asked.memory_bytes
        return more_memory or self.demand.compute_tops > asked.compute_tops

    def template(self, profile: DeviceProfile, mode: ShareMode) -> str | None:
        """The slice that would do on a device of that mode; None: none of them."""
        found = fits(profile, self.demand, (mode,))
        return found[0].name if found else None

    def warning(self) -> Warn:
        """The recommendation in words."""
        asked, right = self.workload.demand, self.demand
        what, remedy = [], []
        # What is right as it is needs no advice.
        if right.memory_bytes != asked.memory_bytes:
            written = asked.memory_bytes
            shown = format_bytes_like(written, written)
            what.append(f"{self.memory_share:.0%} of its {shown} of memory")
            remedy.append(f"{format_bytes_like(right.memory_bytes, written)} of memory")
        if right.compute_tops != asked.compute_tops:
            what.append(f"{self.compute_share:.0%} of its {asked.compute_tops:g} TOPS")
            remedy.append(f"{right.compute_tops:g} TOPS")
        return Warn(
            about=self.workload.id,
            what=f"uses {' and '.join(what)} ({self.samples} observations)",
            remedy=f"ask for {' and '.join(remedy)}",
            kind=WarnKind.RIGHT_SIZE,
        )


@dataclass(slots=True)
class _Seen:
    memory: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(_BINS, dtype=np.uint32))
    compute: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(_BINS, dtype=np.uint32))
    samples: int = 0
    asked: tuple[int, float] = (0, 0.0)
    """Memory and compute of the request the shares are of."""
    told: bool = False
    """Whether a better size was recommended for that request."""


@dataclass(slots=True)
class UseBook:
    """What workloads were seen to use."""

    rules: SizingRules = field(default_factory=SizingRules)
    _seen: dict[tuple[TenantId, str], _Seen] = field(default_factory=dict)

    def observe(self, workload: Workload, event: UsageObserved) -> None:
        """Take in what an instance uses."""
        asked = workload.demand
        seen = self._seen.setdefault(_key(workload), _Seen())
        request = (asked.memory_bytes, asked.compute_tops)
        if seen.asked != request:
            # Shares of another request say nothing about this one: start again.
            self._seen[_key(workload)] = seen = _Seen(asked=request)
        seen.samples += event.samples
        seen.memory[_bin(event.memory_bytes / max(asked.memory_bytes, 1))] += event.samples
        seen.compute[_bin(event.compute_share)] += event.samples

    def forget(self, workload: Workload) -> None:
        """A workload ended; what a named service taught is kept for its next run."""
        if not workload.service_name:
            self._seen.pop(_key(workload), None)

    def confidence(self, workload: Workload) -> float:
        """How sure the book is of a workload's use, between 0 and 1."""
        seen = self._seen.get(_key(workload))
        return 1.0 - math.exp(-seen.samples / self.rules.enough_samples) if seen else 0.0

    def recommend(self, workload: Workload) -> Recommendation | None:
        """A better size, if there is one worth telling and enough was seen to be sure."""
        seen = self._seen.get(_key(workload))
        confidence = self.confidence(workload)
        if seen is None or confidence < self.rules.least_confidence:
            return None
        memory_share = _percentile(seen.memory, self.rules.percentile)
        compute_share = _percentile(seen.compute, self.rules.percentile)
        asked = workload.demand
        demand = replace(
            asked,
            memory_bytes=round(self._sized(asked.memory_bytes, memory_share)),
            compute_tops=self._sized(asked.compute_tops, compute_share),
        )
        if demand == asked:
            return None
        return Recommendation(
            workload, demand, confidence, seen.samples, memory_share, compute_share
        )

    def advise(self, workload: Workload) -> Recommendation | None:
        """The same, but only once for all runs of a service with the same request."""
        seen = self._seen.get(_key(workload))
        if seen is None or seen.told:
            return None
        better = self.recommend(workload)
        seen.told = better is not None
        return better

    def _sized(self, asked: float, share: float) -> float:
        """The right amount of one dimension; what was asked where the change is not worth it."""
        right = asked * share * (1.0 + self.rules.headroom)
        if share > 1.0 or abs(right - asked) >= self.rules.least_change * asked:
            return float(f"{right:.3g}")
        return asked


def _key(workload: Workload) -> tuple[TenantId, str]:
    return (workload.tenant, workload.service_name or workload.id)


def _bin(share: float) -> int:
    """The bin of a share; its upper edge counts, so that rounding never recommends too little."""
    return min(_BINS - 1, max(0, math.ceil(share / _BIN_SHARE - 1e-9) - 1))


def _percentile(counts: NDArray[np.uint32], percentile: float) -> float:
    """The share below which that part of the observations lies: the upper edge of its bin."""
    sums = np.cumsum(counts)
    index = int(np.searchsorted(sums, percentile * float(sums[-1]) - 1e-9))
    return (index + 1) * _BIN_SHARE
