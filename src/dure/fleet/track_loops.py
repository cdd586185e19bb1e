"""The compiled loops over everything that has a place or a plan."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dure.fleet.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

_LONGEST_NS = 168 * 3600 * 10**9
"""A week: beyond it, it does not matter how long something still runs."""


class Held(NamedTuple):
    """Rows of a book, used or not."""

    used: Bools
    site: Integers
    start_ns: Integers
    end_ns: Integers
    usage: Floats
    """[rows, D]"""


@compiled
def released(held: Held, starts_ns: Integers, sites: int) -> Floats:
    """[M, T, D]: what has ended by each start; what is overdue now ends by the second."""
    slots, dimensions = starts_ns.size, held.usage.shape[1]
    result = np.zeros((sites, slots, dimensions))
    for row in range(held.used.size):
        if held.used[row] and held.end_ns[row] <= starts_ns[slots - 1]:
            slot = 1
            while held.end_ns[row] > starts_ns[slot]:
                slot += 1
            for dimension in range(dimensions):
                result[held.site[row], slot, dimension] += held.usage[row, dimension]
    for site in range(sites):
        for slot in range(1, slots):
            for dimension in range(dimensions):
                result[site, slot, dimension] += result[site, slot - 1, dimension]
    return result


@compiled
def reserved(held: Held, starts_ns: Integers, sites: int) -> Floats:
    """[M, T, D]: what is held at any time between each start but the first and the next."""
    slots, dimensions = starts_ns.size, held.usage.shape[1]
    result = np.zeros((sites, slots, dimensions))
    for row in range(held.used.size):
        if not held.used[row]:
            continue
        for slot in range(1, slots):
            begun = slot == slots - 1 or held.start_ns[row] < starts_ns[slot + 1]
            if begun and held.end_ns[row] > starts_ns[slot]:
                for dimension in range(dimensions):
                    result[held.site[row], slot, dimension] += held.usage[row, dimension]
    return result


@compiled
def remaining(held: Held, now_ns: int, sites: int) -> Floats:
    """[M]: nanoseconds that work at each site still runs, on average; 0 where nothing runs."""
    total, count = np.zeros(sites), np.zeros(sites)
    for row in range(held.used.size):
        if held.used[row]:
            left = min(max(held.end_ns[row] - now_ns, 0), _LONGEST_NS)
            total[held.site[row]] += left
            count[held.site[row]] += 1.0
    return total / np.maximum(count, 1.0)
