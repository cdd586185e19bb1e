"""What keeps the embedded store small: blocks of what is over, coarser levels, forgetting.

All of it runs inside transactions of the store. A coarse window is made of the finer level's blocks
alone, so that to make it again changes nothing, and makes it right where something came late.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dure.domain.units import MIB
from dure.stores.series import blocks
from dure.stores.series.columns import Columns
from dure.stores.series.file import size_bytes
from dure.stores.series.known import KnownSeries
from dure.stores.series.levels import Level

GRACE_MS = 5_000
"""So long after a window is over samples of it may still be on their way."""
_AT_ONCE = 500
"""Series whose windows are summed up together: some 20 MB."""
_ROOM_SHARE = 0.9
"""A file that is full is emptied to this, so that it is not full again at once."""
_FORGOTTEN_SHARE = 0.1
"""Of series, where there are too many: for the same reason."""
_FLOOR = "floor"
_PUT = "INSERT OR REPLACE INTO block (level, start_ms, series, data) VALUES (?, ?, ?, ?)"


class Tender:
    """Works on the connection that writes."""

    most_bytes = 512 * MIB
    most_series = 100_000

    def __init__(
        self, writer: sqlite3.Connection, known: KnownSeries, levels: Sequence[Level]
    ) -> None:
        self._writer, self._known, self._levels = writer, known, levels
        row = writer.execute("SELECT value FROM mark WHERE name = ?", (_FLOOR,)).fetchone()
        self._come_to: dict[tuple[int, int], int] = {}
        """Windows that are made in part: up to which series."""
        self.floor_ms = int(row[0]) if row is not None else 0
        """Before this the finest level was dropped; what is late by more is not taken, since
        coarser windows could not be made anew."""

    # Blocks

    def ripe(self, opened: Mapping[int, object], now_ms: int) -> list[int]:
        """Windows in memory that are over; also those a clock ahead has left."""
        return sorted(start for start in opened if self._over(self._levels[0], start, now_ms))

    def _over(self, level: Level, start_ms: int, now_ms: int) -> bool:
        ended = start_ms + level.window_ms + GRACE_MS <= now_ms
        return ended or start_ms > now_ms + level.window_ms

    def seal(self, start_ms: int, points: Columns) -> None:
        """Make blocks of a window, with what is in blocks of it already."""
        finest = self._levels[0]
        new = set(points.ids.tolist())
        rows = self._writer.execute(
            "SELECT series, data FROM block WHERE level = 0 AND start_ms = ?", (start_ms,)
        )
        before = [
            blocks.points_of(data, series, start_ms, finest.step_ms)
            for series, data in rows
            if series in new
        ]
        summed = Columns.joined([*before, points]).summed(finest.step_ms)
        self._writer.executemany(_PUT, self._made(0, start_ms, summed))
        self._writer.execute("DELETE FROM journal WHERE start_ms = ?", (start_ms,))
        stale = [(number, level.window(start_ms)) for number, level in self._coarser()]
        for each in stale:
            self._come_to.pop(each, None)  # what was made of it may lack this
        self._writer.executemany(
            "INSERT OR IGNORE INTO stale (level, start_ms) VALUES (?, ?)", stale
        )
        self._writer.executemany(
            "UPDATE series SET seen_ms = max(seen_ms, ?) WHERE id = ?",
            [(start_ms, series) for series in new],
        )

    def _made(
        self, number: int, start_ms: int, points: Columns
    ) -> Iterator[tuple[int, int, int, bytes]]:
        step_ms = self._levels[number].step_ms
        for series, each in points.by_series():
            yield number, start_ms, series, blocks.block_of(each, start_ms, step_ms)

    def _coarser(self) -> Iterable[tuple[int, Level]]:
        return list(enumerate(self._levels))[1:]

    # Coarser levels

    def due(self, now_ms: int) -> list[tuple[int, int]]:
        """Levels and windows to be summed up, the finer levels first."""
        rows = self._writer.execute("SELECT level, start_ms FROM stale ORDER BY level, start_ms")
        return [
            (number, start)
            for number, start in rows
            if self._over(self._levels[number], start + GRACE_MS, now_ms)
        ]

    def sum_up(self, number: int, start_ms: int) -> bool:
        """Make a window of the blocks of the level before, some series at a time; whether all of
        it is made. Until then it stays stale, so that an end in between costs nothing."""
        level, finer = self._levels[number], self._levels[number - 1]
        first = self._come_to.get((number, start_ms), 0)
        found = [
            blocks.points_of(data, series, part, finer.step_ms)
            for part in range(start_ms, start_ms + level.window_ms, finer.window_ms)
            for series, data in self._writer.execute(
                "SELECT series, data FROM block WHERE level = ? AND start_ms = ? "
                "AND series BETWEEN ? AND ?",
                (number - 1, part, first, first + _AT_ONCE - 1),
            ).fetchall()
        ]
        if found:
            summed = Columns.joined(found).summed(level.step_ms)
            self._writer.executemany(_PUT, self._made(number, start_ms, summed))
        if first + _AT_ONCE <= max(self._known.numbers.values(), default=0):
            self._come_to[number, start_ms] = first + _AT_ONCE
            return False
        self._come_to.pop((number, start_ms), None)
        self._writer.execute(
            "DELETE FROM stale WHERE level = ? AND start_ms = ?", (number, start_ms)
        )
        return True

    def begin_anew(self) -> None:
        """Something was not stored: windows that are made in part are made from their begin."""
        self._come_to.clear()

    # Forgetting

    def forget(self, now_ms: int) -> list[int]:
        """Drop what is older than its level is kept, and series that are silent for longest; tells
        which. Their blocks have no owner from here on and go when they are old."""
        for number, level in enumerate(self._levels):
            self._drop(number, self._edge_level(number).window(now_ms - level.kept_ms))
        longest_ms = max(level.kept_ms for level in self._levels)
        gone = self._writer.execute(
            "DELETE FROM series WHERE seen_ms < ? RETURNING id", (now_ms - longest_ms,)
        ).fetchall()
        excess = len(self._known.numbers) - len(gone) - self.most_series
        if excess > 0:
            some = excess + int(self.most_series * _FORGOTTEN_SHARE)
            gone += self._writer.execute(
                "DELETE FROM series WHERE id IN "
                "(SELECT id FROM series ORDER BY seen_ms, id LIMIT ?) RETURNING id",
                (some,),
            ).fetchall()
        return [series for (series,) in gone]

    def shrink(self) -> None:
        """Where the file is full, drop the oldest of the finest level there is."""
        if size_bytes(self._writer) <= self.most_bytes:
            return
        room = int(self.most_bytes * _ROOM_SHARE)
        for number in range(len(self._levels)):
            edges = self._edge_level(number)
            while size_bytes(self._writer) > room:
                first, newest = self._oldest(number), self._newest(number)
                if first is None or newest is None or first == newest:
                    break
                some = max(edges.window_ms, (newest - first) // 10)
                self._drop(number, min(edges.window(first + some), newest))

    def _edge_level(self, number: int) -> Level:
        """Whose windows are dropped whole, so that what is left and what the next coarser level
        tells of the time before meet at an edge of both."""
        return self._levels[min(number + 1, len(self._levels) - 1)]

    def _oldest(self, number: int) -> int | None:
        return self._edge("MIN", number)

    def _newest(self, number: int) -> int | None:
        return self._edge("MAX", number)

    def _edge(self, which: str, number: int) -> int | None:
        row = self._writer.execute(
            f"SELECT {which}(start_ms) FROM block WHERE level = ?", (number,)
        ).fetchone()
        return int(row[0]) if row[0] is not None else None

    def _drop(self, number: int, before_ms: int) -> None:
        where = "WHERE level = ? AND start_ms < ?"
        gone = self._writer.execute(f"DELETE FROM block {where}", (number, before_ms)).rowcount
        self._writer.execute(f"DELETE FROM stale {where}", (number, before_ms))
        if number == 0 and gone and before_ms > self.floor_ms:
            window_ms = self._edge_level(0).window_ms
            self.floor_ms = -(-before_ms // window_ms) * window_ms
            self._writer.execute(
                "INSERT OR REPLACE INTO mark (name, value) VALUES (?, ?)", (_FLOOR, self.floor_ms)
            )
