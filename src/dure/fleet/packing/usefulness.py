"""Compiled: what a node is still good for.

A node's *usefulness* is the free device capacity that the expected demand can use, in thousandths
of a device: for every expected shape, weighted by how often it comes, the worth of the devices it
fits on, counted once because at least one copy fits (as FGD counts) and once more in the share of
the copies that CPU and host memory allow. A placement costs what it takes from the usefulness of
its node. Devices without the CPU to feed them are thereby lost capacity long before the last CPU
is gone, and of a device's remainders those that nobody asks for.

Two small terms complete the score, see `demand.Score`: headroom and opening.
"""

from typing import NamedTuple

import numpy as np

from dure.fleet.compiled import compiled, counting_nothing
from dure.fleet.packing.demand import Cache, Demand
from dure.fleet.packing.devices import alike, device_copies, free_worth
from dure.fleet.packing.ground import COMPUTE, LIMIT, PROFILE, ROOM, SHARING, Ground, Sharing
from dure.fleet.packing.groups import ask_on_rows, group_copies
from dure.fleet.packing.shapes import ACCEPTED, ALONE, DEVICES, PLAIN, WHOLE_MILLI, Floats, Ints
from dure.fleet.packing.shapes import COMPUTE as ASKS_COMPUTE

_FRACTION = int(Sharing.FRACTION)


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
def usefulness(cpu: int, host: int, rows: Ints, kinds: Kinds, demand: Demand) -> float:
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
                    worth, copies = group_copies(rows[:-1], cells, masks, ask, sizes[1:])
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
                        count = np.int64(device_copies(rows, at, cells, masks, ask))
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
def kinds_of(rows: Ints, least_compute: int) -> Kinds:
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
            if alike(rows, at_row[other], index):
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
def with_spare(rows: Ints) -> Ints:
    """A copy with one row more."""
    copy = np.empty((len(rows) + 1, rows.shape[1]), dtype=np.int64)
    for index in range(len(rows)):
        for column in range(rows.shape[1]):
            copy[index, column] = rows[index, column]
    return copy


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
            worth, copies = ask_on_rows(rows, cells, masks, last, held)
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
