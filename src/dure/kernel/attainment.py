"""How well a tenant's promises are kept: windowed attainment and early signs of risk."""

import math
from dataclasses import dataclass, field

from dure.domain.latency import bucket_middle_ns, quantile_ns
from dure.domain.plan import PAUSE_NS
from dure.domain.queueing import delayed_ns
from dure.domain.readings import TenantReading
from dure.domain.tenant import Slo
from dure.domain.units import NS_PER_S

_SHORT_NS = 1 * NS_PER_S
_LONG_NS = 10 * NS_PER_S
"""Half-lives of the two windows: one sees trouble come, one says what was attained."""
_NEAR_TARGET = 0.85
"""A percentile this close to its target is a risk."""
_FEW_REQUESTS = 20.0
"""Below this many requests in a window its percentile says little."""
_GAP_STEP = 0.2
_AVAILABILITY_WINDOW_NS = 1 * NS_PER_S


@dataclass(slots=True)
class _Fading:
    """Counts that fade with a half-life."""

    half_life_ns: int
    requests: float = 0.0
    late: float = 0.0
    time_ns: float = 0.0
    busy_ns: float = 0.0
    buckets: dict[int, float] = field(default_factory=dict)
    alone_ns: float = 0.0
    losses: dict[int, float] = field(default_factory=dict)

    def add(self, elapsed_ns: int, reading: TenantReading) -> None:
        keep = 0.5 ** (elapsed_ns / self.half_life_ns)
        self.requests = self.requests * keep + sum(count for _, count in reading.latencies)
        self.late = self.late * keep + reading.late
        self.time_ns = self.time_ns * keep + elapsed_ns
        self.busy_ns = self.busy_ns * keep + reading.busy_ns
        self.alone_ns = self.alone_ns * keep + (reading.burst_alone_ns or reading.busy_ns)
        if not reading.latencies and keep > 0.99:
            return
        _fade(self.buckets, keep, reading.latencies)
        _fade(self.losses, keep, reading.losses)

    def upper_ns(self, share: float, gap_ns: float, *, reported: bool) -> float:
        """The latency a share of requests stays below, waiting in the tenant's own queue added.

        A shim sees a request from its first launch on. What it waits before that alone is
        estimated as for random arrivals at one server, `gap_ns` apart at the soonest. Company
        makes no request later by more than what work without a pause lost by it so far.
        Latency that is reported needs none of that.
        """
        burst = quantile_ns(self.buckets.items(), share)
        if reported or self.time_ns <= 0.0 or self.requests < 1.0:
            return burst
        alone = self.alone_ns / self.requests
        service = alone + gap_ns
        lost = [(bucket_middle_ns(at), count) for at, count in sorted(self.losses.items())]
        return max(
            burst, alone + delayed_ns(service, service * self.requests / self.time_ns, lost, share)
        )


def _fade(counts: dict[int, float], keep: float, more: tuple[tuple[int, int], ...]) -> None:
    """Counts by bucket fade, and new ones are added."""
    for bucket in list(counts):
        counts[bucket] *= keep
        if counts[bucket] < 1e-3:
            del counts[bucket]
    for bucket, count in more:
        counts[bucket] = counts.get(bucket, 0.0) + count


