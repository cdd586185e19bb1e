"""Services kept warm, grown in place and back, and what keeps their size from trembling."""

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from dure.domain.fleet.decisions import Placement
from dure.domain.fleet.events import (
    AllotmentsSet,
    NodeCordoned,
    NodesEmptying,
    PolicySet,
    TenantSet,
)
from dure.domain.fleet.instructions import ResizeInstance, SizeService
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import Allotment, FleetTenant, VNodePool
from dure.domain.fleet.workloads import Gang, Workload
from dure.domain.ids import PoolId, TenantId, WorkloadId
from dure.fleet.local.settings import LocalSettings, TidyRules
from dure.fleet.local_machine import LocalMachine
from tests.fleet.local.factories import (
    HERE,
    Rig,
    batch,
    cluster,
    group,
    moved,
    order,
    pool_id,
    rig,
    serving,
    started,
    stopped,
    training,
)

CALM_MS, NEAR_MS = 120.0, 470.0
IN_PLACE = frozenset({"gpus"})


def kept(standby: int, **more: Any) -> Workload:
    """A service with instances kept warm."""
    made = serving("s", whole=more.pop("whole", True), **more)
    assert made.service is not None
    return replace(made, service=replace(made.service, standby=standby))


def of(workload: Workload, **changes: Any) -> Workload:
    assert workload.service is not None
    return replace(workload, service=replace(workload.service, **changes))


# Kept warm


def test_instances_kept_warm_are_started_beside_those_that_take_requests() -> None:
    it = rig(group(count=4))
    it.give(order(kept(2), 3))
    assert it.names()["s"] == 5
    assert it.sizes["s"] == (3, 2)


def test_a_growing_load_takes_warm_ones_and_the_pool_is_filled_again() -> None:
    it = rig(group(count=4))
    it.give(order(kept(2), 2))
    it.warm_all()
    it.load(("s", 40.0, 0.0, CALM_MS))
    serving_now, standby = it.sizes["s"]
    assert serving_now > 2
    assert standby == 2
    assert it.names()["s"] == serving_now + 2


def test_a_smaller_load_gives_instances_back_and_keeps_the_pool() -> None:
    it = rig(group(count=4))
    it.give(order(of(kept(1), forgets_bursts=True), 2))
    it.warm_all()
    for _ in range(5):
        it.load(("s", 60.0, 0.0, CALM_MS))
        it.warm_all()
    large = it.sizes["s"][0]
    for _ in range(60):
        it.load(("s", 15.0, 0.0, CALM_MS))
    small = it.sizes["s"][0]
    assert small < large
    assert it.names()["s"] == small + 1


def test_those_with_the_highest_numbers_are_kept_and_go_first() -> None:
    it = rig(group(count=4))
    it.give(order(of(kept(1), forgets_bursts=True), 2))
    it.warm_all()
    it.load(("s", 60.0, 0.0, CALM_MS))
    it.warm_all()
    before = {name.index for name in it.of("s")}
    while len(it.of("s")) == len(before):
        it.load(("s", 15.0, 0.0, CALM_MS))
    gone = before - {name.index for name in it.of("s")}
    assert gone == set(sorted(before)[-len(gone) :])


def test_the_most_a_service_may_have_bounds_both_together() -> None:
    it = rig(group(count=4))
    it.give(order(kept(3, most_replicas=4), 2))
    assert (it.names()["s"], it.sizes["s"]) == (4, (2, 2))
    it.warm_all()
    it.load(("s", 500.0, 0.0, CALM_MS))
    assert (it.names()["s"], it.sizes["s"]) == (4, (4, 0))


def test_a_stage_that_takes_over_knows_whom_it_keeps_warm() -> None:
    it = rig(group(count=4))
    given = order(kept(2), 3)
    it.give(given)
    it.warm_all()
    state = it.machine.snapshot()
    again = LocalMachine.restore(it.settings, state)
    assert again.snapshot() == state
    task = again.floor.tasks[WorkloadId("s")]
    assert (task.wanted, task.target, task.missing) == (3, 5, 0)


# Larger slices in place


def shared(count: int = 1, devices: int = 1, **more: Any) -> Rig:
    """Devices that several share, whose slices can be changed while they are in use."""
    return rig(group(count=count, devices=devices, mode=ShareMode.MPS), in_place=IN_PLACE, **more)


