"""A local stage that is restarted takes over what runs, and doubles, loses and squeezes nothing."""

from dataclasses import replace
from typing import Any

import pytest

from dure.domain.fleet.decisions import InstanceId, Order, Placement
from dure.domain.fleet.events import (
    AllotmentsSet,
    InstanceEnded,
    InstanceFound,
    InstanceWarm,
    NodeCordoned,
    NodeLost,
    OrderGiven,
    OrderWithdrawn,
    RoundDue,
    SizeFound,
    StartFailed,
    TenantSet,
)
from dure.domain.fleet.instructions import (
    ReportSummary,
    SizeService,
    StartInstance,
    StopInstance,
)
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import Allotment, FleetTenant, VNodePool
from dure.domain.ids import PoolId, TenantId, WorkloadId
from dure.fleet.local.settings import LocalSettings
from dure.fleet.local_machine import LocalMachine
from tests.fleet.local.factories import (
    HERE,
    Rig,
    batch,
    cluster,
    group,
    order,
    rig,
    serving,
    started,
    stopped,
    training,
)


def restart(it: Rig, *skip: InstanceId, warm: bool = True) -> Rig:
    """A new rig of the same settings that is told all that runs, except some."""
    new = Rig(it.settings, it.now_ns)
    new.now_ns = it.now_ns
    for name, place in it.running.items():
        if name not in skip:
            found(new, it.orders[name], name.index, place, warm=warm)
    return new


def found(it: Rig, given: Order, index: int, place: Placement, warm: bool = True) -> list[Any]:
    """Tell that an instance runs; the rig knows it as running unless it is refused."""
    name = InstanceId(given.workload.id, given.attempt, index)
    it.running[name], it.orders[name] = place, given
    it._ever.add(name)
    return list(it.tell(InstanceFound(it.now_ns, given, name, place, warm)))


def at(node: int, *devices: int, **more: Any) -> Placement:
    return Placement(node, devices, **more)


def test_what_is_found_counts_as_if_it_had_been_placed_here() -> None:
    it = rig(group(count=3), group("mig", 2, 2, ShareMode.MIG))
    it.give(order(training("w", 3)), order(serving("s"), 2), order(batch("b"), group="mig"))
    it.warm_all()
    it.round()
    new = restart(it)
    new.round()
    assert _figures(new) == _figures(it)
    assert not started(new.log)
    assert not stopped(new.log)


def test_a_found_gang_is_not_started_twice_by_its_order() -> None:
    it = rig()
    given = order(training("w", 3))
    it.give(given)
    new = restart(it)
    assert started(new.give(given)) == []
    assert len(new.of("w")) == 3


def test_an_order_that_comes_before_its_instances_does_not_double_them_either() -> None:
    it = rig()
    given = order(training("w", 2))
    it.give(given)
    new = Rig(it.settings)
    new.tell(OrderGiven(0, given))
    for name, place in it.running.items():
        found(new, given, name.index, place)
    assert started(new.round()) == []
    assert len(new.of("w")) == 2


def test_a_service_stays_as_large_as_it_was_to_be_and_for_the_same_reason() -> None:
    it = rig()
    given = order(serving("s"))
    it.give(given)
    new = restart(it)
    # It was to have three; two of them had not been asked for when this stage began.
    new.tell(OrderGiven(new.now_ns, given))
    new.tell(SizeFound(new.now_ns, WorkloadId("s"), 1, 3, 0, "25 requests/s need 3"))
    answer = new.round()
    assert len(started(answer)) == 2
    (said,) = [each for each in answer if isinstance(each, SizeService)]
    assert (said.serving, said.why) == (3, "25 requests/s need 3")


def test_a_snapshot_before_the_first_round_knows_why_a_service_is_as_large() -> None:
    it = rig()
    given = order(serving("s"))
    it.give(given)
    new = restart(it)
    new.tell(OrderGiven(new.now_ns, given))
    new.tell(SizeFound(new.now_ns, WorkloadId("s"), 1, 3, 0, "25 requests/s need 3"))
    twin = LocalMachine.restore(new.settings, new.machine.snapshot())
    due = RoundDue(new.now_ns)
    assert twin.handle(due) == new.machine.handle(due)


