"""A member keeps to its own compute units beside those it was confined for, and only then."""

from dure.domain.ids import TenantId
from dure.domain.plan import SmSet, SquadMember
from dure.domain.units import NS_PER_MS, NS_PER_US
from tests.kernel.factories import H200
from tests.sim.kernel.worlds import Scene, endless, program, requests

LEAD, MEMBER = TenantId("lead"), TenantId("member")
WHOLE, FRONT = SmSet(0, H200.sms), SmSet(0, 64)
LEAD_WORK = program(kernels=40, kernel_ns=100 * NS_PER_US, units=60)
"""A little over 4 ms on less than half of the device."""
SHORT = program(kernels=1, kernel_ns=50 * NS_PER_US, units=132)
LONG = program(kernels=1, kernel_ns=20 * NS_PER_MS, units=132 * 200)
STARTS_NS, END_NS = 5 * NS_PER_MS, 30 * NS_PER_MS
SLACK_NS = 200 * NS_PER_US


def scene(*, long: bool = False, beside: tuple[TenantId, ...] = (LEAD,)) -> Scene:
    """A lead with 4 ms of work after 5 ms, and a member that fills whatever it may use."""
    members = (
        SquadMember(LEAD, WHOLE),
        SquadMember(MEMBER, FRONT, beside=beside, inflight_ns=100 * NS_PER_US),
    )
    loads = (
        requests(LEAD, LEAD_WORK, [STARTS_NS]),
        requests(MEMBER, LONG, [STARTS_NS + NS_PER_MS]) if long else endless(MEMBER, SHORT),
    )
    return Scene(loads, members, END_NS)


def most_units(seen: Scene, since_ns: int, until_ns: int) -> float:
    """The most compute units the member had at once in kernels begun in a window."""
    return max(
        (sms for start, _, sms in seen.stretches(MEMBER) if since_ns <= start < until_ns),
        default=0.0,
    )


def test_before_and_after_the_lead_has_work_the_whole_device_is_used() -> None:
    seen = scene()
    (done,) = seen.finishes(LEAD)
    assert most_units(seen, 0, STARTS_NS) == H200.sms
    assert most_units(seen, done + SLACK_NS, END_NS) == H200.sms


def test_beside_the_lead_a_member_keeps_to_its_own_set() -> None:
    seen = scene()
    (done,) = seen.finishes(LEAD)
    assert 0.0 < most_units(seen, STARTS_NS + SLACK_NS, done) <= FRONT.count


def test_work_of_a_tenant_it_does_not_run_beside_does_not_confine() -> None:
    seen = scene(beside=())
    (done,) = seen.finishes(LEAD)
    assert most_units(seen, STARTS_NS + SLACK_NS, done) > FRONT.count


def test_the_first_kernel_after_the_lead_has_the_whole_device() -> None:
    seen = scene()
    (done,) = seen.finishes(LEAD)
    first = next(sms for start, _, sms in seen.stretches(MEMBER) if start > done)
    assert first == H200.sms


def test_a_kernel_under_way_takes_up_freed_units_at_once() -> None:
    seen = scene(long=True)
    (done,) = seen.finishes(LEAD)
    beyond = [stretch for stretch in seen.stretches(MEMBER) if stretch[2] > FRONT.count]
    assert beyond
    grown_ns, _, sms = beyond[0]
    assert sms == H200.sms
    assert done <= grown_ns <= done + SLACK_NS
