"""Instructions: everything a kernel machine ever asks its process to do."""

from dataclasses import dataclass

from dure.domain.ids import TenantId
from dure.domain.plan import Allotment, Plan
from dure.domain.signals import Signal


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """Hand this plan to the data plane; it takes effect at the next squad edge."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class PreviewPlan:
    """The answer to a dry run: what would be published, and why."""

    plan: Plan
    reason: str


@dataclass(frozen=True, slots=True)
class SetAllotment:
    """Apply a tenant's memory and copy limits."""

    allotment: Allotment


@dataclass(frozen=True, slots=True)
class PolicySwitched:
    """A switch took place; the plan that follows is the first of the new policy."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """Something was asked that cannot be done; nothing changed."""

    reason: str


@dataclass(frozen=True, slots=True)
class RaiseSignal:
    """Tell whoever listens."""

    signal: Signal


@dataclass(frozen=True, slots=True)
class WeightAdapted:
    """A tenant's weight (Eq. 3) has moved enough to be worth telling."""

    tenant: TenantId
    before: float
    """As it was told last; at first what its owner set."""
    after: float
    reason: str

    def __str__(self) -> str:
        return f"{self.tenant}: weight {self.before:.3g} → {self.after:.3g}: {self.reason}"


Instruction = (
    PublishPlan
    | PreviewPlan
    | SetAllotment
    | PolicySwitched
    | RequestRefused
    | RaiseSignal
    | WeightAdapted
)