def placement(it: Rig) -> Placement:
    (place,) = it.running.values()
    return place


def test_a_warning_grows_the_slice_in_place_and_nothing_is_started() -> None:
    it = shared()
    it.give(order(serving("s", most_replicas=4)))
    it.warm_all()
    small = placement(it)
    it.load(("s", 1.0, 0.0, NEAR_MS))
    large = placement(it)
    assert large.compute_milli > small.compute_milli
    assert (large.node, large.devices) == (small.node, small.devices)
    assert len(it.of("s")) == 1
    assert not it.leaving
    (resize,) = [each for each in it.log if isinstance(each, ResizeInstance)]
    assert resize.placement == large


def test_it_shrinks_step_by_step_to_where_it_was() -> None:
    it = shared()
    it.give(order(serving("s", most_replicas=1)))
    it.warm_all()
    small = placement(it)
    for _ in range(4):
        it.load(("s", 1.0, 0.0, NEAR_MS))
    sizes = [placement(it).compute_milli]
    for _ in range(80):
        it.load(("s", 1.0, 0.0, CALM_MS))
        sizes.append(placement(it).compute_milli)
    assert sizes[0] > small.compute_milli
    assert sizes[-1] == small.compute_milli
    assert all(after <= before for before, after in pairwise(sizes))
    assert len(set(sizes)) >= 3, "in one step"


def test_where_no_slice_can_grow_a_replica_comes_instead() -> None:
    it = shared(count=2)
    it.give(order(serving("s", most_replicas=4)))
    (here,) = it.nodes("s")
    number = 0
    while not it.machine.floor.queue.lines[0].tasks:  # until nothing fits any more
        it.give(order(batch(f"b{number}")))
        number += 1
    it.withdraw(f"b{number - 1}")
    elsewhere = next(f"b{each}" for each in range(number - 1) if it.nodes(f"b{each}") != {here})
    it.end(elsewhere)
    it.warm_all()
    it.load(("s", 1.0, 0.0, NEAR_MS))
    it.load(("s", 1.0, 0.0, NEAR_MS))
    assert len(it.of("s")) == 2
    assert not [each for each in it.log if isinstance(each, ResizeInstance)]


def test_a_step_has_time_to_show_before_the_next() -> None:
    it = shared()
    it.give(order(serving("s", most_replicas=1)))
    it.warm_all()
    it.load(("s", 1.0, 0.0, NEAR_MS))
    once = placement(it).compute_milli
    it.load(("s", 1.0, 0.0, NEAR_MS), minutes=2 / 60)
    assert placement(it).compute_milli == once
    it.load(("s", 1.0, 0.0, NEAR_MS), minutes=10 / 60)
    assert placement(it).compute_milli > once


def test_without_such_nodes_a_warning_adds_replicas() -> None:
    it = rig(group(count=1, devices=1, mode=ShareMode.MPS))
    it.give(order(serving("s", most_replicas=4)))
    it.warm_all()
    it.load(("s", 1.0, 0.0, NEAR_MS))
    assert len(it.of("s")) == 2
    assert not [each for each in it.log if isinstance(each, ResizeInstance)]


def test_a_slice_of_slots_grows_where_its_own_slots_end() -> None:
    it = rig(group(count=1, devices=1, mode=ShareMode.MIG), in_place=IN_PLACE)
    it.give(order(serving("s", most_replicas=4)))
    it.warm_all()
    small = placement(it)
    it.load(("s", 1.0, 0.0, NEAR_MS))
    large = placement(it)
    assert large.template != small.template
    assert large.devices == small.devices


def test_growth_in_place_takes_nothing_that_a_pool_has_kept_for_itself() -> None:
    it = shared()
    pool = VNodePool(PoolId("p"), TenantId("owner"), "a100", mode=ShareMode.MPS, guaranteed=1)
    it.tell(TenantSet(it.now_ns, FleetTenant(TenantId("owner")), (pool,)))
    it.give(order(serving("s", most_replicas=1)))
    it.warm_all()
    it.tell(AllotmentsSet(it.now_ns, (Allotment(PoolId("p"), HERE, units=1, lent=0, revision=1),)))
    small = placement(it) if it.running else None
    it.load(("s", 1.0, 0.0, NEAR_MS))
    assert not it.running or placement(it) == small


