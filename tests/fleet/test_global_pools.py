"""Pools and right-sizing through the global machine: lending, reclaim, lost nodes, advice."""

from collections import Counter
from dataclasses import replace

from dure.domain.fleet.events import (
    ClusterSummarised,
    RoundDue,
    TenantSet,
    UsageObserved,
    WorkloadStarted,
    WorkloadStopped,
    WorkloadWithdrawn,
)
from dure.domain.fleet.instructions import PreemptWorkload, SetAllotments, Warn
from dure.domain.fleet.series import HOUR_NS
from dure.domain.fleet.tenancy import Allotment, Budget, FleetTenant, VNodePool
from dure.domain.ids import ClusterId, PoolId, TenantId, WorkloadId
from dure.domain.units import GIB, NS_PER_S
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.lending import lend_again, wake_owners
from dure.fleet.tracks import Phase
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


def test_nobody_is_placed_on_what_a_pool_holds_in_the_first_round_that_knows_of_it() -> None:
    made = machine(EAST)
    pool = VNodePool(PoolId("bobs"), BOB, "a100", guaranteed=6)
    made.handle(TenantSet(0, FleetTenant(BOB), (pool,)))
    submit(made, *(job(f"ann-{n}") for n in range(8)))
    assert len(orders(made.handle(RoundDue(0)))) == 2


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


def test_nobody_else_has_to_stop_while_those_who_were_told_to_are_stopping() -> None:
    made = lending()
    assert len(start(made, *(f"ann-{n}" for n in range(8)))) == 8
    now_ns = HOUR_NS
    assert len(call_back(made, 2, now_ns)) == 2
    for second in range(1, 4):
        now_ns += NS_PER_S
        submit(made, job(f"other-{second}"), now_ns=now_ns)
        said = made.handle(RoundDue(now_ns))
        assert not of_kind(said, PreemptWorkload)


def test_borrowers_are_found_among_however_many_others() -> None:
    many = cluster("many", groups=(group(nodes=80),))
    made = machine(many, EAST)
    pool = VNodePool(
        PoolId("bobs"), BOB, "a100", guaranteed=8, lendable=8, clusters=frozenset({EAST.id})
    )
    made.handle(TenantSet(0, FleetTenant(BOB), (pool,)))
    made.handle(RoundDue(0))
    others = [job(f"other-{n}", hours=100.0, clusters=frozenset({many.id})) for n in range(600)]
    borrowers = [job(f"ann-{n}", hours=100.0, clusters=frozenset({EAST.id})) for n in range(8)]
    for part in (others[:300], others[300:], borrowers):
        submit(made, *part)
        placed = orders(made.handle(RoundDue(0)))
        assert len(placed) == len(part)
        for name, order in placed.items():
            made.handle(WorkloadStarted(0, WorkloadId(name), order.attempt))
    tell(made, EAST, used=8)
    called = call_back(made, 2, HOUR_NS)
    assert len({each.workload for each in called}) == 2
    assert {each.cluster for each in called} == {EAST.id}


def test_units_lent_again_wake_those_who_may_be_there_before_those_of_other_clusters() -> None:
    made = machine(EAST, WEST)
    pool = VNodePool(
        PoolId("bobs"), BOB, "a100", guaranteed=8, lendable=8, clusters=frozenset({EAST.id})
    )
    made.handle(TenantSet(0, FleetTenant(BOB), (pool,)))
    made.handle(RoundDue(0))
    state = made.state
    tell(made, EAST, used=8)
    tell(made, WEST, used=8)
    pinned = [job(f"west-{n}", clusters=frozenset({WEST.id})) for n in range(70)]
    submit(made, *pinned, job("east", clusters=frozenset({EAST.id})))
    submit(made, job("bob", tenant=BOB, pool=PoolId("bobs")))
    made.handle(RoundDue(0))
    assert state.wanted_pools
    made.handle(WorkloadWithdrawn(NS_PER_S, WorkloadId("bob")))
    tell(made, EAST, used=0, now_ns=NS_PER_S)
    assert lend_again(state)
    assert state.tracks[WorkloadId("east")].phase is Phase.PENDING


