"""Elastic gangs use what is idle and give it back at checkpoints."""

from dure.domain.fleet.events import NodeLost
from dure.fleet.local.settings import ElasticRules
from tests.fleet.local.factories import group, order, rig, started, stopped, training


def test_a_gang_grows_into_idle_devices_of_nodes_in_use() -> None:
    it = rig(group(count=3))
    it.give(order(training("w", 2, most_workers=16)))
    it.round(10)
    assert it.names()["w"] == 4
    assert it.nodes("w") == {0}


def test_on_owned_nodes_it_grows_onto_empty_ones_too() -> None:
    it = rig(group(count=3), owned=True)
    it.give(order(training("w", 2, most_workers=7)))
    it.rounds(20)
    assert it.names()["w"] == 7


def test_growth_onto_empty_nodes_can_be_told() -> None:
    never = rig(group(count=3), owned=True, growth=ElasticRules(onto_empty_nodes=False))
    always = rig(group(count=3), growth=ElasticRules(onto_empty_nodes=True))
    for it in (never, always):
        it.give(order(training("w", 2, most_workers=6)))
        it.round(5)
        it.round(6)
    assert never.names()["w"] == 4
    assert always.names()["w"] == 6


def test_idle_devices_are_shared_out_in_turn() -> None:
    it = rig(group(count=2))
    it.give(order(training("a", 1, most_workers=8)), order(training("b", 1, most_workers=8)))
    it.rounds(20)
    counts = it.names()
    assert abs(counts["a"] - counts["b"]) <= 1


def test_nobody_grows_while_an_order_waits() -> None:
    it = rig(group(count=1))
    it.give(order(training("w", 2, most_workers=4, priority=1)), order(training("large", 4)))
    it.rounds(30)
    assert it.names() == {"w": 2}
    it.withdraw("large")
    it.rounds(10)
    assert it.names() == {"w": 4}


def test_a_gang_shrinks_at_its_checkpoint_step_by_step_when_an_order_waits() -> None:
    it = rig(group(count=1))
    it.give(order(training("w", 1, most_workers=4)))
    it.round(10)
    assert it.names()["w"] == 4
    it.give(order(training("other", 2)))
    assert it.names()["other"] == 0
    first = it.checkpoint("w")
    assert len(stopped(first)) == 2
    assert len(started(first)) == 2
    assert it.names() == {"w": 2, "other": 2}
    assert stopped(it.checkpoint("w")) == []


def test_a_gang_never_shrinks_below_its_least() -> None:
    it = rig(group(count=1))
    it.give(order(training("w", 3, most_workers=4)))
    it.round(10)
    it.give(order(training("other", 4)))
    for _ in range(5):
        it.checkpoint("w")
    assert it.names() == {"w": 3}


def test_a_reserve_is_left_free() -> None:
    it = rig(group(count=1), growth=ElasticRules(reserve_devices=1))
    it.give(order(training("w", 1, most_workers=4)))
    it.rounds(30)
    assert it.names()["w"] == 3


def test_switched_off_nobody_grows() -> None:
    it = rig(elastic=False)
    it.give(order(training("w", 1, most_workers=4)))
    it.rounds(30)
    assert it.names()["w"] == 1


def test_a_gang_that_grew_and_lost_a_node_starts_with_its_least() -> None:
    it = rig(group(count=2))
    it.give(order(training("w", 2, most_workers=4)))
    it.round(10)
    it.tell(NodeLost(it.now_ns, 0))
    it.round()
    assert it.names()["w"] == 2
