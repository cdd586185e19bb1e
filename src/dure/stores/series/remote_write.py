"""Samples in the form of Prometheus' remote write: protobuf in a snappy frame.

Snappy is used as a container only: every byte as a literal. It is a valid frame that any receiver
reads, and saves a compiled library for what goes over loopback or a rack's own network.
"""

import struct
from collections.abc import Iterable

from dure.domain.series import Sample, SeriesKey

_NAME = "__name__"
_LITERAL = 65_536
"""Bytes in one literal of snappy, whose length then fits two bytes."""
_TAG_LITERAL_2 = 61 << 2
_MOST_KEPT = 100_000
"""Then labels are put into bytes anew: most are of things long gone."""
_SAMPLE = struct.Struct("<Bd")


def varint(value: int) -> bytes:
    """A number as protobuf and snappy write it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def framed(plain: bytes) -> bytes:
    """Bytes as a snappy block."""
    parts = [varint(len(plain))]
    for first in range(0, len(plain), _LITERAL):
        piece = plain[first : first + _LITERAL]
        parts.append(bytes((_TAG_LITERAL_2,)) + (len(piece) - 1).to_bytes(2, "little") + piece)
    return b"".join(parts)


class Writing:
    """Write requests; the labels of a series are put into bytes once."""

    def __init__(self) -> None:
        self._labels: dict[SeriesKey, bytes] = {}

    def request(self, samples: Iterable[Sample]) -> bytes:
        """One request, each series with its samples in the order of time."""
        by_series: dict[SeriesKey, list[Sample]] = {}
        for sample in samples:
            by_series.setdefault(sample.series, []).append(sample)
        parts = []
        for series, found in by_series.items():
            found.sort(key=lambda each: each.at_ms)
            body = self._labelled(series) + b"".join(_message(2, _sample(each)) for each in found)
            parts.append(_message(1, body))
        return framed(b"".join(parts))

    def _labelled(self, series: SeriesKey) -> bytes:
        known = self._labels.get(series)
        if known is None:
            if len(self._labels) >= _MOST_KEPT:
                self._labels.clear()
            pairs = sorted(((_NAME, series.name), *series.labels))
            known = b"".join(
                _message(1, _message(1, name.encode()) + _message(2, value.encode()))
                for name, value in pairs
            )
            self._labels[series] = known
        return known


def _message(field: int, body: bytes) -> bytes:
    return bytes((field << 3 | 2,)) + varint(len(body)) + body


def _sample(sample: Sample) -> bytes:
    return _SAMPLE.pack(1 << 3 | 1, sample.value) + bytes((2 << 3,)) + varint(sample.at_ms)