def test_what_a_service_was_to_give_up_it_gives_up() -> None:
    it = rig()
    given = order(serving("s"), 3)
    it.give(given)
    new = restart(it)
    new.tell(OrderGiven(new.now_ns, given))
    new.tell(SizeFound(new.now_ns, WorkloadId("s"), 1, 2, 0, "its load needs fewer"))
    assert len(stopped(new.round())) == 1
    assert new.sizes["s"] == (2, 0)


def test_a_service_of_which_nothing_was_started_yet_is_to_be_as_large_as_before() -> None:
    it = rig()
    it.tell(OrderGiven(it.now_ns, order(serving("s"))))
    it.tell(SizeFound(it.now_ns, WorkloadId("s"), 1, 3, 0, "25 requests/s need 3"))
    it.tell(SizeFound(it.now_ns, WorkloadId("s"), 7, 5, 0, "of another attempt"))
    it.round()
    assert len(it.of("s")) == 3
    said = [each for each in it.log if isinstance(each, SizeService)]
    assert said[-1].why == "25 requests/s need 3"


def test_a_service_gets_only_the_replicas_it_misses_and_new_indices() -> None:
    it = rig()
    given = order(serving("s"), 3)
    it.give(given)
    gone = it.of("s")[1]
    new = restart(it, gone)
    assert [each.instance.index for each in started(new.give(given))] == [3]


def test_replicas_beyond_the_order_stay() -> None:
    it = rig()
    it.give(order(serving("s"), 3))
    new = Rig(it.settings)
    given = order(serving("s"), 1)
    for name, place in it.running.items():
        found(new, given, name.index, place)
    answer = new.give(given)
    assert not [*started(answer), *stopped(answer)]
    assert len(new.of("s")) == 3


def test_a_gang_that_lost_a_worker_starts_again_as_a_whole() -> None:
    it = rig()
    given = order(training("w", 3))
    it.give(given)
    new = restart(it, it.of("w")[0])
    answer = new.give(given)
    assert len(stopped(answer)) == 2
    assert [each.instance.index for each in started(answer)] == [3, 4, 5]


def test_a_gang_whose_worker_has_finished_goes_on_to_its_end() -> None:
    it = rig()
    given = order(training("w", 2))
    it.give(given)
    first, second = it.of("w")
    new = restart(it, first)
    new.tell(InstanceEnded(0, first))
    new.give(given)
    assert new.of("w") == [second]
    assert new.end("w")[:-1] == []
    assert not new.machine.floor.tasks


def test_indices_of_instances_that_are_over_are_not_used_again() -> None:
    new = rig()
    given = order(serving("s"))
    new.tell(InstanceEnded(0, InstanceId(WorkloadId("s"), 1, 6)))
    assert [each.instance.index for each in started(new.give(given))] == [7]


def test_indices_of_what_is_left_of_others_are_not_used_and_end_nothing() -> None:
    it = rig()
    given = order(training("w", 2))
    it.give(given)
    new = restart(it)
    new.tell(StartFailed(0, InstanceId(WorkloadId("w"), 1, 8), "its node went"))
    assert started(new.give(given)) == []
    new.tell(NodeLost(0, next(iter(new.nodes("w")))))
    assert [each.instance.index for each in started(new.round())] == [9, 10]


def test_one_replica_that_cannot_stay_costs_the_others_nothing() -> None:
    it = rig()
    given = order(serving("s"), 2)
    it.tell(OrderGiven(0, given))
    assert stopped(found(it, given, 0, at(9, 99)))
    assert found(it, given, 1, at(0, 0)) == []
    assert [each.instance.index for each in started(it.round())] == [2]


