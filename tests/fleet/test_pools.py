from dataclasses import replace

import pytest

from dure.domain.errors import InputError
from dure.domain.fleet.clusters import Cluster, ClusterClass, NodeGroup
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import VNodePool
from dure.domain.fleet.workloads import Demand, Workload, WorkloadKind
from dure.domain.ids import ClusterId, PoolId, TenantId, WorkloadId
from dure.fleet.pools import Place, PoolBook, Reclaim

ANN, BOB = TenantId("ann"), TenantId("bob")
SEOUL, OSLO = ClusterId("seoul"), ClusterId("oslo")
AT_SEOUL = Place(SEOUL, "h100", ShareMode.WHOLE)
AT_OSLO = Place(OSLO, "h100", ShareMode.WHOLE)


def pool(
    name: str, tenant: TenantId = ANN, guaranteed: int = 8, lendable: int = 0, **more: object
) -> VNodePool:
    return VNodePool(PoolId(name), tenant, "h100", guaranteed=guaranteed, lendable=lendable, **more)  # type: ignore[arg-type]


def cluster(name: ClusterId, nodes: int) -> Cluster:
    group = NodeGroup("gpu", nodes, "h100", 4, 64_000, 2**39, 4)
    return Cluster(name, "r", "p", ClusterClass.CLOUD, (group,))


def work(name: str, tenant: TenantId, in_pool: str | None = None) -> Workload:
    return Workload(
        WorkloadId(name),
        tenant,
        WorkloadKind.BATCH,
        Demand(),
        pool=None if in_pool is None else PoolId(in_pool),
    )


def book(*pools: VNodePool, seoul: int = 4, oslo: int = 2) -> PoolBook:
    """Four nodes of four devices in Seoul, two in Oslo."""
    made = PoolBook()
    made.cluster_joined(cluster(SEOUL, seoul))
    made.cluster_joined(cluster(OSLO, oslo))
    for tenant in (ANN, BOB):
        made.set_pools(tenant, [each for each in pools if each.tenant == tenant])
    made.revise(0)
    return made


def test_a_pool_is_split_by_capacity() -> None:
    made = PoolBook()
    made.cluster_joined(cluster(SEOUL, 4))
    made.cluster_joined(cluster(OSLO, 2))
    made.set_pools(ANN, [pool("a", guaranteed=6)])
    leases = made.revise(0)
    assert {name: [each.units for each in leases[name]] for name in leases} == {
        SEOUL: [4],
        OSLO: [2],
    }


def test_only_changed_clusters_get_a_new_list_with_a_higher_revision() -> None:
    made = book(pool("a", guaranteed=6), pool("b", BOB, 4, clusters=frozenset({OSLO})))
    made.set_pools(BOB, [pool("b", BOB, 3, clusters=frozenset({OSLO}))])
    changed = made.revise(1)
    assert set(changed) == {OSLO}
    assert [(each.pool, each.units, each.revision) for each in changed[OSLO]] == [
        ("a", 2, 2),
        ("b", 3, 2),
    ]
    assert made.revise(2) == {}


def test_a_lease_is_renewed_when_half_of_it_is_over() -> None:
    made = PoolBook(lease_ns=100)
    made.cluster_joined(cluster(SEOUL, 1))
    made.set_pools(ANN, [pool("a", guaranteed=4)])
    assert made.revise(0)[SEOUL][0].until_ns == 100
    assert made.revise(49) == {}
    assert made.revise(50)[SEOUL][0].until_ns == 150


def test_nobody_else_may_use_units_that_are_not_lent() -> None:
    made = book(pool("a", guaranteed=16, clusters=frozenset({SEOUL})))
    assert not made.may_use(work("w", BOB), AT_SEOUL, 1)
    assert made.may_use(work("w", BOB), AT_OSLO, 8)
    assert made.may_use(work("v", ANN, "a"), AT_SEOUL, 16)
    assert not made.may_use(work("v", BOB, "a"), AT_OSLO, 1), "another tenant's pool"


