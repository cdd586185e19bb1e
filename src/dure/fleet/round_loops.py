"""The compiled loops of a round: who takes what in turn, and what prices add to each option."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dure.fleet.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Wants(NamedTuple):
    """What jobs would take, and at what cost."""

    cost: Floats
    """[J, M * T]"""
    skip: Floats
    """[J]: what having no place costs."""
    usage: Floats
    """[J, P, D]"""
    span: Integers
    """[J]: slots they are busy."""


@compiled
def take_turns(wants: Wants, kind: Integers, left: Floats, order: Integers) -> Integers:
    """[J] option (site * slots + slot) per job, -1 for none; `left` [M, T, D] is used up.

    `kind` [M] is the class of devices of each site.
    """
    cost, skip, usage, span = wants
    sites, slots, dimensions = left.shape
    chosen = np.full(cost.shape[0], -1, dtype=np.int64)
    for job in order:
        best = skip[job]
        for site in range(sites):
            need = usage[job, kind[site]]
            for slot in range(slots):
                value = cost[job, site * slots + slot]
                if value >= best:
                    continue
                fits = True
                for busy in range(slot, min(slots, slot + span[job])):
                    for dimension in range(dimensions):
                        if need[dimension] > left[site, busy, dimension] + 1e-9:
                            fits = False
                            break
                    if not fits:
                        break
                if fits:
                    best = value
                    chosen[job] = site * slots + slot
        if chosen[job] >= 0:
            site, slot = chosen[job] // slots, chosen[job] % slots
            for busy in range(slot, min(slots, slot + span[job])):
                left[site, busy] -= usage[job, kind[site]]
    return chosen


@compiled
def crowding(
    devices: Floats, kind: Integers, prices: Floats, edges_h: Floats, run_h: Floats
) -> Floats:
    """[J, M, T]: prices [M, T] per device-hour over the hours a job holds its devices [J, P].

    `edges_h` [T + 1] are the starts of the slots and the end of the last; the price of the last
    holds beyond. `run_h` is [J, M].
    """
    jobs, sites = run_h.shape
    slots = prices.shape[1]
    result = np.zeros((jobs, sites, slots))
    for site in range(sites):
        if not prices[site].any():
            continue
        for job in range(jobs):
            for start in range(slots):
                finish = edges_h[start] + run_h[job, site]
                total = 0.0
                for slot in range(start, slots):
                    if finish <= edges_h[slot]:
                        break
                    end = finish if slot == slots - 1 else min(finish, edges_h[slot + 1])
                    total += (end - edges_h[slot]) * prices[site, slot]
                result[job, site, start] = total * devices[job, kind[site]]
    return result


@compiled
def scarcity(usage: Floats, kind: Integers, prices: Floats, span: Integers) -> Floats:
    """[J, M, T]: prices [M, T, D] per unit and slot over the slots a job is busy."""
    jobs = usage.shape[0]
    sites, slots, dimensions = prices.shape
    result = np.zeros((jobs, sites, slots))
    for site in range(sites):
        if not prices[site].any():
            continue
        for job in range(jobs):
            for slot in range(slots):
                rate = 0.0
                for dimension in range(dimensions):
                    rate += usage[job, kind[site], dimension] * prices[site, slot, dimension]
                for start in range(max(0, slot - span[job] + 1), slot + 1):
                    result[job, site, start] += rate
    return result
