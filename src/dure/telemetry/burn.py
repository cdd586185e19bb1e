"""Burn rate over several windows: is a promise using up its allowance of failures too fast?

A rate of 1 uses up exactly what is allowed. A short window alone is noisy and a long one alone
is late, so an alarm needs both: a short one that says it goes on, and a long one that says it
matters. What counts is whether so many failures could be chance if the promise were kept, so a
quiet tenant's single failure is no alarm, and no threshold has to be set by hand.
"""

import math
from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BurnPair:
    """Two windows that are judged together, in bins."""

    short_bins: int
    long_bins: int
    least_rate: float
    """Burn rate the long window must have reached."""


@dataclass(frozen=True, slots=True)
class Burning:
    """An allowance that is used up too fast."""

    rate: float
    """Of the short window: how many times what is allowed."""
    late_share: float
    """Of the short window."""
    long_rate: float
    chance: float
    """That so many failures came by luck though the promise is kept."""
    short_bins: int
    long_bins: int


@dataclass(slots=True)
class BurnRate:
    """Counts failures of one promise, bin by bin."""

    allowed_share: float
    pairs: tuple[BurnPair, ...]
    chance: float = 1e-4
    """Largest chance of luck at which it is an alarm."""
    _bins: deque[tuple[float, float]] = field(init=False)

    def __post_init__(self) -> None:
        self._bins = deque(maxlen=max(pair.long_bins for pair in self.pairs))

    def add(self, requests: float, late: float) -> Burning | None:
        """Close one bin; what burns most, if anything burns."""
        self._bins.append((requests, late))
        found = [burning for pair in self.pairs if (burning := self._judge(pair)) is not None]
        return max(found, key=lambda burning: burning.rate, default=None)

    def _judge(self, pair: BurnPair) -> Burning | None:
        short, short_late = self._sum(pair.short_bins)
        long, long_late = self._sum(pair.long_bins)
        if short_late <= 0.0 or long_late <= 0.0:
            return None
        allowed = max(self.allowed_share, 1e-6)
        rate, long_rate = short_late / short / allowed, long_late / long / allowed
        if rate < 1.0 or long_rate < pair.least_rate:
            return None
        chance = poisson_tail(short_late, short * allowed)
        if chance > self.chance:
            return None
        return Burning(rate, short_late / short, long_rate, chance, pair.short_bins, pair.long_bins)

    def _sum(self, bins: int) -> tuple[float, float]:
        requests = late = 0.0
        for index in range(1, min(bins, len(self._bins)) + 1):
            each = self._bins[-index]
            requests += each[0]
            late += each[1]
        return requests, late


def poisson_tail(count: float, mean: float) -> float:
    """How likely it is to count so many or more where `mean` are expected."""
    if count <= 0:
        return 1.0
    if mean <= 0.0:
        return 0.0
    first = math.ceil(count)
    term = math.exp(first * math.log(mean) - mean - math.lgamma(first + 1))
    total, step = term, first
    while term > total * 1e-9 and step < first + 1000:
        step += 1
        term *= mean / step
        total += term
    return min(1.0, total)
