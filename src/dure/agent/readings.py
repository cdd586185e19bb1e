"""From clients' counters to a tenant's reading: differences, sums over its processes, sanity.

A client may write anything to its own words. A difference that cannot be is taken for nothing, so
that a scribbler is without influence on others and on the machine's figures.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dure.agent.books import REASONS, Book, Deeds
from dure.agent.ports import DataPlane
from dure.devices.layout import Sample
from dure.devices.plane import CounterReading
from dure.domain.ids import TenantId
from dure.domain.kernel import KernelClass, KernelSignature
from dure.domain.latency import BUCKET_COUNT, bucket_of
from dure.domain.readings import KernelSample, TenantReading
from dure.domain.units import NS_PER_S

_MOST = 1000 * NS_PER_S
"""No counter moves further than this between two looks; a larger step is scribble."""
_MOST_BYTES = 1 << 48
_PROGRESS_UNIT = 1e6
"""Progress is counted in millionths of the program's unit."""

_SUMMED = (
    "launches",
    "gpu_ns",
    "gated_ns",
    "bursts",
    "late",
    "burst_gpu_ns",
    "burst_alone_ns",
    "memory_refused",
    "copied_bytes",
    "moved_launches",
    "reported",
    "reported_late",
)


@dataclass(slots=True)
class _Last:
    """A client's words at the look before."""

    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SUMMED, 0))
    busy_ns: int = 0
    gated_by: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(len(REASONS), dtype=np.int64)
    )
    held_for: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    latency: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(BUCKET_COUNT, dtype=np.int64)
    )
    lost: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BUCKET_COUNT, dtype=np.int64))
    reported_latency: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(BUCKET_COUNT, dtype=np.int64)
    )
    progress: tuple[int, int] = (0, 0)
    words: CounterReading | None = None
    odd: bool = False
    """Whether it ever said what cannot be."""


@dataclass(slots=True)
class _Gathered:
    """One tenant since the last tick, over all its processes."""

    deeds: Deeds = field(default_factory=Deeds)
    busy: bool = False
    idle_share: float = 1.0
    """Part of the time in which none of its processes had work, as if they were independent."""
    bursts: int = 0
    late: int = 0
    burst_gpu_ns: int = 0
    burst_alone_ns: int = 0
    losses: dict[int, int] = field(default_factory=dict)
    gap_ns: int = 0
    longest_kernel_ns: int = 0
    memory_bytes: int = 0
    memory_peak_bytes: int = 0
    running: KernelClass = KernelClass.COMPUTE
    reported: bool = False
    progress: tuple[float, float] | None = None
    samples: dict[tuple[KernelSignature, int, int], tuple[int, int]] = field(default_factory=dict)
    """By signature, units and company: launches and their time."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a tick learned."""

    readings: tuple[TenantReading, ...]
    samples: tuple[KernelSample, ...]
    progress: tuple[tuple[TenantId, float, float], ...]


@dataclass(slots=True)
class Reports:
    """What programs said over the API since the last tick, and who ever did."""

    progress: dict[TenantId, tuple[float, float]] = field(default_factory=dict)
    _buckets: dict[TenantId, dict[int, int]] = field(default_factory=dict)
    _late: dict[TenantId, int] = field(default_factory=dict)

    def latencies(self, tenant: TenantId, latencies_ns: Iterable[int], target_ns: int) -> None:
        """Requests a program measured."""
        buckets = self._buckets.setdefault(tenant, {})
        for latency_ns in latencies_ns:
            bucket = bucket_of(latency_ns)
            buckets[bucket] = buckets.get(bucket, 0) + 1
            late = 0 < target_ns < latency_ns
            self._late[tenant] = self._late.get(tenant, 0) + late

    def reports(self, tenant: TenantId) -> bool:
        """Whether this tenant's own figures are the ones that count."""
        return tenant in self._buckets

    def take(self, tenant: TenantId) -> tuple[dict[int, int], int]:
        """Buckets and late requests since the last call."""
        buckets = self._buckets[tenant]
        self._buckets[tenant] = {}
        return buckets, self._late.pop(tenant, 0)

    def forget(self, tenant: TenantId) -> None:
        """A tenant is gone."""
        self._buckets.pop(tenant, None)
        self._late.pop(tenant, None)
        self.progress.pop(tenant, None)


