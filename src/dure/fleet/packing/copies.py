"""Compiled: how many copies of a shape nodes could hold."""

import numpy as np

from dure.fleet.compiled import compiled
from dure.fleet.packing.demand import Cache, Demand
from dure.fleet.packing.ground import Ground
from dure.fleet.packing.groups import ask_on_rows
from dure.fleet.packing.shapes import Ints

_ENDLESS = 2**62
"""Copies of a shape that asks for nothing."""


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
        most = ask_on_rows(rows, demand.asks.cells, demand.asks.masks, ask, held)[1]
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
