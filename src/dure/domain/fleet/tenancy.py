"""Who shares the fleet: tenants with teams, their vNode pools, allotments and budgets."""

from dataclasses import dataclass, field

from dure.domain.fleet.slices import ShareMode
from dure.domain.ids import ClusterId, PoolId, TenantId


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits for a period; None: no limit."""

    money: float | None = None
    """In the fleet's currency."""
    carbon_g: float | None = None


@dataclass(frozen=True, slots=True)
class Team:
    """A part of a tenant, with a share of its budget."""

    name: str
    budget: Budget = field(default_factory=Budget)


@dataclass(frozen=True, slots=True)
class FleetTenant:
    """A paying customer of the fleet."""

    id: TenantId
    weight: float = 1.0
    """Its share of what is scarce, relative to others."""
    priority: int = 0
    """Added to the priority of its workloads."""
    budget: Budget = field(default_factory=Budget)
    teams: tuple[Team, ...] = ()


@dataclass(frozen=True, slots=True)
class VNodePool:
    """A class of virtual nodes of one tenant, carved out of real nodes of several clusters."""

    id: PoolId
    tenant: TenantId
    profile: str
    template: str = ""
    """Slice template that its units are; empty: whole devices."""
    mode: ShareMode = ShareMode.WHOLE
    clusters: frozenset[ClusterId] | None = None
    """Where it may be; None: anywhere."""
    guaranteed: int = 0
    """Units its tenant can always have, back at once when lent."""
    lendable: int = 0
    """Of the guaranteed units, how many others may use while they are idle."""
    maximum: int | None = None
    """The most units it grows to by borrowing; None: no limit."""
    dedicated: bool = False
    """Whether its nodes serve this tenant alone."""


@dataclass(frozen=True, slots=True)
class Allotment:
    """Capacity of a pool leased to one cluster: the unit of lending, reclaim and local autonomy."""

    pool: PoolId
    cluster: ClusterId
    units: int
    """Units of the pool that the cluster may admit into without asking."""
    lent: int = 0
    """Of those, units that others may use until they are called back."""
    revision: int = 0
    """A higher one replaces a lower one."""
    until_ns: int | None = None
    """When the lease ends unless renewed; None: when replaced."""