def test_without_pools_nothing_is_withheld() -> None:
    made = book()
    assert made.may_use(work("w", BOB), AT_SEOUL, 16)
    assert not made.may_use(work("w", BOB, "nowhere"), AT_SEOUL, 1)


def test_idle_lendable_units_can_be_borrowed_and_are_counted_once() -> None:
    made = book(pool("a", guaranteed=16, lendable=6, clusters=frozenset({SEOUL})))
    assert made.rooms(BOB, None)[made.index(AT_SEOUL)] == 6
    made.took(work("own", ANN, "a"), AT_SEOUL, 12)
    assert made.rooms(BOB, None)[made.index(AT_SEOUL)] == 4
    made.took(work("w", BOB), AT_SEOUL, 4)
    assert made.rooms(BOB, None)[made.index(AT_SEOUL)] == 0
    assert not made.may_use(work("own2", ANN, "a"), AT_SEOUL, 1), "borrowed at the moment"


def test_loans_of_one_pool_do_not_block_another_of_the_same_tenant() -> None:
    here = frozenset({OSLO})
    made = book(
        pool("a", guaranteed=4, clusters=here), pool("b", guaranteed=4, lendable=4, clusters=here)
    )
    made.took(work("w", BOB), AT_OSLO, 4)
    assert made.rooms(ANN, PoolId("a"))[made.index(AT_OSLO)] == 4
    assert made.rooms(ANN, PoolId("b"))[made.index(AT_OSLO)] == 0


def test_a_tenants_loose_work_counts_against_its_own_idle_units() -> None:
    here = frozenset({OSLO})
    made = book(
        pool("a", guaranteed=4, clusters=here), pool("b", guaranteed=4, lendable=4, clusters=here)
    )
    made.took(work("loose", ANN), AT_OSLO, 4)
    made.took(work("w", BOB), AT_OSLO, 4)
    assert not made.may_use(work("v", ANN, "a"), AT_OSLO, 1), "all eight devices are in use"


def test_a_pool_grows_over_open_devices_to_its_maximum() -> None:
    made = book(pool("a", guaranteed=2, maximum=5, clusters=frozenset({SEOUL})))
    assert made.rooms(ANN, PoolId("a"))[made.index(AT_SEOUL)] == 5
    made.took(work("w", ANN, "a"), AT_SEOUL, 4)
    assert made.rooms(ANN, PoolId("a"))[made.index(AT_SEOUL)] == 1


def test_what_a_pool_could_ever_have_ends_at_its_maximum_and_follows_what_others_keep() -> None:
    own = pool("a", guaranteed=2, maximum=5, clusters=frozenset({SEOUL}))
    made = book(own)
    at = made.index(AT_SEOUL)
    assert made.reach(ANN, PoolId("a"))[at] == 5
    assert made.below_maximum(PoolId("a")) == 5
    made.took(work("w", ANN, "a"), AT_SEOUL, 4)
    assert made.reach(ANN, PoolId("a"))[at] == 5, "as if nobody were there"
    assert made.below_maximum(PoolId("a")) == 1
    made.set_pools(BOB, [pool("b", BOB, guaranteed=12, clusters=frozenset({SEOUL}))])
    made.revise(1)
    assert made.reach(ANN, PoolId("a"))[at] == 4, "bob keeps 12 of 16"


def test_a_called_loan_is_reclaimed_from_the_cheapest_borrowers() -> None:
    made = book(pool("a", guaranteed=16, lendable=16, clusters=frozenset({SEOUL})))
    for name, devices in (("dear", 4.0), ("cheap", 4.0), ("small", 1.0), ("unmovable", 7.0)):
        made.took(work(name, BOB), AT_SEOUL, devices)
    made.wants(PoolId("a"), 5)
    leases = made.revise(1)
    assert leases[SEOUL][0].lent == 11
    costs = {WorkloadId("dear"): 40.0, WorkloadId("cheap"): 4.0, WorkloadId("small"): 2.0}
    assert made.to_reclaim(costs) == [
        Reclaim(AT_SEOUL, 5.0, (WorkloadId("small"), WorkloadId("cheap")))
    ]
    made.gave_back(WorkloadId("small"), AT_SEOUL)
    made.gave_back(WorkloadId("cheap"), AT_SEOUL)
    assert made.to_reclaim(costs) == []
    assert made.rooms(ANN, PoolId("a"))[made.index(AT_SEOUL)] == 5


