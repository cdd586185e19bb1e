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
    FIRST_NS,
    LAST_NS,
    SHRINK_HOLD_NS,
    GROW_HOLD_NS,
    IN_PLACE,
    GREW_NS,
) = range(15)
"""`IN_PLACE`: steps by which slices can grow while they are in use; `GREW_NS`: when they did."""
COUNTS = 15
# Columns of figures.
RATE, MOST_WAIT_S, BUDGET_MS, SMALLER_SPEED = range(4)
WORTH = 4
"""Replica-minutes that a violated minute is worth."""
MEAN, SQUARE, LAST = range(5, 8)
"""Of the logarithm of the observed rate: its mean, the mean square by which it was above that, as
if it spread as far to both sides, and its last value."""
MARGIN, PROVIDED, LATE = range(8, 11)
"""Spreads above the mean that are provided for, the load that was, and 1 while a burst beyond that
makes answers late."""
MOST_MARGIN = 11
"""Largest such margin; 0: none is kept."""
FIGURES = 12

NEVER_NS = 2**62
"""A moment that never comes."""
MOST_LEVEL = 3
"""Steps by which slices grow at most: from one of seven compute slices to more than half."""
_FAINT = 0.05
"""Rates below this share of what one replica serves are all alike."""
_HOUR_NS = 3.6e12


class Pace(NamedTuple):
    """The rules of scaling as the loop needs them."""

    grow_share: float
    most_growth: float
    shrink_share: float
    zero_after_ns: int
    larger_slices: bool
    settle_ns: int


class Margin(NamedTuple):
    """How much is provided for beyond what is observed."""

    headroom: float
    shrink_headroom: float
    mean_ns: float
    spread_ns: float
    learn_per_h: float
    least_late: float
    most_late: float
    most_factor: float
    """As a logarithm."""


@compiled
def _may_be_late(figures: Floats, margin: Margin) -> float:
    """Share of time at which the late minutes that one replica more would save are worth it.

    Of a normal distribution's tail beyond so many spreads, one replica more takes away about that
    many times its own part of a spread.
    """
    replicas = np.sqrt(figures[SQUARE]) * np.exp(figures[MEAN]) / figures[RATE]
    share = replicas / (figures[WORTH] * max(figures[MARGIN], 1.0))
    return float(min(max(share, margin.least_late), margin.most_late))


@compiled
def _learn(now_ns: int, level: float, figures: Floats, counts: Ints, margin: Margin) -> None:
    """Take in a rate, as a logarithm; until now the last one held."""
    if counts[LAST_NS] < 0:
        counts[FIRST_NS] = now_ns
        figures[MEAN] = level
    else:
        passed = float(now_ns - counts[LAST_NS])
        figures[MEAN] += -np.expm1(-passed / margin.mean_ns) * (figures[LAST] - figures[MEAN])
        above = max(level - figures[MEAN], 0.0)
        # What is still little known is averaged over all of it.
        of_all = passed / max(now_ns - counts[FIRST_NS], 1)
        weight = max(-np.expm1(-passed / margin.spread_ns), of_all)
        figures[SQUARE] += weight * (2.0 * above * above - figures[SQUARE])
        learned = (figures[LATE] - _may_be_late(figures, margin)) * passed / _HOUR_NS
        wanted = figures[MARGIN] + margin.learn_per_h * learned
        figures[MARGIN] = min(max(wanted, 0.0), figures[MOST_MARGIN])
    figures[LAST] = level
    counts[LAST_NS] = now_ns


@compiled
def provide(
    now_ns: int, rows: Ints, observed: Floats, figures: Floats, counts: Ints, margin: Margin
) -> Floats:
    """Learn from what was observed, as `judge` has it; returns the loads that replicas must carry.

    First what they should be able to carry, then what fewer must be able to before any is stopped.
    """
    loads = np.empty((2, len(rows)))
    for at in range(len(rows)):
        figure, count, rate = figures[rows[at]], counts[rows[at]], observed[0, at]
        _learn(now_ns, np.log(max(rate, _FAINT * figure[RATE])), figure, count, margin)
        likely = 0.0
        if rate > 0.0 and figure[MOST_MARGIN] > 0.0:
            above = min(np.sqrt(figure[SQUARE]) * figure[MARGIN], margin.most_factor)
            likely = np.exp(figure[MEAN] + above)
        late = observed[2, at] > figure[BUDGET_MS] and 0.0 < figure[PROVIDED] < rate
        figure[LATE] = 1.0 if late else 0.0
        loads[0, at] = max(rate * margin.headroom, likely)
        loads[1, at] = max(rate * margin.shrink_headroom, likely)
        figure[PROVIDED] = loads[0, at]
    return loads


@compiled
def _share(count: int, share: float) -> int:
    """Part of a number of replicas, rounded up; at least one."""
    return max(1, int(np.ceil(count * share)))


@compiled
def _grow_on_warning(
    row: Ints, base: int, warned: bool, smaller_do: bool, now_ns: int, pace: Pace
) -> None:
    """Add size where that takes no time, else replicas, else size where there may not be more of
    them; take it back step by step."""
    if warned:
        row[EXTRA_UNTIL_NS] = now_ns + row[GROW_HOLD_NS]
        if row[WARMING] > 0 or now_ns - row[GREW_NS] < pace.settle_ns:
            return
        if row[LEVEL] < row[IN_PLACE]:
            row[LEVEL] += 1
            row[GREW_NS] = now_ns
        elif base + row[EXTRA] < row[MOST]:
            grown = row[EXTRA] + _share(base, pace.grow_share)
            row[EXTRA] = max(row[EXTRA], min(grown, _share(base, pace.most_growth)))
        elif pace.larger_slices:
            row[LEVEL] = min(row[LEVEL] + 1, MOST_LEVEL)
    elif now_ns >= row[EXTRA_UNTIL_NS] and (row[EXTRA] > 0 or row[LEVEL] > 0):
        row[EXTRA_UNTIL_NS] = now_ns + row[SHRINK_HOLD_NS]
        if row[LEVEL] == 0:
            row[EXTRA] -= 1
        elif smaller_do:
            row[LEVEL] -= 1


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
    which on it is a warning; `base` the replicas that the load alone needs, below them those that
    must be enough before any is stopped, and last those that would be enough on smaller slices.
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
        _grow_on_warning(row, needed, warned, base[2, at] <= row[MOST], now_ns, pace)
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
            if now_ns - row[ENOUGH_SINCE_NS] >= row[SHRINK_HOLD_NS]:
                row[ENOUGH_SINCE_NS] = now_ns
                row[WANTED] = max(enough, wanted - _share(wanted, pace.shrink_share))
        if row[WANTED] != wanted or row[LEVEL] != level:
            changed[size] = rows[at]
            size += 1
    return changed[:size]