@dataclass(slots=True)
class Meter:
    """Reads the clients of one GPU."""

    plane: DataPlane
    sms: int
    """Compute units of the device."""
    reports: Reports = field(default_factory=Reports)
    _last: dict[int, _Last] = field(default_factory=dict)
    _gathered: dict[TenantId, _Gathered] = field(default_factory=dict)
    _flushed_ns: int = 0
    _reporting: set[TenantId] = field(default_factory=set)
    """Tenants whose processes reported requests of their own."""
    _newly_odd: list[int] = field(default_factory=list)

    def begin(self, slot: int) -> None:
        """A client moves in, its slot wiped."""
        self._last[slot] = _Last()

    def end(self, slot: int) -> None:
        """It moved out."""
        self._last.pop(slot, None)

    def words(self, slot: int) -> CounterReading | None:
        """A client's words as last read."""
        last = self._last.get(slot)
        return last.words if last is not None else None

    def reported(self, tenant: TenantId) -> bool:
        """Whether a tenant reports its own requests."""
        return tenant in self._reporting or self.reports.reports(tenant)

    def forget(self, tenant: TenantId) -> None:
        """A tenant is gone."""
        self.reports.forget(tenant)
        self._gathered.pop(tenant, None)
        self._reporting.discard(tenant)

    def look(self, slot: int, tenant: TenantId, now_ns: int) -> None:
        """Take what a client counted since the last look."""
        words = self.plane.read(slot)
        last = self._last[slot]
        if words is None:
            self._doubt(slot, last, last.words is None)
            return
        into = self._gathered.setdefault(tenant, _Gathered())
        elapsed_ns = max(now_ns - self._flushed_ns, 1)
        self._doubt(slot, last, _goes_on(words, last))
        steps = self._steps(words, last)
        deeds = into.deeds
        deeds.launches += steps["launches"]
        deeds.gpu_ns += steps["gpu_ns"]
        deeds.gated_ns += steps["gated_ns"]
        deeds.memory_refused += steps["memory_refused"]
        deeds.copied_bytes += steps["copied_bytes"]
        deeds.moved_launches += steps["moved_launches"]
        self._look_at_holds(words, last, deeds)
        busy_ns = words.busy_ns(now_ns)
        busy_share = min(1.0, _plausible(busy_ns - last.busy_ns) / elapsed_ns)
        last.busy_ns = busy_ns
        into.idle_share *= 1.0 - busy_share
        self._look_at_requests(words, last, steps, into, tenant)
        self._look_at_state(words, into, now_ns)
        progress = (words.counters.progress_done, words.counters.progress_total)
        if progress != last.progress and progress[1] > 0:
            last.progress = progress
            into.progress = (progress[0] / _PROGRESS_UNIT, progress[1] / _PROGRESS_UNIT)
        for sample in self.plane.take_samples(slot):
            self._look_at_sample(sample, into)
        last.words = words

    def take_odd(self) -> list[int]:
        """Slots in which something that cannot be was seen for the first time."""
        found, self._newly_odd = self._newly_odd, []
        return found

    def _doubt(self, slot: int, last: _Last, plausible: bool) -> None:
        if not plausible and not last.odd:
            last.odd = True
            self._newly_odd.append(slot)

    def _steps(self, words: CounterReading, last: _Last) -> dict[str, int]:
        counters = words.counters
        steps = {}
        for name in _SUMMED:
            value: int = getattr(counters, name)
            steps[name] = _plausible(value - last.sums[name])
            last.sums[name] = value
        return steps

    def _look_at_holds(self, words: CounterReading, last: _Last, deeds: Deeds) -> None:
        counters = words.counters
        gated_by = np.array(counters.gated_by_ns, dtype=np.uint64).astype(np.int64)
        for reason, step in enumerate(_plausible_steps(gated_by, last.gated_by)):
            deeds.gated_by_ns[reason] += int(step)
        last.gated_by = gated_by
        held_for = np.array(counters.held_for, dtype=np.uint64).astype(np.int64)
        before = last.held_for if last.held_for.size else np.zeros_like(held_for)
        steps = _plausible_steps(held_for, before)
        for index in np.flatnonzero(steps):
            key = int(index)
            deeds.held_for_ns[key] = deeds.held_for_ns.get(key, 0) + int(steps[index])
        last.held_for = held_for
        if words.since_tick:
            longest = _plausible(counters.longest_hold_ns)
            deeds.longest_hold_ns = max(deeds.longest_hold_ns, longest)

    def _look_at_requests(
        self,
        words: CounterReading,
        last: _Last,
        steps: Mapping[str, int],
        into: _Gathered,
        tenant: TenantId,
    ) -> None:
        """Bursts, or the requests the program reported, which win."""
        into.burst_gpu_ns += steps["burst_gpu_ns"]
        into.burst_alone_ns += steps["burst_alone_ns"]
        latency = words.latency.astype(np.int64)
        reported_latency = words.reported_latency.astype(np.int64)
        if words.counters.reported > 0:
            self._reporting.add(tenant)
        if tenant in self._reporting:
            moved = _plausible_steps(reported_latency, last.reported_latency)
            into.bursts += steps["reported"]
            into.late += steps["reported_late"]
        else:
            moved = _plausible_steps(latency, last.latency)
            into.bursts += steps["bursts"]
            into.late += steps["late"]
        _count(into.deeds.latencies, moved)
        lost = words.lost.astype(np.int64)
        _count(into.losses, _plausible_steps(lost, last.lost))
        last.latency, last.lost, last.reported_latency = latency, lost, reported_latency

    def _look_at_state(self, words: CounterReading, into: _Gathered, now_ns: int) -> None:
        counters, activity = words.counters, words.activity
        if words.has_work(now_ns):
            into.busy = True
            into.running = KernelClass(min(activity.running, KernelClass.LONG))
        into.memory_bytes += _bytes(activity.memory_bytes)
        into.memory_peak_bytes += _bytes(counters.memory_peak_bytes)
        if not words.since_tick:
            return
        into.longest_kernel_ns = max(into.longest_kernel_ns, _plausible(counters.longest_kernel_ns))
        gap_ns = _plausible(counters.gap_ns)
        if gap_ns and (into.gap_ns == 0 or gap_ns < into.gap_ns):
            into.gap_ns = gap_ns

    def _look_at_sample(self, sample: Sample, into: _Gathered) -> None:
        sane = sample.blocks and sample.threads and sample.resident and sample.duration_ns
        if not sane or not 0 < sample.sms <= self.sms:
            return
        signature = KernelSignature(
            sample.function,
            sample.blocks,
            sample.threads,
            sample.resident,
            bool(sample.memory_bound),
        )
        key = (signature, sample.sms, sample.company)
        launches, total_ns = into.samples.get(key, (0, 0))
        into.samples[key] = (launches + 1, total_ns + sample.duration_ns)
        if sample.predicted_ns:
            into.deeds.timed_ns += sample.duration_ns
            into.deeds.predicted_ns += sample.predicted_ns

    def flush(
        self, now_ns: int, books: Mapping[TenantId, Book], names: Mapping[int, TenantId]
    ) -> Taken:
        """Everything since the last call, one reading for each tenant that has a seat."""
        elapsed_ns = max(now_ns - self._flushed_ns, 1) if self._flushed_ns else 0
        self._flushed_ns = now_ns
        gathered, self._gathered = self._gathered, {}
        self.plane.count_tick()
        readings: list[TenantReading] = []
        samples: list[KernelSample] = []
        progress = [(id_, *said) for id_, said in self.reports.progress.items()]
        self.reports.progress.clear()
        for tenant, book in books.items():
            found = gathered.get(tenant) or _Gathered()
            self._add_reports(tenant, found)
            deeds = found.deeds
            deeds.elapsed_ns = elapsed_ns
            deeds.busy_ns = round((1.0 - found.idle_share) * elapsed_ns)
            book.add(deeds)
            readings.append(_reading(tenant, found, self.reported(tenant)))
            samples += _samples(tenant, found, names)
            if found.progress is not None:
                progress.append((tenant, *found.progress))
        return Taken(tuple(readings), tuple(samples), tuple(progress))

    def _add_reports(self, tenant: TenantId, found: _Gathered) -> None:
        """What came over the API replaces what the shim saw."""
        if not self.reports.reports(tenant):
            return
        buckets, late = self.reports.take(tenant)
        if tenant not in self._reporting:
            found.deeds.latencies = buckets
            found.bursts, found.late = sum(buckets.values()), late


