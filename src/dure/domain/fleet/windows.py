"""Weekly windows: hours in which work may be moved by itself.

A window is a line: `mon-fri 22:00-06:00`, `sat,sun`, `daily 01:00-05:00 Europe/Vienna`. Days are
those on which it begins; one that ends before it begins ends on the next day.
"""

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dure.domain.errors import InputError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_MIN = 24 * 60
_LINE = re.compile(
    r"(?P<days>[a-z,-]+)"
    r"(?: (?P<from>[0-9]{2}:[0-9]{2})-(?P<to>[0-9]{2}:[0-9]{2}))?"
    r"(?: (?P<zone>[A-Za-z][A-Za-z0-9_+/-]*))?"
)
_EXAMPLE = "write it as 'mon-fri 22:00-06:00 Europe/Vienna'; without hours it is the whole day"


@dataclass(frozen=True, slots=True)
class Window:
    """Some hours of some days of every week."""

    days: frozenset[int]
    """Days on which it begins, 0 is Monday."""
    from_min: int
    to_min: int
    """Minutes of the day; not after `from_min`: of the next day."""
    zone: str = "UTC"

    def open(self, now_ns: int) -> bool:
        """Whether it is in this window now."""
        now = datetime.datetime.fromtimestamp(now_ns / 1e9, tz=_zone(self.zone))
        minute, day = now.hour * 60 + now.minute, now.weekday()
        if self.from_min < self.to_min:
            return day in self.days and self.from_min <= minute < self.to_min
        begun = day in self.days and minute >= self.from_min
        return begun or ((day - 1) % len(DAYS) in self.days and minute < self.to_min)


def window_of(line: str) -> Window:
    """A window as people write it; `InputError` for what is none."""
    found = _LINE.fullmatch(line)
    if found is None:
        raise InputError(f"'{line}' is no window", _EXAMPLE)
    zone = found["zone"] or "UTC"
    _zone(zone)
    begin, end = _minutes(found["from"] or "00:00"), _minutes(found["to"] or "24:00")
    if begin == _DAY_MIN:
        raise InputError(f"'{line}' begins at 24:00", "write 00:00 of the next day")
    return Window(_days(found["days"]), begin, end, zone)


def windows_of(lines: Iterable[str]) -> tuple[Window, ...]:
    """Windows as people write them."""
    return tuple(window_of(line) for line in lines)


def any_open(windows: Iterable[Window], now_ns: int) -> bool:
    """Whether one of them is open; where there is none, always."""
    known = tuple(windows)
    return not known or any(each.open(now_ns) for each in known)


def _days(text: str) -> frozenset[int]:
    if text == "daily":
        return frozenset(range(len(DAYS)))
    days: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            raise InputError(f"'{part}' names no days", f"use {', '.join(DAYS)}, or daily")
        begin = DAYS.index(first)
        length = (DAYS.index(last) - begin) % len(DAYS) if dash else 0
        days |= {(begin + each) % len(DAYS) for each in range(length + 1)}
    return frozenset(days)


def _minutes(clock: str) -> int:
    hours, minutes = int(clock[:2]), int(clock[3:])
    if minutes > 59 or hours * 60 + minutes > _DAY_MIN:
        raise InputError(f"'{clock}' is no time of a day", "write 00:00 to 24:00")
    return hours * 60 + minutes


def _zone(name: str) -> datetime.tzinfo:
    if name == "UTC":
        return datetime.UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InputError(
            f"'{name}' is no time zone that this host knows", "write one as Europe/Vienna"
        ) from error
