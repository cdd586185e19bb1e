"""A service for which others give way gets its first replicas from what they can spare."""

from tests.fleet.local.factories import Rig, group, order, rig, serving

CALM_MS = 120.0


def full(large: int, rate: float) -> Rig:
    """Four devices: a service with so many of them at that rate, another with the rest."""
    it = rig(group(count=1))
    it.give(order(serving("large", whole=True), large))
    it.give(order(serving("small", whole=True), 4 - large))
    it.warm_all()
    it.load(("large", rate, 0.0, CALM_MS), ("small", 1.0, 0.0, CALM_MS), minutes=0.0)
    return it


def test_who_has_the_most_to_spare_gives_one_replica_and_keeps_what_its_load_needs() -> None:
    it = full(3, 6.0)
    assert it.names() == {"large": 3, "small": 1}
    it.give(order(serving("new", whole=True), 1, makes_room=True))
    assert it.names() == {"large": 2, "small": 1, "new": 1}
    it.rounds(60)
    assert it.names()["new"] == 1, "it is not taken back"


def test_an_order_that_does_not_ask_for_it_waits() -> None:
    it = full(3, 6.0)
    it.give(order(serving("new", whole=True), 1))
    assert it.names() == {"large": 3, "small": 1}


def test_the_only_replica_of_a_service_and_one_of_higher_priority_stay() -> None:
    it = rig(group(count=1))
    it.give(order(serving("dear", whole=True, priority=5), 3), order(serving("one", whole=True)))
    it.warm_all()
    it.give(order(serving("new", whole=True), 1, makes_room=True))
    assert it.names() == {"dear": 3, "one": 1}


def test_no_more_is_taken_than_its_load_needs() -> None:
    it = full(3, 1.0)
    it.give(order(serving("new", whole=True), 4, makes_room=True))
    assert it.names() == {"large": 1, "small": 1, "new": 2}, "five requests a second need two"
