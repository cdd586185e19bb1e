"""The one objective every policy is judged by: a pure function of what was measured.

    score = Σ_m w_m · g_m / Σ_m w_m      over the tenants that wanted something, from 0 to 1

`w_m` is the weight its owner set (not the one Eq. 3 moves). For a tenant with a latency promise
g_m is the share of its requests on time, times a quality after Eq. 2's Q: 1 while the promise is
kept, a tenth less for each further allowance of late requests (with a 99th percentile: 0.9 at 2 %
late, 0.5 at 6 %, 0 at 11 %). For one with a throughput promise it is the part of the promised rate
it got while it had work all the time. For everybody else it is progress: the time its work would
have taken alone over the time it took. Where availability is promised, all of that is multiplied by
the part of it that was kept: of the seconds in which it wanted something, the share in which it was
available over the promised share, 1 at most.

Where a tenant does not report its latencies, what its requests wait before they begin is not seen.
Then late ones are estimated: those that wait in a queue as they would alone, plus what was lost by
company in the work without a pause they came in.
"""

import math
import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dure.domain.ids import TenantId
from dure.domain.latency import bucket_middle_ns
from dure.domain.queueing import late_share
from dure.domain.readings import TenantReading
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_S

WINDOW_NS = 10 * NS_PER_S
"""The window it is taken over: the one by which a promise counts as broken."""

_LOST_PER_ALLOWANCE = 0.1
_ALWAYS_BUSY = 0.9
"""A tenant that had work for this part of a window asked for its whole rate."""
_LEAST_ALLOWED = 1e-4
_LEAST_PACE = 0.3
_BUCKET_NS = 1 * NS_PER_S
_KEPT_BUCKETS = 32
_FEW_SECONDS = 3


@dataclass(frozen=True, slots=True)
class Deeds:
    """What one tenant wanted and got in a window."""

    tenant: Tenant
    window_ns: float
    requests: float = 0.0
    """That were answered, or are late already."""
    late: float = 0.0
    bursts: float = 0.0
    work_ns: float = 0.0
    """Time its finished work would have taken alone."""
    busy_ns: float = 0.0
    """Time in which it had work."""
    windows: float = 0.0
    """Seconds in which it wanted something; counted where availability is promised."""
    available: float = 0.0
    """Of those, in how many it was available."""

    @property
    def goodness(self) -> float | None:
        """Its g_m; None where it wanted nothing."""
        found, promise = self._served, self.tenant.slo.availability
        if found is None or promise is None or self.windows <= 0.0 or promise.share <= 0.0:
            return found
        return found * min(1.0, self.available / self.windows / promise.share)

    @property
    def _served(self) -> float | None:
        """The part of it that has nothing to do with availability."""
        slo = self.tenant.slo
        if slo.latency is not None:
            if self.requests <= 0.0:
                return None
            share = min(1.0, self.late / self.requests)
            allowed = max(slo.latency.allowed_late_share, _LEAST_ALLOWED)
            beyond = max(0.0, share / allowed - 1.0)
            return (1.0 - share) * max(0.0, 1.0 - _LOST_PER_ALLOWANCE * beyond)
        if self.busy_ns <= 0.0:
            return None
        if slo.throughput is not None and self.busy_ns >= _ALWAYS_BUSY * self.window_ns:
            rate = self.bursts * NS_PER_S / max(self.window_ns, 1.0)
            return min(1.0, rate / slo.throughput.items_per_s)
        return min(1.0, self.work_ns / self.busy_ns)

    @property
    def presence(self) -> float:
        """The part of the window for which it counts: jobs by the time they had work."""
        if self.tenant.slo.latency is not None:
            return 1.0
        return min(1.0, self.busy_ns / max(self.window_ns, 1.0))


