"""Compiled: how many replicas each service should have, judged in one pass over the columns."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dure.fleet.compiled import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Columns of whole numbers, a row for each service.
(
    FLOOR,
    MOST,
    WANTED,
    EXTRA,
    EXTRA_UNTIL_NS,
    ENOUGH_SINCE_NS,
    IDLE_SINCE_NS,
    WARMING,
    LEVEL,
) = range(9)
COUNTS = 9
# Columns of figures.
RATE, MOST_WAIT_S, BUDGET_MS = range(3)
FIGURES = 3

NEVER_NS = 2**62
"""A moment that never comes."""
MOST_LEVEL = 3
"""Steps by which slices grow at most: from one of seven compute slices to more than half."""


class Pace(NamedTuple):
    """The rules of scaling as the loop needs them."""

    grow_share: float
    grow_hold_ns: int
    most_growth: float
    shrink_hold_ns: int
    shrink_share: float
    zero_after_ns: int
    larger_slices: bool


@compiled
def _share(count: int, share: float) -> int:
    """Part of a number of replicas, rounded up; at least one."""
    return max(1, int(np.ceil(count * share)))


@compiled
def _grow_on_warning(row: Ints, base: int, warned: bool, now_ns: int, pace: Pace) -> None:
    """Add replicas, or size where there may not be more; take them back step by step."""
    if warned:
        row[EXTRA_UNTIL_NS] = now_ns + pace.grow_hold_ns
        if row[WARMING] > 0:
            return
        if base + row[EXTRA] < row[MOST]:
            grown = row[EXTRA] + _share(base, pace.grow_share)
            row[EXTRA] = max(row[EXTRA], min(grown, _share(base, pace.most_growth)))
        elif pace.larger_slices:
            row[LEVEL] = min(row[LEVEL] + 1, MOST_LEVEL)
    elif now_ns >= row[EXTRA_UNTIL_NS] and (row[EXTRA] > 0 or row[LEVEL] > 0):
        row[EXTRA_UNTIL_NS] = now_ns + pace.shrink_hold_ns
        if row[LEVEL] > 0:
            row[LEVEL] -= 1
        else:
            row[EXTRA] -= 1


@compiled
def _least(row: Ints, idle: bool, now_ns: int, pace: Pace) -> int:
    """Replicas that stay whatever the load: none only after a while without any."""
    if not idle:
        row[IDLE_SINCE_NS] = NEVER_NS
        return max(1, int(row[FLOOR]))
    row[IDLE_SINCE_NS] = min(row[IDLE_SINCE_NS], now_ns)
    asleep = now_ns - row[IDLE_SINCE_NS] >= pace.zero_after_ns or row[WANTED] == 0
    return int(row[FLOOR]) if asleep else max(1, int(row[FLOOR]))


@compiled
def judge(now_ns: int, rows: Ints, observed: Floats, base: Ints, counts: Ints, pace: Pace) -> Ints:
    """Set what each service should have; returns the rows that changed.

    `observed` has a line each for requests a second, queue length, latency, and the latency from
    which on it is a warning; `base` the replicas that the load alone needs, and below them those
    that must be enough before any is stopped.
    """
    changed = np.empty(len(rows), dtype=np.int64)
    size = 0
    for at in range(len(rows)):
        row = counts[rows[at]]
        wanted = row[WANTED]
        level = row[LEVEL]
        idle = observed[0, at] <= 0.0 and observed[1, at] <= 0.0
        least = _least(row, idle, now_ns, pace)
        needed = max(base[0, at], least)
        warned = needed > 0 and not idle and observed[2, at] >= observed[3, at]
        _grow_on_warning(row, needed, warned, now_ns, pace)
        enough = max(base[1, at], needed)
        if needed > 0:
            most = max(row[MOST], row[FLOOR])
            needed = min(needed + row[EXTRA], most)
            enough = min(enough + row[EXTRA], most)
        if enough >= wanted:
            row[ENOUGH_SINCE_NS] = NEVER_NS
            row[WANTED] = max(needed, wanted)
        else:
            row[ENOUGH_SINCE_NS] = min(row[ENOUGH_SINCE_NS], now_ns)
            if now_ns - row[ENOUGH_SINCE_NS] >= pace.shrink_hold_ns:
                row[ENOUGH_SINCE_NS] = now_ns
                row[WANTED] = max(enough, wanted - _share(wanted, pace.shrink_share))
        if row[WANTED] != wanted or row[LEVEL] != level:
            changed[size] = rows[at]
            size += 1
    return changed[:size]
