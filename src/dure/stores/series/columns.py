"""Points of many series as columns, so that whole batches are summed up at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FEW = 64
"""Up to so many series are looked up one by one."""
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Columns:
    """Points, one in each row; what is equal in `ids` and `at_ms` may come more than once until it
    is summed up."""

    ids: Ints
    at_ms: Ints
    counts: Ints
    sums: Floats
    mins: Floats
    maxs: Floats
    lasts: Floats

    @staticmethod
    def of_samples(ids: Ints, at_ms: Ints, values: Floats) -> "Columns":
        """Samples as points of one each."""
        return Columns(ids, at_ms, np.ones(len(ids), np.int64), values, values, values, values)

    @staticmethod
    def joined(parts: Sequence["Columns"]) -> "Columns":
        """All rows of all parts, in their order."""
        if len(parts) == 1:
            return parts[0]
        columns: list[Any] = [np.concatenate(each) for each in zip(*map(_all, parts), strict=True)]
        return Columns(*columns)

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, chosen: NDArray[np.bool_] | slice) -> "Columns":
        """Some of the rows."""
        columns: list[Any] = [column[chosen] for column in _all(self)]
        return Columns(*columns)

    def of_series(self, ids: Ints) -> "Columns":
        """The rows of some series, of rows that were summed up; the numbers are in order."""
        if len(ids) > _FEW:
            return self.where(np.isin(self.ids, ids))
        firsts = np.searchsorted(self.ids, ids, "left")
        ends = np.searchsorted(self.ids, ids, "right")
        parts = [
            self.where(slice(first, end))
            for first, end in zip(firsts, ends, strict=True)
            if end > first
        ]
        return Columns.joined(parts) if parts else self.where(slice(0, 0))

    def summed(self, step_ms: int) -> "Columns":
        """One row for each series and step, in that order. Of samples at the same moment the one
        that came later is the last."""
        if not len(self):
            return self
        order = np.lexsort((self.at_ms, self.ids))
        ids, steps = self.ids[order], self.at_ms[order] // step_ms
        new = np.flatnonzero((np.diff(ids) != 0) | (np.diff(steps) != 0)) + 1
        firsts = np.concatenate((np.zeros(1, np.int64), new))
        ends = np.concatenate((new, np.array([len(ids)], np.int64))) - 1
        return Columns(
            ids[firsts],
            steps[firsts] * step_ms,
            np.add.reduceat(self.counts[order], firsts),
            np.add.reduceat(self.sums[order], firsts),
            np.minimum.reduceat(self.mins[order], firsts),
            np.maximum.reduceat(self.maxs[order], firsts),
            self.lasts[order[ends]],
        )

    def by_series(self) -> Iterator[tuple[int, "Columns"]]:
        """The rows of each series, of rows that were summed up."""
        if not len(self):
            return
        edges = [0, *(np.flatnonzero(np.diff(self.ids)) + 1).tolist(), len(self)]
        for first, end in pairwise(edges):
            yield int(self.ids[first]), self.where(slice(first, end))


def _all(columns: Columns) -> tuple[NDArray[np.generic], ...]:
    return (
        columns.ids,
        columns.at_ms,
        columns.counts,
        columns.sums,
        columns.mins,
        columns.maxs,
        columns.lasts,
    )