# Within what its cluster has for it


def test_a_service_grows_into_the_units_of_its_pool_and_not_into_those_of_others() -> None:
    it = rig(group(count=1, devices=4))
    for owner in ("t", "other"):
        pool = VNodePool(PoolId(f"of-{owner}"), TenantId(owner), "a100", guaranteed=2)
        it.tell(TenantSet(it.now_ns, FleetTenant(TenantId(owner)), (pool,)))

    def lease(revision: int, lent: int) -> None:
        leases = (
            Allotment(PoolId("of-t"), HERE, units=2, lent=0, revision=revision),
            Allotment(PoolId("of-other"), HERE, units=2, lent=lent, revision=revision),
        )
        it.tell(AllotmentsSet(it.now_ns, leases))

    lease(1, lent=0)
    it.give(order(serving("s", whole=True, pool=pool_id("of-t"), most_replicas=8)))
    it.warm_all()
    it.load(("s", 60.0, 0.0, CALM_MS))
    assert it.names()["s"] == 2
    lease(2, lent=1)
    it.round(1)
    assert it.names()["s"] == 3


# Paces of its own


def test_a_service_says_how_long_it_waits_before_it_shrinks() -> None:
    quick = of(serving("s", whole=True), shrink_after_s=60.0, forgets_bursts=True)
    it = rig(group(count=4))
    it.give(order(quick, 2))
    it.warm_all()
    it.load(("s", 60.0, 0.0, CALM_MS))
    it.warm_all()
    large = it.names()["s"]
    it.load(("s", 10.0, 0.0, CALM_MS))
    assert it.names()["s"] == large
    it.load(("s", 10.0, 0.0, CALM_MS), minutes=1.1)
    assert it.names()["s"] < large


def after_a_burst(workload: Workload) -> tuple[int, int]:
    """Replicas before a burst of twenty minutes, and two hours after."""
    it = rig(group(count=8))
    it.give(order(workload, 2))
    for _ in range(60):
        it.load(("s", 15.0, 0.0, CALM_MS))
        it.warm_all()
    before = it.names()["s"]
    for _ in range(20):
        it.load(("s", 45.0, 0.0, CALM_MS))
        it.warm_all()
    for _ in range(120):
        it.load(("s", 15.0, 0.0, CALM_MS))
    return before, it.names()["s"]


def test_who_forgets_bursts_goes_back_to_the_former_size_and_others_keep_for_the_next() -> None:
    before, after = after_a_burst(of(serving("s", whole=True), forgets_bursts=True))
    assert after == before
    before, after = after_a_burst(serving("s", whole=True))
    assert after > before


# No thrash


@pytest.mark.parametrize("seed", [7, 42, 1234])
@pytest.mark.parametrize("forgets", [True, False])
def test_half_an_hour_of_noisy_load_changes_the_size_a_few_times_at_most(
    seed: int, forgets: bool
) -> None:
    chance = random.Random(seed)
    it = rig(group(count=8))
    it.give(order(of(serving("s", whole=True), forgets_bursts=forgets), 4))
    it.warm_all()
    sizes = []
    for _ in range(30 * 30):  # every two seconds
        rate = 30.0 * chance.uniform(0.75, 1.25)
        latency_ms = chance.uniform(100.0, 440.0)
        it.load(("s", rate, float(chance.randrange(4)), latency_ms), minutes=2 / 60)
        it.warm_all()
        sizes.append(it.names()["s"])
    ups = sum(after > before for before, after in pairwise(sizes))
    downs = sum(after < before for before, after in pairwise(sizes))
    assert ups <= 3, sizes
    assert downs <= 2, sizes
    told = [each for each in it.log if isinstance(each, SizeService)]
    assert len(told) <= 8


@pytest.mark.parametrize("seed", [7, 42])
def test_latencies_around_the_warning_neither_grow_for_ever_nor_tremble(seed: int) -> None:
    chance = random.Random(seed)
    it = rig(group(count=8))
    it.give(order(of(serving("s", whole=True), forgets_bursts=True), 4))
    it.warm_all()
    sizes = []
    for _ in range(30 * 30):
        it.load(("s", 30.0, 0.0, chance.uniform(300.0, 500.0)), minutes=2 / 60)
        it.warm_all()
        sizes.append(it.names()["s"])
    assert max(sizes) <= 2 * min(sizes)
    assert sum(after < before for before, after in pairwise(sizes)) <= 1


