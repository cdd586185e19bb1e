"""Leases: what each pool may use here without asking, what is lent, and who is a guest.

A pool's units are whole devices or slices of one template, on node groups with its profile and
mode. What runs inside its pool's units is *at home*. Everything else is a *guest*: it may use what
no pool has leased and what pools have lent, and must go when a pool wants its units back. The
nodes of a dedicated pool serve it alone: they are set apart when the lease comes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.slices import WHOLE_MILLI
from dure.domain.fleet.tenancy import Allotment, FleetTenant, VNodePool
from dure.domain.ids import PoolId, TenantId
from dure.fleet.fit import Footprint
from dure.fleet.local.fields import Field
from dure.fleet.local.instances import NEVER_NS, Instance, Spot, Task
from dure.fleet.local.yard import Yard

OPEN = -1
"""Owner of nodes that no dedicated pool has."""
NOWHERE = -2
"""Owner of no node: a dedicated pool without a lease here."""


def _milli(footprint: Footprint) -> int:
    return footprint.devices * footprint.compute_milli


@dataclass(slots=True)
class Lease:
    """One pool's capacity here."""

    number: int
    allotment: Allotment
    pool: VNodePool | None
    """None: nobody has said what the pool is; its units are whole devices for who names it."""
    unit_milli: int
    groups: tuple[int, ...]
    used_milli: int = 0
    """By its own workloads, of all they use at home."""

    @property
    def dedicated(self) -> bool:
        """Whether its nodes serve it alone."""
        return self.pool is not None and self.pool.dedicated

    @property
    def milli(self) -> int:
        """All it may use, in thousandths of a device."""
        return self.allotment.units * self.unit_milli

    @property
    def kept_milli(self) -> int:
        """What it has not lent and does not use: guests must leave that free."""
        kept = max(0, self.allotment.units - self.allotment.lent) * self.unit_milli
        return max(0, kept - self.used_milli)


