"""Moves that empty nodes or open room: only with a home for everybody and a gain worth them."""

from typing import Any

from dure.domain.fleet.events import NodeLost, PolicySet
from dure.domain.fleet.instructions import Warn
from dure.domain.fleet.policy import HOUR_NS, MINUTE_NS, ClassPolicy, FleetPolicy
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import Gang
from dure.fleet.local.settings import TidyRules
from tests.fleet.local.factories import Rig, batch, group, moved, order, rig, serving, training


def test_a_nearly_empty_node_is_emptied_and_then_switched_off() -> None:
    it = rig(group(count=2))
    it.give(order(training("fill", 3, hours=100)))
    it.give(order(training("wide", 2, hours=1)))
    it.give(order(serving("s", whole=True), 1))
    it.warm_all()
    it.end("wide")
    answer = it.rounds(90)
    it.warm_all()
    it.rounds(15)
    assert len({place.node for place in it.running.values()}) == 1
    assert len(it.off) == 1
    assert len(moved(answer)) <= 1


def test_services_move_warm_first_and_hold_both_places_until_then() -> None:
    it = _split_services()
    answer = it.rounds(61)
    assert moved(answer)
    assert all(each.warm_first for each in moved(answer))
    held = len(it.leaving)
    free = it.summary["gpus"].free_devices
    it.warm_all()
    it.round()
    assert it.summary["gpus"].free_devices == free + held
    assert len({place.node for place in it.running.values()}) == 1


def test_jobs_move_at_their_checkpoint_and_not_before() -> None:
    it = _split_jobs()
    answer = it.rounds(61)
    assert moved(answer) == []
    answer = it.checkpoint("b")
    (move,) = moved(answer)
    assert not move.warm_first
    assert len({place.node for place in it.running.values()}) == 1


def test_nothing_new_starts_on_a_node_that_is_being_emptied() -> None:
    it = _split_jobs()
    it.rounds(61)
    source = it.nodes("b")
    it.give(order(training("new", 1)))
    assert not it.nodes("new") & source or it.names()["new"] == 0


def test_a_planned_move_is_dropped_when_the_job_ends_or_its_home_dies() -> None:
    ended, died = _split_jobs(), _split_jobs()
    for it in (ended, died):
        it.rounds(61)
        assert it.machine.floor.movers == {"b"}
    ended.end("b")
    assert ended.summary["gpus"].free_devices == 8 - 2
    (home,) = died.nodes("a")
    died.tell(NodeLost(died.now_ns, home))
    died.round()
    assert not died.machine.floor.movers


def test_jobs_without_checkpoints_and_work_that_must_not_be_disturbed_stay() -> None:
    for more in ({"gang": Gang(1, checkpoint_s=None)}, {"preemptible": False}):
        it = _split_jobs(**more)
        it.rounds(61)
        assert not it.machine.floor.movers


def test_a_job_that_ends_soon_is_left_alone() -> None:
    it = _split_jobs(hours=0.4)
    it.rounds(61)
    assert not it.machine.floor.movers


def test_moves_that_win_too_little_are_not_made() -> None:
    it = _split_jobs(tidy=TidyRules(gain=9.0))
    it.rounds(120)
    assert not it.machine.floor.movers


def test_moves_are_bounded() -> None:
    it = _split_services(tidy=TidyRules(most_moves=0))
    assert moved(it.rounds(120)) == []


def test_an_instance_rests_between_moves() -> None:
    it = _split_services(tidy=TidyRules(interval_ns=10 * MINUTE_NS, rest_ns=100 * HOUR_NS))
    it.rounds(300)
    per_instance = [str(each.instance) for each in moved(it.log)]
    assert len(per_instance) == len(set(per_instance))


def test_switched_off_nothing_moves() -> None:
    it = _split_services(defragment=False)
    assert moved(it.rounds(300)) == []


def test_a_policy_can_forbid_moves_of_a_class_or_ask_for_a_dry_run() -> None:
    never = _split_services()
    never.tell(PolicySet(never.now_ns, FleetPolicy(serving=ClassPolicy(migrate=False))))
    assert moved(never.rounds(120)) == []
    paper = _split_services()
    paper.tell(PolicySet(paper.now_ns, FleetPolicy(dry_run=True)))
    answer = paper.rounds(61)
    assert moved(answer) == []
    assert any(isinstance(each, Warn) and "planned, not made" in each.what for each in answer)


def test_room_is_opened_for_a_blocked_gang_by_moving_the_least_affected() -> None:
    it = rig(group(count=2))
    it.give(order(serving("s", whole=True)), order(training("low", 1, hours=100)))
    it.give(order(training("fill", 2)))
    it.give(order(training("high", 2, hours=100, priority=1)))
    it.warm_all()
    it.end("fill")
    it.give(order(training("gang", 1, devices=4, priority=1)))
    assert it.names() == {"s": 1, "low": 1, "high": 2}
    (first,) = moved(it.rounds(11))
    assert (first.instance.workload, first.warm_first) == ("s", True)
    assert "makes room" in first.why
    (second,) = moved(it.checkpoint("low"))
    assert (second.instance.workload, second.warm_first) == ("low", False)
    it.warm_all()
    it.round()
    assert it.names() == {"s": 1, "low": 1, "high": 2, "gang": 1}


def test_slices_are_merged_for_an_order_that_needs_a_large_one() -> None:
    it = _holed()
    it.give(order(batch("large", memory_gib=60)))
    assert it.names()["large"] == 0
    answer = it.rounds(11)
    assert len(moved(answer)) == 1
    it.warm_all()
    it.round()
    assert it.names()["large"] == 1


def test_a_higher_priority_is_never_moved_for_a_lower_one() -> None:
    it = _holed(priority=5)
    it.give(order(batch("large", memory_gib=60)))
    assert moved(it.rounds(30)) == []


def test_nobody_else_takes_the_room_that_was_opened() -> None:
    it = _holed()
    it.give(order(batch("large", memory_gib=60)))
    it.rounds(11)
    it.give(order(batch("small")))
    assert it.names()["small"] == 0
    it.warm_all()
    it.round()
    assert it.names()["large"] == 1
    assert it.names()["small"] == 1


def _holed(**more: Any) -> Rig:
    """Two devices with one small slice on each."""
    it = rig(group(count=1, devices=2, mode=ShareMode.MIG), tidy=TidyRules(gain=1.0))
    for index in range(14):
        it.give(order(serving(f"s{index}", **more)))
    it.warm_all()
    by_device: dict[tuple[int, ...], list[str]] = {}
    for name, place in it.running.items():
        by_device.setdefault(place.devices, []).append(str(name.workload))
    for names in by_device.values():
        for each in names[1:]:
            it.withdraw(each)
    assert len(it.running) == 2
    return it


def _split_services(**more: Any) -> Rig:
    """One replica on each of two nodes."""
    it = rig(group(count=2), **more)
    it.give(order(training("fill", 3)))
    it.give(order(serving("s", whole=True), 2))
    it.warm_all()
    assert len(it.nodes("s")) == 2
    it.end("fill")
    return it


def _split_jobs(hours: float = 100.0, tidy: TidyRules | None = None, **more: Any) -> Rig:
    """Job a of two devices, which stays, and job b of one on different nodes."""
    it = rig(group(count=2), tidy=tidy or TidyRules())
    it.give(order(training("fill", 4)))
    it.give(order(training("b", 1, hours=hours, **more)))
    it.give(order(training("a1", 3, hours=100)))
    it.end("fill")
    it.give(order(training("a", 2, hours=100, preemptible=False)))
    it.withdraw("a1")
    assert it.nodes("a") != it.nodes("b")
    return it