def call_back(made: GlobalMachine, owned: int, now_ns: int) -> list[PreemptWorkload]:
    """Bob submits so many jobs of one device to his pool; who has to stop for them."""
    submit(
        made,
        *(job(f"bob-{n}", hours=1.0, tenant=BOB, pool=PoolId("bobs")) for n in range(owned)),
        now_ns=now_ns,
    )
    said = made.handle(RoundDue(now_ns))
    return [each for each in said if isinstance(each, PreemptWorkload)]


def stop(made: GlobalMachine, called: list[PreemptWorkload], now_ns: int) -> None:
    for each in called:
        made.handle(WorkloadStopped(now_ns, each.workload, each.attempt, 0.0, "called back"))


def test_an_owner_has_its_units_in_the_round_after_the_cluster_told_of_them_whoever_waits() -> None:
    made = lending()
    # Longer work has more to save by the site and is called for it before what is shorter.
    assert len(start(made, *(f"ann-{n}" for n in range(60)))) == 8
    called = call_back(made, owned=3, now_ns=HOUR_NS)
    assert len(called) == 3
    # They have stopped, and the cluster's figures come later, one device at a time: rounds between
    # find the owner's units idle and the site full.
    stop(made, called, HOUR_NS)
    assert orders(made.handle(RoundDue(HOUR_NS + NS_PER_S))) == {}
    for placed in (1, 2, 3):
        now_ns = HOUR_NS + (1 + placed) * NS_PER_S
        tell(made, EAST, used=7, now_ns=now_ns)
        found = orders(made.handle(RoundDue(now_ns)))
        assert [name[:3] for name in found] == ["bob"]
        tell(made, EAST, used=8, now_ns=now_ns)


def test_who_borrowed_has_it_again_once_its_owner_waits_no_longer() -> None:
    made = lending()
    assert len(start(made, *(f"ann-{n}" for n in range(10)))) == 8
    called = call_back(made, owned=3, now_ns=HOUR_NS)
    stop(made, called, HOUR_NS)
    made.handle(RoundDue(HOUR_NS + NS_PER_S))
    for n in range(3):
        made.handle(WorkloadWithdrawn(HOUR_NS + 2 * NS_PER_S, WorkloadId(f"bob-{n}")))
    tell(made, EAST, used=5, now_ns=HOUR_NS + 2 * NS_PER_S)
    said = made.handle(RoundDue(HOUR_NS + 3 * NS_PER_S))
    assert [name[:3] for name in orders(said)] == ["ann"] * 3
    assert leases(list(said))["east"].lent == 8
    assert orders(made.handle(RoundDue(HOUR_NS + 4 * NS_PER_S))) == {}


def stamps(made: GlobalMachine, whose: str) -> dict[str, int]:
    """When those who wait were last looked at, in the order of looks."""
    return {
        name: track.stamp
        for name, track in made.state.tracks.items()
        if name.startswith(whose) and not track.places
    }


def looked_at(before: dict[str, int], after: dict[str, int]) -> set[str]:
    return {name for name, stamp in after.items() if before.get(name) != stamp}


def owners_without_means(count: int) -> GlobalMachine:
    """Bob's pool is idle, and so many of his jobs cost more than he has left."""
    made = machine(EAST)
    pool = VNodePool(PoolId("bobs"), BOB, "a100", guaranteed=8)
    made.handle(TenantSet(0, FleetTenant(BOB, budget=Budget(money=10.0)), (pool,)))
    made.handle(RoundDue(0))
    tell(made, EAST, used=8)
    owned = (job(f"bob-{n}", hours=100.0, tenant=BOB, pool=pool.id) for n in range(count))
    submit(made, *owned)
    made.handle(RoundDue(0))
    return made


def test_a_freed_device_has_no_more_owners_looked_at_than_could_have_it() -> None:
    made = owners_without_means(60)
    before = stamps(made, "bob")
    tell(made, EAST, used=7, now_ns=NS_PER_S)
    assert orders(made.handle(RoundDue(NS_PER_S))) == {}
    # One device and half of one more, for the pool and for the site each.
    assert 1 <= len(looked_at(before, stamps(made, "bob"))) <= 4


