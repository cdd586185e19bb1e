import math

import pytest

from dure.bench.common.statistics import (
    bootstrap,
    efficiency,
    mean,
    on_time_share,
    percentile,
)


def test_a_percentile_is_the_nearest_rank() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert percentile(values, 50.0) == 50.0
    assert percentile(values, 99.0) == 99.0
    assert percentile(values, 100.0) == 100.0
    assert percentile([3.0], 1.0) == 3.0
    assert math.isnan(percentile([], 99.0))


def test_requests_that_were_never_answered_are_late() -> None:
    assert on_time_share([1.0, 2.0, 3.0], [0.5], 2.0) == 0.5
    assert math.isnan(on_time_share([], [], 2.0))


def test_the_interval_holds_the_figure_and_narrows_with_agreement() -> None:
    wide = bootstrap([[1.0], [2.0], [3.0], [4.0], [5.0]], mean)
    narrow = bootstrap([[2.9], [3.0], [3.0], [3.0], [3.1]], mean)
    assert wide.value == narrow.value == pytest.approx(3.0)
    assert wide.low <= wide.value <= wide.high
    assert narrow.high - narrow.low < wide.high - wide.low
    assert wide.low == pytest.approx(1.8, abs=0.25)
    assert wide.high == pytest.approx(4.2, abs=0.25)


def test_the_interval_is_over_whole_repeats() -> None:
    """Values within a repeat belong together: many of them make no narrower interval."""
    few = bootstrap([[1.0], [3.0]], mean)
    many = bootstrap([[1.0] * 1000, [3.0] * 1000], mean)
    assert (few.low, few.high) == (many.low, many.high) == (1.0, 3.0)


def test_one_repeat_has_no_interval_and_none_has_no_figure() -> None:
    one = bootstrap([[4.0, 6.0]], mean)
    assert one.value == 5.0
    assert math.isnan(one.low)
    assert one.repeats == 1
    assert not bootstrap([], mean).known


def test_the_same_values_give_the_same_interval() -> None:
    repeats = [[1.0, 5.0], [2.0], [9.0]]
    assert bootstrap(repeats, mean) == bootstrap(repeats, mean)


def test_efficiency_is_best_effort_over_what_is_left() -> None:
    assert efficiency(0.45, 0.5) == pytest.approx(0.9)
    assert math.isnan(efficiency(0.1, 1.0))
