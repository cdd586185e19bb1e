"""Compiled: what fits where, what a node is still good for, and the choice of a node.

A node's *usefulness* is the free device capacity that the expected demand can use, in thousandths
of a device: for every expected shape, weighted by how often it comes, the worth of the devices it
fits on, counted once because at least one copy fits (as FGD counts) and once more in the share of
the copies that CPU and host memory allow. A placement costs what it takes from the usefulness of
its node. Devices without the CPU to feed them are thereby lost capacity long before the last CPU
is gone, and of a device's remainders those that nobody asks for.

Two small terms complete the score, see `Score`: headroom and opening.

Long for a module: every function here is tied to every other by calls, and compiled functions that
call one another stay in one file (see `dure.fleet.compiled`).
"""

from typing import NamedTuple

import numpy as np

from dure.fleet.compiled import compiled, counting_nothing
from dure.fleet.packing.ground import (
    ALL_BANDWIDTH,
    ALL_MEMORY,
    ALL_SLOTS,
    BANDWIDTH,
    COLUMNS,
    COMPUTE,
    DOMAIN,
    LIMIT,
    MEMORY,
    PROFILE,
    ROOM,
    SHARING,
    SLOTS,
    WORTH,
    Ground,
    Sharing,
)
from dure.fleet.packing.shapes import (
    ACCEPTED,
    ALONE,
    DEVICES,
    END_MASK,
    FIRST_MASK,
    PLAIN,
    TOGETHER,
    WHOLE_MILLI,
    Asks,
    Flags,
    Floats,
    Ints,
    Shapes,
    Together,
)
from dure.fleet.packing.shapes import BANDWIDTH as ASKS_BANDWIDTH
from dure.fleet.packing.shapes import COMPUTE as ASKS_COMPUTE
from dure.fleet.packing.shapes import MEMORY as ASKS_MEMORY

_WHOLE = int(Sharing.WHOLE)
_FRACTION = int(Sharing.FRACTION)
_SLOTS = int(Sharing.SLOTS)
_QUEUE = int(Sharing.QUEUE)
_LINKED = int(Together.LINKED)
_CONTIGUOUS = int(Together.CONTIGUOUS)
_NOWHERE = np.inf
"""Score of a node that cannot take the shape."""
_OFF_PLAIN_NODES = 1e6
"""Added where a shape without devices would sit on a node with devices: the last resort."""
_ENDLESS = 2**62
"""Copies of a shape that asks for nothing."""
_TIE = 1e-9
"""Scores closer than this are equal, and the tighter fit decides."""


class Target(NamedTuple):
    """The expected demand: shapes with devices, those with the same ask side by side."""

    ask: Ints
    cpu: Ints
    host: Ints
    per_cpu: Floats
    """Copies that one CPU milli feeds; infinite where none is asked."""
    per_host: Floats
    weight: Floats
    """Adds up to 1."""
    least_compute: int
    """No ask among them takes less of a device: what has less free is of no use."""


class Score(NamedTuple):
    """Weights of the score; costs and credits in devices."""

    fits: float
    """Usefulness for one copy more."""
    copies: float
    """Usefulness for as many copies as CPU and host memory allow."""
    headroom: float
    """Credit for each device's fair share of CPU that stays free on the node."""
    opening: float
    """Cost of a node on which nothing runs yet."""
    cpu_per_device: float
    """CPU milli that is one device's fair share here."""


class Demand(NamedTuple):
    """All that is asked and how it is judged."""

    shapes: Shapes
    asks: Asks
    target: Target
    score: Score


class Cache(NamedTuple):
    """What was worked out already; a node's entries hold while its version stands."""

    useful: Floats
    largest: Ints
    """Most compute free on one device of a node."""
    version: Ints
    seen: Ints
    """[shapes, nodes]: the version that score and fit are of; likewise `counted` of copies."""
    score: Floats
    fit: Floats
    counted: Ints
    copies: Ints
    weighed: Ints
    """[nodes]: the version that free worth and its stranded part are of."""
    free: Floats
    stranded: Floats


class Kinds(NamedTuple):
    """The devices of a node, those that are alike counted once."""

    row: Ints
    """A device of the kind."""
    times: Ints
    """How many there are."""
    worth: Floats
    """What is free of each."""
    size: Ints
    """First the number of kinds, then room for a number for each device."""


@counting_nothing
def free_worth(rows: Ints, at: int) -> float:
    """What is free of a device, in thousandths of a device of worth 1000."""
    if rows[at, ROOM] <= 0:
        return 0.0
    sharing = rows[at, SHARING]
    if sharing == _WHOLE:
        share = 1.0
    elif sharing == _QUEUE:
        share = rows[at, ROOM] / rows[at, LIMIT]
    elif sharing == _SLOTS:
        share = _bits(rows[at, SLOTS]) / _bits(rows[at, ALL_SLOTS])
    else:
        share = rows[at, COMPUTE] / WHOLE_MILLI
    return float(share * rows[at, WORTH])