def test_owners_who_do_not_take_their_units_keep_nobody_behind_them_from_being_looked_at() -> None:
    made = owners_without_means(30)
    state, room = made.state, made.state.waiting
    room.wake(room.waiting())
    found: list[str] = []
    for second in range(40):
        called = room.call(state.now_ns, state.sites.columns, 512)
        assert len(called) <= 4 or not second
        found += [track.id for track in called if second]
        for track in called:  # none takes the place, or says what it would rather have
            room.wait(track, HOUR_NS, ())
        # The site grows each time: the most urgent have news each time.
        tell(made, EAST, used=8, now_ns=second * NS_PER_S)
        tell(made, EAST, used=7, now_ns=second * NS_PER_S)
        wake_owners(state)
    assert set(found) == {f"bob-{n}" for n in range(30)}
    assert Counter(found)["bob-0"] > Counter(found)["bob-9"], "the most urgent are looked at first"


def test_what_is_lent_again_goes_to_who_can_use_it_however_many_wait_for_full_devices() -> None:
    both = cluster("east", groups=(group(nodes=1), group("other", nodes=1, profile="h100")))
    made = machine(both)
    pool = VNodePool(PoolId("bobs"), BOB, "a100", guaranteed=8, lendable=8)
    made.handle(TenantSet(0, FleetTenant(BOB), (pool,)))
    made.handle(RoundDue(0))

    def told(used: int, now_ns: int) -> None:
        sites = (summary(both, used=used), summary(both, 1, used=8))
        made.handle(ClusterSummarised(now_ns, sites))

    told(0, 0)  # the other devices are in use by somebody else
    only = frozenset({"h100"})
    submit(made, *(job(f"old-{n}", profiles=only) for n in range(100)))
    kind = frozenset({"a100"})
    submit(made, *(job(f"ann-{n}", hours=100.0, profiles=kind) for n in range(10)))
    placed = orders(made.handle(RoundDue(0)))
    assert len(placed) == 8
    for name, order in placed.items():
        made.handle(WorkloadStarted(0, WorkloadId(name), order.attempt))
    told(8, 0)
    called = call_back(made, owned=3, now_ns=HOUR_NS)
    stop(made, called, HOUR_NS)
    made.handle(RoundDue(HOUR_NS + NS_PER_S))
    for n in range(3):
        made.handle(WorkloadWithdrawn(HOUR_NS + 2 * NS_PER_S, WorkloadId(f"bob-{n}")))
    told(5, HOUR_NS + 2 * NS_PER_S)
    waiting = set(stamps(made, "ann"))
    assert len(waiting) == 5
    assert lend_again(made.state)
    tracks = made.state.tracks.values()
    assert waiting <= {track.id for track in tracks if track.phase is Phase.PENDING}
    found = orders(made.handle(RoundDue(HOUR_NS + 3 * NS_PER_S)))
    assert [name[:3] for name in found] == ["ann"] * 3


def test_a_job_whose_pool_is_at_its_maximum_hears_that() -> None:
    made = machine(EAST)
    pool = VNodePool(PoolId("bobs"), BOB, "a100", guaranteed=2, maximum=3)
    made.handle(TenantSet(0, FleetTenant(BOB), (pool,)))
    submit(made, *(job(f"bob-{n}", devices=2, tenant=BOB, pool=pool.id) for n in range(2)))
    placed = set(orders(made.handle(RoundDue(0))))
    assert len(placed) == 1
    (waits,) = {"bob-0", "bob-1"} - placed
    made.handle(RoundDue(2 * HOUR_NS))
    assert "below its maximum" in made.state.tracks[WorkloadId(waits)].why


def test_an_owner_that_is_held_by_something_else_does_not_open_its_units_to_others() -> None:
    made = lending()
    assert len(start(made, *(f"ann-{n}" for n in range(10)))) == 8
    called = call_back(made, owned=3, now_ns=HOUR_NS)
    stop(made, called, HOUR_NS)
    for second in range(1, 40):
        now_ns = HOUR_NS + second * NS_PER_S
        assert not orders(made.handle(RoundDue(now_ns))), "nobody has them before their owner"
    tell(made, EAST, used=5, now_ns=HOUR_NS + MINUTE_NS)
    found = orders(made.handle(RoundDue(HOUR_NS + MINUTE_NS)))
    assert set(found) == {"bob-0", "bob-1", "bob-2"}


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
