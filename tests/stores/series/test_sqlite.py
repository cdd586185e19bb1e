"""The embedded store: levels, late samples, clocks that jump, bounds, broken files."""

import random
import shutil
import sqlite3
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.series import Point, Range, Sample, Selector, SeriesKey
from dure.stores.series import tending
from dure.stores.series.levels import LEVELS, Level
from dure.stores.series.ports import SeriesError
from dure.stores.series.sqlite import AHEAD_MS, SqliteSeries, SqliteSettings

START_MS = 1_790_000_000_000 // 86_400_000 * 86_400_000
"""Midnight: the beginning of a window of every level."""
KEY = SeriesKey("load", (("gpu", "0"),))
MINUTE_MS, HOUR_MS = 60_000, 3_600_000


class Bed:
    """A store whose clock the test sets."""

    def __init__(self, folder: Path, options: SqliteSettings | None = None) -> None:
        self.file = folder / "series.db"
        self.options = options
        self.now_ms = START_MS
        self.store = SqliteSeries(self.file, options, lambda: self.now_ms)

    def reopen(self) -> None:
        self.store.close()
        self.store = SqliteSeries(self.file, self.options, lambda: self.now_ms)

    def run(self, seconds: int, key: SeriesKey = KEY, every_s: int = 1) -> None:
        """A sample a second, which is the number of the second since the start."""
        for _ in range(0, seconds, every_s):
            self.store.write([Sample(key, self.now_ms, (self.now_ms - START_MS) / 1000)])
            self.now_ms += every_s * 1000
            if self.now_ms % (20 * 1000) == 0:
                self.store.tend()

    def points(self, span: Range, name: str = "load") -> tuple[Point, ...]:
        found = self.store.query(Selector(name), span)
        return found[0].points if found else ()

    def count(self, table: str, where: str = "1") -> int:
        with sqlite3.connect(self.file) as link:
            row = link.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()
        link.close()
        return int(row[0])


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    made = Bed(tmp_path)
    yield made
    made.store.close()


