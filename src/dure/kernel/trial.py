"""Predictions on trial: is the searched company really better than leaving everybody free?

A search is as good as its model. So now and then everybody is let run beside everybody for a
moment, what that was worth is measured on the same scale, and the better of the two stays in
force. The worse is tried again after a while, the later the more clearly it lost.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dure.domain.latency import bucket_middle_ns
from dure.domain.readings import TenantReading
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.kernel.policies.base import Measure, Worth

_WINDOW_NS = 400 * NS_PER_MS
_SETTLE_NS = 100 * NS_PER_MS
"""What is left over from the other way is not counted."""
_FIRST_WINDOWS = 2
"""Windows each way gets before one is preferred."""
_RETRY_NS = (2 * NS_PER_S, 16 * NS_PER_S)
"""When the worse way is tried again, at the soonest and at the latest."""
_KEEP = 0.6
"""How much of a way's earlier score stays when a window is added."""
_CLEAR_LOSS = 0.05
"""A loss of this part of the better score doubles the time to the next try."""


def measured_worth(worth: Worth, reading: TenantReading, elapsed_ns: int) -> tuple[float, float]:
    """What a tenant got between two readings, and what it counts for; zeros if nothing."""
    if worth.measure is Measure.PROGRESS:
        if reading.busy_ns <= 0:
            return 0.0, 0.0
        part = reading.busy_ns / elapsed_ns
        return worth.value * part * min(1.0, reading.gpu_ns / reading.busy_ns), worth.value * part
    requests = sum(count for _, count in reading.latencies)
    if requests == 0:
        return 0.0, 0.0
    if worth.measure is Measure.PROMISE:
        return worth.value * (1.0 - reading.late / requests), worth.value
    waiting_ns = sum(bucket_middle_ns(bucket) * count for bucket, count in reading.latencies)
    return -worth.value * waiting_ns / elapsed_ns, worth.value


@dataclass(slots=True)
class _Way:
    """One of the two ways and how it did."""

    score: float = 0.0
    windows: int = 0
    last_ns: int = 0
    patience_ns: int = _RETRY_NS[0]


@dataclass(slots=True)
class Trial:
    """Chooses between the searched company and none at all."""

    free: bool = True
    """The way in force."""
    _ways: tuple[_Way, _Way] = field(default_factory=lambda: (_Way(), _Way()))
    _since_ns: int | None = None
    _got: float = 0.0
    _counted: float = 0.0

    def learn(self, now_ns: int, elapsed_ns: int, parts: Iterable[tuple[float, float]]) -> None:
        """Take in what one tick was worth; at the end of a window choose the way to go on."""
        if self._since_ns is None:
            self._since_ns = now_ns
        if now_ns - self._since_ns > _SETTLE_NS:
            for got, counted in parts:
                self._got += got * elapsed_ns
                self._counted += counted * elapsed_ns
        if now_ns - self._since_ns >= _WINDOW_NS and self._counted > 0.0:
            self._close_window(now_ns)

    def _close_window(self, now_ns: int) -> None:
        way = self._ways[self.free]
        score = self._got / self._counted
        keep = _KEEP if way.windows else 0.0
        way.score = keep * way.score + (1.0 - keep) * score
        way.windows += 1
        way.last_ns = now_ns
        self.free = self._choose(now_ns)
        self._since_ns = now_ns
        self._got = self._counted = 0.0

    def _choose(self, now_ns: int) -> bool:
        searched, free = self._ways
        if min(searched.windows, free.windows) < _FIRST_WINDOWS:
            return free.windows <= searched.windows
        better_free = free.score > searched.score
        better, worse = (free, searched) if better_free else (searched, free)
        if now_ns - worse.last_ns < worse.patience_ns:
            return better_free
        loss = (better.score - worse.score) / max(abs(better.score), 1e-9)
        grown = worse.patience_ns * (2 if loss > _CLEAR_LOSS else 1)
        worse.patience_ns = min(max(grown, _RETRY_NS[0]), _RETRY_NS[1])
        better.patience_ns = _RETRY_NS[0]
        return not better_free
