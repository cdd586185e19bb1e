"""`dure bench series`: how many samples a second the embedded store takes, and how soon it answers.

The clock is the bench's own, so that an hour of samples takes as long as the store does; all that
it does in an hour (blocks, coarser levels, forgetting) is done as often as it would be. Writing is
by one thread, as in every process of Dure; the second core is whoever asks.
"""

import random
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dure.domain.series import Range, Sample, Selector, SeriesKey
from dure.domain.units import MIB
from dure.kit.memory import keep_what_is_loaded
from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, number, silent
from dure.stores.series.sqlite import SqliteSeries, SqliteSettings

LEAST_PER_S = 20_000
QUERY_MS = 50.0
_TEND_S = 5
_HOUR_MS = 3_600_000
_START_MS = 1_790_000_000_000 // _HOUR_MS * _HOUR_MS
_QUERIES = 200
_STEPS_MS = (1_000, 10_000, 60_000)
_LARGEST = 4096 * MIB


@dataclass(slots=True)
class _Written:
    """One shape of load."""

    series: int
    every_s: int
    samples: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    longest_write_ms: float = 0.0
    longest_tend_ms: float = 0.0
    file_bytes: int = 0
    query_ms: dict[int, list[float]] = field(default_factory=dict)
    """By step; an hour of one series, with nothing else going on."""
    query_cpu_ms: list[float] = field(default_factory=list)
    """The same by the processor, over all steps."""
    busy_query_ms: list[float] = field(default_factory=list)
    """While samples are written as fast as they are."""

    @property
    def per_s(self) -> float:
        return self.samples / self.wall_s


def bench_series(*, minutes: int = 65, series: int = 2_000, tell: Tell = silent) -> BenchReport:
    """Few series that are sampled often, and ten times as many."""
    keep_what_is_loaded()  # as agent and server do when they start
    shapes = [_Written(series, 1), _Written(10 * series, 10)]
    for place, shape in enumerate(shapes):
        with tempfile.TemporaryDirectory(prefix="dure-series-") as folder:
            _run(shape, Path(folder) / "series.db", minutes * 60, _part(tell, place, len(shapes)))
    return _report(shapes, minutes)


def _part(tell: Tell, place: int, parts: int) -> Tell:
    return lambda what, share: tell(what, (place + share) / parts)


def _run(shape: _Written, file: Path, seconds: int, tell: Tell) -> None:
    clock = [_START_MS]
    store = SqliteSeries(file, SqliteSettings(most_bytes=_LARGEST), lambda: clock[0])
    keys = [
        SeriesKey("dure_bench", (("gpu", f"GPU-{number % 8}"), ("tenant", f"t{number}")))
        for number in range(shape.series)
    ]
    for batch in _batches(keys, shape.every_s, seconds, clock):
        tell(f"writing {shape.series:,} series", 0.8 * (clock[0] - _START_MS) / (seconds * 1000))
        _timed_write(store, batch, shape)
        if clock[0] // 1000 % _TEND_S == 0:
            _timed_tend(store, shape)
    shape.file_bytes = file.stat().st_size
    chance = random.Random(1)
    for step_ms in _STEPS_MS:
        tell("asking", 0.85)
        shape.query_ms[step_ms] = [
            _ask(store, chance.choice(keys), clock[0], step_ms, shape.query_cpu_ms)
            for _ in range(_QUERIES)
        ]
    tell("asking while it writes", 0.9)
    _ask_while_writing(store, keys, shape, clock)
    store.close()


def _batches(
    keys: list[SeriesKey], every_s: int, seconds: int, clock: list[int]
) -> Iterator[list[Sample]]:
    """One a second: each series once in `every_s`, its value a walk of a few digits as gauges
    are."""
    chance = np.random.default_rng(1)
    values = np.round(chance.random(len(keys)) * 100, 2)
    for second in range(seconds):
        values = np.round(values + chance.normal(0, 0.5, len(keys)), 2)
        turn = second % every_s
        yield [
            Sample(key, clock[0], value)
            for key, value in zip(keys[turn::every_s], values[turn::every_s].tolist(), strict=True)
        ]
        clock[0] += 1000


def _timed_write(store: SqliteSeries, batch: list[Sample], shape: _Written) -> None:
    began_s, cpu_s = time.perf_counter(), time.process_time()
    store.write(batch)
    took_s = time.perf_counter() - began_s
    shape.samples += len(batch)
    shape.wall_s += took_s
    shape.cpu_s += time.process_time() - cpu_s
    shape.longest_write_ms = max(shape.longest_write_ms, took_s * 1e3)


