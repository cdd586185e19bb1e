"""What a metric is, and one reading of it."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class MetricKind(Enum):
    """As Prometheus has them."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """Only grows, from nought at a process's start; its name ends in `_total`."""
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: base units (seconds, bytes, watts, ratios from 0 to 1) are part of its name."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    """Of things that stay: GPU UUIDs, tenants, containers, clusters; never of processes."""

    @property
    def series(self) -> tuple[str, ...]:
        """Names under which Prometheus and the series store know it."""
        if self.kind is MetricKind.HISTOGRAM:
            return (f"{self.name}_bucket", f"{self.name}_sum", f"{self.name}_count")
        return (self.name,)


class Reading(NamedTuple):
    """One value."""

    metric: Metric
    labels: tuple[str, ...]
    """Values, in the order of the metric's labels."""
    value: float


class Spread(NamedTuple):
    """One value of a histogram."""

    metric: Metric
    labels: tuple[str, ...]
    buckets: tuple[tuple[float, int], ...]
    """Upper bounds, and how many were at or below each."""
    observations: int
    sum: float


def gauge(name: str, words: str, *labels: str) -> Metric:
    """Something that goes up and down."""
    return Metric(name, MetricKind.GAUGE, words, labels)


def counter(name: str, words: str, *labels: str) -> Metric:
    """Something that only grows."""
    return Metric(name, MetricKind.COUNTER, words, labels)


def histogram(name: str, words: str, *labels: str) -> Metric:
    """Something of which the spread matters."""
    return Metric(name, MetricKind.HISTOGRAM, words, labels)
