"""The compiled loops of a round: what options cost, who takes what in turn, who wants what."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dure.fleet.compiled import compiled, counting_nothing

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


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
        _take(wants, kind, left, job, chosen[job], 1.0)
    return chosen


@counting_nothing
def _fits(wants: Wants, kind: Integers, left: Floats, job: int, option: int) -> bool:
    """Whether what is left has room for a job's option."""
    slots = left.shape[1]
    site, slot = option // slots, option % slots
    for busy in range(slot, min(slots, slot + wants.span[job])):
        for dimension in range(left.shape[2]):
            if wants.usage[job, kind[site], dimension] > left[site, busy, dimension] + 1e-9:
                return False
    return True


@counting_nothing
def _take(wants: Wants, kind: Integers, left: Floats, job: int, option: int, times: float) -> None:
    """Take a job's option from what is left, or with -1 give it back; no option: nothing."""
    if option >= 0:
        slots = left.shape[1]
        site, slot = option // slots, option % slots
        for busy in range(slot, min(slots, slot + wants.span[job])):
            for dimension in range(left.shape[2]):
                left[site, busy, dimension] -= times * wants.usage[job, kind[site], dimension]


@compiled
def look_again(
    wants: Wants, kind: Integers, left: Floats, chosen: Integers, passes: int
) -> Integers:
    """[J]: the same options, each changed for a cheaper one that what is left has room for.

    `left` [M, T, D] is what there is before anything is chosen; it is used up. One job after the
    other looks, at most `passes` times over.
    """
    cost, skip, _, _ = wants
    better = chosen.copy()
    for job in range(better.size):
        _take(wants, kind, left, job, better[job], 1.0)
    for _ in range(passes):
        changed = False
        for job in range(better.size):
            found = better[job]
            best = skip[job] if found < 0 else cost[job, found]
            _take(wants, kind, left, job, found, -1.0)
            for option in range(cost.shape[1]):
                if cost[job, option] < best and _fits(wants, kind, left, job, option):
                    best, found = cost[job, option], option
            _take(wants, kind, left, job, found, 1.0)
            changed = changed or found != better[job]
            better[job] = found
        if not changed:
            break
    return better


class Crowded(NamedTuple):
    """What congestion prices add."""

    charged: Floats
    """[J, M, T]: as each job is charged; only at the first start where it may not wait."""
    full: Floats
    """[J, M]: started now, at the prices as they are."""


class Crowd(NamedTuple):
    """Congestion prices per device-hour, [M, T]."""

    prices: Floats
    beyond: Floats
    """What those that may wait are charged of them."""
    edges_h: Floats
    """[T + 1]: the starts of the slots and the end of the last; its price holds beyond."""


@counting_nothing
def _held(prices: Floats, edges_h: Floats, start: int, run_h: float) -> float:
    """Prices [T] over the hours of a run that begins at a start."""
    slots = prices.size
    finish = edges_h[start] + run_h
    total = 0.0
    for slot in range(start, slots):
        if finish <= edges_h[slot]:
            break
        end = finish if slot == slots - 1 else min(finish, edges_h[slot + 1])
        total += (end - edges_h[slot]) * prices[slot]
    return total


@compiled
def crowding(
    devices: Floats, kind: Integers, crowd: Crowd, run_h: Floats, may_wait: Bools
) -> Crowded:
    """Prices over the hours that each job holds its devices [J, P]; `run_h` is [J, M]."""
    jobs, sites = run_h.shape
    prices, beyond, edges_h = crowd
    slots = prices.shape[1]
    charged, full = np.zeros((jobs, sites, slots)), np.zeros((jobs, sites))
    for site in range(sites):
        if not prices[site].any():
            continue
        for job in range(jobs):
            held = devices[job, kind[site]]
            full[job, site] = _held(prices[site], edges_h, 0, run_h[job, site]) * held
            if may_wait[job]:
                for start in range(slots):
                    value = _held(beyond[site], edges_h, start, run_h[job, site])
                    charged[job, site, start] = value * held
            else:
                charged[job, site, 0] = full[job, site]
    return Crowded(charged, full)


@compiled
def add_scarcity(
    usage: Floats, kind: Integers, prices: Floats, span: Integers, sums: tuple[Floats, Floats]
) -> None:
    """Add prices [M, T, D] per unit and slot, over the slots a job is busy, to each [J, M, T]."""
    sites, slots, dimensions = prices.shape
    rates = np.zeros(slots)
    for site in range(sites):
        if not prices[site].any():
            continue
        for job in range(usage.shape[0]):
            for slot in range(slots):
                rates[slot] = 0.0
                for dimension in range(dimensions):
                    rates[slot] += usage[job, kind[site], dimension] * prices[site, slot, dimension]
            for start in range(slots):
                extra = 0.0
                for slot in range(start, min(slots, start + span[job])):
                    extra += rates[slot]
                sums[0][job, site, start] += extra
                sums[1][job, site, start] += extra


