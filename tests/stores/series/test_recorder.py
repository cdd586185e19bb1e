"""The recorder and its gate: never in the way, bounded, and honest about what is lost."""

import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from dure.domain.series import Fault, Found, Range, Sample, Selector, SeriesKey
from dure.stores.series.gate import IDLE_MS, Gate
from dure.stores.series.opening import open_series
from dure.stores.series.ports import SeriesError
from dure.stores.series.prometheus import PrometheusSeries
from dure.stores.series.recorder import Recorder, RecorderSettings
from tests.kube.ports import free_port
from tests.kube.programs import wait_until
from tests.stores.series.servers import SeriesServer

KEY = SeriesKey("x")
QUICK = RecorderSettings(flush_s=0.01, tend_s=0.02, most_waiting=100)


class Shelf:
    """A store that may be away."""

    def __init__(self) -> None:
        self.away = False
        self.kept: list[Sample] = []
        self.tended = 0
        self.closed = False

    def write(self, samples: Sequence[Sample]) -> int:
        if self.away:
            raise SeriesError("the store is away", "wait")
        self.kept += samples
        return 0

    def query(self, selector: Selector, span: Range) -> list[Found]:
        return []

    def names(self) -> list[str]:
        return []

    def tend(self) -> bool:
        self.tended += 1
        return False

    def close(self) -> None:
        self.closed = True


def _samples(count: int, first: int = 0) -> list[Sample]:
    return [Sample(KEY, 1000 * number, float(number)) for number in range(first, first + count)]


def test_samples_reach_the_store_and_it_is_tended() -> None:
    shelf = Shelf()
    recorder = Recorder(shelf, settings=QUICK)
    recorder.start()
    recorder.add(_samples(5))
    wait_until("samples are written", lambda: len(shelf.kept) == 5, 30.0)
    wait_until("the store is tended", lambda: shelf.tended > 1, 30.0)
    recorder.stop()
    assert shelf.closed
    assert recorder.recorded().written == 5


def test_a_store_that_is_away_loses_the_oldest_first_and_says_so_once() -> None:
    shelf, said = Shelf(), list[str]()
    shelf.away = True
    recorder = Recorder(shelf, settings=QUICK, tell=said.append)
    recorder.start()
    recorder.add(_samples(60))
    wait_until("the trouble is noticed", lambda: bool(recorder.recorded().trouble), 30.0)
    recorder.add(_samples(60, 60))
    recorder.add(_samples(60, 120))
    state = recorder.recorded()
    assert state.waiting <= 100
    shelf.away = False
    wait_until("samples are written", lambda: recorder.recorded().waiting == 0, 30.0)
    recorder.stop()
    values = [sample.value for sample in shelf.kept]
    assert values == [float(number) for number in range(80, 180)]
    state = recorder.recorded()
    assert state.faults[Fault.OVERFLOW] == 80
    assert state.written + state.faults[Fault.OVERFLOW] == 180
    assert sum("are lost" in text for text in said) == 1
    assert said[0].startswith("series wait in memory")
    assert said[-1] == "series are kept again"


def test_a_bug_in_the_store_does_not_end_recording() -> None:
    shelf = Shelf()
    broken = threading.Event()

    def write(samples: Sequence[Sample]) -> int:
        if not broken.is_set():
            broken.set()
            raise ZeroDivisionError
        shelf.kept.extend(samples)
        return 0

    shelf.write = write  # type: ignore[method-assign]
    recorder = Recorder(shelf, settings=QUICK, tell=lambda text: None)
    recorder.start()
    recorder.add(_samples(3))
    wait_until("samples are written", lambda: len(shelf.kept) == 3, 30.0)
    recorder.stop()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, -1e31])
