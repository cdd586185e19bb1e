"""A service without any replica comes before what others have in reserve; else it is named."""

from dure.domain.fleet.events import (
    RoundDue,
    ServiceObserved,
    WorkloadStarted,
)
from dure.domain.fleet.instructions import GlobalInstruction, Warn
from dure.domain.fleet.policy import MINUTE_NS
from dure.domain.ids import ClusterId, WorkloadId
from dure.fleet.global_machine import GlobalMachine
from tests.fleet.factories import cluster, group, job, service
from tests.fleet.machines import machine, of_kind, orders, submit, tell

EAST = cluster("east", rent=None, groups=(group(nodes=1),))
FIRST, LATE = WorkloadId("first"), WorkloadId("late")


def one_large(replicas: int, rate: float, *, free: int = 0) -> GlobalMachine:
    """A service with so many of eight devices, others used by jobs but for so many."""
    made = machine(EAST)
    submit(made, service("first", rate=rate))
    order = orders(made.handle(RoundDue(0)))["first"]
    made.handle(WorkloadStarted(0, FIRST, order.attempt))
    others = [job(f"j{n}", preemptible=False) for n in range(8 - replicas - free)]
    submit(made, *others)
    made.handle(RoundDue(0))
    made.handle(ServiceObserved(MINUTE_NS, FIRST, ClusterId("east"), rate, replicas, 0.0))
    tell(made, EAST, used=8 - free, now_ns=MINUTE_NS)
    return made


def asks(made: GlobalMachine) -> list[GlobalInstruction]:
    submit(made, service("late"), now_ns=MINUTE_NS)
    return made.handle(RoundDue(MINUTE_NS))


def test_room_kept_for_a_peak_goes_to_a_service_that_has_nothing() -> None:
    made = one_large(2, 8.0, free=2)
    track = made.state.tracks[FIRST]
    (place,) = track.places.values()
    made.state.set_kept(track, place, 2)
    order = orders(asks(made))["late"]
    assert not order.makes_room
    assert place.kept == 0
    assert made.state.sites.columns.free[0, 0] >= -1e-9


def test_room_kept_by_who_has_higher_priority_stays_kept() -> None:
    made = one_large(2, 8.0, free=2)
    track = made.state.tracks[FIRST]
    track.priority = 5
    (place,) = track.places.values()
    made.state.set_kept(track, place, 2)
    assert orders(asks(made)) == {}
    assert place.kept == 2


def test_where_others_have_replicas_to_spare_it_is_sent_and_they_give_way() -> None:
    order = orders(asks(one_large(4, 8.0)))["late"]
    assert order.makes_room
    assert order.instances == 1
    assert "give way" in order.explanation.note


def test_replicas_that_others_need_are_left_to_them() -> None:
    assert orders(asks(one_large(2, 18.0))) == {}


def test_a_service_without_a_replica_for_long_is_named_once_until_it_has_one() -> None:
    made = one_large(2, 18.0)
    asks(made)

    def warned(minute: int) -> list[str]:
        said = made.handle(RoundDue(minute * MINUTE_NS))
        return [each.about for each in of_kind(said, Warn) if isinstance(each, Warn)]

    assert warned(10) == []
    assert warned(17) == ["service 'late'"]
    assert warned(30) == []
    tell(made, EAST, used=2, now_ns=31 * MINUTE_NS)
    order = orders(made.handle(RoundDue(40 * MINUTE_NS)))["late"]
    made.handle(WorkloadStarted(41 * MINUTE_NS, LATE, order.attempt))
    assert warned(90) == []
