"""Empty nodes are switched off after a while and woken when needed."""

from dure.domain.fleet.events import NodeBack, NodeLost
from dure.domain.fleet.instructions import PowerNode, StartInstance
from dure.fleet.local.settings import PowerRules
from tests.fleet.local.factories import group, order, rig, training


def test_empty_nodes_are_switched_off_after_their_time_and_only_those() -> None:
    it = rig(group(count=3))
    it.give(order(training("w", 1)))
    it.rounds(9)
    assert not it.off
    it.round(1)
    assert it.off == {1, 2}
    it.end("w")
    it.rounds(9)
    assert it.off == {1, 2}
    it.round(1)
    assert it.off == {0, 1, 2}


def test_a_node_is_woken_before_something_starts_on_it() -> None:
    it = rig(group(count=2))
    it.round()
    it.round(10)
    assert it.off == {0, 1}
    answer = it.give(order(training("w", 1)))
    kinds = [type(each) for each in answer if isinstance(each, PowerNode | StartInstance)]
    assert kinds == [PowerNode, StartInstance]


def test_powered_nodes_come_first() -> None:
    it = rig(group(count=3), power=PowerRules(spare_nodes=0))
    it.give(order(training("a", 4)))
    it.round(10)
    it.give(order(training("b", 4)))
    it.end("a")
    assert it.off == {2}
    it.give(order(training("c", 4)))
    assert it.off == {2}


def test_a_node_in_use_again_is_not_switched_off_by_an_old_clock() -> None:
    it = rig(group(count=1))
    it.rounds(6)
    it.give(order(training("w")))
    it.rounds(6)
    it.end("w")
    it.rounds(9)
    assert not it.off
    it.round(1)
    assert it.off == {0}


def test_spare_nodes_stay_on() -> None:
    it = rig(group(count=3), power=PowerRules(spare_nodes=1))
    it.rounds(60)
    assert len(it.off) == 2


def test_switched_off_everything_stays_on() -> None:
    it = rig(power_down=False)
    it.rounds(120, every=10)
    assert not it.off


def test_nodes_may_be_off_at_the_start() -> None:
    it = rig(group(count=2), nodes_on_at_start=False)
    it.give(order(training("w", 1)))
    assert it.off == {1}


def test_a_node_that_died_is_not_switched_and_comes_back_on() -> None:
    it = rig(group(count=1))
    it.tell(NodeLost(0, 0))
    assert it.rounds(30) == [each for each in it.log if not isinstance(each, PowerNode)]
    it.tell(NodeBack(it.now_ns, 0))
    it.round(10)
    assert it.off == {0}