class Offers(NamedTuple):
    """What a round's options cost once everything is counted."""

    priced: Floats
    """[J, M, T]: with congestion."""
    cost: Floats
    """[J, M, T]: the same, infinite too where a job does not fit now."""
    skip: Floats
    """[J]: what having no place costs."""


@compiled
def price(total: Floats, crowded: Floats, fits: Bools, skip_factor: Floats) -> Offers:
    """Add congestion up; a job is left out only at `skip_factor` [J] times its dearest place."""
    jobs, sites, slots = total.shape
    priced, cost = np.empty(total.shape), np.empty(total.shape)
    skip = np.empty(jobs)
    for job in range(jobs):
        highest = 0.0
        for site in range(sites):
            for slot in range(slots):
                value = total[job, site, slot] + crowded[job, site, slot]
                priced[job, site, slot] = value
                if value < np.inf:
                    highest = max(highest, value)
                if slot == 0 and not fits[job, site]:
                    value = np.inf
                cost[job, site, slot] = value
        skip[job] = highest * skip_factor[job] + 1e-3
    return Offers(priced, cost, skip)


@compiled
def close_full(wants: Wants, kind: Integers, left: Floats) -> Floats:
    """[J]: each job's cheapest option with room, before anybody takes it; closes those without.

    What does not fit even alone is no option: without it, the sum of the cheapest is a bound that
    a round with a few full sites can reach.
    """
    cost, _, usage, span = wants
    sites, slots, dimensions = left.shape
    least = np.full(cost.shape[0], np.inf)
    room_until = np.empty(slots, dtype=np.int64)
    always = np.full((sites, dimensions), np.inf)
    for site in range(sites):
        for slot in range(slots):
            for dimension in range(dimensions):
                always[site, dimension] = min(always[site, dimension], left[site, slot, dimension])
    for job in range(cost.shape[0]):
        for site in range(sites):
            room_until[:] = slots
            for dimension in range(dimensions):
                if usage[job, kind[site], dimension] > always[site, dimension] + 1e-9:
                    _find_room(usage[job, kind[site]], left[site], room_until)
                    break
            for slot in range(slots):
                value = cost[job, site * slots + slot]
                if not value < np.inf:
                    continue
                if room_until[slot] >= min(slots, slot + span[job]):
                    least[job] = min(least[job], value)
                else:
                    cost[job, site * slots + slot] = np.inf
    return least


@counting_nothing
def _find_room(usage: Floats, left: Floats, room_until: Integers) -> None:
    """[T]: the slot up to which a job that is at a site then has room; `left` is [T, D]."""
    until = slots = left.shape[0]
    for slot in range(slots - 1, -1, -1):
        for dimension in range(usage.size):
            if usage[dimension] > left[slot, dimension] + 1e-9:
                until = slot
                break
        room_until[slot] = until


@compiled
def by_site(cost: Floats) -> Floats:
    """[J, M]: the cheapest start of each job at each site; `cost` is [J, M, T]."""
    jobs, sites, slots = cost.shape
    least = np.empty((jobs, sites))
    for job in range(jobs):
        for site in range(sites):
            value = cost[job, site, 0]
            for slot in range(1, slots):
                value = min(value, cost[job, site, slot])
            least[job, site] = value
    return least


class Missed(NamedTuple):
    """What jobs that found no room at a site lost by it, [M]."""

    gain: Floats
    """Per device-hour, mean over the device-hours that they would have taken."""
    devices: Floats
    """That they would have taken."""


@compiled
def missed_gains(
    wants: Wants, now: Floats, kind: Integers, run_h: Floats, chosen: Integers, least_share: float
) -> Missed:
    """Jobs that would rather be at a site now, at its full price, than where and when they are.

    `now` [J, M] is what that would cost; `chosen` [J] are options as of `take_turns`. Gains below
    `least_share` of what a job pays do not count, nor do jobs that found nothing: they say how
    little there is, not what it is worth.
    """
    cost, _, usage, _ = wants
    jobs, sites = run_h.shape
    gains, hours, taken = np.zeros(sites), np.zeros(sites), np.zeros(sites)
    for job in range(jobs):
        if chosen[job] < 0:
            continue
        got = cost[job, chosen[job]]
        for site in range(sites):
            value = now[job, site]
            if value < np.inf and got - value > least_share * abs(got):
                devices = usage[job, kind[site], 0]
                # By device-hours: what a job of a minute saves on a transfer or a node of its own
                # would otherwise count as if its devices were worth that for hours.
                gains[site] += got - value
                hours[site] += devices * run_h[job, site]
                taken[site] += devices
    return Missed(gains / np.maximum(hours, 1e-9), taken)


