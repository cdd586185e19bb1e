"""Series in VictoriaMetrics or Prometheus: pushed by remote write, asked for in PromQL."""

import json
import threading
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import httpx

from dure.domain.errors import InputError
from dure.domain.series import Found, Point, Range, Sample, Selector, SeriesKey, labels_of
from dure.stores.series.ports import SeriesError, aligned
from dure.stores.series.remote_write import Writing

_WAIT_S = 10.0
_WRITE = "/api/v1/write"
_HEADERS = {
    "content-encoding": "snappy",
    "content-type": "application/x-protobuf",
    "x-prometheus-remote-write-version": "0.1.0",
}
_SUMS = {"samples": "count", "sum": "sum", "min": "min", "max": "max", "last": "last"}
"""Fields of a point, by the function that gives them: `count_over_time` and so on."""
_SUM_LABEL = "dure_sum"


class Flavour(Enum):
    """Whose server it is: they do not agree on the edges of a range."""

    PROMETHEUS = "Prometheus"
    VICTORIA = "VictoriaMetrics"


class PrometheusSeries:
    """One server; from any thread."""

    def __init__(self, url: str, token: str = "") -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._url = url.rstrip("/")
        self._http = httpx.Client(base_url=self._url, timeout=_WAIT_S, headers=headers)
        self._writing = Writing()
        self._turn = threading.Lock()
        self._closed_ranges: bool | None = None
        """Whether a range includes its first millisecond; None: not asked yet."""

    # Writing

    def write(self, samples: Sequence[Sample]) -> int:
        """Push samples; tells how many the server refused for their time."""
        if not samples:
            return 0
        answer = self._push(samples)
        if answer.is_success:
            return 0
        if answer.status_code == httpx.codes.BAD_REQUEST:
            return self._one_by_one(samples)
        raise self._refused(answer, _first_line(answer.text))

    def _one_by_one(self, samples: Sequence[Sample]) -> int:
        """Prometheus refuses a request whole if one sample of it is out of order: push each series
        by itself, so that one that is refused costs no other; tells how many samples it cost."""
        lost = 0
        by_series: dict[SeriesKey, list[Sample]] = {}
        for sample in samples:
            by_series.setdefault(sample.series, []).append(sample)
        for found in by_series.values():
            answer = self._push(found)
            if answer.status_code == httpx.codes.BAD_REQUEST:
                lost += len(found)
            elif not answer.is_success:
                raise self._refused(answer, _first_line(answer.text))
        return lost

    def _push(self, samples: Sequence[Sample]) -> httpx.Response:
        with self._turn:
            body = self._writing.request(samples)
        return self._asked(lambda: self._http.post(_WRITE, content=body, headers=_HEADERS))

    # Reading

    def query(self, selector: Selector, span: Range) -> list[Found]:
        """Series with samples in a span, each point summing up one step."""
        span = aligned(span)
        range_ms = span.step_ms - 1 if self._ranges_closed() else span.step_ms
        inside = f"{_promql(selector)}[{range_ms}ms]"
        parts = [
            f'label_replace({function}_over_time({inside}), "{_SUM_LABEL}", "{field}", "", "")'
            for field, function in _SUMS.items()
        ]
        # A step is summed up at its last millisecond.
        asked = {
            "query": " or ".join(parts),
            "start": f"{(span.start_ms + span.step_ms - 1) / 1000:.3f}",
            "end": f"{(span.end_ms - 1) / 1000:.3f}",
            "step": f"{span.step_ms / 1000:.3f}",
            "nocache": "1",
        }
        result = self._answer("/api/v1/query_range", asked)
        return _found(selector.name, result["result"], span.step_ms)

    def names(self) -> list[str]:
        """Names of all series."""
        found: list[str] = self._answer("/api/v1/label/__name__/values", {})
        return sorted(found)

    def tend(self) -> bool:
        """Nothing: the server sums up and forgets by its own settings."""
        return False

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def _ranges_closed(self) -> bool:
        """Ranges of Prometheus before 3 include both edges, all others only the later one."""
        if self._closed_ranges is None:
            healthy = self._asked(lambda: self._http.get("/-/healthy"))
            flavour = Flavour.VICTORIA if "Victoria" in healthy.text else Flavour.PROMETHEUS
            version = ""
            if flavour is Flavour.PROMETHEUS:
                version = str(self._answer("/api/v1/status/buildinfo", {}).get("version", ""))
            self._closed_ranges = version.startswith("2.")
        return self._closed_ranges

    def _answer(self, path: str, asked: dict[str, str]) -> Any:
        answer = self._asked(
            lambda: self._http.post(path, data=asked) if asked else self._http.get(path)
        )
        try:
            body = answer.json()
        except json.JSONDecodeError as error:
            raise self._refused(answer, _first_line(answer.text)) from error
        if body.get("status") != "success":
            raise self._refused(answer, str(body.get("error", ""))[:200])
        return body["data"]

    def _asked(self, ask: Callable[[], httpx.Response]) -> httpx.Response:
        try:
            return ask()
        except httpx.HTTPError as error:
            raise SeriesError(
                f"the series store at {self._url} does not answer ({error})",
                "check that it runs and the address",
            ) from error

    def _refused(self, answer: httpx.Response, said: str) -> SeriesError:
        remedy = "check the address and what the server allows"
        if answer.status_code == httpx.codes.NOT_FOUND and "remote write" in said:
            remedy = "start Prometheus with --web.enable-remote-write-receiver"
        return SeriesError(
            f"the series store at {self._url} answered {answer.status_code} ({said})", remedy
        )


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:200]


def _promql(selector: Selector) -> str:
    inside = ",".join(f"{name}={json.dumps(value)}" for name, value in selector.labels)
    if any('"' in name or "{" in name for name in (selector.name, *dict(selector.labels))):
        raise InputError(f"'{selector.name}' is no name of a series", "use letters, digits and _")
    return f"{selector.name}{{{inside}}}"


def _found(name: str, result: list[dict[str, Any]], step_ms: int) -> list[Found]:
    gathered: dict[SeriesKey, dict[int, dict[str, float]]] = {}
    for row in result:
        labels = {str(label): str(value) for label, value in row["metric"].items()}
        field = labels.pop(_SUM_LABEL)
        labels.pop("__name__", None)
        points = gathered.setdefault(SeriesKey(name, labels_of(labels)), {})
        for at_s, value in row["values"]:
            start_ms = round(float(at_s) * 1000) + 1 - step_ms
            points.setdefault(start_ms, {})[field] = float(value)
    return [
        Found(series, tuple(_point(at_ms, points[at_ms]) for at_ms in sorted(points)))
        for series, points in sorted(gathered.items(), key=lambda each: each[0].labels)
    ]


def _point(at_ms: int, sums: dict[str, float]) -> Point:
    return Point(at_ms, round(sums["samples"]), sums["sum"], sums["min"], sums["max"], sums["last"])
