"""What every series store promises; the same tests run against each."""

import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.domain.series import Point, Range, Sample, Selector, SeriesKey
from dure.stores.series.ports import SeriesStore
from dure.stores.series.prometheus import PrometheusSeries
from dure.stores.series.sqlite import SqliteSeries
from tests.kube.programs import wait_until
from tests.stores.series.servers import SeriesServer, shared_server

BACKENDS = [
    "sqlite",
    pytest.param("victoria-metrics", marks=pytest.mark.services),
    pytest.param("prometheus", marks=pytest.mark.services),
]
_numbers = itertools.count()
MINUTE_MS = 60_000


@dataclass
class Bed:
    """A store, with a name that no other test has used, and a moment in the past."""

    store: SeriesStore
    name: str
    start_ms: int
    server: SeriesServer | None = None

    def key(self, **labels: str) -> SeriesKey:
        return SeriesKey(self.name, tuple(sorted(labels.items())))

    def settle(self) -> None:
        if self.server is not None:
            self.server.settle()

    def points(self, span: Range, **labels: str) -> dict[SeriesKey, tuple[Point, ...]]:
        self.settle()
        selector = Selector(self.name, tuple(sorted(labels.items())))
        return dict(self.store.query(selector, span))


@pytest.fixture(params=BACKENDS)
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bed]:
    name = f"dure_test_{os.getpid()}_{next(_numbers)}"
    hour_ms = 3_600_000
    start_ms = (int(time.time() * 1000) - hour_ms // 2) // MINUTE_MS * MINUTE_MS
    store: SeriesStore
    if request.param == "sqlite":
        store, server = SqliteSeries(tmp_path / "series.db"), None
    else:
        server = shared_server(request.param)
        server.start()
        store = PrometheusSeries(server.url)
    yield Bed(store, name, start_ms, server)
    store.close()


def test_a_point_sums_up_the_samples_of_its_step(bed: Bed) -> None:
    key = bed.key(gpu="GPU-1", tenant="a")
    values = [4.0, 1.0, 9.0, 2.5]
    bed.store.write([Sample(key, bed.start_ms + 1000 * n, value) for n, value in enumerate(values)])
    bed.store.write([Sample(key, bed.start_ms + 10_000, 7.0)])
    found = bed.points(Range(bed.start_ms, bed.start_ms + 20_000, 10_000))
    assert found == {
        key: (
            Point(bed.start_ms, 4, 16.5, 1.0, 9.0, 2.5),
            Point(bed.start_ms + 10_000, 1, 7.0, 7.0, 7.0, 7.0),
        )
    }


def test_a_sample_at_an_edge_belongs_to_the_step_it_begins(bed: Bed) -> None:
    key = bed.key()
    bed.store.write(
        [
            Sample(key, bed.start_ms + 9_999, 1.0),
            Sample(key, bed.start_ms + 10_000, 2.0),
            Sample(key, bed.start_ms + 19_999, 3.0),
        ]
    )
    found = bed.points(Range(bed.start_ms, bed.start_ms + 20_000, 10_000))
    assert [(point.at_ms - bed.start_ms, point.samples) for point in found[key]] == [
        (0, 1),
        (10_000, 2),
    ]


def test_samples_of_a_batch_may_come_in_any_order(bed: Bed) -> None:
    key = bed.key()
    times = [3, 0, 4, 1, 2]
    bed.store.write([Sample(key, bed.start_ms + 1000 * n, float(n)) for n in times])
    found = bed.points(Range(bed.start_ms, bed.start_ms + 10_000, 10_000))
    assert found[key] == (Point(bed.start_ms, 5, 10.0, 0.0, 4.0, 4.0),)


def test_a_selector_finds_by_name_and_by_the_labels_it_states(bed: Bed) -> None:
    first, second = bed.key(gpu="0", tenant="a"), bed.key(gpu="0", tenant="b")
    third = bed.key(gpu="1", tenant="a")
    bed.store.write([Sample(key, bed.start_ms, 1.0) for key in (first, second, third)])
    span = Range(bed.start_ms, bed.start_ms + 1_000, 1_000)
    assert set(bed.points(span)) == {first, second, third}
    assert set(bed.points(span, gpu="0")) == {first, second}
    assert set(bed.points(span, gpu="1", tenant="a")) == {third}
    assert bed.points(span, gpu="2") == {}
    assert bed.store.query(Selector(bed.name + "_none"), span) == []


def test_labels_keep_quotes_backslashes_and_every_script(bed: Bed) -> None:
    key = bed.key(tenant='quo"te\\ \n 두레 ü')
    bed.store.write([Sample(key, bed.start_ms, 1.0)])
    span = Range(bed.start_ms, bed.start_ms + 1_000, 1_000)
    assert list(bed.points(span, tenant=dict(key.labels)["tenant"])) == [key]


def test_steps_without_a_sample_are_left_out(bed: Bed) -> None:
    key = bed.key()
    bed.store.write([Sample(key, bed.start_ms, 1.0), Sample(key, bed.start_ms + 50_000, 2.0)])
    found = bed.points(Range(bed.start_ms, bed.start_ms + MINUTE_MS, 10_000))
    assert [point.at_ms - bed.start_ms for point in found[key]] == [0, 50_000]


def test_the_span_is_widened_to_whole_steps(bed: Bed) -> None:
    key = bed.key()
    bed.store.write([Sample(key, bed.start_ms + 1_000 * n, 1.0) for n in range(30)])
    found = bed.points(Range(bed.start_ms + 12_345, bed.start_ms + 12_346, 10_000))
    assert [(p.at_ms - bed.start_ms, p.samples) for p in found[key]] == [(10_000, 10)]


def test_an_hour_in_seconds_is_whole(bed: Bed) -> None:
    key = bed.key()
    first = bed.start_ms - 20 * MINUTE_MS
    bed.store.write([Sample(key, first + 1000 * n, float(n)) for n in range(2400)])
    bed.store.tend()
    found = bed.points(Range(first, first + 2400_000, 1_000))
    assert [point.last for point in found[key]] == [float(n) for n in range(2400)]


def test_its_names_are_listed(bed: Bed) -> None:
    bed.store.write([Sample(bed.key(), int(time.time() * 1000), 1.0)])
    bed.settle()
    wait_until("the name is listed", lambda: bed.name in bed.store.names(), 30.0)


def test_nothing_is_written_of_nothing(bed: Bed) -> None:
    assert bed.store.write([]) == 0


@pytest.mark.parametrize(
    ("start", "end", "step", "said"),
    [
        (0, 0, 1000, "the span is empty"),
        (1000, 0, 1000, "the span is empty"),
        (0, 1000, 0, "the span is empty"),
        (0, 12_000_000, 1000, "too many for one answer"),
    ],
)
def test_a_span_that_cannot_be_answered_is_refused_with_a_reason(
    bed: Bed, start: int, end: int, step: int, said: str
) -> None:
    span = Range(bed.start_ms + start, bed.start_ms + end, step)
    with pytest.raises(InputError, match=said):
        bed.store.query(Selector(bed.name), span)
