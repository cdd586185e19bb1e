"""Pools and right-sizing through the global machine: lending, reclaim, lost nodes, advice."""

from dataclasses import replace

from dure.domain.fleet.events import (
    ClusterSummarised,
    RoundDue,
    TenantSet,
    UsageObserved,
    WorkloadStarted,
    WorkloadStopped,
)
from dure.domain.fleet.instructions import PreemptWorkload, SetAllotments, Warn
from dure.domain.fleet.series import HOUR_NS
from dure.domain.fleet.tenancy import Allotment, FleetTenant, VNodePool
from dure.domain.ids import ClusterId, PoolId, TenantId, WorkloadId
from dure.domain.units import GIB
from dure.fleet.global_machine import GlobalMachine
from tests.fleet.factories import cluster, group, job, summary
from tests.fleet.machines import machine, of_kind, orders, submit, tell

ANN, BOB = TenantId("ann"), TenantId("bob")
MINUTE_NS = HOUR_NS // 60
EAST, WEST = cluster("east", groups=(group(nodes=1),)), cluster("west", groups=(group(nodes=1),))


def lending(guaranteed: int = 8, lendable: int = 8) -> GlobalMachine:
    """Bob owns the eight devices of the only cluster and lends some of them."""
    made = machine(EAST)
    pool = VNodePool(PoolId("bobs"), BOB, "a100", guaranteed=guaranteed, lendable=lendable)
    made.handle(TenantSet(0, FleetTenant(BOB), (pool,)))
    made.handle(RoundDue(0))
    return made


def start(made: GlobalMachine, *names: str, now_ns: int = 0) -> dict[str, int]:
    """Submit jobs of ann, one device each, and let those that get a place run."""
    submit(made, *(job(name, hours=100.0) for name in names), now_ns=now_ns)
    placed = orders(made.handle(RoundDue(now_ns)))
    for name, order in placed.items():
        made.handle(WorkloadStarted(now_ns, WorkloadId(name), order.attempt))
    tell(made, EAST, used=len(placed), now_ns=now_ns)
    return {name: order.attempt for name, order in placed.items()}


def leases(instructions: list[object]) -> dict[str, Allotment]:
    return {
        each.cluster: each.allotments[0]
        for each in instructions
        if isinstance(each, SetAllotments) and each.allotments
    }


def test_others_borrow_no_more_than_is_lent() -> None:
    made = lending(lendable=3)
    assert len(start(made, *(f"ann-{n}" for n in range(6)))) == 3


def test_an_owner_gets_lent_devices_back_at_the_least_cost_and_no_more_than_it_wants() -> None:
    made = lending()
    attempts = start(made, *(f"ann-{n}" for n in range(8)))
    assert len(attempts) == 8
    owner = job("bob-1", devices=2, tenant=BOB, pool=PoolId("bobs"))
    now_ns = HOUR_NS
    submit(made, owner, now_ns=now_ns)
    said = made.handle(RoundDue(now_ns))
    called = [each for each in of_kind(said, PreemptWorkload) if isinstance(each, PreemptWorkload)]
    assert len(called) == 2
    assert {each.wanted_by for each in called} == {"bob-1"}
    assert len({each.workload for each in called} & set(attempts)) == 2
    (lease,) = leases(list(said)).values()
    assert lease.lent <= 8 - 2
    for each in called:
        made.handle(WorkloadStopped(now_ns, each.workload, each.attempt, 0.0, "called back"))
    tell(made, EAST, used=6, now_ns=now_ns)
    placed = orders(made.handle(RoundDue(now_ns + HOUR_NS)))
    assert "bob-1" in placed
    assert not set(placed) & {each.workload for each in called}


def test_an_owner_has_all_its_units_whatever_its_share_while_others_wait_for_them() -> None:
    made = lending()
    assert len(start(made, *(f"ann-{n}" for n in range(8)))) == 8
    now_ns = HOUR_NS
    owned = [job(f"bob-{n}", tenant=BOB, pool=PoolId("bobs")) for n in range(8)]
    submit(made, *owned, now_ns=now_ns)
    said = made.handle(RoundDue(now_ns))
    called = [each for each in of_kind(said, PreemptWorkload) if isinstance(each, PreemptWorkload)]
    assert len(called) == 8
    for each in called:
        made.handle(WorkloadStopped(now_ns, each.workload, each.attempt, 0.0, "called back"))
    tell(made, EAST, used=0, now_ns=now_ns)
    # Those who were displaced wait, and want half of the fleet by their weight.
    placed = orders(made.handle(RoundDue(now_ns + MINUTE_NS)))
    assert set(placed) == {f"bob-{n}" for n in range(8)}


