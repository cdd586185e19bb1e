"""Readings as Prometheus reads them, and as samples of series."""

from collections.abc import Callable, Iterable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    generate_latest,
    start_http_server,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from dure.domain.metrics.kinds import Metric, MetricKind, Reading, Spread
from dure.domain.series import Sample, SeriesKey

CONTENT_TYPE = CONTENT_TYPE_LATEST
_MOST_KEYS = 100_000
"""Then they are made anew: most are of things long gone."""


def exposed(readings: Iterable[Reading | Spread]) -> bytes:
    """The text of `/metrics`, with what this process takes of its machine."""
    registry = CollectorRegistry()
    taken = list(readings)
    registry.register(_Collected(lambda: taken))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class MetricsServer:
    """`/metrics` over HTTP, in a thread, for processes that have no other HTTP."""

    def __init__(
        self, where: tuple[str, int], read: Callable[[], Iterable[Reading | Spread]]
    ) -> None:
        registry = CollectorRegistry()
        registry.register(_Collected(read))
        ProcessCollector(registry=registry)
        host, port = where
        self._server, self._thread = start_http_server(port, host, registry)
        self.port: int = self._server.server_port

    def close(self) -> None:
        """End, and wait for the end."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Collected(Collector):
    """Readings, taken when they are asked for, as families."""

    def __init__(self, read: Callable[[], Iterable[Reading | Spread]]) -> None:
        self._read = read

    def describe(self) -> Iterable[Family]:
        """Nothing: to be registered must not read."""
        return ()

    def collect(self) -> Iterable[Family]:
        families: dict[str, Family] = {}
        for reading in self._read():
            metric = reading.metric
            family = families.get(metric.name)
            if family is None:
                family = families[metric.name] = _family(metric)
            _add(family, reading)
        return families.values()


def _family(metric: Metric) -> Family:
    match metric.kind:
        case MetricKind.GAUGE:
            return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        case MetricKind.COUNTER:
            return CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        case MetricKind.HISTOGRAM:
            return HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)


def _add(family: Family, reading: Reading | Spread) -> None:
    match family, reading:
        case HistogramMetricFamily(), Spread():
            bounds = [(str(float(bound)), float(count)) for bound, count in reading.buckets]
            family.add_metric(
                reading.labels, [*bounds, ("+Inf", float(reading.observations))], reading.sum
            )
        case ((GaugeMetricFamily() | CounterMetricFamily()), Reading()):
            family.add_metric(reading.labels, reading.value)


class Sampling:
    """Readings as samples; the keys of series are made once."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, tuple[str, ...]], SeriesKey] = {}

    def samples(self, readings: Iterable[Reading | Spread], at_ms: int) -> list[Sample]:
        """One for each reading; of a spread its sum and its count."""
        found: list[Sample] = []
        for reading in readings:
            if isinstance(reading, Reading):
                found.append(self._sample(reading.metric.name, reading, at_ms, reading.value))
            else:
                name = reading.metric.name
                found.append(self._sample(f"{name}_sum", reading, at_ms, reading.sum))
                found.append(
                    self._sample(f"{name}_count", reading, at_ms, float(reading.observations))
                )
        return found

    def _sample(self, name: str, reading: Reading | Spread, at_ms: int, value: float) -> Sample:
        known = self._keys.get((name, reading.labels))
        if known is None:
            if len(self._keys) >= _MOST_KEYS:
                self._keys.clear()
            pairs = zip(reading.metric.labels, reading.labels, strict=True)
            known = SeriesKey(name, tuple(sorted(pairs)))
            self._keys[name, reading.labels] = known
        return Sample(known, at_ms, value)
