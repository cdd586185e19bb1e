"""Points as bytes: blocks of one series, and the journal of what is in no block yet.

A block holds the points of one series in one window: which steps of the window have one, then each
column as differences of neighbours' bits, byte plane by byte plane, so that what changes little
becomes runs of zeros for zlib. Points of a single sample each need one column instead of five.
"""

import struct
import zlib

import numpy as np

from dure.stores.series.columns import Columns, Floats, Ints

_FORMAT = 1
_HEAD = struct.Struct("<BBHI")
"""Format, whether all are single samples, points, plain bytes."""
_JOURNAL = struct.Struct("<BBI")
_EFFORT = 1
"""zlib's least: more of it finds a few per cent in four times the time."""


def block_of(points: Columns, start_ms: int, step_ms: int) -> bytes:
    """The points of one series in the window that begins there."""
    single = bool((points.counts == 1).all())
    steps = ((points.at_ms - start_ms) // step_ms).astype(np.uint8)
    parts = [steps.tobytes(), _planes(points.lasts)]
    if not single:
        parts += [
            points.counts.astype("<u4").tobytes(),
            *map(_planes, (points.sums, points.mins, points.maxs)),
        ]
    plain = b"".join(parts)
    head = _HEAD.pack(_FORMAT, single, len(points), len(plain))
    return head + zlib.compress(plain, _EFFORT)


def points_of(block: bytes, series: int, start_ms: int, step_ms: int) -> Columns:
    """The points of a block; `ValueError` where it is none."""
    kind, single, count, size = _HEAD.unpack_from(block)
    if kind != _FORMAT:
        raise ValueError(f"a block of format {kind}")
    try:
        plain = zlib.decompress(block[_HEAD.size :], bufsize=size)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(plain) != size:
        raise ValueError("a block that was cut off")
    steps = np.frombuffer(plain, np.uint8, count)
    ids = np.full(count, series, np.int64)
    at_ms = start_ms + steps.astype(np.int64) * step_ms
    width = 8 * count
    lasts = _values(plain, count, count)
    if single:
        return Columns(ids, at_ms, np.ones(count, np.int64), lasts, lasts, lasts, lasts)
    after = count + width
    counts = np.frombuffer(plain, "<u4", count, after).astype(np.int64)
    sums, mins, maxs = (
        _values(plain, after + 4 * count + number * width, count) for number in range(3)
    )
    return Columns(ids, at_ms, counts, sums, mins, maxs, lasts)


def _planes(values: Floats) -> bytes:
    bits = values.view(np.uint64)
    changes = bits.copy()
    changes[1:] ^= bits[:-1]
    return changes.view(np.uint8).reshape(-1, 8).T.tobytes()


def _values(plain: bytes, offset: int, count: int) -> Floats:
    planes = np.frombuffer(plain, np.uint8, 8 * count, offset).reshape(8, count)
    changes = np.ascontiguousarray(planes.T).view(np.uint64).ravel()
    return np.bitwise_xor.accumulate(changes).view(np.float64)


def journal_of(points: Columns, start_ms: int) -> bytes:
    """Points of many series in one window, as they came."""
    single = bool((points.counts == 1).all())
    columns: list[Ints | Floats] = [points.lasts]
    if not single:
        columns += [points.counts, points.sums, points.mins, points.maxs]
    return b"".join(
        (
            _JOURNAL.pack(_FORMAT, single, len(points)),
            points.ids.astype("<u4").tobytes(),
            (points.at_ms - start_ms).astype("<u4").tobytes(),
            *(column.tobytes() for column in columns),
        )
    )


def journalled(entry: bytes, start_ms: int) -> Columns:
    """The points of an entry of the journal."""
    _, single, count = _JOURNAL.unpack_from(entry)
    offset = _JOURNAL.size
    ids = np.frombuffer(entry, "<u4", count, offset).astype(np.int64)
    at_ms = start_ms + np.frombuffer(entry, "<u4", count, offset + 4 * count).astype(np.int64)
    offset += 8 * count
    lasts = np.frombuffer(entry, np.float64, count, offset)
    if single:
        return Columns(ids, at_ms, np.ones(count, np.int64), lasts, lasts, lasts, lasts)
    counts = np.frombuffer(entry, np.int64, count, offset + 8 * count)
    sums, mins, maxs = (
        np.frombuffer(entry, np.float64, count, offset + 8 * count * (number + 2))
        for number in range(3)
    )
    return Columns(ids, at_ms, counts, sums, mins, maxs, lasts)