@dataclass(slots=True)
class Leases:
    """All leases of a cluster, and what is used of each."""

    yard: Yard
    tenants: dict[TenantId, FleetTenant] = field(default_factory=dict)
    pools: dict[PoolId, VNodePool] = field(default_factory=dict)
    by_pool: dict[PoolId, Lease] = field(default_factory=dict)
    revision: int = -1
    """The highest seen."""
    numbers: dict[PoolId, int] = field(default_factory=dict)
    """By which nodes know their owner; a pool keeps its own for ever."""

    # What is told

    def set_tenant(self, tenant: FleetTenant, pools: Iterable[VNodePool]) -> None:
        """A tenant and all its pools are new or changed."""
        self.tenants[tenant.id] = tenant
        for name in [name for name, pool in self.pools.items() if pool.tenant == tenant.id]:
            del self.pools[name]
        for pool in pools:
            self.pools[pool.id] = pool

    def set_all(self, allotments: Iterable[Allotment]) -> bool:
        """Take over the leases that are not older than known; returns whether capacity changed."""
        given = {each.pool: each for each in allotments if each.cluster == self.yard.cluster.id}
        newest = max((each.revision for each in given.values()), default=self.revision)
        before = self._capacity()
        if newest >= self.revision:
            for name in [name for name in self.by_pool if name not in given]:
                del self.by_pool[name]
        for name, allotment in given.items():
            known = self.by_pool.get(name)
            if known is None and allotment.revision < self.revision:
                continue
            if known is None or allotment.revision >= known.allotment.revision:
                self.by_pool[name] = self.make(
                    allotment, known.used_milli if known is not None else 0
                )
        self.revision = max(self.revision, newest)
        return before != self._capacity()

    def _capacity(self) -> dict[PoolId, tuple[int, int]]:
        leases = self.by_pool.items()
        return {name: (lease.allotment.units, lease.allotment.lent) for name, lease in leases}

    def refresh(self) -> None:
        """Look at all leases anew after pools changed."""
        for name, lease in list(self.by_pool.items()):
            self.by_pool[name] = self.make(lease.allotment, lease.used_milli)

    def expire(self, now_ns: int) -> list[PoolId]:
        """End leases whose time is over; returns whose."""
        ended = [
            name
            for name, lease in self.by_pool.items()
            if lease.allotment.until_ns is not None and lease.allotment.until_ns <= now_ns
        ]
        for name in ended:
            del self.by_pool[name]
        return ended

    def next_ns(self) -> int:
        """When the next lease ends."""
        ends = (lease.allotment.until_ns for lease in self.by_pool.values())
        return min((end for end in ends if end is not None), default=NEVER_NS)

    # Who may go where

    def home(self, task: Task, count: int = 1) -> Lease | None:
        """The lease that would take so many instances more of a task; None: it is a guest."""
        workload = task.order.workload
        milli = count * _milli(task.footprint)
        if workload.pool is not None:
            lease = self.by_pool.get(workload.pool)
            names = [] if lease is None else [lease]
        else:
            names = [
                lease
                for lease in self.by_pool.values()
                if lease.pool is not None
                and lease.pool.tenant == workload.tenant
                and not lease.dedicated
            ]
        for lease in names:
            if task.group in lease.groups and lease.used_milli + milli <= lease.milli:
                return lease
        return None

    def owner(self, task: Task) -> int:
        """The number of the dedicated pool on whose nodes alone it may be; `OPEN` or `NOWHERE`."""
        name = task.order.workload.pool
        if name is None:
            return OPEN
        lease = self.by_pool.get(name)
        if lease is not None:
            return lease.number if lease.dedicated else OPEN
        pool = self.pools.get(name)
        return NOWHERE if pool is not None and pool.dedicated else OPEN

    def at_odds(self, task: Task) -> bool:
        """Whether something just taken for a task, as a guest, leaves too little for others."""
        if self.owner(task) != OPEN or self.home(task) is not None:
            return False
        return not self.guest_room(task.group)

    def may_grow(self, instance: Instance, spot: Spot) -> bool:
        """Whether an instance may keep a larger place that was taken instead of its own."""
        lease = self.by_pool.get(instance.pool) if instance.pool is not None else None
        more = _milli(spot.footprint) - _milli(instance.spot.footprint)
        if lease is not None and lease.used_milli + more <= lease.milli:
            return True
        return self.owner(instance.task) != OPEN or self.guest_room(spot.group)

    def guest_room(self, group: int) -> bool:
        """Whether guests, with all they hold now, leave enough for those at home."""
        leases = [
            lease
            for lease in self.by_pool.values()
            if group in lease.groups and not lease.dedicated and lease.kept_milli
        ]
        if not leases:
            return True
        groups = sorted({each for lease in leases for each in lease.groups})
        whole = sum(lease.kept_milli for lease in leases if lease.unit_milli == WHOLE_MILLI)
        kept = sum(lease.kept_milli for lease in leases)
        fields = [self.yard.fields[each] for each in groups]
        if whole and sum(_open_devices(each) for each in fields) * WHOLE_MILLI < whole:
            return False
        return sum(_open_milli(each) for each in fields) >= kept

    # Accounts

    def charge(self, task: Task, spot: Spot) -> PoolId | None:
        """Count an instance that starts; returns the pool it is at home in."""
        lease = self.home(task)
        if lease is None:
            return None
        lease.used_milli += _milli(spot.footprint)
        return lease.allotment.pool

    def release(self, instance: Instance, spot: Spot | None = None) -> None:
        """Count an instance that ends, or leaves another place than the one it is at."""
        lease = self.by_pool.get(instance.pool) if instance.pool is not None else None
        if lease is not None:
            lease.used_milli -= _milli((spot or instance.spot).footprint)
        instance.pool = None

    def recount(self, instances: Iterable[Instance]) -> None:
        """Charge everybody anew after leases changed; who was at home stays so where it can."""
        for lease in self.by_pool.values():
            lease.used_milli = 0
        for instance in sorted(instances, key=lambda each: each.pool is None):
            instance.pool = self.charge(instance.task, instance.spot)

    def make(self, allotment: Allotment, used_milli: int = 0) -> Lease:
        """A lease as its pool and the node groups here define it."""
        number = self.numbers.setdefault(allotment.pool, len(self.numbers))
        pool = self.pools.get(allotment.pool)
        groups = tuple(
            index
            for index, each in enumerate(self.yard.fields)
            if pool is None or _hosts(each.group, pool)
        )
        unit_milli = WHOLE_MILLI
        if pool is not None and pool.template and groups:
            unit_milli = self.yard.fields[groups[0]].profile.slice(pool.template).compute_milli
        return Lease(number, allotment, pool, unit_milli, groups, used_milli)


def _hosts(group: NodeGroup, pool: VNodePool) -> bool:
    return group.profile == pool.profile and group.mode is pool.mode


def _open_devices(each: Field) -> int:
    """Empty devices on nodes that no dedicated pool has."""
    return int(each.empty_devices()[each.open & (each.owner < 0)].sum())


def _open_milli(each: Field) -> int:
    """Free compute on nodes that no dedicated pool has."""
    open_nodes = each.open & (each.owner < 0)
    total = int(open_nodes.sum()) * each.group.devices * WHOLE_MILLI
    taken = each.used[0, open_nodes].sum() + each.foreign.amounts[0, open_nodes].sum()
    return total - int(taken)