def _reading(tenant: TenantId, found: _Gathered, reported: bool) -> TenantReading:
    deeds = found.deeds
    return TenantReading(
        tenant=tenant,
        busy=found.busy,
        launches=deeds.launches,
        gpu_ns=deeds.gpu_ns,
        busy_ns=deeds.busy_ns,
        gated_ns=deeds.gated_ns,
        longest_hold_ns=deeds.longest_hold_ns,
        bursts=found.bursts,
        late=found.late,
        latencies=tuple(sorted(deeds.latencies.items())),
        reported=reported,
        burst_gpu_ns=found.burst_gpu_ns,
        gap_ns=found.gap_ns,
        longest_kernel_ns=found.longest_kernel_ns,
        memory_bytes=found.memory_bytes,
        memory_peak_bytes=found.memory_peak_bytes,
        running=found.running,
        burst_alone_ns=found.burst_alone_ns,
        losses=tuple(sorted(found.losses.items())),
    )


def _samples(
    tenant: TenantId, found: _Gathered, names: Mapping[int, TenantId]
) -> list[KernelSample]:
    return [
        KernelSample(
            tenant,
            signature,
            launches,
            total_ns,
            sms,
            tuple(name for index, name in names.items() if company >> index & 1),
        )
        for (signature, sms, company), (launches, total_ns) in found.samples.items()
    ]


def _goes_on(words: CounterReading, last: _Last) -> bool:
    """Whether sums only grew, and by no more than they can."""
    steps = (getattr(words.counters, name) - last.sums[name] for name in _SUMMED)
    return all(0 <= step <= _MOST for step in steps)


def _plausible(step: int) -> int:
    return step if 0 <= step <= _MOST else 0


def _plausible_steps(now: NDArray[np.int64], before: NDArray[np.int64]) -> NDArray[np.int64]:
    steps = now - before
    return np.where((steps >= 0) & (steps <= _MOST), steps, 0)


def _count(into: dict[int, int], steps: NDArray[np.int64]) -> None:
    """Add what a histogram grew by."""
    for index in np.flatnonzero(steps):
        bucket = int(index)
        into[bucket] = into.get(bucket, 0) + int(steps[index])


def _bytes(value: int) -> int:
    return value if value <= _MOST_BYTES else 0
