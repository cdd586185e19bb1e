"""Days and months of bills, in time zones with summer time too."""

import datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.errors import InputError
from dure.server.calendar import Calendar

HOUR_NS = 3600 * 10**9
NOW_NS = 1_793_000_000 * 10**9
ZONES = ("UTC", "Asia/Seoul", "Europe/Vienna", "America/St_Johns")


def at(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text).timestamp()) * 10**9


def test_an_instant_belongs_to_the_day_of_the_fleet_s_time_zone() -> None:
    late = at("2026-10-31T20:30:00+00:00")
    assert Calendar("UTC").month(late) == "2026-10"
    assert Calendar("Asia/Seoul").month(late) == "2026-11"
    assert Calendar("Asia/Seoul").month_ends_ns("2026-10") == at("2026-10-31T15:00:00+00:00")
    assert Calendar("UTC").month_ends_ns("2026-12") == at("2027-01-01T00:00:00+00:00")


def test_the_day_on_which_clocks_go_back_has_25_hours() -> None:
    vienna = Calendar("Europe/Vienna")
    day = datetime.date(2026, 10, 25)
    end_ns = vienna.begin_ns(day + datetime.timedelta(days=1))
    assert end_ns - vienna.begin_ns(day) == 25 * HOUR_NS


@given(
    st.sampled_from(ZONES),
    st.integers(NOW_NS - 10**17, NOW_NS + 10**17),
    st.integers(0, 90 * 24 * HOUR_NS),
)
def test_the_days_of_a_span_follow_one_another_without_a_gap(
    zone: str, from_ns: int, length_ns: int
) -> None:
    calendar = Calendar(zone)
    days = list(calendar.days(from_ns, from_ns + length_ns))
    assert (days[0][1], days[-1][2]) == (from_ns, from_ns + length_ns)
    for (day, begin_ns, end_ns), (following, then_ns, _) in pairwise(days):
        assert end_ns == then_ns > begin_ns
        assert day < following
    assert all(calendar.day(begin_ns).isoformat() == day for day, begin_ns, _ in days)


def test_a_time_zone_that_nobody_knows_is_refused_with_an_example() -> None:
    with pytest.raises(InputError, match=r"'Mars/Olympus' is no time zone.*Europe/Vienna"):
        Calendar("Mars/Olympus")
