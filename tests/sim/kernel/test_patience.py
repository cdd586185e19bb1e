"""Others run beside a service until it has been busy for as long as its patience."""

import pytest

from dure.domain.ids import TenantId
from dure.domain.plan import SmSet, SquadMember
from dure.domain.units import NS_PER_MS, NS_PER_US
from tests.kernel.factories import H200
from tests.sim.kernel.worlds import Scene, endless, program, requests

SERVICE, FOLLOWER = TenantId("service"), TenantId("follower")
WHOLE = SmSet(0, H200.sms)
REQUEST = program(kernels=40, kernel_ns=100 * NS_PER_US, units=40)
"""A little over 4 ms, on less than a third of the device."""
LOOP = program(kernels=10, kernel_ns=20 * NS_PER_US, units=40)
SLACK_NS = 300 * NS_PER_US
"""For what the follower had in flight."""


def scene(at_ns: list[int], patience_ns: int) -> Scene:
    """A service with requests at these times, and a tenant that yields to it."""
    members = (
        SquadMember(SERVICE, WHOLE, patience_ns=patience_ns),
        SquadMember(FOLLOWER, WHOLE, inflight_ns=100 * NS_PER_US, yields_to=(SERVICE,)),
    )
    loads = (requests(SERVICE, REQUEST, at_ns), endless(FOLLOWER, LOOP))
    return Scene(loads, members, 25 * NS_PER_MS)


def test_a_follower_passes_within_the_patience_and_is_held_after_it() -> None:
    seen = scene([5 * NS_PER_MS], patience_ns=2 * NS_PER_MS)
    (done,) = seen.finishes(SERVICE)
    held_from = 7 * NS_PER_MS + SLACK_NS
    assert done > 9 * NS_PER_MS
    assert seen.busy_share(FOLLOWER, 5 * NS_PER_MS, 7 * NS_PER_MS) > 0.5
    assert seen.busy_share(FOLLOWER, held_from, done) == 0.0
    assert seen.busy_share(FOLLOWER, done + SLACK_NS, 25 * NS_PER_MS) > 0.5


def test_without_patience_a_follower_is_held_at_once() -> None:
    seen = scene([5 * NS_PER_MS], patience_ns=0)
    (done,) = seen.finishes(SERVICE)
    assert seen.busy_share(FOLLOWER, 5 * NS_PER_MS + SLACK_NS, done) == 0.0


def test_a_request_shorter_than_the_patience_holds_nobody() -> None:
    seen = scene([5 * NS_PER_MS], patience_ns=6 * NS_PER_MS)
    (done,) = seen.finishes(SERVICE)
    assert seen.busy_share(FOLLOWER, 5 * NS_PER_MS, done) > 0.5


def test_a_request_that_waited_goes_on_with_the_busy_time_of_the_one_before() -> None:
    """The second request is taken a moment after the first is done: a queue, not a pause."""
    seen = scene([5 * NS_PER_MS, 6 * NS_PER_MS], patience_ns=6 * NS_PER_MS)
    first, second = seen.finishes(SERVICE)
    assert seen.busy_share(FOLLOWER, 5 * NS_PER_MS, first) > 0.5
    assert seen.busy_share(FOLLOWER, 11 * NS_PER_MS + SLACK_NS, second) == 0.0


@pytest.mark.parametrize("gap_ns", [1 * NS_PER_MS, 5 * NS_PER_MS])
def test_after_a_pause_patience_starts_anew(gap_ns: int) -> None:
    alone = scene([5 * NS_PER_MS], patience_ns=6 * NS_PER_MS)
    second_at = alone.finishes(SERVICE)[0] + gap_ns
    seen = scene([5 * NS_PER_MS, second_at], patience_ns=6 * NS_PER_MS)
    second = seen.finishes(SERVICE)[1]
    assert seen.busy_share(FOLLOWER, second_at, second) > 0.5
