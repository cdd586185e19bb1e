"""Events: everything a kernel machine ever learns, with the time it learned it."""

from dataclasses import dataclass

from dure.domain.ids import TenantId
from dure.domain.readings import KernelSample, TenantReading
from dure.domain.risks import Risk, RiskKind
from dure.domain.tenant import Tenant

PolicyParameters = tuple[tuple[str, float], ...]
"""Named numbers a policy is set up with, sorted by name."""


@dataclass(frozen=True, slots=True)
class TenantJoined:
    """A tenant appeared on the device, or came back under the same id."""

    now_ns: int
    tenant: Tenant


@dataclass(frozen=True, slots=True)
class TenantChanged:
    """Its owner changed what it wants or was promised."""

    now_ns: int
    tenant: Tenant


@dataclass(frozen=True, slots=True)
class TenantLeft:
    """A tenant is gone."""

    now_ns: int
    tenant: TenantId


@dataclass(frozen=True, slots=True)
class ReadingsTaken:
    """The counters of all tenants were read: the tick of the control loop."""

    now_ns: int
    readings: tuple[TenantReading, ...]
    samples: tuple[KernelSample, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgressReported:
    """A tenant said how far it is, in units of its own."""

    now_ns: int
    tenant: TenantId
    done: float
    total: float


@dataclass(frozen=True, slots=True)
class PolicyRequested:
    """Somebody wants another policy, or to see what it would do."""

    now_ns: int
    policy: str
    parameters: PolicyParameters = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RiskRaised:
    """Trouble is seen coming, or one that was told before is now seen to be worse."""

    now_ns: int
    risk: Risk


@dataclass(frozen=True, slots=True)
class RiskCleared:
    """A risk that was raised is over."""

    now_ns: int
    series: str
    kind: RiskKind
    tenant: TenantId | None = None


Event = (
    TenantJoined
    | TenantChanged
    | TenantLeft
    | ReadingsTaken
    | ProgressReported
    | PolicyRequested
    | RiskRaised
    | RiskCleared
)
