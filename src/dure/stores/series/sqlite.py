"""The embedded series store: one SQLite file that never grows past its bound.

Batches are summed up to points of a second, written to a journal and kept in memory; each minute
becomes one block for each series. Coarser levels are summed up from the blocks of the level before
and are marked stale where that got something new, so that samples may come late, or twice, and a
clock may be set back. A question is answered from the coarsest level its step allows, from finer
ones where that is stale, and from memory for the last minute.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from dure.domain.series import Found, Point, Range, Sample, Selector, SeriesKey
from dure.domain.units import MIB
from dure.stores.series import blocks
from dure.stores.series.columns import Columns, Ints
from dure.stores.series.file import hold, open_file, open_reader, translated
from dure.stores.series.known import KnownSeries
from dure.stores.series.levels import LEVELS, Level
from dure.stores.series.ports import aligned
from dure.stores.series.reading import read_points
from dure.stores.series.tending import Tender

AHEAD_MS = 3_600_000
"""A sample further ahead than this is of a clock that went wrong."""
_MIN_BYTES = 4 * MIB


@dataclass(frozen=True, slots=True)
class SqliteSettings:
    """Bounds of one file."""

    most_bytes: int = 512 * MIB
    """Past this the oldest of the finest level goes first."""
    most_series: int = 100_000
    """Past this the series that were silent for longest are forgotten."""
    levels: tuple[Level, ...] = LEVELS
    tend_s: float = 0.5
    """How long coarser levels are made at a time: samples wait meanwhile."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class SqliteSeries:
    """One file, opened by one process."""

    def __init__(
        self,
        file: Path,
        settings: SqliteSettings | None = None,
        now_ms: Callable[[], int] = _now_ms,
    ) -> None:
        self._settings = settings or SqliteSettings()
        self._file, self._now_ms = file, now_ms
        self._held = hold(file)
        try:
            self._writer = open_file(file)
            self._reader = open_reader(file)
        except BaseException:
            os.close(self._held)
            raise
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._turn = threading.Lock()
        """Held while what is in memory and what is in the file change together."""
        with translated(file):
            self._known = KnownSeries(self._writer)
            self._open = _journalled(self._writer)
        self._tender = Tender(self._writer, self._known, self._settings.levels)
        self._tender.most_bytes = max(self._settings.most_bytes, _MIN_BYTES)
        self._tender.most_series = self._settings.most_series

    # Writing

    def write(self, samples: Sequence[Sample]) -> int:
        """Keep samples; tells how many were of a time that cannot be kept."""
        if not samples:
            return 0
        with self._writing, translated(self._file):
            at_ms = np.fromiter((each[1] for each in samples), np.int64, len(samples))
            values = np.fromiter((each[2] for each in samples), np.float64, len(samples))
            now_ms, finest = self._now_ms(), self._settings.levels[0]
            oldest_ms = max(now_ms - finest.kept_ms, self._tender.floor_ms)
            timely = (at_ms >= oldest_ms) & (at_ms <= now_ms + AHEAD_MS)
            late = len(samples) - int(timely.sum())
            if late == len(samples):
                return late
            with self._transaction():
                numbers, new = self._numbered(samples, now_ms)
                points = Columns.of_samples(numbers, at_ms, values)
                points = (points.where(timely) if late else points).summed(finest.step_ms)
                windows = _by_window(points, finest)
                self._writer.executemany(
                    "INSERT INTO journal (start_ms, data) VALUES (?, ?)",
                    [(start, blocks.journal_of(each, start)) for start, each in windows],
                )
            with self._turn:
                self._known.keep(new)
                for start, each in windows:
                    self._open.setdefault(start, []).append(each)
            return late

    def _numbered(
        self, samples: Sequence[Sample], now_ms: int
    ) -> tuple[Ints, dict[SeriesKey, int]]:
        known = self._known.numbers
        numbers = np.fromiter((known.get(each[0], 0) for each in samples), np.int64, len(samples))
        missing = np.flatnonzero(numbers == 0).tolist()
        if not missing:
            return numbers, {}
        new = self._known.enter(self._writer, (samples[i].series for i in missing), now_ms)
        for index in missing:
            numbers[index] = new[samples[index].series]
        return numbers, new

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._writer.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._writer.execute("ROLLBACK")
            raise

    # Reading

    def query(self, selector: Selector, span: Range) -> list[Found]:
        """Series with samples in a span, each point summing up one step."""
        span = aligned(span)
        with self._reading, translated(self._file):
            with self._turn:
                wanted = self._known.matching(selector)
                if not wanted:
                    return []
                # A reader that begins here sees the file as it is with what is in memory now.
                self._reader.execute("BEGIN")
                self._reader.execute("SELECT 1 FROM stale LIMIT 1").fetchone()
                recent = [
                    each
                    for start, runs in self._open.items()
                    if start < span.end_ms
                    and start + self._settings.levels[0].window_ms > span.start_ms
                    for each in runs
                ]
            try:
                found = read_points(self._reader, list(wanted), span, self._settings.levels)
            finally:
                self._reader.execute("COMMIT")
        ids = np.sort(np.fromiter(wanted, np.int64, len(wanted)))
        found += [each.of_series(ids) for each in recent]
        if not found:
            return []
        points = Columns.joined(found)
        inside = (points.at_ms >= span.start_ms) & (points.at_ms < span.end_ms)
        summed = dict(points.where(inside).summed(span.step_ms).by_series())
        return [
            Found(key, _points(summed[number]))
            for number, key in wanted.items()
            if number in summed
        ]

    def names(self) -> list[str]:
        """Names of all series."""
        return self._known.names()

    # Tending

    def tend(self) -> bool:
        """Make blocks of minutes that are over, sum up, forget; whether something is left."""
        with self._writing, translated(self._file):
            now_ms = self._now_ms()
            for start in self._tender.ripe(self._open, now_ms):
                points = Columns.joined(self._open[start])
                with self._turned(partial(self._open.pop, start)):
                    self._tender.seal(start, points)
            until_s = time.monotonic() + self._settings.tend_s
            more = self._sum_up(now_ms, until_s)
            gone: list[int] = []
            with self._turned(lambda: self._known.forget(gone)):
                gone += self._tender.forget(now_ms)
            with self._turned():
                self._tender.shrink()
            self._writer.execute("PRAGMA incremental_vacuum").fetchall()
            return more

    def _sum_up(self, now_ms: int, until_s: float) -> bool:
        """Make coarser windows for a while; whether some are left."""
        for level, start in self._tender.due(now_ms):
            done = False
            while not done:
                try:
                    with self._turned():
                        done = self._tender.sum_up(level, start)
                except BaseException:
                    self._tender.begin_anew()
                    raise
                if time.monotonic() > until_s:
                    return True
        return False

    @contextmanager
    def _turned(self, then: Callable[[], object] = lambda: None) -> Iterator[None]:
        """A transaction whose end those who read see together with what it leaves in memory."""
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            with self._turn:
                self._writer.execute("COMMIT")
                then()
        except BaseException:
            with suppress(sqlite3.Error):
                self._writer.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """End; the journal is taken up again by the next to open the file."""
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()
            os.close(self._held)


def _journalled(connection: sqlite3.Connection) -> dict[int, list[Columns]]:
    found: dict[int, list[Columns]] = {}
    for start, data in connection.execute("SELECT start_ms, data FROM journal ORDER BY seq"):
        found.setdefault(start, []).append(blocks.journalled(data, start))
    return found


def _by_window(points: Columns, level: Level) -> list[tuple[int, Columns]]:
    windows = points.at_ms // level.window_ms * level.window_ms
    starts = np.unique(windows)
    if len(starts) == 1:
        return [(int(starts[0]), points)]
    return [(int(start), points.where(windows == start)) for start in starts]


def _points(columns: Columns) -> tuple[Point, ...]:
    rows = zip(
        columns.at_ms.tolist(),
        columns.counts.tolist(),
        columns.sums.tolist(),
        columns.mins.tolist(),
        columns.maxs.tolist(),
        columns.lasts.tolist(),
        strict=True,
    )
    return tuple(map(Point._make, rows))
