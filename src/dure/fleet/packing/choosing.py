"""Compiled: what a placement costs, and the choice of a node."""

import numpy as np

from dure.fleet.compiled import compiled, counting_nothing
from dure.fleet.packing.demand import Cache, Demand
from dure.fleet.packing.devices import alike, book_device, free_worth, next_mask, seen_alike
from dure.fleet.packing.ground import COMPUTE, ROOM, Ground
from dure.fleet.packing.groups import pick_several
from dure.fleet.packing.shapes import DEVICES, WHOLE_MILLI, Flags, Ints
from dure.fleet.packing.usefulness import kinds_of, usefulness, with_spare

_NOWHERE = np.inf
"""Score of a node that cannot take the shape."""
_OFF_PLAIN_NODES = 1e6
"""Added where a shape without devices would sit on a node with devices: the last resort."""
_TIE = 1e-9
"""Scores closer than this are equal, and the tighter fit decides."""


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
        trial = with_spare(rows)
        kinds = kinds_of(trial, target.least_compute)
        lost = useful - usefulness(cpu, host, trial, kinds, demand)
        return _OFF_PLAIN_NODES + lost / WHOLE_MILLI + extra, fit
    if cells[ask, 0, DEVICES] > 1:
        after = after_several(rows, demand, ask, (cpu, host), places)
    else:
        after = after_one(rows, demand, ask, (cpu, host), places)
    if after < 0.0:
        return _NOWHERE, 0.0
    for slot in range(cells[ask, 0, DEVICES]):
        places[0, slot] += first
    return (useful - after) / WHOLE_MILLI + extra, fit


@compiled
def after_one(rows: Ints, demand: Demand, ask: int, left: tuple[int, int], places: Ints) -> float:
    """Usefulness left by the best placement on one device; -1 where there is none."""
    _, asks, target, _ = demand
    cells = asks.cells
    least = target.least_compute
    trial = with_spare(rows)
    kinds = kinds_of(trial, least)
    at_row, times, worths, sizes = kinds
    size = sizes[0]
    best = -1.0
    for index in range(len(rows)):
        mask, number = next_mask(rows, index, asks, ask, 0)
        if mask < 0 or seen_alike(rows, index):
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
            book_device(trial, index, cells, ask, mask, 1)
            sizes[0] = size
            if trial[index, COMPUTE] >= least and trial[index, ROOM] > 0:
                at_row[size] = index
                times[size] = 1
                worths[size] = free_worth(trial, index)
                sizes[0] = size + 1
            after = usefulness(left[0], left[1], trial, kinds, demand)
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
def after_several(
    rows: Ints, demand: Demand, ask: int, left: tuple[int, int], places: Ints
) -> float:
    """Usefulness left when several devices are taken; -1 where there are not enough."""
    if not pick_several(rows, demand.asks, ask, places[0]):
        return -1.0
    trial = with_spare(rows)
    for slot in range(demand.asks.cells[ask, 0, DEVICES]):
        at = places[0, slot]
        places[1, slot] = next_mask(rows, at, demand.asks, ask, 0)[0]
        book_device(trial, at, demand.asks.cells, ask, places[1, slot], 1)
    kinds = kinds_of(trial, demand.target.least_compute)
    return float(usefulness(left[0], left[1], trial, kinds, demand))


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
        if not alike(ground.devices, ground.first[one] + index, ground.first[other] + index):
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
