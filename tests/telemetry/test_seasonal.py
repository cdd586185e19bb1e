import math

import numpy as np
import pytest

from dure.telemetry.lines import Floats
from dure.telemetry.seasonal import SeasonalForecast


def error(values: Floats, hop: int, first: int) -> tuple[float, float]:
    """Mean error of the forecast, and of saying that the present lasts."""
    made = SeasonalForecast(24)
    own, lasting = [], []
    for step, value in enumerate(values):
        made.observe(step, float(value))
        if step >= first and step + hop < len(values):
            own.append(abs(made.ahead(hop).mean - values[step + hop]))
            lasting.append(abs(value - values[step + hop]))
    return float(np.mean(own)), float(np.mean(lasting))


def daily(days: int, seed: int = 1) -> Floats:
    hours = np.arange(24 * days)
    rng = np.random.default_rng(seed)
    return np.asarray(100.0 + 30.0 * np.sin(hours / 24 * 2 * np.pi) + rng.normal(size=len(hours)))


@pytest.mark.parametrize("hop", [1, 6, 24])
def test_a_day_that_repeats_is_foreseen_better_than_as_now(hop: int) -> None:
    own, lasting = error(daily(30), hop, 240)
    assert own < (0.5 * lasting if hop != 24 else 1.1 * lasting)


def test_a_weekend_that_differs_is_learned() -> None:
    values = daily(56)
    values[np.arange(len(values)) // 24 % 7 >= 5] -= 40.0
    own, lasting = error(values, 24, 28 * 24)
    assert own < 0.75 * lasting


def test_a_series_without_seasons_is_foreseen_about_as_well_as_by_the_present() -> None:
    walk = np.cumsum(np.random.default_rng(2).normal(size=24 * 40)) + 500.0
    own, lasting = error(walk, 1, 240)
    assert own < 1.15 * lasting


def test_a_level_that_moved_is_followed() -> None:
    values = daily(40)
    values[20 * 24 :] += 50.0
    own, _ = error(values, 6, 30 * 24)
    assert own < 5.0


def test_its_own_error_is_about_what_it_says() -> None:
    values = daily(40)
    made = SeasonalForecast(24)
    for step, value in enumerate(values):
        made.observe(step, float(value))
    own, _ = error(values, 1, 30 * 24)
    assert made.ahead(1).deviation == pytest.approx(own * 1.25, rel=0.5)


def test_before_anything_was_seen_nothing_is_said() -> None:
    assert math.isnan(SeasonalForecast(24).ahead(1).mean)


def test_gaps_old_steps_and_what_is_no_number_are_left_out() -> None:
    made = SeasonalForecast(24)
    for step, value in ((0, 1.0), (1, math.nan), (2, 1.0), (2, 99.0), (1, 99.0), (50, 1.0)):
        made.observe(step, value)
    assert made.ahead(1).mean == pytest.approx(1.0)