def test_every_level_tells_the_same_of_the_same_time(bed: Bed) -> None:
    bed.run(2 * 3600, every_s=5)
    bed.now_ms += MINUTE_MS
    bed.store.tend()
    assert [bed.count("block", f"level = {number}") for number in range(4)] == [120, 12, 2, 0]
    for step in (1_000, 10_000, 60_000, 600_000, HOUR_MS):
        end_ms = START_MS + min(2 * HOUR_MS, 10_000 * step)
        points = bed.points(Range(START_MS, end_ms, step))
        assert sum(point.samples for point in points) == (end_ms - START_MS) // 5_000
        assert points[0].min == 0.0
        assert points[-1].last == (end_ms - START_MS) / 1000 - 5
        assert sum(p.sum for p in points) == sum(range(0, (end_ms - START_MS) // 1000, 5))


def test_the_last_minute_is_found_before_it_is_a_block(bed: Bed) -> None:
    bed.run(10)
    assert bed.count("block") == 0
    assert [point.last for point in bed.points(Range(START_MS, bed.now_ms, 1000))] == [*range(10)]


def test_what_was_written_is_there_after_a_crash(bed: Bed) -> None:
    bed.run(100)
    copied = bed.file.with_name("crashed.db")
    for part in ("", "-wal"):
        shutil.copy(f"{bed.file}{part}", f"{copied}{part}")
    again = SqliteSeries(copied, now_ms=lambda: bed.now_ms)
    found = again.query(Selector("load"), Range(START_MS, bed.now_ms, 1000))
    again.close()
    assert [point.last for point in found[0].points] == [*range(100)]


def test_a_sample_that_comes_late_counts_at_every_level(bed: Bed) -> None:
    bed.run(3600, every_s=10)
    bed.now_ms += 10 * MINUTE_MS
    bed.store.tend()
    late_ms = START_MS + 5 * MINUTE_MS + 2_500
    before = bed.points(Range(START_MS, START_MS + HOUR_MS, HOUR_MS))
    bed.store.write([Sample(KEY, late_ms, 1e6)])
    for _ in range(2):
        for step in (1_000, 10_000, 60_000, HOUR_MS):
            start_ms = late_ms // step * step
            point = bed.points(Range(start_ms, start_ms + step, step))[0]
            assert point.max == 1e6
        after = bed.points(Range(START_MS, START_MS + HOUR_MS, HOUR_MS))
        assert after[0].samples == before[0].samples + 1
        bed.store.tend()  # what it was put into is made anew


def test_coarser_levels_that_are_made_bit_by_bit_take_in_what_comes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tending, "_AT_ONCE", 1)
    bed = Bed(tmp_path, SqliteSettings(tend_s=0.0))
    keys = [SeriesKey("load", (("gpu", str(number)),)) for number in range(5)]
    for second in range(0, 3600, 60):
        at_ms = START_MS + second * 1000
        bed.now_ms = at_ms
        bed.store.write([Sample(key, at_ms, 1.0) for key in keys])
    bed.now_ms += 2 * MINUTE_MS
    assert bed.store.tend(), "one series of one window at a time"
    assert bed.store.tend()
    assert bed.store.tend()
    bed.store.write([Sample(keys[0], START_MS, 9.0)])  # of a series that was summed up already
    while bed.store.tend():
        pass
    assert bed.count("stale", "level < 3") == 0
    for step in (60_000, HOUR_MS):
        found = bed.store.query(Selector("load"), Range(START_MS, START_MS + HOUR_MS, step))
        assert [sum(p.samples for p in each.points) for each in found] == [61, 60, 60, 60, 60]
        assert found[0].points[0].max == 9.0
    bed.store.close()


def test_a_clock_that_jumps_back_loses_nothing(bed: Bed) -> None:
    bed.run(600)
    bed.now_ms -= 5 * MINUTE_MS
    bed.run(600)
    bed.now_ms += MINUTE_MS
    bed.store.tend()
    points = bed.points(Range(START_MS, START_MS + HOUR_MS, 1_000))
    assert sum(point.samples for point in points) == 1200
    assert [point.samples for point in points[300:600]] == [2] * 300
    hour = bed.points(Range(START_MS, START_MS + HOUR_MS, HOUR_MS))
    assert hour[0].samples == 1200


def test_a_clock_that_was_ahead_for_a_while_leaves_what_it_said_there(bed: Bed) -> None:
    bed.now_ms += HOUR_MS // 2
    bed.run(120)
    bed.now_ms = START_MS
    bed.run(120)
    bed.store.tend()
    points = bed.points(Range(START_MS, START_MS + HOUR_MS, MINUTE_MS))
    assert [point.samples for point in points] == [60] * 4


def test_a_sample_from_before_all_that_is_kept_or_far_ahead_is_counted_and_dropped(
    bed: Bed,
) -> None:
    old = Sample(KEY, bed.now_ms - LEVELS[0].kept_ms - 1, 1.0)
    ahead = Sample(KEY, bed.now_ms + AHEAD_MS + 1, 1.0)
    assert bed.store.write([old, Sample(KEY, bed.now_ms, 2.0), ahead]) == 2
    assert bed.store.write([old]) == 1
    everything = Range(START_MS - 20 * HOUR_MS, START_MS + 20 * HOUR_MS, HOUR_MS)
    assert [point.last for point in bed.points(everything)] == [2.0]


def test_what_is_too_old_for_a_level_is_told_by_the_next(tmp_path: Path) -> None:
    levels = (
        Level(1_000, MINUTE_MS, 10 * MINUTE_MS),
        Level(10_000, 10 * MINUTE_MS, 2 * HOUR_MS),
        Level(60_000, HOUR_MS, 100 * HOUR_MS),
    )
    bed = Bed(tmp_path, SqliteSettings(levels=levels))
    bed.run(2 * 3600 + 600, every_s=2)
    bed.store.tend()
    points = bed.points(Range(START_MS, bed.now_ms, 1_000))
    distances = {b.at_ms - a.at_ms for a, b in pairwise(points[:50])}
    assert distances <= {10_000, 60_000}
    assert points[-1].at_ms - points[-2].at_ms == 2_000
    assert sum(point.samples for point in points) == (2 * 3600 + 600) // 2
    bed.store.close()


def test_the_file_stays_within_its_bound_and_keeps_the_newest(tmp_path: Path) -> None:
    bound = 5 << 20
    bed = Bed(tmp_path, SqliteSettings(most_bytes=bound))
    rng = random.Random(1)
    keys = [SeriesKey("noise", (("n", str(number)),)) for number in range(300)]
    for _ in range(45 * 6):
        bed.store.write(
            [
                Sample(key, bed.now_ms + 1000 * second, rng.random())
                for key in keys
                for second in range(0, 10, 2)
            ]
        )
        bed.now_ms += 10_000
        if bed.now_ms % MINUTE_MS == 0:
            bed.store.tend()
    size = bed.file.stat().st_size
    assert size <= bound * 1.2
    newest = bed.store.query(
        Selector("noise", (("n", "7"),)), Range(bed.now_ms - 2 * MINUTE_MS, bed.now_ms, 1_000)
    )
    assert len(newest[0].points) == 60
    oldest = bed.store.query(
        Selector("noise", (("n", "7"),)), Range(START_MS, START_MS + MINUTE_MS, 1_000)
    )
    assert len(oldest[0].points) < 30  # told by a coarser level, if at all
    bed.store.close()


def test_series_that_are_silent_for_longest_make_room(tmp_path: Path) -> None:
    bed = Bed(tmp_path, SqliteSettings(most_series=50))
    for number in range(100):
        key = SeriesKey(f"name_{number:03}")
        bed.store.write([Sample(key, bed.now_ms, 1.0)])
        bed.now_ms += MINUTE_MS
        bed.store.tend()
    names = bed.store.names()
    assert len(names) <= 51
    assert "name_099" in names
    assert "name_000" not in names
    bed.store.write([Sample(SeriesKey("name_000"), bed.now_ms, 1.0)])
    assert "name_000" in bed.store.names()
    bed.store.close()


def test_a_file_that_cannot_be_read_is_put_aside(tmp_path: Path) -> None:
    file = tmp_path / "series.db"
    file.write_bytes(b"no database at all" * 1000)
    store = SqliteSeries(file, now_ms=lambda: START_MS)
    store.write([Sample(KEY, START_MS, 1.0)])
    store.close()
    assert (tmp_path / "series.db.unreadable").read_bytes().startswith(b"no database")


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "series.db"
    SqliteSeries(file).close()
    with sqlite3.connect(file) as link:
        link.execute("PRAGMA user_version = 99")
    link.close()
    with pytest.raises(SeriesError, match="version 99"):
        SqliteSeries(file)
    assert not (tmp_path / "series.db.unreadable").exists()


def test_a_file_belongs_to_one_process_at_a_time(bed: Bed) -> None:
    with pytest.raises(SeriesError, match="another process keeps its series"):
        SqliteSeries(bed.file)
    bed.reopen()


def test_a_folder_that_is_not_there_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(SeriesError, match="check the room on its disk"):
        SqliteSeries(tmp_path / "none" / "series.db")


def test_a_full_disk_is_an_error_that_passes_once_there_is_room(bed: Bed) -> None:
    bed.run(5)
    (pages,) = bed.store._writer.execute("PRAGMA page_count").fetchone()
    bed.store._writer.execute(f"PRAGMA max_page_count = {pages}")
    many = [Sample(SeriesKey(f"x{n}"), bed.now_ms, 1.0) for n in range(5_000)]
    with pytest.raises(SeriesError, match="full"):
        bed.store.write(many)
    assert [point.last for point in bed.points(Range(START_MS, bed.now_ms, 1000))] == [*range(5)]
    bed.store._writer.execute("PRAGMA max_page_count = 1000000")
    assert bed.store.write(many) == 0
    assert len(bed.store.names()) == 5_001


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(-40 * 60, 40 * 60),
            st.floats(-1e9, 1e9, allow_nan=False),
            st.booleans(),
        ),
        max_size=60,
    ),
    st.sampled_from([1_000, 10_000, 60_000, 7_000, 600_000]),
)
def test_any_history_is_told_as_if_all_samples_were_kept(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[tuple[int, int, float, bool]],
    step_ms: int,
) -> None:
    bed = Bed(tmp_path_factory.mktemp("series"))
    bed.now_ms += HOUR_MS
    told: list[tuple[int, int, float]] = []
    for series, second, value, restart in history:
        at_ms = START_MS + HOUR_MS + second * 1000
        bed.now_ms = at_ms + 1_000
        bed.store.write([Sample(SeriesKey("x", (("n", str(series)),)), at_ms, value)])
        told.append((series, at_ms, value))
        while bed.store.tend():
            pass
        if restart:
            bed.reopen()
    span = Range(START_MS, START_MS + 2 * HOUR_MS, step_ms)
    found = bed.store.query(Selector("x"), span)
    bed.store.close()
    expected: dict[tuple[str, int], list[float]] = {}
    for series, at_ms, value in sorted(told, key=lambda each: each[1]):
        expected.setdefault((str(series), at_ms // step_ms * step_ms), []).append(value)
    seen = {
        (dict(each.series.labels)["n"], point.at_ms): point
        for each in found
        for point in each.points
    }
    assert seen.keys() == expected.keys()
    for key, values in expected.items():
        point = seen[key]
        assert (point.samples, point.min, point.max) == (len(values), min(values), max(values))
        assert point.sum == pytest.approx(sum(values), rel=1e-9, abs=1e-3)
        assert point.last == values[-1]
