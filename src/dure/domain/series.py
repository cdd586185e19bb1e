"""Measured series: what is measured under which labels, samples, and points that sum samples up."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]
"""Names and values, in the order of the names."""

MOST_VALUE = 1e30
"""Larger numbers are no measurement of anything; sums of smaller ones stay finite."""
MOST_LABEL = 128
"""Characters of a label's value; longer ones are refused, since cut ones would be mixed up."""
MOST_POINTS = 11_000
"""Points of one series in one answer, as Prometheus has it."""


def labels_of(pairs: Mapping[str, str]) -> Labels:
    """Labels in their order."""
    return tuple(sorted(pairs.items()))


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """One series: a name and its labels. Made once and kept: its hash is worked out once."""

    name: str
    labels: Labels = ()
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.name, self.labels)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        inside = ",".join(f'{name}="{value}"' for name, value in self.labels)
        return f"{self.name}{{{inside}}}" if inside else self.name


class Sample(NamedTuple):
    """One measurement."""

    series: SeriesKey
    at_ms: int
    """Since 1970."""
    value: float


class Point(NamedTuple):
    """All samples of a span of time, summed up; the span begins at `at_ms`."""

    at_ms: int
    samples: int
    sum: float
    min: float
    max: float
    last: float

    @property
    def mean(self) -> float:
        return self.sum / self.samples


@dataclass(frozen=True, slots=True)
class Range:
    """From when to when, and how long the span of one point is."""

    start_ms: int
    end_ms: int
    """Not included."""
    step_ms: int

    @property
    def points(self) -> int:
        """At most so many of one series."""
        return -(-(self.end_ms - self.start_ms) // self.step_ms)


@dataclass(frozen=True, slots=True)
class Selector:
    """Series of one name whose labels are as stated; labels that are not named may be any."""

    name: str
    labels: Labels = ()


class Found(NamedTuple):
    """One series of an answer."""

    series: SeriesKey
    points: tuple[Point, ...]
    """In the order of time; spans without a sample are left out."""


class Fault(Enum):
    """Why a sample was not kept."""

    ABSURD = "absurd"
    """Not a number, infinite, or larger than anything measured."""
    LABEL = "label"
    """The value of a label is too long."""
    CARDINALITY = "cardinality"
    """There are too many series."""
    TIME = "time"
    """Its time is before all that is kept, or far ahead, or refused as out of order."""
    OVERFLOW = "overflow"
    """The store was away for too long."""


def fault_of(value: float) -> Fault | None:
    """What is wrong with a value, if anything is."""
    return None if math.isfinite(value) and abs(value) <= MOST_VALUE else Fault.ABSURD


def rate_per_s(points: Iterable[Point]) -> list[tuple[int, float]]:
    """The growth a second of a counter between neighbouring points; one that began anew counts
    from nought."""
    rates: list[tuple[int, float]] = []
    before: Point | None = None
    for point in points:
        if before is not None:
            grown = point.last - before.last if point.last >= before.last else point.last
            rates.append((point.at_ms, grown * 1000.0 / (point.at_ms - before.at_ms)))
        before = point
    return rates
