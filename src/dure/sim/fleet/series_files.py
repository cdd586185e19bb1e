"""Hourly tables of carbon intensity and electricity prices: a zone's column as a series.

A table has the hour (UTC) in its first column and one column for each zone. Hours must follow one
another without a gap; of the zones that are used, every value must be a number.
"""

import datetime
import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dure.domain.errors import InputError
from dure.domain.fleet.series import HOUR_NS, Series
from dure.domain.units import NS_PER_S
from dure.kit.words import nearest
from dure.sim.fleet.csv_files import MOST, CsvFile, read_csv

_HOUR = datetime.timedelta(hours=1)
_WRITTEN = "%Y-%m-%d %H:%M"


@dataclass(frozen=True, slots=True)
class Span:
    """The time a scenario covers."""

    start_ns: int
    """Nanoseconds since the Unix epoch, as on the fleet's clock."""
    duration_ns: int

    @property
    def start(self) -> datetime.datetime:
        """When the scenario begins."""
        return datetime.datetime.fromtimestamp(self.start_ns / NS_PER_S, datetime.UTC)

    @property
    def end(self) -> datetime.datetime:
        """When the scenario is over."""
        end_ns = self.start_ns + self.duration_ns
        return datetime.datetime.fromtimestamp(end_ns / NS_PER_S, datetime.UTC)


@dataclass(frozen=True, slots=True)
class HourlyTable:
    """A table whose hours were found to be complete."""

    file: CsvFile
    first: datetime.datetime

    @property
    def zones(self) -> tuple[str, ...]:
        """What it has columns for."""
        return self.file.header[1:]

    def series(self, zone: str, span: Span, *, least: float = -MOST) -> Series:
        """A zone's values, none below `least`, which must cover the whole time of the scenario.

        What the table knows from before is kept, as a past to learn from.
        """
        if zone not in self.zones:
            raise InputError(
                f"there is no zone '{zone}'",
                nearest(zone, self.zones),
                file=str(self.file.path),
            )
        end = self.first + len(self.file.rows) * _HOUR
        if span.start < self.first or span.end > end:
            raise InputError(
                f"covers {self.first:{_WRITTEN}} to {end:{_WRITTEN}}, not all of the scenario from "
                f"{span.start:{_WRITTEN}} to {span.end:{_WRITTEN}}",
                "choose another `start`, a shorter `duration` or another file",
                file=str(self.file.path),
            )
        values = np.array(self.file.numbers(zone, least=least), dtype=np.float64)
        return Series(values, round(self.first.timestamp()) * NS_PER_S, HOUR_NS)


def read_hourly(path: Path) -> HourlyTable:
    """Read a table and check that no hour is missing or there twice."""
    file = read_csv(path)
    if len(file.header) < 2:
        raise InputError("has no column beside the hour", "give one for each zone", file=str(path))
    column = file.header[0]
    times = file.times(column)
    for row, (before, now) in enumerate(itertools.pairwise(times), start=1):
        if now - before != _HOUR:
            kind = "there is a gap" if now - before > _HOUR else "the hours do not follow"
            raise file.wrong(
                row,
                column,
                f"{kind} from {before:{_WRITTEN}} to {now:{_WRITTEN}}",
                "give one row for every hour, in order",
            )
    return HourlyTable(file, times[0])
