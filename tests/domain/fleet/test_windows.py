"""Weekly windows, as people write them."""

import datetime

import pytest

from dure.domain.errors import InputError
from dure.domain.fleet.windows import any_open, window_of, windows_of


def ns(text: str) -> int:
    """A moment; 2026-11-16 is a Monday."""
    return int(datetime.datetime.fromisoformat(text).timestamp()) * 10**9


@pytest.mark.parametrize(
    ("line", "moment", "is_open"),
    [
        ("mon-fri 22:00-06:00", "2026-11-16T22:00:00Z", True),
        ("mon-fri 22:00-06:00", "2026-11-16T21:59:00Z", False),
        ("mon-fri 22:00-06:00", "2026-11-17T05:59:00Z", True),
        ("mon-fri 22:00-06:00", "2026-11-16T05:00:00Z", False),
        ("mon-fri 22:00-06:00", "2026-11-21T05:00:00Z", True),
        ("mon-fri 22:00-06:00", "2026-11-21T23:00:00Z", False),
        ("sat,sun", "2026-11-22T12:00:00Z", True),
        ("sat,sun", "2026-11-20T23:59:00Z", False),
        ("fri-mon 00:00-24:00", "2026-11-16T12:00:00Z", True),
        ("fri-mon", "2026-11-17T12:00:00Z", False),
        ("daily 01:00-05:00 Asia/Seoul", "2026-11-15T16:30:00Z", True),
        ("daily 01:00-05:00 Asia/Seoul", "2026-11-15T21:30:00Z", False),
    ],
)
def test_a_window_is_open_in_its_hours_alone(line: str, moment: str, is_open: bool) -> None:
    assert window_of(line).open(ns(moment)) is is_open


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "no window"),
        ("mon 9-10", "no window"),
        ("someday", "names no days"),
        ("mon 25:00-26:00", "no time of a day"),
        ("mon 24:00-06:00", "begins at 24:00"),
        ("mon 01:00-02:00 Mars/Olympus", "no time zone"),
    ],
)
def test_what_is_no_window_is_refused_with_a_remedy(line: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        window_of(line)


def test_without_windows_any_time_will_do() -> None:
    assert any_open((), 0)
    assert not any_open(windows_of(["sat"]), ns("2026-11-16T12:00:00Z"))
