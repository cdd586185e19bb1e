"""A tenant: who shares an accelerator, what it was promised and what it strives for."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from dure.domain.ids import TenantId
from dure.domain.units import NS_PER_MS, NS_PER_S


class TenantClass(Enum):
    """How much a tenant's promise counts when not everybody can be served."""

    GUARANTEED = "guaranteed"
    """Its SLO is kept before anything else is done."""
    STANDARD = "standard"
    """Its SLO is striven for; it shares by weight."""
    BEST_EFFORT = "best-effort"
    """Takes what is left."""


class Goal(Enum):
    """What a tenant wants from its share."""

    FINISH = "finish"
    """Complete its job soon."""
    SLO = "slo"
    """Meet its stated targets."""
    GOODPUT = "goodput"
    """Make as much useful progress as it can."""


@dataclass(frozen=True, slots=True)
class LatencySlo:
    """A percentile of request latency must not exceed a target."""

    target_ns: int
    percentile: float = 99.0

    @property
    def allowed_late_share(self) -> float:
        """The share of requests that may be later than the target."""
        return 1.0 - self.percentile / 100.0


@dataclass(frozen=True, slots=True)
class ThroughputSlo:
    """Requests (or reported items) per second, over a window."""

    items_per_s: float
    window_ns: int = 1 * NS_PER_S


@dataclass(frozen=True, slots=True)
class AvailabilitySlo:
    """Share of one-second windows with demand in which the tenant got its floor unheld.

    A window counts as available when the tenant received at least `floor_share` of the
    device (or all it asked for) and none of its launches was held longer than `max_hold_ns`.
    """

    share: float
    floor_share: float = 0.1
    max_hold_ns: int = 100 * NS_PER_MS

    def kept_in(
        self, window_ns: float, served_ns: float, busy_ns: float, longest_hold_ns: float
    ) -> bool:
        """Whether a tenant was available in a window in which it had work for `busy_ns`."""
        served = served_ns >= self.floor_share * min(window_ns, busy_ns)
        return served and longest_hold_ns <= self.max_hold_ns

    def count(self, windows: Iterable[tuple[float, float, float, float]]) -> tuple[int, int]:
        """Windows in which a tenant wanted something, and those of them in which it was available.

        Each window is what `kept_in` takes: length, time served, time with work, longest hold.
        """
        kept = [self.kept_in(*window) for window in windows if window[2] > 0.0]
        return len(kept), sum(kept)


@dataclass(frozen=True, slots=True)
class Slo:
    """Everything a tenant was promised; any part may be absent."""

    latency: LatencySlo | None = None
    throughput: ThroughputSlo | None = None
    availability: AvailabilitySlo | None = None

    def __bool__(self) -> bool:
        return any((self.latency, self.throughput, self.availability))


@dataclass(frozen=True, slots=True)
class MemoryClaim:
    """Device memory: the most a tenant may take, and what is kept free for it."""

    limit_bytes: int | None = None
    reserve_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Tenant:
    """One sharer of an accelerator, as its owner described it."""

    id: TenantId
    weight: float = 1.0
    tenant_class: TenantClass = TenantClass.STANDARD
    goal: Goal = Goal.GOODPUT
    slo: Slo = field(default_factory=Slo)
    memory: MemoryClaim = field(default_factory=MemoryClaim)
    floor_share: float = 0.0
    """Least share of device time while it has work, granted before any objective."""
    expected_ns: int | None = None
    """How long the owner expects its whole job to take alone, if stated."""
    deadline_ns: int | None = None
    """When its job must be done, on the machine's clock, if stated."""
    copy_bytes_per_s: float | None = None
    """Limit on host-device copies, if any."""

    @property
    def protected(self) -> bool:
        """Whether others must not disturb it: it was promised something and holds a rank."""
        return bool(self.slo) and self.tenant_class is not TenantClass.BEST_EFFORT