def test_a_gang_has_no_more_workers_than_it_can_use() -> None:
    it = rig()
    given = order(batch("b"))
    assert found(it, given, 0, at(0, 0)) == []
    (stop,) = stopped(found(it, given, 1, at(0, 1)))
    assert "complete" in stop.why


def test_a_larger_gang_than_ordered_keeps_its_extra_workers() -> None:
    it = rig(owned=True)
    given = order(training("w", 2, most_workers=6))
    it.give(given)
    it.rounds(20)
    assert len(it.of("w")) == 6
    new = restart(it)
    new.give(given)
    assert len(new.of("w")) == 6


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (at(7, 28), "node 7 is none of"),
        (at(0, 5), "devices of another node"),
        (at(0, 0, template="9g.90gb"), "no slice for it"),
        (at(0, 0, compute_milli=500), "no slice for it"),
        (at(1, 4), "is not free"),
        (at(0, 0, 1), "is not free"),
        (at(0), "is not free"),
        (at(-1, -4), "node -1 is none of"),
        (at(0, 0, masks=(1, 2)), "slots for each"),
    ],
)
def test_an_impossible_place_is_answered_by_a_stop(place: Placement, why: str) -> None:
    it = rig()
    assert found(it, order(batch("other")), 0, at(1, 4)) == []
    (stop,) = found(it, order(batch("b")), 0, place)
    assert isinstance(stop, StopInstance)
    assert why in stop.why
    assert list(it.machine.floor.tasks) == ["other"]


def test_two_in_one_slot_are_one_too_many() -> None:
    it = rig(group(mode=ShareMode.MIG))
    place = at(0, 0, masks=(1,), template="1g.10gb", compute_milli=142)
    seen = rig(group(mode=ShareMode.MIG))
    seen.give(order(batch("b")))
    place = next(iter(seen.running.values()))
    assert found(it, order(batch("a")), 0, place) == []
    assert stopped(found(it, order(batch("b")), 0, place))


def test_a_node_that_is_down_carries_nothing_and_a_cordoned_one_does() -> None:
    it = rig()
    it.tell(NodeLost(0, 0))
    it.tell(NodeCordoned(0, 1))
    assert stopped(found(it, order(batch("a")), 0, at(0, 0)))
    assert found(it, order(batch("b")), 0, at(1, 4)) == []
    it.round()
    assert it.of("b")


def test_an_instance_of_an_attempt_that_is_over_is_stopped() -> None:
    it = rig()
    it.tell(OrderWithdrawn(0, WorkloadId("b"), 1))
    assert stopped(found(it, order(batch("b")), 0, at(0, 0)))


def test_of_two_attempts_of_a_job_the_newer_stays_whichever_is_told_first() -> None:
    one, two = order(batch("b"), attempt=1), order(batch("b"), attempt=2)
    it = rig()
    found(it, one, 0, at(0, 0))
    found(it, two, 0, at(0, 1))
    assert [name.attempt for name in it.of("b")] == [2]
    it = rig()
    found(it, two, 0, at(0, 1))
    found(it, one, 0, at(0, 0))
    assert [name.attempt for name in it.of("b")] == [2]


@pytest.mark.parametrize("newest_first", [False, True])
def test_an_older_attempt_of_a_service_stays_until_the_newer_is_warm(newest_first: bool) -> None:
    orders = [order(serving("s"), attempt=attempt) for attempt in (1, 2)]
    told = list(zip(orders, (at(0, 0), at(0, 1)), (True, False), strict=True))
    it = rig()
    for given, place, warm in reversed(told) if newest_first else told:
        assert found(it, given, 0, place, warm) == []
    it.round()
    assert len(it.of("s")) == 2
    it.tell(InstanceWarm(0, InstanceId(WorkloadId("s"), 2, 0)))
    assert [name.attempt for name in it.of("s")] == [2]


def test_an_older_attempt_of_a_service_goes_when_the_newer_was_warm_before() -> None:
    it = rig()
    found(it, order(serving("s"), attempt=1), 0, at(0, 0))
    found(it, order(serving("s"), attempt=2), 0, at(0, 1))
    it.round()
    assert [name.attempt for name in it.of("s")] == [2]