def test_who_gives_back_is_no_more_than_needed() -> None:
    made = book(pool("a", guaranteed=16, lendable=16, clusters=frozenset({SEOUL})))
    made.took(work("tiny", BOB), AT_SEOUL, 1)
    made.took(work("large", BOB), AT_SEOUL, 15)
    made.wants(PoolId("a"), 2)
    made.revise(1)
    costs = {WorkloadId("tiny"): 0.1, WorkloadId("large"): 30.0}
    assert made.to_reclaim(costs)[0].workloads == (WorkloadId("large"),)


def test_lending_resumes_when_the_owner_no_longer_waits() -> None:
    made = book(pool("a", guaranteed=16, lendable=10, clusters=frozenset({SEOUL})))
    made.wants(PoolId("a"), 16)
    assert made.revise(1)[SEOUL][0].lent == 0
    made.wants(PoolId("a"), 0)
    assert made.revise(2)[SEOUL][0].lent == 10


def test_a_lost_clusters_units_go_elsewhere_and_what_is_missing_is_told() -> None:
    made = book(pool("a", guaranteed=12))
    made.cluster_lost(SEOUL)
    leases = made.revise(1)
    assert leases[SEOUL] == ()
    assert leases[OSLO][0].units == 8
    assert [(each.pool, each.missing) for each in made.shortfalls()] == [("a", 4)]


def test_a_dedicated_pool_keeps_whole_nodes_from_others() -> None:
    made = book(pool("a", guaranteed=5, dedicated=True, clusters=frozenset({SEOUL})))
    assert made.rooms(BOB, None)[made.index(AT_SEOUL)] == 8
    assert made.rooms(ANN, PoolId("a"))[made.index(AT_SEOUL)] == 5


def test_slices_take_their_part_of_a_device() -> None:
    place = Place(SEOUL, "h100", ShareMode.MIG)
    made = PoolBook()
    made.set_capacity(place, 3)
    sliced = VNodePool(PoolId("a"), ANN, "h100", "1g.10gb", ShareMode.MIG, guaranteed=9)
    made.set_pools(ANN, [sliced])
    assert made.revise(0)[SEOUL][0].units == 9
    assert made.rooms(BOB, None)[0] == 1, "nine of seven a device keep two devices"
    assert made.rooms(ANN, PoolId("a"))[0] >= 9 / 7
    made.set_pools(ANN, [replace(sliced, lendable=9)])
    made.wants_devices(PoolId("a"), 0.5)
    assert made.revise(1)[SEOUL][0].lent == 5, "four slices for half a device"


def test_rebalancing_brings_idle_units_to_where_the_pool_is_used() -> None:
    made = book(pool("a", guaranteed=12))
    made.took(work("w", ANN, "a"), AT_SEOUL, 11)
    made.rebalance()
    leases = made.revise(1)
    assert [leases[SEOUL][0].units, leases[OSLO][0].units] == [11, 1]
    made.rebalance()
    assert made.revise(2) == {}


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (pool("a", guaranteed=2, lendable=3), "lends 3 of 2"),
        (pool("a", guaranteed=2, maximum=1), "at most 1"),
        (pool("a", guaranteed=2, lendable=1, dedicated=True), "dedicated"),
        (pool("a", BOB), "another tenant"),
        (VNodePool(PoolId("a"), ANN, "h999"), "unknown profile"),
        (VNodePool(PoolId("a"), ANN, "h100", "1g.10gb"), "mode 'whole'"),
    ],
)
def test_a_contradictory_pool_is_refused(wrong: VNodePool, what: str) -> None:
    with pytest.raises(InputError, match=what):
        PoolBook().set_pools(ANN, [wrong])


def test_a_pools_name_cannot_be_taken_over_by_another_tenant() -> None:
    made = book(pool("a"))
    with pytest.raises(InputError, match="another tenant"):
        made.set_pools(BOB, [pool("a", BOB)])
