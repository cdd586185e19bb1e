"""Readings of a service in virtual time, from a plain queue: what detectors are tested on."""

from collections.abc import Iterator

import numpy as np

from dure.domain.ids import TenantId
from dure.domain.latency import bucket_of
from dure.domain.readings import TenantReading
from dure.domain.tenant import LatencySlo, Slo, Tenant
from dure.domain.units import NS_PER_MS, NS_PER_S
from tests.kernel.factories import reading

TICK_NS = 20 * NS_PER_MS
SERVICE_NS = 4 * NS_PER_MS
TENANT = Tenant(TenantId("web"), slo=Slo(latency=LatencySlo(30 * NS_PER_MS)))


def queue_readings(
    rates_per_s: list[float], *, seed: int = 1, reported: bool = True
) -> Iterator[tuple[int, TenantReading]]:
    """A tick's reading after another; one rate for each second."""
    rng = np.random.default_rng(seed)
    free_ns = 0.0
    ticks: dict[int, list[float]] = {}
    busy = np.zeros(len(rates_per_s) * 50 + 1)
    for second, rate in enumerate(rates_per_s):
        for at in np.sort(rng.uniform(0.0, 1.0, int(rng.poisson(rate)))):
            arrival = (second + float(at)) * NS_PER_S
            begun = max(arrival, free_ns)
            free_ns = begun + SERVICE_NS
            ticks.setdefault(int(free_ns // TICK_NS), []).append(free_ns - arrival)
            busy[min(int(begun // TICK_NS), len(busy) - 1)] += SERVICE_NS
    target_ns = 30 * NS_PER_MS
    for tick in range(len(rates_per_s) * 50):
        latencies = ticks.get(tick, [])
        counts: dict[int, int] = {}
        for latency in latencies:
            bucket = bucket_of(latency)
            counts[bucket] = counts.get(bucket, 0) + 1
        yield (
            (tick + 1) * TICK_NS,
            reading(
                "web",
                busy=bool(latencies),
                busy_ns=int(busy[tick]),
                bursts=len(latencies),
                late=sum(latency > target_ns for latency in latencies),
                latencies=tuple(sorted(counts.items())),
                reported=reported,
            ),
        )
