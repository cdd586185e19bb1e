"""The agenda: what happens when."""

from hypothesis import given
from hypothesis import strategies as st

from dure.sim.agenda import Agenda

TIMES = st.lists(st.integers(0, 20), max_size=30)


@given(TIMES, TIMES, st.integers(0, 25))
def test_actions_happen_in_the_order_of_time_then_of_noting_planned_or_not(
    before: list[int], after: list[int], until_ns: int
) -> None:
    done: list[tuple[int, int]] = []
    agenda = Agenda()
    for number, when_ns in enumerate(before):
        agenda.note(when_ns, lambda now_ns, what: done.append((now_ns, what)), number)
    agenda.plan()
    for number, when_ns in enumerate(after, len(before)):
        agenda.note(when_ns, lambda now_ns, what: done.append((now_ns, what)), number)
    agenda.run_until(until_ns)
    noted = sorted((when_ns, number) for number, when_ns in enumerate((*before, *after)))
    assert done == [entry for entry in noted if entry[0] <= until_ns]
    assert len(agenda) == len(noted) - len(done)


def test_what_an_action_notes_for_now_happens_now() -> None:
    done: list[str] = []
    agenda = Agenda()

    def begin(now_ns: int, _: object) -> None:
        done.append("first")
        agenda.note(now_ns, lambda *_: done.append("second"))

    agenda.note(5, begin)
    agenda.note(6, lambda *_: done.append("third"))
    agenda.plan()
    agenda.run_until(6)
    assert done == ["first", "second", "third"]
