"""The second layer on each GPU: tenants, squads, decisions."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from dure.agent.actor import Actor
from dure.agent.books import REASONS
from dure.agent.telemetry.ports import Readings
from dure.agent.telemetry.tenants import GpuLook, TenantLook, look
from dure.domain.latency import BUCKETS_PER_OCTAVE, FIRST_BUCKET_NS, bucket_middle_ns, quantile_ns
from dure.domain.metrics import kernel as m
from dure.domain.metrics.kinds import Reading, Spread
from dure.domain.units import NS_PER_S

_LOOKS = 6
"""Percentiles are over what came between the newest of so many looks and the oldest: five
seconds at the default rate, since one holds too few requests."""
_QUANTILES = (0.5, 0.99)
_SHOWN_EVERY = BUCKETS_PER_OCTAVE
"""Buckets of the shim in one bucket that is shown: each twice as long as the one before."""
_SHOWN_BUCKETS = 27

Key = tuple[str, str]
"""GPU and tenant."""


@dataclass(slots=True)
class KernelLayer:
    """All GPUs' threads, asked one after the other."""

    actors: tuple[Actor, ...]
    name: str = "kernel"
    _latencies: dict[Key, deque[dict[int, int]]] = field(default_factory=dict)

    def read(self) -> Readings:
        """What each GPU's thread knows now."""
        found: list[Reading | Spread] = []
        seen: set[Key] = set()
        for actor in self.actors:
            looked = actor.call(look)
            found += _gpu(looked, actor.tick_took_ns)
            for tenant in looked.tenants:
                seen.add((looked.uuid, tenant.tenant))
                found += self._tenant(looked.uuid, tenant)
        for gone in self._latencies.keys() - seen:
            del self._latencies[gone]
        return found

    def _tenant(self, uuid: str, tenant: TenantLook) -> Iterator[Reading | Spread]:
        labels = (uuid, tenant.tenant)
        for metric, value in (
            (m.PROCESSES, tenant.processes),
            (m.LAUNCHES, tenant.launches),
            (m.MOVED, tenant.moved),
            (m.GPU_SECONDS, tenant.gpu_ns / NS_PER_S),
            (m.BUSY_SECONDS, tenant.busy_ns / NS_PER_S),
            (m.COPIED, tenant.copied_bytes),
            (m.MEMORY, tenant.memory_bytes),
            (m.MEMORY_LIMIT, tenant.memory_limit_bytes),
            (m.MEMORY_REFUSED, tenant.memory_refused),
            (m.LATENCY_TARGET, _seconds(tenant.target_ns)),
            (m.ON_TIME, tenant.on_time_share),
            (m.AT_RISK, tenant.at_risk),
            (m.WEIGHT, tenant.weight),
            (m.REMAINING, _seconds(tenant.remaining_ns)),
        ):
            if value is not None and math.isfinite(value):
                yield Reading(metric, labels, float(value))
        for reason, held_ns in zip(REASONS[1:], tenant.held_ns[1:], strict=True):
            yield Reading(m.HELD_SECONDS, (*labels, reason), held_ns / NS_PER_S)
        if tenant.latencies:
            yield _spread(labels, tenant.latencies)
        yield from self._quantiles(labels, tenant.latencies)

    def _quantiles(self, labels: Key, latencies: dict[int, int]) -> Iterator[Reading]:
        before = self._latencies.setdefault(labels, deque(maxlen=_LOOKS))
        oldest = before[0] if before else {}
        before.append(latencies)
        lately = [
            (bucket, count - oldest.get(bucket, 0))
            for bucket, count in latencies.items()
            if count > oldest.get(bucket, 0)
        ]
        if not lately:
            return  # no request, no latency: an old one would look like a new one
        for share in _QUANTILES:
            value_s = quantile_ns(lately, share) / NS_PER_S
            yield Reading(m.LATENCY_NOW, (*labels, f"{share:g}"), value_s)


def _gpu(looked: GpuLook, tick_ns: int) -> Iterator[Reading]:
    labels = (looked.uuid,)
    yield Reading(m.POLICY, (looked.uuid, looked.policy), 1.0)
    for metric, value in (
        (m.GATED, looked.gated),
        (m.CLIENTS, looked.processes),
        (m.SQUADS_BEGUN, looked.edges),
        (m.TICKS, looked.ticks),
        (m.TICK_SECONDS, tick_ns / NS_PER_S),
        (m.PLAN_EPOCH, looked.plan_epoch),
        (m.PLAN_SQUADS, looked.plan_squads),
    ):
        if value is not None:
            yield Reading(metric, labels, float(value))


def _seconds(ns: float | None) -> float | None:
    return ns / NS_PER_S if ns is not None else None


def _spread(labels: Key, latencies: dict[int, int]) -> Spread:
    """The shim's buckets as fewer ones; a bucket's requests end at its upper edge."""
    shown = [0] * _SHOWN_BUCKETS
    total_ns = 0.0
    for bucket, count in latencies.items():
        shown[min(-(-bucket // _SHOWN_EVERY), _SHOWN_BUCKETS - 1)] += count
        total_ns += count * bucket_middle_ns(bucket)
    bounds, below = [], 0
    for index, count in enumerate(shown[:-1]):
        below += count
        bounds.append((FIRST_BUCKET_NS * 2.0**index / NS_PER_S, below))
    return Spread(m.LATENCY, labels, tuple(bounds), below + shown[-1], total_ns / NS_PER_S)
