"""Equal shares: whatever comes and goes, as much work is done as was put in."""

from hypothesis import given
from hypothesis import strategies as st

from dure.sim.agenda import Agenda
from dure.sim.node.sharing import EqualShare

WORK = st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 5_000)), min_size=1, max_size=12)


@given(WORK)
def test_a_resource_that_never_loses_time_is_busy_exactly_as_long_as_its_work(
    work: list[tuple[int, int]],
) -> None:
    agenda = Agenda()
    share = EqualShare(agenda, lambda pieces: 1.0 / pieces)
    ends: dict[int, int] = {}
    for number, (at, amount) in enumerate(work):

        def begin(now: int, what: tuple[int, int]) -> None:
            share.begin(now, what[1], lambda end, n=what[0]: ends.__setitem__(n, end))  # type: ignore[misc]

        agenda.note(at, begin, (number, amount))
    agenda.run_until(10**9)
    assert len(ends) == len(work)
    free_at = 0.0
    for at, amount in sorted(work):
        free_at = max(free_at, at) + amount
    assert abs(max(ends.values()) - free_at) <= len(work)
    for number, (at, amount) in enumerate(work):
        assert ends[number] >= at + amount


def test_an_interrupted_piece_keeps_what_is_left_of_it() -> None:
    agenda = Agenda()
    share = EqualShare(agenda, lambda pieces: 1.0 / pieces)
    ended: list[int] = []
    first = share.begin(0, 100, ended.append)
    share.begin(0, 100, ended.append)
    agenda.run_until(50)
    assert share.stop(50, first) == 75.0
    agenda.run_until(1000)
    assert ended == [125]
