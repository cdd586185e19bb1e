"""Pools never promise what is not there, and never give one tenant what is another's."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import Allotment, VNodePool
from dure.domain.fleet.workloads import Demand, Workload, WorkloadKind
from dure.domain.ids import ClusterId, PoolId, TenantId, WorkloadId
from dure.fleet.pools import Place, PoolBook

CLUSTERS = tuple(ClusterId(name) for name in ("seoul", "oslo"))
TENANTS = tuple(TenantId(name) for name in ("ann", "bob", "cid"))
KINDS = (("a100", "1g.10gb", ShareMode.MIG), ("a100", "3g.40gb", ShareMode.MIG))
PLACES = tuple(Place(cluster, "a100", ShareMode.MIG) for cluster in CLUSTERS)
PER_DEVICE = {"1g.10gb": 7, "3g.40gb": 2}
PART = {"1g.10gb": 0.142, "3g.40gb": 0.428}
"""Of a device, by compute."""
ROUNDING = 1e-5


@st.composite
def pools(draw: st.DrawFn, tenant: TenantId, least: int = 0) -> tuple[VNodePool, ...]:
    """Up to two pools of a tenant, of any shape."""
    made = []
    for number in range(draw(st.integers(least, 2))):
        profile, template, mode = draw(st.sampled_from(KINDS))
        guaranteed = draw(st.integers(0, 10))
        dedicated = draw(st.integers(0, 4)) == 0
        made.append(
            VNodePool(
                id=PoolId(f"{tenant}-{number}"),
                tenant=tenant,
                profile=profile,
                template=template,
                mode=mode,
                clusters=draw(st.none() | st.frozensets(st.sampled_from(CLUSTERS), min_size=1)),
                guaranteed=guaranteed,
                lendable=0 if dedicated else draw(st.integers(0, guaranteed)),
                maximum=draw(st.none() | st.integers(guaranteed, 16)),
                dedicated=dedicated,
            )
        )
    return tuple(made)


class World:
    """A book, and what the properties need to know beside it."""

    def __init__(self) -> None:
        self.book = PoolBook()
        self.capacity: dict[Place, int] = {}
        self.pools: dict[PoolId, VNodePool] = {}
        self.used: dict[WorkloadId, tuple[TenantId, PoolId | None, Place, float]] = {}
        self.leases: dict[ClusterId, tuple[Allotment, ...]] = {}
        self.now_ns = 0

    def set_capacity(self, place: Place, devices: int) -> None:
        self.capacity[place] = devices
        self.book.set_capacity(place, devices)

    def set_pools(self, tenant: TenantId, named: tuple[VNodePool, ...]) -> None:
        self.pools = {key: pool for key, pool in self.pools.items() if pool.tenant != tenant}
        self.pools |= {pool.id: pool for pool in named}
        self.book.set_pools(tenant, named)

    def take(self, tenant: TenantId, pool: PoolId | None, place: Place, devices: float) -> bool:
        name = WorkloadId(f"w{len(self.used)}-{self.now_ns}")
        work = Workload(name, tenant, WorkloadKind.BATCH, Demand(), pool=pool)
        self.now_ns += 1
        if not self.book.may_use(work, place, devices):
            return False
        self.book.took(work, place, devices)
        self.used[name] = (tenant, pool, place, devices)
        return True

    def give_back(self, name: WorkloadId) -> None:
        _, _, place, _ = self.used.pop(name)
        self.book.gave_back(name, place)

    def revise(self) -> None:
        self.now_ns += 1
        for cluster, allotments in self.book.revise(self.now_ns).items():
            known = {each.revision for each in self.leases.get(cluster, ())}
            assert all(each.revision > max(known, default=0) for each in allotments)
            assert all(each.cluster == cluster for each in allotments)
            self.leases[cluster] = allotments
        assert self.book.revise(self.now_ns) == {}, "nothing changed since"

    def units(self, place: Place) -> dict[PoolId, Allotment]:
        return {
            each.pool: each
            for each in self.leases.get(place.cluster, ())
            if self.pools[each.pool].profile == place.profile
            and self.pools[each.pool].mode is place.mode
        }

    def devices_used(self, place: Place, tenant: TenantId | None = None) -> float:
        return sum(
            use[3] for use in self.used.values() if use[2] == place and tenant in (None, use[0])
        )

    def pool_units(self, pool: PoolId, place: Place | None = None) -> int:
        """Units of a pool in use, in all or at a place."""
        uses = [use for use in self.used.values() if use[1] == pool and place in (None, use[2])]
        return round(sum(use[3] for use in uses) / PART[self.pools[pool].template])

    def check_capacity(self) -> None:
        """No more units are leased, and no more devices used, than a place has."""
        for place, devices in self.capacity.items():
            leased = sum(
                -(-each.units // PER_DEVICE[self.pools[pool].template])
                for pool, each in self.units(place).items()
            )
            assert leased <= devices
            assert self.devices_used(place) <= devices + ROUNDING

    def check_isolation(self) -> None:
        """Others never use so much that an owner's unlent units are touched."""
        for place, devices in self.capacity.items():
            for tenant in TENANTS:
                unlent = sum(
                    (each.units - each.lent) * PART[self.pools[pool].template]
                    for pool, each in self.units(place).items()
                    if self.pools[pool].tenant == tenant
                )
                others = self.devices_used(place) - self.devices_used(place, tenant)
                assert others <= devices - unlent + ROUNDING


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A fleet with pools in which tenants took and gave back as they were allowed to."""
    world = World()
    for place in PLACES:
        world.set_capacity(place, draw(st.integers(0, 4)))
    for tenant in TENANTS:
        # Without any pool the book withholds nothing, so there is at least one.
        world.set_pools(tenant, draw(pools(tenant, least=int(tenant == TENANTS[0]))))
    world.revise()
    owners = [(tenant, None) for tenant in TENANTS]
    named = [(pool.tenant, pool.id) for pool in world.pools.values()]
    for _ in range(draw(st.integers(0, 30))):
        if world.used and draw(st.integers(0, 4)) == 0:
            world.give_back(draw(st.sampled_from(sorted(world.used))))
            continue
        tenant, pool = draw(st.sampled_from([*owners, *named]))
        place = draw(st.sampled_from(PLACES))
        if pool is None:
            devices = draw(st.sampled_from((1.0, 0.428, 0.142)))
        else:
            devices = draw(st.integers(1, 4)) * PART[world.pools[pool].template]
        world.take(tenant, pool, place, devices)
        world.check_capacity()
        world.check_isolation()
    return world


@given(worlds())
@settings(max_examples=60, deadline=None)
def test_nothing_beyond_capacity_is_leased_or_used_and_nobody_touches_what_is_not_lent(
    world: World,
) -> None:
    world.revise()
    world.check_capacity()
    world.check_isolation()


@given(worlds(), st.data())
@settings(max_examples=100, deadline=None)
def test_after_reclaim_owners_can_take_their_guarantee(world: World, data: st.DataObject) -> None:
    wanting = [pool for pool in world.pools.values() if data.draw(st.booleans())]
    for pool in wanting:
        world.book.wants(pool.id, pool.guaranteed)
        # What its tenant runs elsewhere than in the pool is its own affair: it makes room itself.
        for name, use in list(world.used.items()):
            if use[0] == pool.tenant and use[1] != pool.id:
                world.give_back(name)
    world.revise()
    for reclaim in world.book.to_reclaim(dict.fromkeys(world.used, 1.0)):
        for name in reclaim.workloads:
            assert world.used[name][2] == reclaim.place
            world.give_back(name)
    assert world.book.to_reclaim({}) == []
    leases = [each for allotments in world.leases.values() for each in allotments]
    for pool in wanting:
        part = PART[pool.template]
        for lease in (each for each in leases if each.pool == pool.id):
            place = Place(lease.cluster, pool.profile, pool.mode)
            while world.pool_units(pool.id, place) < lease.units:
                if world.pool_units(pool.id) >= (pool.maximum or np.inf):
                    break
                assert world.take(pool.tenant, pool.id, place, part)
    world.check_capacity()
    world.check_isolation()


@given(worlds(), st.data())
@settings(max_examples=60, deadline=None)
def test_leases_survive_changes_of_capacity_and_pools(world: World, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.sampled_from(PLACES))
        world.set_capacity(place, data.draw(st.integers(0, 6)))
        tenant = data.draw(st.sampled_from(TENANTS))
        if data.draw(st.booleans()):
            world.set_pools(tenant, data.draw(pools(tenant)))
        world.revise()
        for at, devices in world.capacity.items():
            leased = sum(
                -(-each.units // PER_DEVICE[world.pools[pool].template])
                for pool, each in world.units(at).items()
            )
            assert leased <= devices
        for pool in world.pools.values():
            leased_units = sum(
                each.units
                for allotments in world.leases.values()
                for each in allotments
                if each.pool == pool.id
            )
            assert leased_units <= pool.guaranteed