@dataclass(slots=True)
class Attainment:
    """The state of one tenant's promises."""

    slo: Slo
    gap_ns: float = 0.0
    """Between the end of a burst and the start of one that waited for it; 0 while none was
    seen."""
    _short: _Fading = field(default_factory=lambda: _Fading(_SHORT_NS))
    _long: _Fading = field(default_factory=lambda: _Fading(_LONG_NS))
    _reported: bool = False
    _headroom: float = math.inf
    _rate_bursts: float = 0.0
    _rate_ns: float = 0.0
    _demanding: bool = False
    _window_since_ns: int | None = None
    _window_gpu_ns: float = 0.0
    _window_busy_ns: float = 0.0
    _window_hold_ns: int = 0
    _windows: float = 0.0
    _windows_good: float = 0.0

    def learn(self, now_ns: int, elapsed_ns: int, reading: TenantReading) -> None:
        """Take in one reading."""
        self._reported = reading.reported
        if 0 < reading.gap_ns < PAUSE_NS:
            self.gap_ns += (_GAP_STEP if self.gap_ns else 1.0) * (reading.gap_ns - self.gap_ns)
        if self.slo.latency is not None:
            self._short.add(elapsed_ns, reading)
            self._long.add(elapsed_ns, reading)
        if self.slo.throughput is not None and elapsed_ns > 0:
            keep = 0.5 ** (elapsed_ns / self.slo.throughput.window_ns)
            self._rate_bursts = self._rate_bursts * keep + reading.bursts
            self._rate_ns = self._rate_ns * keep + elapsed_ns
            self._demanding = reading.busy_ns > 0.9 * elapsed_ns
        if self.slo.availability is not None:
            self._learn_availability(now_ns, reading)
        self._headroom = self._measure_headroom()

    def _learn_availability(self, now_ns: int, reading: TenantReading) -> None:
        promise = self.slo.availability
        assert promise is not None
        self._window_gpu_ns += reading.gpu_ns
        self._window_busy_ns += reading.busy_ns
        self._window_hold_ns = max(self._window_hold_ns, reading.longest_hold_ns)
        if self._window_since_ns is None:
            self._window_since_ns = now_ns
        length = now_ns - self._window_since_ns
        if length < _AVAILABILITY_WINDOW_NS:
            return
        if self._window_busy_ns > 0:
            good = promise.kept_in(
                length, self._window_gpu_ns, self._window_busy_ns, self._window_hold_ns
            )
            keep = 0.5 ** (length / (6 * _LONG_NS))
            self._windows = self._windows * keep + 1.0
            self._windows_good = self._windows_good * keep + good
        self._window_since_ns = now_ns
        self._window_gpu_ns = self._window_busy_ns = 0.0
        self._window_hold_ns = 0

    def latency_ns(self) -> float:
        """The promised percentile as measured over the long window; 0 if unknown."""
        if self.slo.latency is None or self._long.requests < 1.0:
            return 0.0
        share = self.slo.latency.percentile / 100.0
        return self._long.upper_ns(share, self.gap_ns, reported=self._reported)

    def on_time_share(self) -> float:
        """Share of requests within the latency target, long window; 1 if none were seen."""
        if self._long.requests < 1.0:
            return 1.0
        return 1.0 - self._long.late / self._long.requests

    def late_pressure(self) -> float:
        """Late share of the short window over the allowed share: above 1 the promise is failing."""
        if self.slo.latency is None or self._short.requests < 1.0:
            return 0.0
        allowed = max(self.slo.latency.allowed_late_share, 1e-4)
        return (self._short.late / max(self._short.requests, _FEW_REQUESTS)) / allowed

    def headroom(self) -> float:
        """Target over the upper percentile of the short window; 1 means none is left."""
        return self._headroom

    def safety(self) -> float:
        """How many times over the latency target is kept with a margin; 1: nothing is known."""
        return self._headroom * _NEAR_TARGET if math.isfinite(self._headroom) else 1.0

    def seldom_asked(self) -> bool:
        """Whether too few requests come for the short window to say how far the target is."""
        return math.isinf(self._headroom)

    def kept_of_late(self) -> bool:
        """Whether the long window keeps the latency target with a margin."""
        promise = self.slo.latency
        return promise is not None and self.latency_ns() < _NEAR_TARGET * promise.target_ns

    def _measure_headroom(self) -> float:
        if self.slo.latency is None or self._short.requests < _FEW_REQUESTS:
            return math.inf
        share = self.slo.latency.percentile / 100.0
        upper = self._short.upper_ns(share, self.gap_ns, reported=self._reported)
        return self.slo.latency.target_ns / max(upper, 1.0)

    def throughput_share(self) -> float:
        """Rate over the promised rate while it had work all the time; 1 if it had not."""
        promise = self.slo.throughput
        if promise is None or not self._demanding or self._rate_ns < promise.window_ns / 4:
            return 1.0
        rate = self._rate_bursts * NS_PER_S / self._rate_ns
        return min(1.0, rate / promise.items_per_s)

    def availability(self) -> float:
        """Share of windows in which it was available; 1 before the first ended."""
        return self._windows_good / self._windows if self._windows >= 1.0 else 1.0

    def shortfall(self) -> float:
        """Eq. 3's SLO_target − SLO_actual, averaged over the promises made."""
        misses = []
        if self.slo.latency is not None:
            misses.append(self.slo.latency.percentile / 100.0 - self.on_time_share())
        if self.slo.throughput is not None:
            misses.append(1.0 - self.throughput_share())
        if self.slo.availability is not None:
            misses.append(self.slo.availability.share - self.availability())
        return sum(misses) / len(misses) if misses else 0.0

    def latency_at_risk(self) -> bool:
        """The latency promise is failing, or about to."""
        return self.late_pressure() > 1.0 or self.headroom() < 1.0 / _NEAR_TARGET

    def throughput_at_risk(self) -> bool:
        """It has work all the time and gets less than promised."""
        return self.throughput_share() < 1.0

    def availability_at_risk(self) -> bool:
        """Too many windows were bad, or the present one is about to be."""
        promise = self.slo.availability
        if promise is None:
            return False
        held_long = self._window_hold_ns > 0.5 * promise.max_hold_ns
        return self.availability() < promise.share or held_long

    def failing(self) -> bool:
        """Whether a promise is broken now, or one that knows no distance is in danger."""
        late = self.late_pressure() > 1.0
        return late or self.throughput_at_risk() or self.availability_at_risk()

    def at_risk(self) -> bool:
        """Whether any promise is in danger."""
        return self.failing() or self.latency_at_risk()
