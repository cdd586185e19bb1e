"""Nodes that others use too, that take nothing new, or to which starts come to nothing."""

import pytest

from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.events import (
    ForeignUsed,
    InstanceWarm,
    LocalEvent,
    NodeBack,
    NodeCordoned,
    NodeLost,
    OrderGiven,
    RoundDue,
    StartFailed,
)
from dure.domain.fleet.instructions import MoveInstance, PowerNode, Warn
from dure.domain.fleet.policy import MINUTE_NS
from dure.domain.fleet.slices import ShareMode
from dure.domain.ids import WorkloadId
from dure.domain.units import GIB
from dure.fleet.local.settings import QueueRules
from dure.fleet.local_machine import LocalMachine
from tests.fleet.local.factories import (
    CPU_MILLI,
    HOST_BYTES,
    Rig,
    batch,
    group,
    order,
    rig,
    serving,
    started,
    stopped,
    training,
)

# What others use


def test_devices_that_others_use_are_not_given_out() -> None:
    it = rig(group(count=1))
    it.tell(ForeignUsed(0, 0, devices=3))
    it.give(order(training("a")), order(training("b")))
    assert it.names() == {"a": 1}
    it.tell(ForeignUsed(0, 0, devices=2))
    it.round()
    assert it.names() == {"a": 1, "b": 1}


def test_the_summary_offers_only_what_others_leave() -> None:
    it = rig(group(count=2))
    it.tell(ForeignUsed(0, 1, 1, 4000, 10 * GIB))
    it.round()
    said = it.summary["gpus"]
    assert (said.devices, said.free_devices, said.nodes_in_use) == (8, 7, 0)
    assert said.free_compute_milli == 7000
    assert said.free_cpu_milli == 2 * CPU_MILLI - 4000
    assert said.free_host_memory_bytes == 2 * HOST_BYTES - 10 * GIB
    assert said.nodes_by_free == (0, 0, 0, 1, 1)
    assert dict(said.free_slices) == {"whole": 7}
    it.tell(ForeignUsed(0, 1))
    it.round()
    assert it.summary["gpus"].free_devices == 8


@pytest.mark.parametrize("use", [{"cpu_milli": CPU_MILLI}, {"host_memory_bytes": HOST_BYTES}])
def test_a_node_without_cpu_or_memory_takes_nothing(use: dict[str, int]) -> None:
    it = rig(group(count=1))
    it.tell(ForeignUsed(0, 0, **use))
    workload = batch("b")
    if "cpu_milli" not in use:
        from dataclasses import replace

        workload = replace(workload, demand=replace(workload.demand, host_memory_bytes=GIB))
    assert started(it.give(order(workload))) == []


def test_others_that_take_more_than_is_free_get_what_is_given_back() -> None:
    it = rig(group(count=1))
    it.give(order(training("a", 3)))
    it.tell(ForeignUsed(0, 0, 3, 10 * CPU_MILLI, 2 * HOST_BYTES))
    it.round()
    said = it.summary["gpus"]
    assert (said.free_devices, said.free_cpu_milli, said.free_host_memory_bytes) == (0, 0, 0)
    assert len(it.of("a")) == 3
    it.end("a")
    assert started(it.give(order(training("b")))) == []
    assert it.summary["gpus"].free_devices == 1
    it.tell(ForeignUsed(0, 0, devices=3))
    assert len(started(it.round())) == 1


def test_slices_do_not_go_onto_devices_of_others() -> None:
    it = rig(group(count=1, devices=2, mode=ShareMode.MIG))
    it.tell(ForeignUsed(0, 0, devices=1))
    it.give(*(order(batch(f"b{number}")) for number in range(9)))
    devices = {device for place in it.running.values() for device in place.devices}
    assert len(devices) == 1
    assert len(it.running) == 7


def test_a_node_that_others_use_is_not_switched_off() -> None:
    it = rig(group(count=2))
    it.tell(ForeignUsed(0, 0, cpu_milli=1))
    answer = it.rounds(30)
    assert [each.node for each in answer if isinstance(each, PowerNode)] == [1]


@pytest.mark.parametrize("event", [ForeignUsed(0, 9, 1), NodeCordoned(0, 9), NodeBack(0, -1)])
def test_news_of_a_node_that_is_not_there_changes_nothing(event: LocalEvent) -> None:
    it = rig()
    it.round()
    assert it.tell(event) == []
    assert it.round() == []


def test_a_snapshot_remembers_what_others_use() -> None:
    it = rig(group(count=2))
    it.give(order(training("a", 2)))
    it.tell(ForeignUsed(0, 0, 1, 100, GIB))
    it.tell(NodeCordoned(0, 1))
    twin = LocalMachine.restore(it.settings, it.machine.snapshot())
    for event in (OrderGiven(0, order(training("b", 3))), RoundDue(0), RoundDue(MINUTE_NS)):
        assert twin.handle(event) == it.machine.handle(event)


# Cordoned


def test_a_cordoned_node_keeps_what_it_has_and_takes_nothing_new() -> None:
    it = rig(group(count=1))
    it.give(order(training("a")))
    assert it.tell(NodeCordoned(0, 0)) == []
    assert it.give(order(serving("late")))[-1:] == it.log[-1:]
    assert it.names() == {"a": 1}
    said = it.summary["gpus"]
    assert (said.nodes, said.free_devices, said.nodes_in_use) == (0, 0, 1)
    it.tell(NodeBack(0, 0))
    it.give(order(training("b")))
    assert it.names()["b"] == 1


