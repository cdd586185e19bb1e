"""When the monitor looks next."""

from itertools import pairwise

from dure.agent.containers.pacing import LONGEST_REST_NS, LOOKING, SAVED_NS, Pace
from dure.domain.units import NS_PER_MS, NS_PER_S

MS = NS_PER_MS


def looks(pace: Pace, period_ns: int, cost_ns: int, for_ns: int, from_ns: int = 0) -> list[int]:
    """When looks began, each of which takes so long."""
    now_ns, times_ns = from_ns, list[int]()
    while now_ns < from_ns + for_ns:
        times_ns.append(now_ns)
        pace.looked(now_ns, now_ns + cost_ns, cost_ns, freed=False)
        now_ns = max(now_ns + cost_ns, pace.due_ns(period_ns))
    return times_ns


def test_cheap_looks_come_as_often_as_asked() -> None:
    assert len(looks(Pace(), 20 * MS, MS // 2, NS_PER_S)) == 50


def test_one_dear_look_does_not_blind_the_monitor() -> None:
    pace = Pace()
    looks(pace, 50 * MS, MS, 2 * NS_PER_S)
    pace.looked(2 * NS_PER_S, 2 * NS_PER_S + 104 * MS, 104 * MS, freed=False)
    assert pace.due_ns(10 * MS) <= 2 * NS_PER_S + 104 * MS + 10 * MS


def test_however_dear_looks_are_rests_between_them_are_bounded() -> None:
    pace = Pace(spare_ns=-float(NS_PER_S))
    times_ns = looks(pace, 10 * MS, 30 * MS, 5 * NS_PER_S)
    gaps_ns = [late - early for early, late in pairwise(times_ns)]
    assert max(gaps_ns) <= 30 * MS + min(LONGEST_REST_NS, 40 * MS)


def test_somewhat_dear_looks_take_no_more_than_their_part_of_a_core() -> None:
    pace = Pace()
    times_ns = looks(pace, 20 * MS, 3 * MS, 20 * NS_PER_S)
    assert len(times_ns) * 3 * MS <= LOOKING * 20 * NS_PER_S + SAVED_NS + 3 * MS


def test_after_dear_looks_cheap_ones_soon_come_as_often_as_asked_again() -> None:
    pace = Pace()
    looks(pace, 10 * MS, 40 * MS, 3 * NS_PER_S)
    late = looks(pace, 20 * MS, MS // 2, 3 * NS_PER_S, from_ns=3 * NS_PER_S)
    last = [at_ns for at_ns in late if at_ns >= 5 * NS_PER_S]
    assert len(last) >= 48


def test_who_gave_memory_back_is_given_time_to_end() -> None:
    pace = Pace()
    pace.looked(0, MS, MS, freed=True)
    assert pace.due_ns(10 * MS) == MS + LONGEST_REST_NS
    pace.looked(90 * MS, 91 * MS, MS, freed=False)
    assert pace.due_ns(10 * MS) == 100 * MS
