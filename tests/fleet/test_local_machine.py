"""The local stage as a whole: orders, gangs, failures, attempts, time."""

from dataclasses import replace

import pytest

from dure.domain.errors import InputError, InvariantError
from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.decisions import InstanceId, Site
from dure.domain.fleet.events import (
    InstanceEnded,
    InstanceWarm,
    NodeBack,
    NodeLost,
    OrderGiven,
    OrderWithdrawn,
    RoundDue,
)
from dure.domain.fleet.instructions import ReportSummary, StartInstance, StopInstance, Warn
from dure.domain.fleet.policy import HOUR_NS, MINUTE_NS
from dure.domain.fleet.profiles import DataType
from dure.domain.fleet.slices import ShareMode
from dure.domain.ids import WorkloadId
from dure.fleet.local.settings import LocalSettings, QueueRules
from dure.fleet.local_machine import LocalMachine
from tests.fleet.local.factories import (
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


def test_an_order_starts_all_its_instances_in_the_next_round() -> None:
    it = rig()
    answer = it.give(order(training("w", 3)))
    assert [each.instance.index for each in started(answer)] == [0, 1, 2]
    assert all(each.order.workload.id == "w" for each in started(answer))


def test_a_round_without_news_does_nothing_and_is_not_due() -> None:
    it = rig()
    it.give(order(training("w")))
    assert not it.machine.due(it.now_ns)
    assert it.round() == []


def test_a_gang_starts_whole_or_not_at_all() -> None:
    it = rig(group(count=1))
    it.give(order(training("first", 2)))
    assert started(it.give(order(training("large", 3)))) == []
    assert len(started(it.end("first"))) == 3


def test_a_gang_lies_on_one_node_even_where_holes_on_used_nodes_would_do() -> None:
    it = rig(group(count=3))
    it.give(order(training("a", 3)), order(training("b", 4)))
    it.give(order(training("c", 3)))
    assert len(it.nodes("c")) == 1
    it.end("a")
    it.give(order(training("d", 4)))
    assert len(it.nodes("d")) == 1


def test_a_gang_too_large_for_a_node_uses_the_fewest() -> None:
    it = rig(group(count=4))
    it.give(order(training("a", 1)))
    it.give(order(training("b", 8)))
    assert len(it.nodes("b")) == 2


def test_a_gang_keeps_to_one_link_domain_if_it_can() -> None:
    it = rig(group(count=1, devices=8, link_domain=4))
    it.give(order(training("a", 2)))
    it.give(order(training("b", 4)))
    domains = {device // 4 for name in it.of("b") for device in it.running[name].devices}
    assert len(domains) == 1


def test_the_devices_of_one_worker_are_in_one_link_domain() -> None:
    it = rig(group(count=1, devices=4, link_domain=2))
    it.give(order(training("a", 1)))
    it.give(order(training("b", 1, devices=2)))
    (place,) = (it.running[name] for name in it.of("b"))
    assert len({device // 2 for device in place.devices}) == 1
    assert started(it.give(order(training("c", 1, devices=2)))) == []


def test_batch_fills_slices_of_devices_that_are_in_use() -> None:
    it = rig(group(count=2, mode=ShareMode.MIG))
    it.give(*(order(batch(f"b{index}")) for index in range(7)))
    assert len({place.devices for place in it.running.values()}) == 1
    assert len({place.masks for place in it.running.values()}) == 7


@pytest.mark.parametrize(
    "mode", [ShareMode.MPS, ShareMode.TIME_SLICE, ShareMode.QUEUE, ShareMode.MIG]
)
def test_batch_shares_a_device_in_every_mode_that_shares(mode: ShareMode) -> None:
    it = rig(group(count=2, devices=2, mode=mode))
    it.give(order(batch("a")), order(batch("b")))
    assert len({place.node for place in it.running.values()}) == 1
    assert all(place.template for place in it.running.values())


def test_batch_takes_core_groups_of_an_npu() -> None:
    nodes = NodeGroup("gpus", 1, "rngd", 2, 64_000, 2**39, 2, mode=ShareMode.CORE_GROUP)
    it = rig(nodes)
    it.give(*(order(batch(name, data_type=DataType.BF16)) for name in "ab"))
    first, second = it.running.values()
    assert first.devices == second.devices
    assert not first.masks[0] & second.masks[0]


def test_higher_priority_is_placed_first_whatever_came_first() -> None:
    it = rig(group(count=1))
    it.give(order(training("block", 4)))
    it.give(order(training("low", 4)), order(training("high", 4, priority=1)))
    assert {each.order.workload.id for each in started(it.end("block"))} == {"high"}


def test_between_equals_the_older_order_is_placed_first() -> None:
    it = rig(group(count=1))
    it.give(order(training("block", 4)))
    it.give(order(training("older", 4)))
    it.round(1)
    it.give(order(training("younger", 4)))
    assert {each.order.workload.id for each in started(it.end("block"))} == {"older"}


def test_of_orders_that_came_together_the_larger_is_placed_first() -> None:
    it = rig(group(count=1))
    it.give(order(training("a-small", 1)), order(training("b-large", 4)))
    assert it.names() == {"b-large": 4}


def test_an_order_waits_for_its_time() -> None:
    it = rig()
    assert started(it.give(order(training("w"), start_ns=HOUR_NS))) == []
    assert started(it.round(59)) == []
    assert len(started(it.round(1))) == 1


def test_small_orders_pass_a_blocked_gang_only_so_often() -> None:
    it = rig(group(count=2), queue=QueueRules(most_passes=3, hold_after_ns=100 * HOUR_NS))
    it.give(order(training("long", 2, hours=5)), order(training("longer", 4, hours=50)))
    it.give(order(training("gang", 4)))
    placed = 0
    for index in range(8):
        name = f"small{index}"
        it.give(order(training(name, 1, hours=1)))
        placed += name in it.names()
        if name in it.names():
            it.end(name)
    assert placed == 3
    it.end("long")
    assert it.names()["gang"] == 4


def test_nodes_are_kept_for_a_blocked_gang_after_a_while_but_not_all_nodes() -> None:
    it = rig(group(count=3), queue=QueueRules(hold_after_ns=HOUR_NS))
    it.give(
        order(training("soon", 3, hours=2)),
        order(training("late", 3, hours=50)),
        order(training("last", 3, hours=90)),
    )
    it.give(order(training("gang", 4)))
    it.round(61)
    it.give(*(order(training(f"x{index}")) for index in range(3)))
    used = {place.node for name, place in it.running.items() if str(name.workload)[0] == "x"}
    assert len(used) == 2
    assert not it.nodes("soon") & used
    it.end("soon")
    assert it.names()["gang"] == 4


def test_patience_ends_with_a_reason() -> None:
    it = rig(group(count=1), queue=QueueRules(patience_ns=HOUR_NS))
    it.give(order(training("block", 4)))
    it.give(order(training("w", 2)))
    it.rounds(59)
    assert not it.turned_down
    it.round(1)
    (answer,) = it.turned_down
    assert (answer.workload, answer.attempt) == ("w", 1)
    assert "no room for 2" in answer.why
    assert "here/gpus" in answer.why


def test_without_a_limit_patience_never_ends() -> None:
    it = rig(group(count=1), queue=QueueRules(patience_ns=None))
    it.give(order(training("block", 4)), order(training("w", 2)))
    it.round(60 * 24 * 30)
    assert not it.turned_down


def test_a_service_that_runs_in_part_goes_on_with_a_warning() -> None:
    it = rig(group(count=1), queue=QueueRules(patience_ns=HOUR_NS))
    it.give(order(training("block", 3)))
    it.give(order(serving("s", whole=True), 2))
    answer = it.rounds(61)
    assert it.names()["s"] == 1
    assert not it.turned_down
    (warning,) = [each for each in answer if isinstance(each, Warn)]
    assert warning.about == "s"
    it.end("block")
    assert it.names()["s"] == 2


def test_what_can_never_fit_is_turned_down_at_once() -> None:
    it = rig(group(count=1), group("mig", 1, mode=ShareMode.MIG))
    it.give(order(training("large", 5)))
    it.give(order(training("whole"), group="mig"))
    it.give(replace(order(training("lost")), site=Site(cluster().id, "nowhere")))
    whys = {answer.workload: answer.why for answer in it.turned_down}
    assert "room for 4 of its 5" in whys[WorkloadId("large")]
    assert "meets its demand" in whys[WorkloadId("whole")]
    assert "no site 'here/nowhere'" in whys[WorkloadId("lost")]


def test_withdrawn_orders_stop_and_late_copies_of_them_are_ignored() -> None:
    it = rig()
    it.give(order(training("w", 2)))
    assert len(stopped(it.tell(_withdrawal("w", 1, it.now_ns)))) == 2
    assert started(it.give(order(training("w", 2)))) == []
    assert len(started(it.give(order(training("w", 2), attempt=2)))) == 2


def test_older_attempts_are_ignored_and_newer_ones_replace() -> None:
    it = rig()
    it.give(order(training("w", 2), attempt=3))
    assert it.give(order(training("w", 1), attempt=2)) == []
    assert it.tell(_withdrawal("w", 2, it.now_ns)) == []
    answer = it.tell(OrderGiven(it.now_ns, order(training("w", 1), attempt=4)))
    assert len(stopped(answer)) == 2
    it.round()
    assert it.of("w") == [InstanceId(WorkloadId("w"), 4, 0)]


def test_a_newer_order_for_a_service_takes_over_when_it_is_warm() -> None:
    it = rig(group(), group("other", 1))
    it.give(order(serving("s", whole=True), 2))
    it.warm_all()
    it.give(order(serving("s", whole=True), 2, attempt=2, group="other"))
    assert {name.attempt for name in it.of("s")} == {1, 2}
    new = [name for name in it.of("s") if name.attempt == 2]
    it.tell(InstanceWarm(it.now_ns, new[0]))
    assert len(it.of("s")) == 4
    it.tell(InstanceWarm(it.now_ns, new[1]))
    assert it.of("s") == new
    it.tell(_withdrawal("s", 1, it.now_ns))
    assert it.of("s") == new


def test_a_replaced_order_can_be_withdrawn_and_is_not_made_whole_again() -> None:
    it = rig(group(), group("other", 1))
    it.give(order(serving("s", whole=True), 2))
    it.give(order(serving("s", whole=True), 1, attempt=2, group="other"))
    lost = it.of("s")[0]
    it.tell(NodeLost(it.now_ns, it.running[lost].node))
    it.tell(NodeBack(it.now_ns, 0))
    it.round()
    assert all(name.attempt == 2 for name in it.of("s"))
    it.tell(_withdrawal("s", 1, it.now_ns))
    assert it.names()["s"] == 1
    it.withdraw("s", 2)
    assert not it.machine.floor.tasks


def test_orders_for_a_service_may_follow_each_other_before_any_took_over() -> None:
    it = rig(group(count=2), group("other", 1))
    it.give(order(training("block", 4), group="other"))
    it.give(order(serving("s", whole=True)))
    it.give(order(serving("s", whole=True), attempt=2, group="other"))
    it.give(order(serving("s", whole=True), attempt=3))
    assert {name.attempt for name in it.of("s")} == {1, 3}
    it.warm_all()
    assert {name.attempt for name in it.of("s")} == {3}
    assert set(it.machine.floor.tasks) == {"block", "s"}


def test_when_the_newer_order_comes_to_nothing_the_older_one_goes_on() -> None:
    gone = rig(group(), group("other", 1), queue=QueueRules(patience_ns=HOUR_NS))
    gone.give(order(training("block", 4), group="other"))
    gone.give(order(serving("s", whole=True), 1))
    gone.warm_all()
    gone.give(order(serving("s", whole=True), 1, attempt=2, group="other"))
    gone.rounds(61)
    assert [answer.attempt for answer in gone.turned_down] == [2]
    gone.load(("s", 25.0, 0.0, 100.0))
    assert gone.names()["s"] > 2
    back = rig(group(), group("other", 1))
    back.give(order(serving("s", whole=True), 1))
    back.give(order(serving("s", whole=True), 1, attempt=2, group="other"))
    back.withdraw("s", 2)
    assert [name.attempt for name in back.of("s")] == [1]
    back.load(("s", 25.0, 0.0, 100.0))
    assert back.names()["s"] > 2


def test_an_order_that_was_turned_down_may_be_given_again() -> None:
    it = rig(group(count=1), queue=QueueRules(patience_ns=MINUTE_NS))
    it.give(order(training("block", 4)), order(training("w")))
    it.round(2)
    assert it.turned_down
    it.end("block")
    it.give(order(training("w")))
    assert it.names() == {"w": 1}


def test_a_gang_that_loses_a_node_stops_everywhere_and_starts_again_elsewhere() -> None:
    it = rig(group(count=3))
    it.give(order(training("w", 8)))
    answer = it.tell(NodeLost(it.now_ns, 0))
    assert len(stopped(answer)) == 4
    assert all("lost a worker" in each.why for each in stopped(answer))
    assert len(started(it.round())) == 8
    assert it.nodes("w") == {1, 2}
    assert {name.index for name in it.of("w")} == set(range(8, 16))


def test_a_gang_that_fits_no_longer_is_turned_down() -> None:
    it = rig(group(count=2))
    it.give(order(training("w", 8)))
    it.tell(NodeLost(it.now_ns, 0))
    (answer,) = it.turned_down
    assert "room for 4 of 8" in answer.why
    assert not it.running


def test_a_service_restarts_only_the_replicas_it_lost() -> None:
    it = rig(group(count=2))
    it.give(order(training("x", 3)))
    it.give(order(serving("s", whole=True), 3))
    lost = [name for name in it.of("s") if it.running[name].node == 1]
    answer = it.tell(NodeLost(it.now_ns, 1))
    assert stopped(answer) == []
    assert lost
    it.tell(NodeBack(it.now_ns, 1))
    it.round()
    assert it.names()["s"] == 3
    assert not set(lost) & set(it.of("s"))


def test_a_node_that_is_back_is_used_again() -> None:
    it = rig(group(count=1))
    it.tell(NodeLost(0, 0))
    it.give(order(serving("s", whole=True)))
    assert it.turned_down
    it.tell(NodeBack(0, 0))
    assert len(started(it.give(order(serving("s2", whole=True))))) == 1


def test_news_of_instances_that_are_gone_is_ignored() -> None:
    it = rig()
    it.give(order(training("w")))
    stale = InstanceId(WorkloadId("w"), 1, 7)
    assert it.tell(InstanceEnded(it.now_ns, stale)) == []
    it.end("w")
    assert it.tell(InstanceEnded(it.now_ns, InstanceId(WorkloadId("w"), 1, 0))) == []


def test_a_replica_that_fails_is_replaced() -> None:
    it = rig()
    it.give(order(serving("s", whole=True)))
    it.end("s")
    assert [name.index for name in it.of("s")] == [1]


def test_summaries_come_only_when_something_changed_and_under_new_revisions() -> None:
    it = rig()
    (first,) = [each for each in it.round() if isinstance(each, ReportSummary)]
    it.rounds(5)
    answer = it.give(order(training("w", 2)))
    (second,) = [each for each in answer if isinstance(each, ReportSummary)]
    assert second.sites[0].revision > first.sites[0].revision
    assert second.sites[0].free_devices == first.sites[0].free_devices - 2


def test_an_order_that_takes_the_place_of_another_is_told_though_as_much_is_left() -> None:
    it = rig()
    answer = it.give(order(training("old")))
    (before,) = [each for each in answer if isinstance(each, ReportSummary)]
    # Both between two rounds, as when a centre displaces one for another.
    it.tell(_withdrawal("old", 1, it.now_ns))
    answer = it.tell(OrderGiven(it.now_ns, order(training("new")))) + it.round()
    (after,) = [each for each in answer if isinstance(each, ReportSummary)]
    assert after.sites[0].free_devices == before.sites[0].free_devices
    assert after.sites[0].revision > before.sites[0].revision


def test_events_must_come_in_order() -> None:
    machine = LocalMachine(LocalSettings(cluster()))
    machine.handle(RoundDue(10))
    with pytest.raises(InvariantError, match="in the order of their time"):
        machine.handle(RoundDue(9))


def test_two_groups_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="two node groups"):
        LocalSettings(cluster(group(), group()))


def test_stops_come_before_the_starts_they_make_room_for() -> None:
    it = rig(group(count=1))
    it.give(order(training("w", 4)))
    answer = it.tell(OrderGiven(it.now_ns, order(training("w", 4), attempt=2)))
    answer = answer + it.round()
    kinds = [type(each) for each in answer if isinstance(each, StartInstance | StopInstance)]
    assert kinds == [StopInstance] * 4 + [StartInstance] * 4


def _withdrawal(name: str, attempt: int, now_ns: int) -> OrderWithdrawn:
    return OrderWithdrawn(now_ns, WorkloadId(name), attempt)
