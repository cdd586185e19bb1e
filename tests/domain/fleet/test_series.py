import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.errors import InputError
from dure.domain.fleet.series import DAY_NS, HOUR_NS, Series

RAMP = Series(np.arange(48, dtype=np.float64))


def test_a_value_holds_for_its_hour() -> None:
    assert RAMP.at(0) == 0
    assert RAMP.at(HOUR_NS - 1) == 0
    assert RAMP.at(HOUR_NS) == 1


def test_the_first_value_holds_before_the_start_and_the_last_day_repeats_after_the_end() -> None:
    assert RAMP.at(-5 * HOUR_NS) == 0
    assert RAMP.at(2 * DAY_NS) == 24
    assert RAMP.at(2 * DAY_NS + 25 * HOUR_NS) == 25


def test_means_weigh_parts_of_hours() -> None:
    assert RAMP.mean(HOUR_NS // 2, 2 * HOUR_NS) == pytest.approx((0 * 0.5 + 1) / 1.5)


@given(st.integers(-30, 200), st.integers(1, 120))
def test_a_mean_is_that_of_its_minutes(start_h: int, minutes: int) -> None:
    start = start_h * HOUR_NS + HOUR_NS // 3
    minute = HOUR_NS // 60
    by_hand = np.mean([RAMP.at(start + k * minute + minute // 2) for k in range(minutes)])
    assert RAMP.mean(start, start + minutes * minute) == pytest.approx(by_hand)


def test_the_hours_ahead_go_on_past_the_end() -> None:
    assert RAMP.ahead(46 * HOUR_NS, 4).tolist() == [46, 47, 24, 25]


@pytest.mark.parametrize("values", [[], [1.0, float("nan")]])
def test_gaps_are_refused(values: list[float]) -> None:
    with pytest.raises(InputError):
        Series(np.array(values))
