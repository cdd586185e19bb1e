"""The waiting room: who is called when, and who is left in peace."""

from dure.domain.fleet.events import ClusterJoined, ClusterSummarised
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings
from dure.fleet.global_state import GlobalState
from dure.fleet.tracks import HOUR_NS, Track
from dure.fleet.waiting import Wish
from tests.fleet.factories import cluster, fleet, job, summary

EAST = cluster("east")


def waiting(*wishes: Wish, used: int = 16) -> tuple[GlobalState, Track]:
    """A job that waits for an hour or for one of its wishes, at a site with so many in use."""
    machine = GlobalMachine(GlobalSettings(fleet(EAST)))
    machine.handle(ClusterJoined(0, EAST))
    machine.handle(ClusterSummarised(0, (summary(EAST, used=used),)))
    state = machine.state
    track = state.track(job())
    state.waiting.admit(track)
    assert called(state) == [track]
    state.waiting.wait(track, HOUR_NS, wishes)
    return state, track


def called(state: GlobalState, now_ns: int = 0) -> list[Track]:
    return state.waiting.call(now_ns, state.sites.columns, 10)


def test_who_has_no_wish_is_called_only_when_its_time_comes() -> None:
    state, track = waiting()
    state.sites.summarise(summary(EAST, used=0))
    assert called(state) == []
    assert called(state, HOUR_NS) == [track]


def test_who_wants_room_is_called_once_there_is_enough() -> None:
    state, track = waiting(Wish(0, 4.0, 1.0))
    state.sites.summarise(summary(EAST, used=13))
    assert called(state) == []
    state.sites.summarise(summary(EAST, used=12))
    assert called(state) == [track]


def test_who_wants_to_share_nodes_is_not_called_for_empty_ones() -> None:
    state, track = waiting(Wish(0, 4.0, 1.0, shared=True))
    state.sites.summarise(summary(EAST, used=8))
    assert called(state) == []
    state.sites.summarise(summary(EAST, used=4))
    assert called(state) == [track]


def test_nobody_is_called_while_nothing_grows() -> None:
    state, _ = waiting(Wish(0, 4.0, 1.0), Wish(0, 4.0, 1.0, shared=True), used=4)
    assert called(state) == []
    state.sites.summarise(summary(EAST, used=4))
    assert called(state) == []


def test_who_has_a_plan_or_is_called_is_not_among_those_who_want_a_place_at_once() -> None:
    state, track = waiting(Wish(0, 4.0, 1.0))
    assert state.waiting.placeless() == [track]
    state.waiting.wait(track, HOUR_NS, (), planned=True)
    assert state.waiting.placeless() == []
    state.waiting.wait(track, HOUR_NS, ())
    assert state.waiting.placeless() == [track]
    state.waiting.wake([track.id])
    assert state.waiting.placeless() == []
