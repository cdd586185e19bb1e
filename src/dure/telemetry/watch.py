"""Watches the tenants of one accelerator: readings in, risks raised and cleared out.

A risk is raised once, again when it is seen to be twice as bad, and cleared when it was not seen
for a while or turns out to be none. No clock: time is data in what comes in.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dure.domain.events import RiskCleared, RiskRaised
from dure.domain.ids import TenantId
from dure.domain.metrics.hardware import GPU_CLOCK, GPU_MEMORY_USED, GPU_SM_ACTIVE
from dure.domain.metrics.kernel import LATENCY, MEMORY
from dure.domain.metrics.kinds import Metric
from dure.domain.readings import TenantReading
from dure.domain.risks import Risk, RiskKind
from dure.domain.series import SeriesKey, labels_of
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_S
from dure.telemetry.memory import MemoryWatch
from dure.telemetry.promise import PromiseWatch
from dure.telemetry.signs import DeviceReading, DeviceWatch, ThrashWatch, ThrottleWatch

RiskEvent = RiskRaised | RiskCleared

_HOLD_NS = 10 * NS_PER_S
"""How long a risk must not have been seen to be over."""
_WORSE = 2.0
_MEMORY_STEP_NS = 1 * NS_PER_S
_MEMORY_HORIZON_S = 300.0

_Key = tuple[str, RiskKind]


@dataclass(slots=True)
class _Active:
    risk: Risk
    seen_ns: int


@dataclass(slots=True)
class RiskBoard:
    """Which risks are up: raises what is new or much worse, clears what is gone."""

    _active: dict[_Key, _Active] = field(default_factory=dict)

    def see(self, now_ns: int, risk: Risk) -> list[RiskEvent]:
        """A detector sees a risk."""
        key = (risk.series, risk.kind)
        known = self._active.get(key)
        if known is None or risk.shortfall > _WORSE * known.risk.shortfall > 0.0:
            self._active[key] = _Active(risk, now_ns)
            return [RiskRaised(now_ns, risk)]
        known.seen_ns = now_ns
        return []

    def expire(self, now_ns: int) -> list[RiskEvent]:
        """Clear what was not seen for long enough."""
        gone = [key for key, each in self._active.items() if now_ns - each.seen_ns >= _HOLD_NS]
        return [self._clear(now_ns, key) for key in gone]

    def withdraw(self, now_ns: int, series: str, kind: RiskKind) -> list[RiskEvent]:
        """A detector knows that what it saw does not come."""
        key = (series, kind)
        return [self._clear(now_ns, key)] if key in self._active else []

    def forget(self, now_ns: int, tenant: TenantId) -> list[RiskEvent]:
        """Clear what is up for a tenant."""
        gone = [key for key, each in self._active.items() if each.risk.tenant == tenant]
        return [self._clear(now_ns, key) for key in gone]

    def risks(self) -> tuple[Risk, ...]:
        """Everything that is up."""
        return tuple(each.risk for each in self._active.values())

    def _clear(self, now_ns: int, key: _Key) -> RiskCleared:
        risk = self._active.pop(key).risk
        return RiskCleared(now_ns, risk.series, risk.kind, risk.tenant)


@dataclass(slots=True)
class _Watched:
    tenant: Tenant
    promise: PromiseWatch | None
    memory: MemoryWatch
    memory_ns: int = 0


@dataclass(slots=True)
class RiskWatch:
    """All tenants of one accelerator."""

    memory_bytes: int
    gpu: str = ""
    board: RiskBoard = field(default_factory=RiskBoard)
    _tenants: dict[TenantId, _Watched] = field(default_factory=dict)
    _device: DeviceWatch = field(init=False)
    _memory: MemoryWatch = field(init=False)
    _memory_ns: int = 0

    def __post_init__(self) -> None:
        self._device = DeviceWatch(
            ThrottleWatch(self._series(GPU_CLOCK, clock="sm")),
            ThrashWatch(self._series(GPU_SM_ACTIVE)),
        )
        self._memory = MemoryWatch(
            self._series(GPU_MEMORY_USED), _MEMORY_STEP_NS / NS_PER_S, _MEMORY_HORIZON_S
        )

    def follow(self, now_ns: int, tenant: Tenant) -> list[RiskEvent]:
        """Watch a tenant, or take note that its promises changed; what is to be told.

        What endangered another promise says nothing of a new one.
        """
        known = self._tenants.get(tenant.id)
        if known is not None and known.tenant == tenant:
            return []
        if known is not None and known.tenant.slo.latency == tenant.slo.latency:
            known.tenant = tenant
            return []
        promise = None
        if tenant.slo.latency is not None:
            promise = PromiseWatch(tenant, self._series(LATENCY, tenant))
        memory = MemoryWatch(
            self._series(MEMORY, tenant),
            _MEMORY_STEP_NS / NS_PER_S,
            _MEMORY_HORIZON_S,
            tenant.id,
        )
        self._tenants[tenant.id] = _Watched(tenant, promise, memory)
        return self.board.forget(now_ns, tenant.id)

    def unfollow(self, tenant: TenantId) -> None:
        """A tenant is gone; nobody needs to be told."""
        self._tenants.pop(tenant, None)
        self.board.forget(0, tenant)

    @property
    def tenants(self) -> tuple[TenantId, ...]:
        """Those that are watched."""
        return tuple(self._tenants)

    def observe(self, now_ns: int, readings: Iterable[TenantReading]) -> list[RiskEvent]:
        """Take in one tick's readings; what is to be told."""
        events: list[RiskEvent] = []
        for reading in readings:
            watched = self._tenants.get(reading.tenant)
            if watched is not None:
                for risk in self._look(watched, now_ns, reading):
                    events += self.board.see(now_ns, risk)
                if watched.promise is not None and watched.promise.settled:
                    series = watched.promise.series
                    events += self.board.withdraw(now_ns, series, RiskKind.LOAD)
        return [*events, *self.board.expire(now_ns)]

    def observe_device(self, now_ns: int, reading: DeviceReading) -> list[RiskEvent]:
        """Take in what the device says of itself; what is to be told."""
        events: list[RiskEvent] = []
        for risk in self._device.observe(reading):
            events += self.board.see(now_ns, risk)
        return events

    def observe_memory(self, now_ns: int, used_bytes: int, capacity_bytes: int) -> list[RiskEvent]:
        """Take in how full the device's memory is, whoever uses it; what is to be told."""
        if now_ns - self._memory_ns < _MEMORY_STEP_NS:
            return []
        self._memory_ns = now_ns
        full = self._memory.observe(used_bytes, capacity_bytes)
        return self.board.see(now_ns, full) if full is not None else []

    def _look(self, watched: _Watched, now_ns: int, reading: TenantReading) -> list[Risk]:
        found: list[Risk] = []
        if watched.promise is not None:
            found += watched.promise.observe(now_ns, reading) or []
        if now_ns - watched.memory_ns >= _MEMORY_STEP_NS:
            watched.memory_ns = now_ns
            limit = watched.tenant.memory.limit_bytes or self.memory_bytes
            full = watched.memory.observe(reading.memory_bytes, limit)
            found += [full] if full is not None else []
        return found

    def _series(self, metric: Metric, tenant: Tenant | None = None, **more: str) -> str:
        """A metric of this device or of a tenant on it, as the store of series prints it."""
        labels = {"gpu": self.gpu, "tenant": str(tenant.id) if tenant else "", **more}
        known = {name: value for name, value in labels.items() if value}
        return str(SeriesKey(metric.name, labels_of(known)))