def score(deeds: Iterable[Deeds]) -> float | None:
    """The objective; None where nobody wanted anything."""
    got = counted = 0.0
    for each in deeds:
        goodness = each.goodness
        if goodness is not None:
            weight = each.tenant.weight * each.presence
            got += weight * goodness
            counted += weight
    return got / counted if counted > 0.0 else None


@dataclass(slots=True)
class Sums:
    """What a tenant's readings add up to."""

    requests: float = 0.0
    late: float = 0.0
    bursts: float = 0.0
    launches: float = 0.0
    work_ns: float = 0.0
    busy_ns: float = 0.0
    reported: bool = False
    burst_gpu_ns: float = 0.0
    """Predicted device time of its bursts that ended."""
    alone_ns: float = 0.0
    """What those would have taken without company."""
    longest_hold_ns: float = 0.0
    losses: dict[int, float] = field(default_factory=dict)
    """By bucket, bursts that came after so much was lost by company without a pause."""

    def take(self, reading: TenantReading) -> None:
        """Add one reading."""
        self.requests += sum(count for _, count in reading.latencies)
        self.late += reading.late
        self.bursts += reading.bursts
        self.launches += reading.launches
        self.work_ns += reading.gpu_ns
        self.busy_ns += reading.busy_ns
        self.reported = reading.reported
        self.burst_gpu_ns += reading.burst_gpu_ns
        self.alone_ns += reading.burst_alone_ns
        self.longest_hold_ns = max(self.longest_hold_ns, reading.longest_hold_ns)
        for bucket, count in reading.losses:
            self.losses[bucket] = self.losses.get(bucket, 0.0) + count

    def add(self, other: "Sums") -> None:
        """Add what another has."""
        self.requests += other.requests
        self.late += other.late
        self.bursts += other.bursts
        self.launches += other.launches
        self.work_ns += other.work_ns
        self.busy_ns += other.busy_ns
        self.reported = self.reported or other.reported
        self.burst_gpu_ns += other.burst_gpu_ns
        self.alone_ns += other.alone_ns
        self.longest_hold_ns = max(self.longest_hold_ns, other.longest_hold_ns)
        for bucket, lost in other.losses.items():
            self.losses[bucket] = self.losses.get(bucket, 0.0) + lost

    @property
    def pace(self) -> float:
        """What its work takes alone over what is predicted: kernels that are always timed in
        company are taken to be longer than they are."""
        if self.alone_ns <= 0.0 or self.burst_gpu_ns <= 0.0:
            return 1.0
        return min(1.0, max(_LEAST_PACE, self.alone_ns / self.burst_gpu_ns))

    @property
    def useful_ns(self) -> float:
        """Time its finished work would have taken alone."""
        return self.work_ns * self.pace

    def late_of(self, target_ns: int, window_ns: float) -> float:
        """Requests later than a target, as reported or else as estimated."""
        if self.reported or self.requests <= 0.0 or not self.losses:
            return self.late
        alone_ns = self.alone_ns or self.busy_ns
        service_ns = alone_ns / self.requests
        busy_share = alone_ns / max(window_ns, 1.0)
        counted = sum(self.losses.values())
        late = sum(
            count * late_share(service_ns, busy_share, target_ns - bucket_middle_ns(bucket))
            for bucket, count in self.losses.items()
        )
        return max(self.late, self.requests * late / counted)


@dataclass(slots=True)
class _Bucket:
    since_ns: int
    until_ns: int
    sums: dict[TenantId, Sums] = field(default_factory=dict)

    @property
    def length_ns(self) -> int:
        return self.until_ns - self.since_ns


