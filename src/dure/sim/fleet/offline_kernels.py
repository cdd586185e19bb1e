"""The dual of the offline problem, compiled: what every job and service would do at given prices.

Prices are of a whole device for one hour; work is counted in hours of a job on its reference, and
`slowness[class, site]` says how many device-hours one of them takes there. Nothing here is a
schedule: a job may use any hours of any sites, whole or in part, as long as it does not go faster
than it could at best. So the value is a lower bound for every real schedule, preemptive and
migrating ones included.
"""

import numpy as np
from numpy.typing import NDArray

from dure.fleet.compiled import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled
def cheapest_sites(prices: Floats, slowness: Floats) -> tuple[Floats, Ints]:
    """Per class of work and hour: least price of a reference hour, and where it is."""
    classes, sites = slowness.shape
    hours = prices.shape[1]
    best = np.full((classes, hours), np.inf)
    where = np.zeros((classes, hours), np.int64)
    for kind in range(classes):
        for site in range(sites):
            slow = slowness[kind, site]
            if not np.isfinite(slow):
                continue
            for hour in range(hours):
                price = prices[site, hour] * slow
                if price < best[kind, hour]:
                    best[kind, hour] = price
                    where[kind, hour] = site
    return best, where


@compiled
def late_cost(late_h: float, per_hour: float, cap: float) -> float:
    """Penalty of a job so many hours late."""
    return 0.0 if late_h <= 0.0 else min(cap, late_h * per_hour)


@compiled
def insert(kept: Floats, at: Ints, length: int, price: float, hour: int) -> None:
    """Put an hour in its place among those before it, cheapest first."""
    place = length
    while place > 0 and kept[place - 1] > price:
        kept[place], at[place] = kept[place - 1], at[place - 1]
        place -= 1
    kept[place], at[place] = price, hour


@compiled
def jobs_value(
    prices: Floats,
    slowness: Floats,
    job_class: Ints,
    jobs: Floats,
    unfinished_price: Floats,
    usage: Floats,
) -> float:
    """Sum over jobs of their least cost at these prices; adds what they would use to `usage`.

    Columns of `jobs`: release hour, reference hours of work, most of them it can do in an hour,
    earliest end, deadline, penalty per hour late, cap of the penalty.
    """
    best, where = cheapest_sites(prices, slowness)
    hours = best.shape[1]
    total = 0.0
    floor = np.empty(best.shape[0])
    for kind in range(best.shape[0]):
        floor[kind] = best[kind].min()
    kept = np.empty(hours + 1)
    at = np.empty(hours + 1, np.int64)
    chosen = np.empty(hours + 1, np.int64)
    for job in range(len(job_class)):
        kind = job_class[job]
        release, work, rate = jobs[job, 0], jobs[job, 1], jobs[job, 2]
        earliest, deadline = jobs[job, 3], jobs[job, 4]
        per_hour, cap = jobs[job, 5], jobs[job, 6]
        first = int(release)
        needed = work / rate
        undone = unfinished_price[kind]
        never = late_cost(hours - deadline, per_hour, cap)
        found, count, part = never + work * undone, 0, 0.0
        length, over = 0, False
        for hour in range(first, hours):
            insert(kept, at, length, best[kind, hour], hour)
            length += 1
            late = late_cost(max(earliest, float(hour)) - deadline, per_hour, cap)
            if length + 1e-9 >= needed:
                cost, whole = late, int(needed)
                for index in range(whole):
                    cost += kept[index] * rate
                if needed - whole > 1e-9:
                    cost += kept[whole] * rate * (needed - whole)
                if cost < found:
                    rest = needed - whole > 1e-9
                    found, count, part = cost, whole + rest, needed - whole if rest else 1.0
                    chosen[:count] = at[:count]
            if late + floor[kind] * work >= found:
                over = True
                break
        if not over:
            # What does not fit before the end, or costs more than that, is left undone.
            cost, used = never + work * undone, 0
            while used < min(length, int(needed)) and kept[used] < undone:
                cost += (kept[used] - undone) * rate
                used += 1
            if cost < found:
                found, count, part = cost, used, 1.0
                chosen[:count] = at[:count]
        total += found
        for index in range(count):
            hour = chosen[index]
            amount = rate * part if index == count - 1 else rate
            site = where[kind, hour]
            usage[site, hour] += amount * slowness[kind, site]
    return total


@compiled
def services_value(
    prices: Floats, hour_of: Ints, need: Floats, penalty: Floats, usage: Floats
) -> float:
    """Sum over steps of services of the cheaper of serving and paying; adds to `usage`.

    A row is one step of one service: `need[row, site]` are the device-hours there that keep its
    target (infinite where nothing does), `penalty[row]` is the price of not keeping it.
    """
    total = 0.0
    for row in range(len(hour_of)):
        hour = hour_of[row]
        least, chosen = penalty[row], -1
        for site in range(need.shape[1]):
            wanted = need[row, site]
            if np.isfinite(wanted) and wanted * prices[site, hour] < least:
                least, chosen = wanted * prices[site, hour], site
        total += least
        if chosen >= 0:
            usage[chosen, hour] += need[row, chosen]
    return total
