"""Requests of one tenant in bins of equal length: how many, how late, how busy they kept it."""

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from dure.domain.latency import BUCKETS_PER_OCTAVE, bucket_middle_ns
from dure.domain.readings import TenantReading
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.telemetry.lines import Floats

BIN_NS = 500 * NS_PER_MS
BIN_S = BIN_NS / NS_PER_S
KEPT_BINS = 40


@dataclass(slots=True)
class Bin:
    """What was counted in one bin."""

    requests: int = 0
    late: int = 0
    busy_ns: int = 0
    alone_ns: int = 0
    elapsed_ns: int = 0
    latencies: dict[int, int] = field(default_factory=dict)
    """By bucket of `dure.domain.latency`."""

    def add(self, elapsed_ns: int, reading: TenantReading) -> None:
        """Count one reading."""
        self.elapsed_ns += elapsed_ns
        self.busy_ns += reading.busy_ns
        self.alone_ns += reading.burst_alone_ns or reading.busy_ns
        self.late += reading.late
        for bucket, count in reading.latencies:
            self.requests += count
            self.latencies[bucket] = self.latencies.get(bucket, 0) + count


@dataclass(slots=True)
class RequestBins:
    """The bins of the last twenty seconds."""

    _bins: deque[Bin] = field(default_factory=lambda: deque(maxlen=KEPT_BINS))
    _open: Bin = field(default_factory=Bin)
    _last_ns: int | None = None
    reported: bool = False
    """Whether latencies are the tenant's own, from a request's arrival."""

    def add(self, now_ns: int, reading: TenantReading) -> Bin | None:
        """Count one reading; the bin that it filled, if it did. After a pause all starts anew."""
        last_ns, self._last_ns = self._last_ns, now_ns
        elapsed_ns = now_ns - last_ns if last_ns is not None else 0
        if not 0 <= elapsed_ns <= 4 * BIN_NS:
            self._bins.clear()
            self._open = Bin()
            return None
        self.reported = reading.reported
        self._open.add(elapsed_ns, reading)
        if self._open.elapsed_ns < BIN_NS:
            return None
        closed, self._open = self._open, Bin()
        self._bins.append(closed)
        return closed

    def __len__(self) -> int:
        return len(self._bins)

    def rates_per_s(self, bins: int) -> Floats:
        """Requests a second in each of the last bins, the oldest first."""
        chosen = list(self._bins)[-bins:]
        return np.array([each.requests * NS_PER_S / max(each.elapsed_ns, 1) for each in chosen])

    def busy_per_request_ns(self, bins: int) -> float:
        """How long a request keeps the tenant busy, company and holds included; 0 if unknown."""
        return self._per_request([each.busy_ns for each in list(self._bins)[-bins:]])

    def alone_per_request_ns(self, bins: int) -> float:
        """How long it would keep the tenant busy without company; 0 if unknown."""
        return self._per_request([each.alone_ns for each in list(self._bins)[-bins:]])

    def _per_request(self, spent_ns: list[int]) -> float:
        requests = self.requests(len(spent_ns))
        return sum(spent_ns) / requests if requests else 0.0

    def requests(self, bins: int) -> int:
        """Requests in the last bins."""
        return sum(each.requests for each in list(self._bins)[-bins:])

    def quantile_ns(self, bins: int, share: float) -> float:
        """The latency a share of the requests of the last bins stays below; 0 without any."""
        merged: dict[int, int] = {}
        for each in list(self._bins)[-bins:]:
            for bucket, count in each.latencies.items():
                merged[bucket] = merged.get(bucket, 0) + count
        wanted = share * sum(merged.values())
        seen = 0
        for bucket in sorted(merged):
            if seen + merged[bucket] >= wanted:
                part = (wanted - seen) / merged[bucket]
                return bucket_middle_ns(bucket) * math.exp2((part - 0.5) / BUCKETS_PER_OCTAVE)
            seen += merged[bucket]
        return 0.0