class Needed(NamedTuple):
    """What one instance of each of N shapes takes, by class of devices: [N, P]."""

    devices: Floats
    """0: it does not run there."""
    share: Floats
    """Of a device, of each; 1: whole devices."""
    counted: Integers
    """Row of its template in the counts of slices; -1: not counted."""


class Free(NamedTuple):
    """What M sites have left."""

    kind: Integers
    devices: Floats
    surplus: Floats
    """Devices that elastic gangs give back when asked."""
    by_free: Integers
    """[M, devices]: nodes with so many free devices; -1: not told."""
    largest: Floats
    """Most free devices on one node."""
    slices: Integers
    """[templates, M]: how many more fit; -1: not told."""


@compiled
def count_rooms(needed: Needed, free: Free) -> Floats:
    """[N, M]: how many instances of each shape fit at each site, as far as summaries tell."""
    shapes, sites = needed.devices.shape[0], free.kind.size
    rooms = np.zeros((shapes, sites))
    most = free.by_free.shape[1]
    for shape in range(shapes):
        for site in range(sites):
            kind = free.kind[site]
            devices = needed.devices[shape, kind]
            if devices == 0.0:
                continue
            surplus = free.surplus[site]
            left = free.devices[site] + surplus + 1e-9
            if needed.share[shape, kind] < 1.0:
                room = np.floor(left / (devices * needed.share[shape, kind]))
                row = needed.counted[shape, kind]
                if row >= 0 and free.slices[row, site] >= 0:
                    room = float(free.slices[row, site])
            else:
                room = np.floor(left / devices)
                if devices > 1.0:
                    if free.by_free[site, 0] >= 0:
                        exact = surplus // devices
                        for each in range(most):
                            exact += free.by_free[site, each] * (each // devices)
                        room = min(room, exact)
                    if max(free.largest[site], surplus) < devices:
                        room = 0.0
            rooms[shape, site] = room
    return rooms


@compiled
def isolate(total: Floats, devices: Floats, kind: Integers, rooms: Floats, row: Integers) -> None:
    """Close what pools leave no room at: `rooms` [K, M], of each job by `row` [J], in `total`."""
    jobs, sites, slots = total.shape
    for job in range(jobs):
        for site in range(sites):
            room = rooms[row[job], site]
            if room < devices[job, kind[site]] - 1e-6:
                total[job, site, 0] = np.inf
            if room <= 0.0:
                for slot in range(slots):
                    total[job, site, slot] = np.inf


class Wished(NamedTuple):
    """[J, wishes], cheapest first."""

    site: Integers
    """-1: no more."""
    devices: Floats
    saving: Floats
    """Per device-hour, over the job's dearest site."""
    shared: Bools
    """Whether it wants room on nodes in use, not just room."""


@compiled
def wishes(
    wants: Wants, sharing: Floats, free_on_used: Floats, kind: Integers, run_h: Floats, most: int
) -> Wished:
    """Sites where a job would rather start now than have what it got, if only there were room.

    `wants.skip` [J] is what it got, infinite for nothing; `sharing` [J, M] what starting now would
    cost on nodes in use (infinite where it may not run), where these have `free_on_used` [M].
    """
    cost, got, usage, _ = wants
    jobs, sites = run_h.shape
    slots = cost.shape[1] // sites
    site_of = np.full((jobs, most), -1, dtype=np.int64)
    worth = np.full((jobs, most), np.inf)
    shared_of = np.zeros((jobs, most), dtype=np.bool_)
    devices_of, saving = np.zeros((jobs, most)), np.zeros((jobs, most))
    for job in range(jobs):
        worst = -np.inf
        for site in range(sites):
            least = sharing[job, site]
            if not least < np.inf:
                continue
            now = cost[job, site * slots]
            if now < np.inf:
                worst = max(worst, now)
            else:
                now = least
            shared = now >= got[job]
            if shared:
                now = least
                if now >= got[job] or free_on_used[site] >= usage[job, kind[site], 0]:
                    continue
            rank = most
            while rank > 0 and now < worth[job, rank - 1]:
                rank -= 1
                if rank + 1 < most:
                    worth[job, rank + 1] = worth[job, rank]
                    site_of[job, rank + 1] = site_of[job, rank]
                    shared_of[job, rank + 1] = shared_of[job, rank]
            if rank < most:
                worth[job, rank], site_of[job, rank], shared_of[job, rank] = now, site, shared
        for rank in range(most):
            site = site_of[job, rank]
            if site >= 0:
                devices = usage[job, kind[site], 0]
                devices_of[job, rank] = devices
                gain = max(worst - worth[job, rank], 0.0)
                saving[job, rank] = gain / max(devices * run_h[job, site], 1e-6)
    return Wished(site_of, devices_of, saving, shared_of)