def test_an_order_that_waits_gets_a_place_when_a_node_is_opened_again() -> None:
    it = rig(group(count=2))
    it.give(order(training("a", 4)))
    (node,) = it.nodes("a")
    it.tell(NodeCordoned(0, 1 - node))
    assert started(it.give(order(training("b", 3)))) == []
    it.tell(NodeBack(0, 1 - node))
    assert len(started(it.round())) == 3


def test_what_runs_on_a_cordoned_node_is_gone_when_it_dies() -> None:
    it = rig(group(count=2))
    it.give(order(training("a")))
    (node,) = it.nodes("a")
    it.tell(NodeCordoned(0, node))
    it.tell(NodeLost(0, node))
    it.round()
    assert it.nodes("a") == {1 - node}


def test_a_node_that_comes_back_cordoned_takes_nothing_yet() -> None:
    it = rig(group(count=1))
    it.tell(NodeLost(0, 0))
    it.off.discard(0)
    it.tell(NodeCordoned(0, 0))
    assert started(it.give(order(training("a")))) == []
    assert it.turned_down
    it.tell(NodeBack(0, 0))
    it.give(order(training("b")))
    assert it.names() == {"b": 1}


def test_nothing_moves_onto_a_cordoned_node() -> None:
    it = rig(group(count=3))
    it.give(order(serving("a", whole=True)), order(serving("b", whole=True)))
    it.tell(NodeCordoned(0, 0))
    moves = [each for each in it.rounds(180) if isinstance(each, MoveInstance)]
    assert all(each.placement.node != 0 for each in moves)


# Starts that come to nothing


def fail(it: Rig, name: InstanceId) -> list[object]:
    """A start came to nothing; a round follows."""
    it._forget(name)
    answer = it.tell(StartFailed(it.now_ns, name, "somebody took the room"))
    return [*answer, *it.round()]


def test_a_gang_that_could_not_start_whole_starts_again_elsewhere() -> None:
    it = rig(group(count=2))
    it.give(order(training("w", 3)))
    (node,) = it.nodes("w")
    answer = fail(it, it.of("w")[1])
    assert len(stopped(answer)) == 2  # type: ignore[arg-type]
    assert sorted(name.index for name in it.of("w")) == [3, 4, 5]
    assert it.nodes("w") == {1 - node}


def test_a_single_instance_goes_to_another_node_if_there_is_one() -> None:
    it = rig(group(count=2))
    it.give(order(batch("b")))
    (node,) = it.nodes("b")
    fail(it, it.of("b")[0])
    assert it.nodes("b") == {1 - node}


def test_where_there_is_no_other_node_the_same_is_tried_again() -> None:
    it = rig(group(count=1))
    it.give(order(batch("b")))
    fail(it, it.of("b")[0])
    assert [name.index for name in it.of("b")] == [1]


def test_only_the_replica_that_failed_is_placed_again() -> None:
    it = rig(group(count=2))
    it.give(order(serving("s", whole=True), 3))
    kept = it.of("s")[1:]
    fail(it, it.of("s")[0])
    assert set(kept) < set(it.of("s"))
    assert len(it.of("s")) == 3


def test_after_too_many_failures_the_order_goes_back_with_the_reason() -> None:
    it = rig(group(count=2), queue=QueueRules(most_failures=3))
    it.give(order(training("w", 2)))
    for _ in range(3):
        fail(it, it.of("w")[0])
    (down,) = it.turned_down
    assert "somebody took the room" in down.why
    assert not it.running
    assert not it.machine.floor.tasks


def test_a_start_that_succeeds_makes_failures_forgotten() -> None:
    it = rig(group(count=2), queue=QueueRules(most_failures=2))
    it.give(order(batch("b")))
    for _ in range(4):
        fail(it, it.of("b")[0])
        it.warm_all()
    assert it.names() == {"b": 1}


def test_a_service_with_other_replicas_goes_on_and_somebody_is_told() -> None:
    it = rig(group(count=2), queue=QueueRules(most_failures=2))
    it.give(order(serving("s", whole=True), 2))
    for _ in range(2):
        fail(it, max(it.of("s"), key=lambda name: name.index))
    assert [each.about for each in it.log if isinstance(each, Warn)] == ["s"]
    assert not it.turned_down
    assert len(it.of("s")) == 2


def test_an_extra_worker_that_could_not_start_stops_nobody() -> None:
    it = rig(group(count=1), owned=True)
    it.give(order(training("w", 2, most_workers=4)))
    it.rounds(20)
    assert len(it.of("w")) == 4
    assert stopped(fail(it, it.of("w")[3])) == []  # type: ignore[arg-type]
    assert len(it.of("w")) == 3


def test_a_replacement_that_could_not_start_leaves_the_old_one_where_it_was() -> None:
    it = rig(group(count=2, mode=ShareMode.MIG))
    it.give(order(serving("s", most_replicas=1)))
    it.warm_all()
    (before,) = it.running.values()
    it.load(("s", 9.0, 50.0, 900.0))
    (name,) = it.of("s")
    assert it.leaving
    it.running[name] = it.leaving.pop(name)
    answer = it.tell(StartFailed(it.now_ns, name, "no room"))
    assert answer == []
    instance = it.machine.floor.tasks[WorkloadId("s")].instances[name.index]
    assert instance.spot.placement == before
    assert instance.warm


def test_a_failed_start_that_nobody_knows_changes_nothing() -> None:
    it = rig()
    assert it.tell(StartFailed(0, InstanceId(WorkloadId("x"), 1, 0), "no")) == []
    assert it.tell(InstanceWarm(0, InstanceId(WorkloadId("x"), 1, 0))) == []
