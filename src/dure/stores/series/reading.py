"""Points of a span out of a file, each part from the coarsest level that is fine and fresh."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from dure.domain.series import Range
from dure.stores.series import blocks
from dure.stores.series.columns import Columns
from dure.stores.series.levels import Level

_BLOCKS = """
SELECT block.start_ms, block.series, block.data
FROM json_each(?) AS span CROSS JOIN json_each(?) AS wanted CROSS JOIN block
WHERE block.level = ? AND block.start_ms = span.value AND block.series = wanted.value
"""
"""CROSS JOIN keeps SQLite from scanning all blocks of a level for a few."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """A part of the span, and the level it is read from."""

    number: int
    start_ms: int
    end_ms: int


def read_points(
    reader: sqlite3.Connection, series: Sequence[int], span: Range, levels: Sequence[Level]
) -> list[Columns]:
    """All points of these series that the file has in a span; some may lie outside of it."""
    found: list[Columns] = []
    wanted = json.dumps(list(series))
    for segment in _segments(reader, span, levels):
        top = levels[segment.number]
        starts = list(range(top.window(segment.start_ms), segment.end_ms, top.window_ms))
        for number in range(segment.number, -1, -1):
            level = levels[number]
            stale = _stale(reader, number, starts) if number else []
            fresh = sorted(set(starts) - set(stale))
            rows = reader.execute(_BLOCKS, (json.dumps(fresh), wanted, number))
            found += [
                blocks.points_of(data, each, start, level.step_ms) for start, each, data in rows
            ]
            if not stale:
                break
            finer = levels[number - 1]
            starts = [
                part
                for start in stale
                for part in range(start, start + level.window_ms, finer.window_ms)
                if part < segment.end_ms and part + finer.window_ms > segment.start_ms
            ]
    return found


def _segments(reader: sqlite3.Connection, span: Range, levels: Sequence[Level]) -> list[_Segment]:
    """What is older than a level goes back is read from the next coarser one that goes further."""
    floors = [_floor(reader, number) for number in range(len(levels))]
    number = max(n for n, level in enumerate(levels) if n == 0 or span.step_ms % level.step_ms == 0)
    found: list[_Segment] = []
    start_ms, end_ms = span.start_ms, span.end_ms
    while True:
        floor = floors[number]
        further = [
            n for n in range(number + 1, len(levels)) if _goes_further(floors[n], floor, levels[n])
        ]
        if not further or floor is None or floor <= start_ms:
            found.append(_Segment(number, start_ms, end_ms))
            return found
        window_ms = levels[further[0]].window_ms
        edge = min(end_ms, -(-floor // window_ms) * window_ms)
        if edge < end_ms:
            found.append(_Segment(number, edge, end_ms))
        number, end_ms = further[0], edge
        if end_ms <= start_ms:
            return found


def _goes_further(floor: int | None, than: int | None, level: Level) -> bool:
    """Whether a coarse level has a whole window of what is before a finer one's first."""
    return floor is not None and than is not None and floor < level.window(than)


def _floor(reader: sqlite3.Connection, number: int) -> int | None:
    row = reader.execute("SELECT MIN(start_ms) FROM block WHERE level = ?", (number,)).fetchone()
    return int(row[0]) if row[0] is not None else None


def _stale(reader: sqlite3.Connection, number: int, starts: Sequence[int]) -> list[int]:
    if not starts:
        return []
    rows = reader.execute(
        "SELECT start_ms FROM stale WHERE level = ? AND start_ms BETWEEN ? AND ?",
        (number, min(starts), max(starts)),
    )
    return sorted({start for (start,) in rows} & set(starts))
