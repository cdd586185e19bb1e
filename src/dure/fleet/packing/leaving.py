"""Compiled: whether a shape fits on a node once somebody has left it for another."""

import numpy as np

from dure.fleet.compiled import compiled, counting_nothing
from dure.fleet.packing.choosing import after_one, after_several
from dure.fleet.packing.demand import Demand
from dure.fleet.packing.devices import book_device
from dure.fleet.packing.ground import COLUMNS, Ground
from dure.fleet.packing.groups import room_on_rows
from dure.fleet.packing.shapes import DEVICES, Flags, Ints


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
            book_device(trial, at, demand.asks.cells, demand.shapes.ask[leaves], mask, -1)
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
        after = after_several(rows, demand, ask, (cpu, host), places)
    else:
        after = after_one(rows, demand, ask, (cpu, host), places)
    if after < 0.0:
        return False
    for slot in range(needed):
        book_device(rows, places[0, slot], demand.asks.cells, ask, places[1, slot], 1)
    return True


@counting_nothing
def _room(rows: Ints, demand: Demand, shape: int, free: tuple[int, int], picks: Ints) -> bool:
    """Whether a node with these devices, CPU and host memory could take a shape."""
    if free[0] < demand.shapes.cpu[shape] or free[1] < demand.shapes.host[shape]:
        return False
    ask = demand.shapes.ask[shape]
    return bool(ask < 0 or room_on_rows(rows, demand.asks, ask, picks))


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
