"""Loads of services: what was seen, and the peak that is provided for."""

import math

import pytest

from dure.domain.fleet.series import HOUR_NS
from dure.domain.ids import ClusterId, WorkloadId
from dure.fleet.loads import LoadBook

CHAT = WorkloadId("chat")
EAST, WEST = ClusterId("east"), ClusterId("west")


def daily(hour: int) -> float:
    """A load that is highest in the afternoon."""
    return 10.0 + 8.0 * math.sin(math.pi * (hour % 24 - 8) / 12.0)


def followed(hours: int) -> LoadBook:
    """A book that has heard of the load four times an hour; the second report is the highest."""
    book = LoadBook()
    for hour in range(hours):
        for quarter, part in enumerate((0.9, 1.0, 0.8, 0.85)):
            book.observe(hour * HOUR_NS + quarter * HOUR_NS // 4, CHAT, EAST, part * daily(hour))
    return book


def test_nothing_is_known_of_a_service_that_was_never_observed() -> None:
    assert LoadBook().peak(0, CHAT, forecast=True) is None


def test_without_forecast_the_last_load_is_expected_to_last() -> None:
    book = followed(100)
    now_ns = 99 * HOUR_NS + 3 * HOUR_NS // 4
    assert book.peak(now_ns, CHAT, forecast=False) == pytest.approx(0.85 * daily(99))


@pytest.mark.parametrize("hour", range(10 * 24, 11 * 24, 3))
def test_the_peak_of_the_next_hour_is_provided_for_before_it_comes(hour: int) -> None:
    book = followed(hour)
    book.observe(hour * HOUR_NS, CHAT, EAST, 0.9 * daily(hour))
    peak = book.peak(hour * HOUR_NS, CHAT, forecast=True)
    assert peak is not None
    highest = max(daily(hour), daily(hour + 1))
    assert 0.97 * highest <= peak <= 1.35 * highest


def test_a_service_has_the_load_of_all_its_clusters_and_of_none_it_left() -> None:
    book = LoadBook()
    book.observe(0, CHAT, EAST, 4.0)
    book.observe(0, CHAT, WEST, 6.0)
    assert book.last(CHAT) == 10.0
    book.left(CHAT, EAST)
    book.observe(1, CHAT, WEST, 9.0)
    assert book.last(CHAT) == 9.0
