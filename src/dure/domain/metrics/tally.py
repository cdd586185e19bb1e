"""Counts what was observed in buckets, for metrics whose spread matters."""

from bisect import bisect_left
from dataclasses import dataclass, field

from dure.domain.metrics.kinds import Metric, Spread

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21600)
"""Upper bounds from a round of the planner to a wait of hours."""


@dataclass(slots=True)
class Tally:
    """One histogram of seconds."""

    bounds: tuple[float, ...] = SECONDS
    sum: float = 0.0
    _counts: list[int] = field(default_factory=list)

    def observe(self, seconds: float) -> None:
        """Count one; a negative length is one of nought, since clocks differ."""
        if not self._counts:
            self._counts = [0] * (len(self.bounds) + 1)
        length_s = max(0.0, seconds)
        self._counts[bisect_left(self.bounds, length_s)] += 1
        self.sum += length_s

    def spread(self, metric: Metric, labels: tuple[str, ...] = ()) -> Spread:
        """All that was counted."""
        below, buckets = 0, []
        counts = self._counts or [0] * (len(self.bounds) + 1)
        for bound, count in zip(self.bounds, counts, strict=False):
            below += count
            buckets.append((bound, below))
        return Spread(metric, labels, tuple(buckets), sum(counts), self.sum)