@counting_nothing
def _bits(mask: int) -> int:
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


@counting_nothing
def _wants_all(rows: Ints, at: int, cells: Ints, ask: int) -> bool:
    return bool(
        cells[ask, rows[at, PROFILE], ASKS_COMPUTE] >= WHOLE_MILLI or rows[at, SHARING] == _WHOLE
    )


@counting_nothing
def _amounts_fit(rows: Ints, at: int, cells: Ints, ask: int) -> bool:
    """Whether the device gives one copy all but its slots."""
    profile = rows[at, PROFILE]
    if rows[at, ROOM] < 1 or not cells[ask, profile, ACCEPTED]:
        return False
    memory = cells[ask, profile, ASKS_MEMORY]
    bandwidth = cells[ask, profile, ASKS_BANDWIDTH]
    if _wants_all(rows, at, cells, ask):
        return bool(
            rows[at, ROOM] == rows[at, LIMIT]
            and memory <= rows[at, ALL_MEMORY]
            and bandwidth <= rows[at, ALL_BANDWIDTH]
        )
    if memory > rows[at, MEMORY]:
        return False
    return bool(
        rows[at, SHARING] == _QUEUE
        or (
            bandwidth <= rows[at, BANDWIDTH]
            and cells[ask, profile, ASKS_COMPUTE] <= rows[at, COMPUTE]
        )
    )


@counting_nothing
def next_mask(rows: Ints, at: int, asks: Asks, ask: int, number: int) -> tuple[int, int]:
    """The first feasible placement from that number on in their order: its mask and number.

    A device without slots has one placement, mask 0. Mask -1: there is none.
    """
    cells, masks = asks
    if not _amounts_fit(rows, at, cells, ask):
        return -1, 0
    if rows[at, SHARING] != _SLOTS or _wants_all(rows, at, cells, ask):
        return (rows[at, ALL_SLOTS], 0) if number == 0 else (-1, 0)
    profile = rows[at, PROFILE]
    first = cells[ask, profile, FIRST_MASK]
    for index in range(first + number, cells[ask, profile, END_MASK]):
        mask = masks[index]
        if mask & rows[at, SLOTS] == mask:
            return mask, index - first
    return -1, 0


@counting_nothing
def fits_at(rows: Ints, at: int, asks: Asks, ask: int) -> bool:
    """Whether the device can give one copy."""
    return next_mask(rows, at, asks, ask, 0)[0] >= 0


@counting_nothing
def mask_fits(rows: Ints, at: int, asks: Asks, ask: int, mask: int) -> bool:
    """Whether the device can give one copy at just this placement."""
    found, number = next_mask(rows, at, asks, ask, 0)
    while found >= 0:
        if found == mask:
            return True
        found, number = next_mask(rows, at, asks, ask, number + 1)
    return False


@counting_nothing
def _book_device(rows: Ints, at: int, cells: Ints, ask: int, mask: int, sign: int) -> None:
    """Take one copy from the device (`sign` 1), or give it back (-1)."""
    if _wants_all(rows, at, cells, ask):
        whole = sign < 0
        rows[at, COMPUTE] = WHOLE_MILLI if whole else 0
        rows[at, MEMORY] = rows[at, ALL_MEMORY] if whole else 0
        rows[at, BANDWIDTH] = rows[at, ALL_BANDWIDTH] if whole else 0
        rows[at, SLOTS] = rows[at, ALL_SLOTS] if whole else 0
        rows[at, ROOM] = rows[at, LIMIT] if whole else 0
        return
    profile = rows[at, PROFILE]
    rows[at, ROOM] -= sign
    rows[at, MEMORY] -= sign * cells[ask, profile, ASKS_MEMORY]
    if rows[at, SHARING] != _QUEUE:
        rows[at, COMPUTE] -= sign * cells[ask, profile, ASKS_COMPUTE]
        rows[at, BANDWIDTH] -= sign * cells[ask, profile, ASKS_BANDWIDTH]
    if sign > 0:
        rows[at, SLOTS] &= ~mask
    else:
        rows[at, SLOTS] |= mask


