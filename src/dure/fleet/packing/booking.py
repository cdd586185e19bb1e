"""Compiled: taking and giving back places, and judging a node anew after that."""

import numpy as np

from dure.fleet.compiled import compiled
from dure.fleet.packing.choosing import choose
from dure.fleet.packing.demand import Cache, Demand
from dure.fleet.packing.devices import book_device
from dure.fleet.packing.ground import COMPUTE, Ground
from dure.fleet.packing.shapes import DEVICES, Ints
from dure.fleet.packing.usefulness import kinds_of, usefulness, with_spare


@compiled
def judge(ground: Ground, demand: Demand, cache: Cache, node: int) -> None:
    """Work out a node's usefulness anew after it changed, and void what was kept of it."""
    rows = ground.devices[ground.first[node] : ground.first[node + 1]]
    spare = with_spare(rows)
    kinds = kinds_of(spare, demand.target.least_compute)
    cache.useful[node] = usefulness(ground.cpu[node], ground.host[node], spare, kinds, demand)
    largest = np.int64(0)
    for index in range(len(rows)):
        largest = max(largest, rows[index, COMPUTE])
    cache.largest[node] = largest
    cache.version[node] += 1


@compiled
def judge_all(ground: Ground, demand: Demand, cache: Cache) -> None:
    """The same for every node."""
    for node in range(len(ground.cpu)):
        judge(ground, demand, cache, node)


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
        book_device(ground.devices, at, demand.asks.cells, ask, places[1, index], sign)
    judge(ground, demand, cache, node)


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