# Moves that tidy up


def scattered(**rules: Any) -> Rig:
    """Nodes that are nearly empty, each with one service that could be elsewhere."""
    settings = LocalSettings(
        cluster(group(count=8, devices=4)), validate=True, tidy=TidyRules(rest_ns=0, **rules)
    )
    it = Rig(settings)
    for number in range(8):
        it.give(order(training(f"t{number}", devices=3)))
        it.give(order(serving(f"s{number}", whole=True)))
    it.warm_all()
    for number in range(8):
        it.end(f"t{number}")
    return it


def test_only_so_many_moves_are_under_way_at_a_time() -> None:
    it = scattered(most_at_once=2)
    first = moved(it.rounds(61))
    assert 0 < len(first) <= 2
    assert not moved(it.rounds(121)), "more, although the first are not there yet"
    it.warm_all()
    assert moved(it.rounds(61))


def test_only_so_many_moves_are_begun_within_an_hour() -> None:
    it = scattered(most_per_hour=1, interval_ns=60_000_000_000)
    made = []
    for _ in range(50):
        made += moved(it.round(1))
        it.warm_all()
    assert len(made) == 1


def test_a_policy_says_otherwise() -> None:
    it = scattered(most_at_once=2)
    it.tell(PolicySet(it.now_ns, FleetPolicy(local_moves_at_once=0)))
    assert not moved(it.rounds(121))
    it.tell(PolicySet(it.now_ns, FleetPolicy(local_moves_at_once=3)))
    assert 2 < len(moved(it.rounds(61))) <= 3


def test_a_node_that_shall_be_empty_is_emptied_few_moves_at_a_time() -> None:
    settings = LocalSettings(
        cluster(group(count=3, devices=4)), validate=True, tidy=TidyRules(most_at_once=1)
    )
    it = Rig(settings)
    it.give(*(order(serving(f"s{number}", whole=True)) for number in range(3)))
    it.give(order(training("t", devices=1)))
    it.warm_all()
    (node,) = {place.node for place in it.running.values()}
    it.tell(NodeCordoned(it.now_ns, node))
    it.tell(NodesEmptying(it.now_ns, frozenset({node})))
    for _ in range(5):
        assert len(moved(it.round(0.1))) <= 1
        assert len(it.leaving) <= 1
        it.warm_all()
    assert not [name for name in it.running if name.workload != "t" and it._on(name, node)]
    it.checkpoint("t")
    assert not any(place.node == node for place in it.running.values())


def test_what_may_not_be_moved_stays_on_a_node_that_shall_be_empty() -> None:
    it = rig(group(count=2, devices=4))
    it.give(order(serving("s", whole=True, preemptible=False)))
    it.give(order(training("t", gang=Gang(checkpoint_s=None))))
    it.warm_all()
    before = dict(it.running)
    nodes = frozenset(place.node for place in before.values())
    it.tell(NodesEmptying(it.now_ns, nodes))
    assert not moved(it.rounds(5))
    assert it.running == before


def test_a_node_that_need_not_be_empty_any_more_is_left_alone() -> None:
    it = rig(group(count=2, devices=4))
    it.give(order(serving("s", whole=True)))
    it.warm_all()
    it.tell(NodesEmptying(it.now_ns, frozenset(it.nodes("s"))))
    it.tell(NodesEmptying(it.now_ns, frozenset()))
    assert not moved(it.rounds(5))
    again = LocalMachine.restore(it.settings, it.machine.snapshot())
    assert again.tidy.emptying == frozenset()


def test_nothing_is_started_or_stopped_by_a_load_that_stays() -> None:
    it = rig(group(count=4))
    it.give(order(kept(1), 2))
    it.warm_all()
    it.load(("s", 12.0, 0.0, CALM_MS))
    it.warm_all()
    mark = len(it.log)
    for _ in range(30):
        it.load(("s", 12.0, 0.0, CALM_MS))
    assert not [*started(it.log[mark:]), *stopped(it.log[mark:])]
