import pytest

from dure.sim.risk.scoring import Judged, episodes, score


def test_an_alarm_between_onset_and_violation_is_a_hit_with_lead_and_delay() -> None:
    found = score("x", [Judged((12.0, 50.0), 10.0, 20.0, 60.0)])
    assert (found.hits, found.false_alarms) == (1, 0)
    assert (found.delay_s, found.lead_s) == (2.0, 8.0)


def test_an_alarm_before_the_onset_is_false_and_one_after_the_violation_is_no_hit() -> None:
    found = score("x", [Judged((5.0, 25.0), 10.0, 20.0, 60.0)])
    assert (found.hits, found.false_alarms, found.recall) == (0, 1, 0.0)


def test_false_alarms_are_counted_per_hour_of_quiet() -> None:
    quiet = Judged((100.0,), None, None, 1800.0)
    trouble = Judged((), 1800.0, 1900.0, 2000.0)
    assert score("x", [quiet, trouble]).false_per_hour == pytest.approx(1.0)


def test_alarms_close_to_each_other_are_one() -> None:
    flags = ((float(at), at in (3, 4, 8, 30)) for at in range(40))
    assert episodes(flags, 10.0) == (3.0, 30.0)


def test_nothing_told_has_no_precision() -> None:
    assert score("x", [Judged((), None, None, 10.0)]).precision is None