def test_an_absurd_value_is_refused_and_counted(value: float) -> None:
    gate = Gate()
    assert gate.passed([Sample(KEY, 0, value), Sample(KEY, 0, 1.0)]) == [Sample(KEY, 0, 1.0)]
    assert gate.faults[Fault.ABSURD] == 1


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a_million_label_values_stop_at_the_limit_while_those_before_go_on(count: int) -> None:
    gate = Gate(most_series=1_000, most_of_name=300)
    first = [SeriesKey("a", (("user", str(number)),)) for number in range(300)]
    assert len(gate.passed([Sample(key, 0, 1.0) for key in first])) == 300
    many = (Sample(SeriesKey("a", (("user", f"u{n}"),)), 1, 1.0) for n in range(count))
    assert gate.passed(many) == []
    assert gate.faults[Fault.CARDINALITY] == count
    assert gate.series == 300
    assert len(gate.passed([Sample(key, 2, 1.0) for key in first])) == 300
    others = [Sample(SeriesKey(f"b{number}"), 3, 1.0) for number in range(1_000)]
    assert len(gate.passed(others)) == 700


def test_a_series_that_was_silent_for_an_hour_makes_room() -> None:
    gate = Gate(most_series=2)
    old, young, new = (SeriesKey(name) for name in ("old", "young", "new"))
    gate.passed([Sample(old, 0, 1.0), Sample(young, 60_000, 1.0)])
    assert gate.passed([Sample(new, 120_000, 1.0)]) == []
    assert len(gate.passed([Sample(new, IDLE_MS, 1.0)])) == 1
    assert gate.passed([Sample(old, IDLE_MS + 1, 1.0)]) == []
    assert gate.series == 2


def test_a_label_that_is_too_long_is_refused() -> None:
    gate = Gate()
    assert gate.passed([Sample(SeriesKey("a", (("x", "y" * 129),)), 0, 1.0)]) == []
    assert gate.faults[Fault.LABEL] == 1


def test_nobody_there_is_an_error_with_a_remedy() -> None:
    store = PrometheusSeries(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(SeriesError, match="check that it runs"):
        store.write(_samples(1))
    with pytest.raises(SeriesError, match="check that it runs"):
        store.query(Selector("x"), Range(0, 1000, 1000))
    store.close()


def test_an_address_that_means_no_store_is_refused(tmp_path: Path) -> None:
    from dure.domain.errors import InputError

    with pytest.raises(InputError, match="is no store of series"):
        open_series("mysql", tmp_path / "x.db", 1)
    assert open_series("off", tmp_path / "x.db", 1) is None


@pytest.mark.services
@pytest.mark.parametrize("name", ["victoria-metrics", "prometheus"])
def test_a_server_that_is_killed_gets_what_waited_when_it_is_back(name: str) -> None:
    server = SeriesServer(name)
    try:
        server.start()
        store = PrometheusSeries(server.url)
        settings = RecorderSettings(flush_s=0.05, tend_s=60.0)
        recorder = Recorder(store, settings=settings, tell=lambda text: None)
        now_ms = int(time.time() * 1000)
        recorder.start()
        recorder.add([Sample(KEY, now_ms - 60_000 + 1000 * n, float(n)) for n in range(10)])
        wait_until("the first are written", lambda: recorder.recorded().written == 10, 30.0)
        server.kill()
        recorder.add([Sample(KEY, now_ms - 50_000 + 1000 * n, float(n)) for n in range(10, 20)])
        wait_until("the trouble is noticed", lambda: bool(recorder.recorded().trouble), 30.0)
        assert recorder.recorded().waiting == 10
        server.start()
        wait_until("all are written", lambda: recorder.recorded().written == 20, 60.0)
        server.settle()
        span = Range(now_ms - 60_000, now_ms, 120_000)

        def found() -> float:
            return sum(p.samples for each in store.query(Selector("x"), span) for p in each.points)

        wait_until("what waited is found", lambda: found() >= 10, 30.0)
        recorder.stop()
    finally:
        server.close()


@pytest.mark.services
def test_prometheus_refuses_what_is_out_of_order_and_the_rest_is_kept() -> None:
    server = SeriesServer("prometheus")
    try:
        server.start()
        store = PrometheusSeries(server.url)
        now_ms = int(time.time() * 1000)
        late, other = SeriesKey("late"), SeriesKey("other")
        assert store.write([Sample(late, now_ms, 1.0)]) == 0
        assert store.write([Sample(late, now_ms - 5_000, 2.0), Sample(other, now_ms, 3.0)]) == 1
        span = Range(now_ms - 10_000, now_ms + 1_000, 20_000)
        assert [p.last for each in store.query(Selector("other"), span) for p in each.points] == [
            3.0
        ]
        store.close()
    finally:
        server.close()