@counting_nothing
def _device_copies(rows: Ints, at: int, cells: Ints, masks: Ints, ask: int) -> int:
    """How many copies the device could hold now."""
    if not _amounts_fit(rows, at, cells, ask):
        return 0
    if _wants_all(rows, at, cells, ask):
        return 1
    profile = rows[at, PROFILE]
    most = rows[at, ROOM]
    memory = cells[ask, profile, ASKS_MEMORY]
    if memory > 0:
        most = min(most, rows[at, MEMORY] // memory)
    if rows[at, SHARING] == _QUEUE:
        return int(most)
    compute = cells[ask, profile, ASKS_COMPUTE]
    if compute > 0:
        most = min(most, rows[at, COMPUTE] // compute)
    bandwidth = cells[ask, profile, ASKS_BANDWIDTH]
    if bandwidth > 0:
        most = min(most, rows[at, BANDWIDTH] // bandwidth)
    if rows[at, SHARING] != _SLOTS:
        return int(most)
    count = 0
    free = rows[at, SLOTS]
    for index in range(cells[ask, profile, FIRST_MASK], cells[ask, profile, END_MASK]):
        mask = masks[index]
        if count < most and mask & free == mask:
            free &= ~mask
            count += 1
    return count


@counting_nothing
def _same_group(rows: Ints, one: int, other: int, by_domain: bool) -> bool:
    return bool(
        rows[one, PROFILE] == rows[other, PROFILE]
        and (not by_domain or rows[one, DOMAIN] == rows[other, DOMAIN])
    )


@counting_nothing
def _is_first_of_group(rows: Ints, index: int, by_domain: bool) -> bool:
    for earlier in range(index):
        if _same_group(rows, earlier, index, by_domain):
            return False
    return True


@counting_nothing
def _group_copies(rows: Ints, cells: Ints, masks: Ints, ask: int, held: Ints) -> tuple[float, int]:
    """Worth of the devices that several-device copies could use, and the number of copies.

    `held` is a place for a number for each device.
    """
    needed = cells[ask, 0, DEVICES]
    if needed > len(rows):
        return 0.0, 0
    together = cells[ask, 0, TOGETHER]
    by_domain = together != 0
    if cells[ask, 0, ALONE] and together == 0 and _one_profile(rows):
        return _empty_copies(rows, cells, ask, needed)
    total = 0
    for index in range(len(rows)):
        held[index] = _device_copies(rows, index, cells, masks, ask)
        total += held[index]
    if total < needed:
        return 0.0, 0
    worth = 0.0
    copies = 0
    for first in range(len(rows)):
        if not _is_first_of_group(rows, first, by_domain):
            continue
        if together == _CONTIGUOUS:
            count = _run_copies(rows, held, first, needed)
        else:
            count = _spread_copies(rows, held, first, by_domain, needed)
        if count == 0:
            continue
        copies += count
        for index in range(first, len(rows)):
            if held[index] > 0 and _same_group(rows, first, index, by_domain):
                worth += free_worth(rows, index)
    return worth, copies


@counting_nothing
def _one_profile(rows: Ints) -> bool:
    for index in range(1, len(rows)):
        if rows[index, PROFILE] != rows[0, PROFILE]:
            return False
    return True


@counting_nothing
def _empty_copies(rows: Ints, cells: Ints, ask: int, needed: int) -> tuple[float, int]:
    """The same where only empty devices of one profile count, wherever they are: no grouping."""
    worth = 0.0
    count = 0
    for index in range(len(rows)):
        if _amounts_fit(rows, index, cells, ask):
            worth += free_worth(rows, index)
            count += 1
    return (worth, count // needed) if count >= needed else (0.0, 0)


@counting_nothing
def _spread_copies(rows: Ints, held: Ints, first: int, by_domain: bool, needed: int) -> int:
    """Copies of `needed` different devices each, out of one group."""
    total = 0
    for index in range(first, len(rows)):
        if _same_group(rows, first, index, by_domain):
            total += held[index]
    count = total // needed
    while count > 0:
        room = 0
        for index in range(first, len(rows)):
            if _same_group(rows, first, index, by_domain):
                room += min(held[index], count)
        if room >= count * needed:
            break
        count -= 1
    return count


@counting_nothing
def _run_copies(rows: Ints, held: Ints, first: int, needed: int) -> int:
    """Copies out of runs of neighbouring devices of one group."""
    copies = 0
    run = 0
    for index in range(first, len(rows)):
        if held[index] > 0 and _same_group(rows, first, index, True):
            run += 1
            if run == needed:
                copies += 1
                run = 0
        else:
            run = 0
    return copies


@counting_nothing
def _ask_on_rows(rows: Ints, cells: Ints, masks: Ints, ask: int, held: Ints) -> tuple[float, int]:
    """Worth of the devices an ask fits on, and how many copies they could hold."""
    if cells[ask, 0, DEVICES] > 1:
        return _group_copies(rows, cells, masks, ask, held)
    worth = 0.0
    copies = 0
    for index in range(len(rows)):
        count = _device_copies(rows, index, cells, masks, ask)
        if count > 0:
            worth += free_worth(rows, index)
            copies += count
    return worth, copies


@counting_nothing
def _alike(rows: Ints, one: int, other: int) -> bool:
    for column in range(COLUMNS):
        if rows[one, column] != rows[other, column]:
            return False
    return True


@counting_nothing
def _useful(cpu: int, host: int, rows: Ints, kinds: Kinds, demand: Demand) -> float:
    """The node's usefulness for the expected demand, see the head of this file.

    `kinds` are the devices of any use; `rows` may have a spare row at its end for them. Columns
    are looked up once: every look at an array inside a tuple counts its users up and down, and
    that of a tuple inside a tuple those of all its arrays.
    """
    _, asks, target, score = demand
    cells, masks = asks
    asked, cpus, hosts, per_cpu, per_host, weights, _ = target
    for_one = score.fits
    for_copies = score.copies
    at_row, times, worths, sizes = kinds
    size = sizes[0]
    some = 0
    empty = 0
    for index in range(size):
        some += times[index]
        if rows[at_row[index], ROOM] == rows[at_row[index], LIMIT]:
            empty += times[index]
    # Without the floor of 1, nothing free times no need would be no number.
    free_cpu = max(cpu, 1)
    free_host = max(host, 1)
    total = 0.0
    last = -1
    worth = 0.0
    copies = 0
    per_copy = 0.0
    for entry in range(len(asked)):
        ask = asked[entry]
        if ask != last:
            last = ask
            worth = 0.0
            copies = 0
            needed = cells[ask, 0, DEVICES]
            if needed > 1:
                # Mostly there are too few empty devices, and looking closer would take longest.
                if needed <= empty or (needed <= some and not cells[ask, 0, ALONE]):
                    worth, copies = _group_copies(rows[:-1], cells, masks, ask, sizes[1:])
            else:
                for index in range(size):
                    # Shares of compute and whole devices are so frequent that a call for each
                    # would be most of the time of a choice.
                    at = at_row[index]
                    profile = rows[at, PROFILE]
                    compute = cells[ask, profile, ASKS_COMPUTE]
                    if compute > rows[at, COMPUTE] or not cells[ask, profile, ACCEPTED]:
                        continue
                    if cells[ask, profile, PLAIN] and rows[at, SHARING] == _FRACTION:
                        if compute < WHOLE_MILLI:
                            count = min(rows[at, ROOM], np.int64(rows[at, COMPUTE] / compute))
                        else:
                            count = np.int64(rows[at, ROOM] == rows[at, LIMIT])
                    else:
                        count = np.int64(_device_copies(rows, at, cells, masks, ask))
                    if count > 0:
                        worth += worths[index] * times[index]
                        copies += count * times[index]
            per_copy = 1.0 / max(copies, 1)
        if copies == 0 or cpu < cpus[entry] or host < hosts[entry]:
            continue
        share = min(1.0, per_copy * min(free_cpu * per_cpu[entry], free_host * per_host[entry]))
        total += weights[entry] * worth * (for_one + for_copies * share)
    return total


@compiled
def _kinds(rows: Ints, least_compute: int) -> Kinds:
    """The devices of a node that are of any use; the last row is spare."""
    at_row = np.empty(len(rows), dtype=np.int64)
    times = np.empty(len(rows), dtype=np.int64)
    worths = np.empty(len(rows), dtype=np.float64)
    size = 0
    for index in range(len(rows) - 1):
        if rows[index, COMPUTE] < least_compute:
            continue
        worth = free_worth(rows, index)
        if worth <= 0.0:
            continue
        known = False
        for other in range(size):
            if _alike(rows, at_row[other], index):
                times[other] += 1
                known = True
                break
        if not known:
            at_row[size] = index
            times[size] = 1
            worths[size] = worth
            size += 1
    sizes = np.empty(len(rows), dtype=np.int64)
    sizes[0] = size
    return Kinds(at_row, times, worths, sizes)


@compiled
def _with_spare(rows: Ints) -> Ints:
    """A copy with one row more."""
    copy = np.empty((len(rows) + 1, rows.shape[1]), dtype=np.int64)
    for index in range(len(rows)):
        for column in range(rows.shape[1]):
            copy[index, column] = rows[index, column]
    return copy


@counting_nothing
def _pick_group(rows: Ints, asks: Asks, ask: int, by_domain: bool, picks: Ints) -> bool:
    """Devices for a copy that needs several: from the group that they leave fullest."""
    needed = asks.cells[ask, 0, DEVICES]
    best = len(rows) + 1
    best_first = -1
    for first in range(len(rows)):
        if not _is_first_of_group(rows, first, by_domain):
            continue
        count = 0
        for index in range(first, len(rows)):
            if _same_group(rows, first, index, by_domain) and fits_at(rows, index, asks, ask):
                count += 1
        if needed <= count < best:
            best = count
            best_first = first
    if best_first < 0:
        return False
    for slot in range(needed):
        tightest = -1
        least = np.inf
        for index in range(best_first, len(rows)):
            if not _same_group(rows, best_first, index, by_domain):
                continue
            worth = free_worth(rows, index)
            if worth < least and fits_at(rows, index, asks, ask):
                taken = False
                for earlier in range(slot):
                    taken = taken or picks[earlier] == index
                if not taken:
                    least = worth
                    tightest = index
        picks[slot] = tightest
    return True


@counting_nothing
def _pick_run(rows: Ints, asks: Asks, ask: int, picks: Ints) -> bool:
    """Neighbouring devices of one domain, from the shortest run that has enough."""
    needed = asks.cells[ask, 0, DEVICES]
    best = len(rows) + 1
    best_start = -1
    start = 0
    for index in range(len(rows) + 1):
        fits = index < len(rows) and fits_at(rows, index, asks, ask)
        if fits and (index == start or _same_group(rows, start, index, True)):
            continue
        if needed <= index - start < best:
            best = index - start
            best_start = start
        start = index if fits else index + 1
    for slot in range(needed):
        picks[slot] = best_start + slot
    return best_start >= 0


@counting_nothing
def _pick_several(rows: Ints, asks: Asks, ask: int, picks: Ints) -> bool:
    together = asks.cells[ask, 0, TOGETHER]
    if together == _CONTIGUOUS:
        return _pick_run(rows, asks, ask, picks)
    if _pick_group(rows, asks, ask, True, picks):
        return True
    return bool(together != _LINKED and _pick_group(rows, asks, ask, False, picks))


@compiled
def evaluate(
    ground: Ground, demand: Demand, useful: float, where: tuple[int, int], places: Ints
) -> tuple[float, float]:
    """Cost and tightness of the best way to put shape `where[1]` on node `where[0]`.

    `places` gets the devices and their slot masks. The cost is infinite where the shape does not
    fit.
    """
    node, shape = where
    shapes, asks, target, score = demand
    cpu = ground.cpu[node] - shapes.cpu[shape]
    host = ground.host[node] - shapes.host[shape]
    if cpu < 0 or host < 0:
        return _NOWHERE, 0.0
    ask = shapes.ask[shape]
    cells, starts = asks.cells, ground.first
    first = starts[node]
    rows = ground.devices[first : starts[node + 1]]
    if ask >= 0 and cells[ask, 0, DEVICES] > len(rows):
        return _NOWHERE, 0.0
    left = cpu / score.cpu_per_device
    extra = score.opening if ground.used[node] == 0 else 0.0
    if len(rows) > 0:
        extra -= score.headroom * left
    fit = left
    for index in range(len(rows)):
        fit += free_worth(rows, index) / WHOLE_MILLI
    if ask < 0:
        if len(rows) == 0:
            return extra, fit
        trial = _with_spare(rows)
        kinds = _kinds(trial, target.least_compute)
        lost = useful - _useful(cpu, host, trial, kinds, demand)
        return _OFF_PLAIN_NODES + lost / WHOLE_MILLI + extra, fit
    if cells[ask, 0, DEVICES] > 1:
        after = _after_several(rows, demand, ask, (cpu, host), places)
    else:
        after = _after_one(rows, demand, ask, (cpu, host), places)
    if after < 0.0:
        return _NOWHERE, 0.0
    for slot in range(cells[ask, 0, DEVICES]):
        places[0, slot] += first
    return (useful - after) / WHOLE_MILLI + extra, fit


@compiled
def _after_one(rows: Ints, demand: Demand, ask: int, left: tuple[int, int], places: Ints) -> float:
    """Usefulness left by the best placement on one device; -1 where there is none."""
    _, asks, target, _ = demand
    cells = asks.cells
    least = target.least_compute
    trial = _with_spare(rows)
    kinds = _kinds(trial, least)
    at_row, times, worths, sizes = kinds
    size = sizes[0]
    best = -1.0
    for index in range(len(rows)):
        mask, number = next_mask(rows, index, asks, ask, 0)
        if mask < 0 or _seen_alike(rows, index):
            continue
        kind = 0
        while kind < size and at_row[kind] != index:
            kind += 1
        # The device changes its kind: one fewer of the old, kept in the spare row, and a new one.
        for column in range(trial.shape[1]):
            trial[len(rows), column] = rows[index, column]
        if kind < size:
            at_row[kind] = len(rows)
            times[kind] -= 1
        while mask >= 0:
            _book_device(trial, index, cells, ask, mask, 1)
            sizes[0] = size
            if trial[index, COMPUTE] >= least and trial[index, ROOM] > 0:
                at_row[size] = index
                times[size] = 1
                worths[size] = free_worth(trial, index)
                sizes[0] = size + 1
            after = _useful(left[0], left[1], trial, kinds, demand)
            for column in range(trial.shape[1]):
                trial[index, column] = rows[index, column]
            if after > best + _TIE:
                best = after
                places[0, 0] = index
                places[1, 0] = mask
            mask, number = next_mask(rows, index, asks, ask, number + 1)
        if kind < size:
            at_row[kind] = index
            times[kind] += 1
    return best


@compiled
def _after_several(
    rows: Ints, demand: Demand, ask: int, left: tuple[int, int], places: Ints
) -> float:
    """Usefulness left when several devices are taken; -1 where there are not enough."""
    if not _pick_several(rows, demand.asks, ask, places[0]):
        return -1.0
    trial = _with_spare(rows)
    for slot in range(demand.asks.cells[ask, 0, DEVICES]):
        at = places[0, slot]
        places[1, slot] = next_mask(rows, at, demand.asks, ask, 0)[0]
        _book_device(trial, at, demand.asks.cells, ask, places[1, slot], 1)
    kinds = _kinds(trial, demand.target.least_compute)
    return float(_useful(left[0], left[1], trial, kinds, demand))


@counting_nothing
def _seen_alike(rows: Ints, index: int) -> bool:
    for earlier in range(index):
        if _alike(rows, earlier, index):
            return True
    return False


@counting_nothing
def _twins(ground: Ground, one: int, other: int) -> bool:
    """Whether two nodes, neither of them in use, are the same."""
    count = ground.first[one + 1] - ground.first[one]
    if (
        ground.used[one] != 0
        or ground.used[other] != 0
        or ground.cpu[one] != ground.cpu[other]
        or ground.host[one] != ground.host[other]
        or ground.first[other + 1] - ground.first[other] != count
    ):
        return False
    for index in range(count):
        if not _alike(ground.devices, ground.first[one] + index, ground.first[other] + index):
            return False
    return True


@compiled
def choose(
    ground: Ground, demand: Demand, cache: Cache, shape: int, allowed: Flags, places: Ints
) -> int:
    """The open and allowed node that loses least by taking the shape; -1 where none can.

    `places` gets the devices, as rows of the device matrix, and their slot masks.
    """
    best = -1
    last = -1
    cost = _NOWHERE
    fit = 0.0
    shapes = demand.shapes
    cpu = shapes.cpu[shape]
    host = shapes.host[shape]
    compute = shapes.least_compute[shape]
    free_cpu, free_host, is_open = ground.cpu, ground.host, ground.open
    largest, version, useful = cache.largest, cache.version, cache.useful
    seen, scores, fits = cache.seen[shape], cache.score[shape], cache.fit[shape]
    for node in range(len(free_cpu)):
        # Most nodes of a full cluster are ruled out here, before anything is worked out.
        if free_cpu[node] < cpu or free_host[node] < host or largest[node] < compute:
            continue
        if not (is_open[node] and allowed[node]):
            continue
        if seen[node] != version[node]:
            # Empty nodes mostly stand beside their like, and need not be worked out again.
            if last < 0 or not _twins(ground, last, node):
                cost, fit = evaluate(ground, demand, useful[node], (node, shape), places)
                last = node
            scores[node] = cost
            fits[node] = fit
            seen[node] = version[node]
        if scores[node] == _NOWHERE:
            continue
        if best >= 0:
            gap = scores[node] - scores[best]
            tighter = fits[node] < fits[best]
            if gap > _TIE or (gap >= -_TIE and not tighter):
                continue
        best = node
    if best >= 0:
        evaluate(ground, demand, useful[best], (best, shape), places)
    return best


@compiled
def place_in_turn(
    ground: Ground, demand: Demand, cache: Cache, arrivals: Ints, places: Ints
) -> Ints:
    """Place arriving shapes one after the other; the node of each, -1 where it fitted nowhere."""
    allowed = np.ones(len(ground.cpu), dtype=np.bool_)
    nodes = np.empty(len(arrivals), dtype=np.int64)
    for turn in range(len(arrivals)):
        shape = arrivals[turn]
        nodes[turn] = choose(ground, demand, cache, shape, allowed, places)
        if nodes[turn] >= 0:
            ask = demand.shapes.ask[shape]
            count = demand.asks.cells[ask, 0, DEVICES] if ask >= 0 else 0
            book(ground, demand, cache, (nodes[turn], shape), places[:, :count], 1)
    return nodes


@compiled
def judge(ground: Ground, demand: Demand, cache: Cache, node: int) -> None:
    """Work out a node's usefulness anew after it changed, and void what was kept of it."""
    rows = ground.devices[ground.first[node] : ground.first[node + 1]]
    spare = _with_spare(rows)
    kinds = _kinds(spare, demand.target.least_compute)
    cache.useful[node] = _useful(ground.cpu[node], ground.host[node], spare, kinds, demand)
    largest = np.int64(0)
    for index in range(len(rows)):
        largest = max(largest, rows[index, COMPUTE])
    cache.largest[node] = largest
    cache.version[node] += 1


@compiled
def book(
    ground: Ground, demand: Demand, cache: Cache, where: tuple[int, int], places: Ints, sign: int
) -> None:
    """Take the devices and masks in `places` for shape `where[1]` on node `where[0]`, or give
    them back (`sign` -1).
    """
    node, shape = where
    ground.cpu[node] -= sign * demand.shapes.cpu[shape]
    ground.host[node] -= sign * demand.shapes.host[shape]
    ground.used[node] += sign
    ask = demand.shapes.ask[shape]
    for index in range(places.shape[1]):
        at = places[0, index]
        _book_device(ground.devices, at, demand.asks.cells, ask, places[1, index], sign)
    judge(ground, demand, cache, node)


@compiled
def judge_all(ground: Ground, demand: Demand, cache: Cache) -> None:
    """The same for every node."""
    for node in range(len(ground.cpu)):
        judge(ground, demand, cache, node)


@compiled
def _copies_at(ground: Ground, demand: Demand, shape: int, node: int) -> int:
    """How many copies of the shape a node could hold now."""
    ask = demand.shapes.ask[shape]
    cpu = demand.shapes.cpu[shape]
    host = demand.shapes.host[shape]
    most = _ENDLESS
    if ask >= 0:
        rows = ground.devices[ground.first[node] : ground.first[node + 1]]
        held = np.empty(len(rows), dtype=np.int64)
        most = _ask_on_rows(rows, demand.asks.cells, demand.asks.masks, ask, held)[1]
    if cpu > 0:
        most = min(most, ground.cpu[node] // cpu)
    if host > 0:
        most = min(most, ground.host[node] // host)
    return most


@compiled
def node_copies(ground: Ground, demand: Demand, shape: int, copies: Ints) -> None:
    """For every node, how many copies of the shape it could hold now; 0 where it is closed."""
    for node in range(len(ground.cpu)):
        copies[node] = _copies_at(ground, demand, shape, node) if ground.open[node] else 0


@compiled
def count_copies(ground: Ground, demand: Demand, cache: Cache, shapes: Ints, totals: Ints) -> None:
    """How many copies of each shape alone all open nodes could hold; looks at changed nodes only.

    What does not divide a node (a shape that asks for nothing) must not be asked for.
    """
    for at in range(len(shapes)):
        shape = shapes[at]
        totals[at] = 0
        for node in range(len(ground.cpu)):
            if not ground.open[node]:
                continue
            if cache.counted[shape, node] != cache.version[node]:
                cache.copies[shape, node] = _copies_at(ground, demand, shape, node)
                cache.counted[shape, node] = cache.version[node]
            totals[at] += cache.copies[shape, node]


@compiled
def leaving_opens(
    ground: Ground,
    demand: Demand,
    where: tuple[int, int],
    holders: Ints,
    allowed: Flags,
    opens: Flags,
) -> None:
    """For instances on node `where[0]`: whether shape `where[1]` fits there once one of them left.

    And whether that one then still has a home on an open and allowed node. A row of `holders` is
    an instance's shape, how many devices it has, and for each of them its row in the device matrix
    and its mask.
    """
    node, shape = where
    first = ground.first[node]
    rows = ground.devices[first : ground.first[node + 1]]
    trial = rows.copy()
    picks = np.empty(len(rows), dtype=np.int64)
    places = np.empty((2, len(rows)), dtype=np.int64)
    last = -1
    elsewhere = False
    for index in range(len(holders)):
        leaves = holders[index, 0]
        if leaves != last:
            last = leaves
            elsewhere = _fits_elsewhere(ground, demand, (node, leaves), allowed, picks)
        for slot in range(holders[index, 1]):
            at, mask = holders[index, 2 + 2 * slot] - first, holders[index, 3 + 2 * slot]
            _book_device(trial, at, demand.asks.cells, demand.shapes.ask[leaves], mask, -1)
        cpu = ground.cpu[node] + demand.shapes.cpu[leaves]
        host = ground.host[node] + demand.shapes.host[leaves]
        opens[index] = _put(trial, demand, shape, (cpu, host), places) and (
            elsewhere
            or (
                bool(allowed[node])
                and bool(ground.open[node])
                and _room(
                    trial,
                    demand,
                    leaves,
                    (cpu - demand.shapes.cpu[shape], host - demand.shapes.host[shape]),
                    picks,
                )
            )
        )
        for row in range(len(rows)):
            for column in range(COLUMNS):
                trial[row, column] = rows[row, column]


@compiled
def _put(rows: Ints, demand: Demand, shape: int, free: tuple[int, int], places: Ints) -> bool:
    """Put a shape on a node at its best place, as `evaluate` finds it; whether there is one."""
    cpu, host = free[0] - demand.shapes.cpu[shape], free[1] - demand.shapes.host[shape]
    if cpu < 0 or host < 0:
        return False
    ask = demand.shapes.ask[shape]
    if ask < 0:
        return True
    needed = demand.asks.cells[ask, 0, DEVICES]
    if needed > len(rows):
        return False
    if needed > 1:
        after = _after_several(rows, demand, ask, (cpu, host), places)
    else:
        after = _after_one(rows, demand, ask, (cpu, host), places)
    if after < 0.0:
        return False
    for slot in range(needed):
        _book_device(rows, places[0, slot], demand.asks.cells, ask, places[1, slot], 1)
    return True


@counting_nothing
def _room(rows: Ints, demand: Demand, shape: int, free: tuple[int, int], picks: Ints) -> bool:
    """Whether a node with these devices, CPU and host memory could take a shape."""
    if free[0] < demand.shapes.cpu[shape] or free[1] < demand.shapes.host[shape]:
        return False
    ask = demand.shapes.ask[shape]
    return bool(ask < 0 or _room_on_rows(rows, demand.asks, ask, picks))


@compiled
def _fits_elsewhere(
    ground: Ground, demand: Demand, where: tuple[int, int], allowed: Flags, picks: Ints
) -> bool:
    """Whether shape `where[1]` fits on any open and allowed node but `where[0]`."""
    for node in range(len(ground.cpu)):
        if node == where[0] or not (allowed[node] and ground.open[node]):
            continue
        rows = ground.devices[ground.first[node] : ground.first[node + 1]]
        if len(rows) > len(picks):
            picks = np.empty(len(rows), dtype=np.int64)
        if _room(rows, demand, where[1], (ground.cpu[node], ground.host[node]), picks):
            return True
    return False


@counting_nothing
def _room_on_rows(rows: Ints, asks: Asks, ask: int, picks: Ints) -> bool:
    """Whether these devices could give one copy now."""
    needed = asks.cells[ask, 0, DEVICES]
    if needed > len(rows):
        return False
    if needed > 1:
        return _pick_several(rows, asks, ask, picks)
    for index in range(len(rows)):
        if fits_at(rows, index, asks, ask):
            return True
    return False


@counting_nothing
def free_by_node(ground: Ground, free: Floats) -> None:
    """Free worth of every node."""
    for node in range(len(ground.cpu)):
        free[node] = 0.0
        for row in range(ground.first[node], ground.first[node + 1]):
            free[node] += free_worth(ground.devices, row)


@compiled
def free_and_stranded(ground: Ground, demand: Demand, node: int) -> tuple[float, float]:
    """Free worth of a node, and the part of it that the expected demand cannot use (FGD's F)."""
    rows = ground.devices[ground.first[node] : ground.first[node + 1]]
    free = 0.0
    for index in range(len(rows)):
        free += free_worth(rows, index)
    _, asks, target, _ = demand
    cells, masks = asks
    held = np.empty(len(rows), dtype=np.int64)
    used = 0.0
    last = -1
    worth = 0.0
    copies = 0
    for entry in range(len(target.ask)):
        if target.ask[entry] != last:
            last = target.ask[entry]
            worth, copies = _ask_on_rows(rows, cells, masks, last, held)
        if copies == 0 or target.cpu[entry] > ground.cpu[node]:
            continue
        if target.host[entry] <= ground.host[node]:
            used += target.weight[entry] * worth
    return free, free - used


@compiled
def fragmentation(ground: Ground, demand: Demand, cache: Cache) -> float:
    """Share of the free worth of all open nodes that the expected demand cannot use."""
    free = 0.0
    stranded = 0.0
    for node in range(len(ground.cpu)):
        if not ground.open[node]:
            continue
        if cache.weighed[node] != cache.version[node]:
            here, lost = free_and_stranded(ground, demand, node)
            cache.free[node] = here
            cache.stranded[node] = lost
            cache.weighed[node] = cache.version[node]
        free += cache.free[node]
        stranded += cache.stranded[node]
    return stranded / free if free > 0.0 else 0.0