def test_a_place_that_was_taken_back_before_anything_started_there_is_free_again() -> None:
    made = lending()
    submit(made, job("ann-1", hours=100.0))
    (order,) = orders(made.handle(RoundDue(0))).values()
    (before,) = made.state.sites.columns.free[:, 0]
    made.handle(WorkloadStopped(0, WorkloadId("ann-1"), order.attempt, 0.0, "called back"))
    (after,) = made.state.sites.columns.free[:, 0]
    assert (before, after) == (7.0, 8.0)
    # A cluster that has told what it has left since then is believed.
    (again,) = orders(made.handle(RoundDue(MINUTE_NS))).values()
    tell(made, EAST, used=0, now_ns=MINUTE_NS)
    made.handle(WorkloadStopped(MINUTE_NS, WorkloadId("ann-1"), again.attempt, 0.0, "again"))
    assert made.state.sites.columns.free[0, 0] == 8.0


def test_pools_shrink_with_the_nodes_of_their_clusters_and_go_where_there_is_room() -> None:
    made = machine(EAST, WEST)
    here = frozenset({ClusterId("east"), ClusterId("west")})
    pool = VNodePool(PoolId("bobs"), BOB, "a100", guaranteed=8, clusters=here)
    made.handle(TenantSet(0, FleetTenant(BOB), (pool,)))
    before = leases(list(made.handle(RoundDue(0))))
    assert sum(lease.units for lease in before.values()) == 8
    (lost,) = [each for each in (EAST, WEST) if each.id in before][:1]
    empty = replace(
        summary(lost), nodes=0, devices=0, free_devices=0, free_compute_milli=0, largest_node_free=0
    )
    made.handle(ClusterSummarised(MINUTE_NS, (empty,)))
    made.handle(RoundDue(MINUTE_NS))
    held = made.state.pools.rooms(BOB, PoolId("bobs"))
    places = [place.cluster for place in made.state.pools.places]
    assert held[places.index(lost.id)] == 0.0
    assert held.sum() == 8.0
    tell(made, lost, now_ns=2 * MINUTE_NS)
    made.handle(RoundDue(2 * MINUTE_NS))
    assert made.state.pools.shortfalls() == []


def test_idle_units_follow_the_use_of_their_pool_within_the_hour() -> None:
    made = machine(EAST, WEST)
    pool = VNodePool(PoolId("bobs"), BOB, "a100", guaranteed=8)
    made.handle(TenantSet(0, FleetTenant(BOB), (pool,)))
    leased = leases(list(made.handle(RoundDue(0))))
    most = max(leased, key=lambda each: leased[each].units)
    other = ClusterId("west" if most == "east" else "east")
    before = leased[other].units if other in leased else 0
    assert before < 8
    submit(
        made,
        job("bob-1", devices=8, tenant=BOB, pool=PoolId("bobs"), clusters=frozenset({other})),
    )
    placed = orders(made.handle(RoundDue(0)))
    assert placed["bob-1"].site.cluster == other
    moved = leases(list(made.handle(RoundDue(2 * HOUR_NS))))
    assert moved[other].units == 8


def test_who_asks_for_far_more_than_it_uses_is_told_once_and_what_to_ask_for() -> None:
    made = machine(EAST)
    submit(made, job("big"))
    made.handle(RoundDue(0))
    said = []
    for minute in range(200):
        said += made.handle(
            UsageObserved(minute * MINUTE_NS, WorkloadId("big"), 2 * GIB, compute_share=0.9)
        )
    (warning,) = said
    assert isinstance(warning, Warn)
    assert warning.about == "big"
    assert "memory" in warning.remedy


def test_who_uses_what_it_asked_for_hears_nothing() -> None:
    made = machine(EAST)
    submit(made, job("fine"))
    made.handle(RoundDue(0))
    for minute in range(200):
        event = UsageObserved(minute * MINUTE_NS, WorkloadId("fine"), 9 * GIB, compute_share=0.9)
        assert made.handle(event) == []


def test_guarantees_beyond_capacity_are_told_once_for_each_number() -> None:
    made = machine(cluster("east", groups=(group(nodes=2),)))
    for name in ("ann", "bob"):
        tenant = TenantId(name)
        pool = VNodePool(PoolId(f"p-{name}"), tenant, "a100", guaranteed=12)
        made.handle(TenantSet(0, FleetTenant(tenant), (pool,)))

    def told(now_ns: int) -> list[tuple[str, str]]:
        said = made.handle(RoundDue(now_ns))
        return [(each.about, each.what) for each in said if isinstance(each, Warn)]

    ((about, what),) = told(0)
    assert about == "pool 'p-bob'"
    assert what.startswith("8 of its guaranteed units")
    assert told(1) == []
    made.handle(TenantSet(2, FleetTenant(TenantId("ann"))))
    assert told(2) == []