def test_news_that_is_told_twice_counts_once() -> None:
    it = rig()
    given = order(batch("b"))
    found(it, given, 0, at(0, 0))
    assert found(it, given, 0, at(0, 0)) == []
    it.round()
    assert found(it, given, 0, at(0, 0)) == []
    assert it.names() == {"b": 1}


def test_an_instance_that_was_stopped_before_is_stopped_again() -> None:
    it = rig()
    given = order(serving("s"), 2)
    it.give(given)
    name = it.of("s")[0]
    place = it.running[name]
    it._forget(name)
    it.tell(InstanceEnded(0, name))
    it.round()
    assert stopped(found(it, given, name.index, place))


def test_a_found_instance_of_a_dedicated_pool_keeps_its_node() -> None:
    pool = VNodePool(PoolId("own"), TenantId("t"), "a100", dedicated=True)
    it = rig(group(count=3))
    it.tell(TenantSet(0, FleetTenant(TenantId("t")), (pool,)))
    it.tell(AllotmentsSet(0, (Allotment(PoolId("own"), HERE, 4),)))
    assert found(it, order(batch("b", pool=PoolId("own"))), 0, at(2, 8)) == []
    assert found(it, order(batch("guest")), 0, at(0, 0)) == []
    it.round()
    assert it.nodes("b") == {2}
    assert it.nodes("guest") == {0}
    assert it.machine.floor.yard.fields[0].owner.tolist() == [-1, -1, 0]


def test_larger_slices_of_a_service_are_known_again() -> None:
    it = rig(group(mode=ShareMode.MIG))
    given = order(serving("s", most_replicas=1))
    it.give(given)
    it.warm_all()
    for _ in range(3):
        it.load(("s", 9.0, 50.0, 900.0))
        it.warm_all()
    (place,) = it.running.values()
    assert place.template != "1g.10gb"
    new = restart(it)
    new.give(given)
    assert list(new.running.values()) == [place]
    said = [each for each in new.log if not isinstance(each, ReportSummary)]
    assert [(each.serving, each.level) for each in said if isinstance(each, SizeService)] == [
        (1, it.machine.floor.tasks[WorkloadId("s")].level)
    ]
    assert len(said) == 1


def test_a_snapshot_in_the_midst_of_taking_over_goes_on_alike() -> None:
    it = rig()
    given = order(training("w", 3))
    it.give(given)
    new = Rig(it.settings)
    for name in it.of("w")[:2]:
        found(new, given, name.index, it.running[name])
    new.tell(InstanceEnded(0, InstanceId(WorkloadId("x"), 1, 4)))
    twin = LocalMachine.restore(it.settings, new.machine.snapshot())
    for event in (OrderGiven(0, given), OrderGiven(0, order(batch("x"))), RoundDue(0)):
        assert twin.handle(event) == new.machine.handle(event)


def test_orders_wait_as_before_when_what_runs_has_been_found() -> None:
    it = rig(group(count=1))
    it.give(order(training("w", 4)))
    new = restart(it)
    assert started(new.give(order(training("w", 4)), order(training("next", 1)))) == []
    assert len(started(new.end("w"))) == 1


def test_nodes_that_are_off_at_start_are_on_where_something_is_found() -> None:
    it = Rig(LocalSettings(cluster(), nodes_on_at_start=False, validate=True))
    it.off.discard(1)
    assert found(it, order(batch("b")), 0, at(1, 4)) == []


def _figures(it: Rig) -> Any:
    return {name: replace(each, revision=0) for name, each in it.summary.items()}


def test_starts_are_told_with_the_order_that_came_last() -> None:
    it = rig()
    given = order(training("w", 2))
    it.give(given)
    new = restart(it, it.of("w")[0])
    again = replace(given, resume_share=0.5)
    starts = [each for each in new.give(again) if isinstance(each, StartInstance)]
    assert {each.order.resume_share for each in starts} == {0.5}