@dataclass(slots=True)
class ScoreMeter:
    """Adds up readings by the second and scores the last few of them."""

    _buckets: deque[_Bucket] = field(default_factory=lambda: deque(maxlen=_KEPT_BUCKETS))

    def add(self, now_ns: int, readings: Iterable[TenantReading]) -> None:
        """Take in one tick's readings: what was done since the tick before."""
        if not self._buckets:
            self._buckets.append(_Bucket(now_ns, now_ns))
            return
        bucket = self._buckets[-1]
        if bucket.until_ns - bucket.since_ns >= _BUCKET_NS:
            bucket = _Bucket(bucket.until_ns, now_ns)
            self._buckets.append(bucket)
        bucket.until_ns = now_ns
        for reading in readings:
            bucket.sums.setdefault(reading.tenant, Sums()).take(reading)

    def restart(self, keep_ns: int = 0) -> None:
        """Forget what was before; what was done in the last `keep_ns` stays."""
        kept = 0
        for number, bucket in enumerate(reversed(self._buckets)):
            kept += bucket.until_ns - bucket.since_ns
            if kept >= keep_ns:
                while len(self._buckets) > number + 1:
                    self._buckets.popleft()
                break
        if keep_ns <= 0 and self._buckets:
            until_ns = self._buckets[-1].until_ns
            self._buckets.clear()
            self._buckets.append(_Bucket(until_ns, until_ns))

    def over(self, span_ns: int) -> tuple[float, dict[TenantId, Sums]]:
        """How long the last buckets that make up a span were, and what was done in them."""
        return _added(self._last(span_ns))

    def deeds(self, span_ns: int, tenants: Mapping[TenantId, Tenant]) -> tuple[Deeds, ...]:
        """What each of these tenants wanted and got lately."""
        return _deeds(self._last(span_ns), tenants)

    def _last(self, span_ns: int) -> list[_Bucket]:
        """The last buckets that make up a span, the latest first."""
        length_ns, found = 0, list[_Bucket]()
        for bucket in reversed(self._buckets):
            if length_ns >= span_ns:
                break
            length_ns += bucket.length_ns
            found.append(bucket)
        return found

    def error(self, span_ns: int, tenants: Mapping[TenantId, Tenant]) -> float:
        """Standard error of the score over a span, by how it differs from second to second."""
        seconds = -(-span_ns // _BUCKET_NS)
        found = [score(_deeds([bucket], tenants)) for bucket in list(self._buckets)[-seconds:]]
        known = [each for each in found if each is not None]
        if len(known) < _FEW_SECONDS:
            return 1.0
        return statistics.stdev(known) / math.sqrt(len(known))


def _added(buckets: Iterable[_Bucket]) -> tuple[float, dict[TenantId, Sums]]:
    length_ns, found = 0.0, dict[TenantId, Sums]()
    for bucket in buckets:
        length_ns += bucket.length_ns
        for tenant, sums in bucket.sums.items():
            found.setdefault(tenant, Sums()).add(sums)
    return length_ns, found


def _deeds(buckets: Sequence[_Bucket], tenants: Mapping[TenantId, Tenant]) -> tuple[Deeds, ...]:
    length_ns, sums = _added(buckets)
    found = []
    for id_, each in sums.items():
        tenant = tenants.get(id_)
        if tenant is None:
            continue
        promise = tenant.slo.latency
        windows, available = _windows(buckets, tenant)
        found.append(
            Deeds(
                tenant,
                length_ns,
                requests=each.requests,
                late=each.late_of(promise.target_ns, length_ns) if promise is not None else 0.0,
                bursts=each.bursts,
                work_ns=each.useful_ns,
                busy_ns=each.busy_ns,
                windows=windows,
                available=available,
            )
        )
    return tuple(found)


def _windows(buckets: Iterable[_Bucket], tenant: Tenant) -> tuple[int, int]:
    """Whole seconds in which a tenant wanted something, and those in which it was available."""
    promise = tenant.slo.availability
    if promise is None:
        return 0, 0
    whole = (bucket for bucket in buckets if bucket.length_ns >= _BUCKET_NS)
    seen = ((bucket.length_ns, bucket.sums.get(tenant.id)) for bucket in whole)
    return promise.count(
        (length_ns, sums.work_ns, sums.busy_ns, sums.longest_hold_ns)
        for length_ns, sums in seen
        if sums is not None
    )