def _timed_tend(store: SqliteSeries, shape: _Written) -> None:
    more = True
    while more:
        began_s, cpu_s = time.perf_counter(), time.process_time()
        more = store.tend()
        took_s = time.perf_counter() - began_s
        shape.wall_s += took_s
        shape.cpu_s += time.process_time() - cpu_s
        shape.longest_tend_ms = max(shape.longest_tend_ms, took_s * 1e3)


def _ask(
    store: SqliteSeries, key: SeriesKey, now_ms: int, step_ms: int, cpu_ms: list[float]
) -> float:
    began_s, cpu_s = time.perf_counter(), time.thread_time()
    found = store.query(Selector(key.name, key.labels), Range(now_ms - _HOUR_MS, now_ms, step_ms))
    took_ms = (time.perf_counter() - began_s) * 1e3
    cpu_ms.append((time.thread_time() - cpu_s) * 1e3)
    assert found
    assert found[0].points
    return took_ms


def _ask_while_writing(
    store: SqliteSeries, keys: list[SeriesKey], shape: _Written, clock: list[int]
) -> None:
    """An hour's question again and again, while a thread writes 20,000 samples each second."""
    end, chance = threading.Event(), random.Random(2)

    def write() -> None:
        chosen = [key for _ in range(-(-LEAST_PER_S // len(keys))) for key in keys][:LEAST_PER_S]
        while not end.wait(0.0):
            began_s = time.perf_counter()
            store.write([Sample(key, clock[0], 1.0) for key in chosen])
            store.tend()
            clock[0] += 1000
            end.wait(max(0.0, 1.0 - (time.perf_counter() - began_s)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(_QUERIES // 2):
            shape.busy_query_ms.append(_ask(store, chance.choice(keys), clock[0], 10_000, []))
            time.sleep(0.02)
    finally:
        end.set()
        writer.join()


def _report(shapes: list[_Written], minutes: int) -> BenchReport:
    slowest = min(shape.per_s for shape in shapes)
    worst = max(
        float(np.percentile(took, 99)) for shape in shapes for took in shape.query_ms.values()
    )
    cpu = max(float(np.percentile(shape.query_cpu_ms, 99)) for shape in shapes)
    busy = max(float(np.percentile(shape.busy_query_ms, 99)) for shape in shapes)
    return BenchReport(
        name="series",
        title="What the embedded store of series takes and gives",
        about=(
            f"{minutes} minutes of samples in virtual time, written in batches of a second by one "
            "thread, blocks and coarser levels made as they come due; then an hour of one series, "
            f"{_QUERIES} times for each step, and again while a thread writes "
            f"{LEAST_PER_S:,} samples each second."
        ),
        grids=(_writes(shapes), _answers(shapes)),
        verdicts=(
            Verdict(
                f"at least {LEAST_PER_S:,} samples a second, sustained",
                f"{slowest:,.0f} a second",
                slowest >= LEAST_PER_S,
            ),
            Verdict(
                f"an hour of a series within {QUERY_MS:g} ms by the clock",
                f"p99 {worst:.1f} ms",
                worst <= QUERY_MS,
            ),
            Verdict("the same in processor time", f"p99 {cpu:.1f} ms", None),
            Verdict("by the clock, while it writes", f"p99 {busy:.1f} ms", None),
        ),
        simulated=False,
        subject="clock",
        figures={"shapes": shapes},
    )


def _writes(shapes: list[_Written]) -> Grid:
    rows = tuple(
        (
            f"{shape.series:,}, each every {shape.every_s} s",
            number(shape.samples, 0),
            number(shape.per_s, 0),
            f"{100 * LEAST_PER_S * shape.cpu_s / shape.samples:.1f} %",
            number(shape.longest_write_ms, 0),
            number(shape.longest_tend_ms, 0),
            number(shape.file_bytes / shape.samples, 2),
        )
        for shape in shapes
    )
    return Grid(
        "Writing",
        (
            "series",
            "samples",
            "a second",
            "of a core at 20,000/s",
            "longest write, ms",
            "longest tending, ms",
            "bytes a sample",
        ),
        rows,
    )


def _answers(shapes: list[_Written]) -> Grid:
    rows = []
    for shape in shapes:
        named = [(f"{step // 1000} s", took) for step, took in shape.query_ms.items()]
        for step, took in [*named, ("10 s, while it writes", shape.busy_query_ms)]:
            figures = (np.percentile(took, share) for share in (50, 99, 100))
            rows.append((f"{shape.series:,} series, step {step}", *(number(f, 1) for f in figures)))
    return Grid("An hour of one series, ms", ("asked of", "median", "p99", "longest"), tuple(rows))
