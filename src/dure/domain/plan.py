"""A plan: a cycle of squads that says who may run together, where, and for how long.

The plan is a value. The data plane carries it out launch by launch, without asking:

- A squad is in force until its time is over, or until every member that has a budget in it
  has spent it or has no work; without budgets, until nobody in it has work. Then the next one
  in the cycle that has something to do takes over. Budgets count from the start of the cycle
  or of the plan.
- A member is held while a tenant it *yields to* has work and has had it for longer than that
  tenant's patience, except for kernels whose class the co-run matrix lets pass beside what that
  tenant is running.
- A member keeps to its own set of compute units while one of the tenants it runs `beside` has
  work that may run, and has the whole device otherwise.
- `inflight_ns` bounds what a member may have submitted and not finished, in predicted time.
"""

from dataclasses import dataclass

from dure.domain.ids import PlanEpoch, TenantId
from dure.domain.kernel import KernelClass

PAUSE_NS = 200_000
"""A gap between bursts shorter than this is no pause: a server takes its next waiting request."""

UNBOUNDED = 0
"""Budget or in-flight bound that does not bind."""


@dataclass(frozen=True, slots=True)
class SmSet:
    """A run of neighbouring compute units, `first` to `first + count - 1`."""

    first: int
    count: int

    @property
    def end(self) -> int:
        """One past the last unit."""
        return self.first + self.count

    def overlap(self, other: "SmSet") -> int:
        """How many units both contain."""
        return max(0, min(self.end, other.end) - max(self.first, other.first))


@dataclass(frozen=True, slots=True)
class SquadMember:
    """One tenant's part in a squad."""

    tenant: TenantId
    sms: SmSet
    beside: tuple[TenantId, ...] = ()
    """Tenants whose work confines it to `sms`."""
    budget_ns: int = UNBOUNDED
    inflight_ns: int = UNBOUNDED
    yields_to: tuple[TenantId, ...] = ()
    patience_ns: int = 0
    """How long it may have had work, without a pause worth the name, before others yield to it."""
    linger_ns: int = 0
    """How long others go on yielding to it after its work ended: its gap between requests."""


@dataclass(frozen=True, slots=True)
class Squad:
    """Tenants whose kernels run together, first the one it was formed around."""

    members: tuple[SquadMember, ...]
    duration_ns: int
    """How long it may be in force before the next one in the cycle takes over."""

    @property
    def tenants(self) -> tuple[TenantId, ...]:
        return tuple(member.tenant for member in self.members)


CorunMatrix = tuple[tuple[bool, ...], ...]
"""Row: class of the kernel that asks; column: class now running of the tenant yielded to."""

HOLD_ALL: CorunMatrix = tuple(tuple(False for _ in KernelClass) for _ in KernelClass)
"""Nothing passes beside a tenant that is yielded to."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the data plane does until the next plan."""

    epoch: PlanEpoch
    policy: str
    squads: tuple[Squad, ...]
    protected: tuple[TenantId, ...] = ()
    """Tenants others are held for because of a promise; idle time this costs is on purpose."""
    corun: CorunMatrix = HOLD_ALL

    def same_orders(self, other: "Plan | None") -> bool:
        """Whether the data plane would do the same under both; epochs do not matter."""
        return other is not None and (
            (self.policy, self.squads, self.protected, self.corun)
            == (other.policy, other.squads, other.protected, other.corun)
        )


@dataclass(frozen=True, slots=True)
class Allotment:
    """Slow-moving limits of one tenant: memory and copy bandwidth."""

    tenant: TenantId
    memory_limit_bytes: int
    memory_reserve_bytes: int
    copy_bytes_per_s: float
