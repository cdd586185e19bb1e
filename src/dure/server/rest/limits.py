"""Rate limits: each asker has a bucket that fills steadily and is emptied by requests."""

from collections import OrderedDict
from dataclasses import dataclass

_MOST_BUCKETS = 10_000
"""Askers that are remembered; beyond, those that asked longest ago start afresh."""


@dataclass(slots=True)
class _Bucket:
    left: float
    at_s: float


class RateLimit:
    """Token buckets by asker."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, asker: str, now_s: float) -> float:
        """0 where the asker may go on, and counts it; else how long to wait."""
        bucket = self._buckets.get(asker)
        if bucket is None:
            bucket = self._buckets[asker] = _Bucket(self._burst, now_s)
            if len(self._buckets) > _MOST_BUCKETS:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(asker)
        grown = (now_s - bucket.at_s) * self._per_s
        bucket.left, bucket.at_s = min(self._burst, bucket.left + max(0.0, grown)), now_s
        if bucket.left >= 1.0:
            bucket.left -= 1.0
            return 0.0
        return (1.0 - bucket.left) / self._per_s
