"""Days and months in the fleet's time zone: when they begin, and which an instant belongs to."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from dure.domain.errors import InputError
from dure.domain.units import NS_PER_S
from dure.kit.zones import UTC, zone_of

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Calendar:
    """Days of one time zone."""

    name: str = UTC

    def __post_init__(self) -> None:
        try:
            zone_of(self.name)
        except ValueError as error:
            raise InputError(str(error), "install the host's time zone data") from error

    def day(self, at_ns: int) -> datetime.date:
        """The day of an instant."""
        at = _EPOCH + datetime.timedelta(seconds=at_ns // NS_PER_S)
        return at.astimezone(zone_of(self.name)).date()

    def begin_ns(self, day: datetime.date) -> int:
        """When a day begins."""
        midnight = datetime.datetime.combine(day, datetime.time(), tzinfo=zone_of(self.name))
        return int((midnight - _EPOCH).total_seconds()) * NS_PER_S

    def days(self, from_ns: int, to_ns: int) -> Iterator[tuple[str, int, int]]:
        """The days of a span, each with its part of the span; one with no length is in one day."""
        day = self.day(from_ns)
        while True:
            following = day + datetime.timedelta(days=1)
            end_ns = self.begin_ns(following)
            yield day.isoformat(), from_ns, min(to_ns, end_ns)
            if to_ns <= end_ns:
                return
            day, from_ns = following, end_ns

    def month(self, at_ns: int) -> str:
        """The month of an instant, as 2026-11."""
        return f"{self.day(at_ns):%Y-%m}"

    def month_ends_ns(self, month: str) -> int:
        """When the month after begins."""
        return self.begin_ns(following_month(month))


def following_month(month: str) -> datetime.date:
    """The first day after a month."""
    first = datetime.date.fromisoformat(f"{month}-01")
    return (first + datetime.timedelta(days=31)).replace(day=1)
