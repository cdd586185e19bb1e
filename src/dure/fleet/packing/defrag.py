"""Plans of a few moves, tried on paper: room for a shape, or an empty node.

A plan is returned only if every instance that would move has a home in it. Nothing is changed: the
caller makes the moves in the order of the plan when it likes what they cost.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dure.fleet.packing.packer import Packer, Placement
from dure.fleet.packing.shapes import Flags


@dataclass(frozen=True, slots=True)
class Held:
    """An instance that may be moved."""

    key: int
    """The caller's name for it."""
    placement: Placement
    disturbance: float = 1.0
    """What moving it costs, in the caller's unit; the least affected moves first."""


@dataclass(frozen=True, slots=True)
class Move:
    """One instance changes its place."""

    key: int
    source: Placement
    target: Placement


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Moves that belong together."""

    moves: tuple[Move, ...]
    disturbance: float
    """Of all moves together."""
    opened: Placement | None = None
    """The place that the moves open for the shape that was asked for."""


@dataclass(frozen=True, slots=True)
class MoveLimits:
    """How far a plan may go."""

    most_moves: int = 4
    most_nodes: int = 16
    """Nodes that are looked at closely, the most promising first."""


def plan_room(
    packer: Packer,
    shape: int,
    held: Mapping[int, Sequence[Held]],
    limits: MoveLimits = MoveLimits(),  # noqa: B008, frozen
    allowed: Flags | None = None,
) -> MovePlan | None:
    """Moves after which the shape fits; `held` lists the movable instances of each node.

    Of the nodes looked at, the one whose plan disturbs least. Instances may also move within
    their node, as slices do that lie badly on a device. Slots are vacated before they are taken.
    """
    place = packer.choose(shape, allowed)
    if place is not None:
        return MovePlan((), 0.0, place)
    best: MovePlan | None = None
    nodes = _promising(packer, shape, held, allowed)[: limits.most_nodes]
    least = min((each.disturbance for node in nodes for each in held[node]), default=0.0)
    for node in nodes:
        movable = sorted(held[node], key=lambda each: (each.disturbance, each.key))
        plan = _open_node(packer, shape, node, movable, limits.most_moves, allowed)
        if plan is not None and (best is None or _rank(plan) < _rank(best)):
            best = plan
            if plan.disturbance <= least:
                break
    return best


def plan_emptying(
    packer: Packer, held: Sequence[Held], most_moves: int, allowed: Flags | None = None
) -> MovePlan | None:
    """Homes elsewhere for all these instances of one node, so that it can be drained or sleep.

    Only nodes on which something runs already are used: waking one to put one to sleep wins
    nothing.
    """
    if not held or len(held) > most_moves:
        return None
    usable = (packer.ground.used > 0) & packer.ground.open
    if allowed is not None:
        usable &= allowed
    usable[[each.placement.node for each in held]] = False
    with packer.what_if():
        for each in held:
            packer.give_back(each.placement)
        moves = _homes(packer, held, usable)
        if moves is None:
            return None
        return MovePlan(moves, _sum(held))


def _promising(
    packer: Packer, shape: int, held: Mapping[int, Sequence[Held]], allowed: Flags | None
) -> list[int]:
    """Nodes with something to move that could hold the shape if empty; most free first."""
    ground = packer.ground
    able = packer.could_hold(shape)
    if allowed is not None:
        able &= allowed
    nodes = [node for node in held if able[node] and ground.open[node] and held[node]]
    free, cpu = packer.free_devices().tolist(), ground.cpu.tolist()
    return sorted(nodes, key=lambda node: (-free[node], -cpu[node], node))


def _open_node(
    packer: Packer,
    shape: int,
    node: int,
    movable: Sequence[Held],
    most_moves: int,
    allowed: Flags | None,
) -> MovePlan | None:
    """The first single instance whose leaving suffices, else the first few together."""
    opens = packer.opened_by(shape, node, [each.placement for each in movable], allowed)
    for each, enough in zip(movable, opens, strict=True):
        plan = _try_without(packer, shape, node, (each,), allowed) if enough else None
        if plan is not None:
            return plan
    leaving: list[Held] = []
    with packer.what_if():
        for each in movable[:most_moves]:
            packer.give_back(each.placement)
            leaving.append(each)
            if packer.fits_on(shape, node):
                break
        else:
            return None
        for each in leaving[-2::-1]:
            packer.take(each.placement)
            if packer.fits_on(shape, node):
                leaving.remove(each)
            else:
                packer.give_back(each.placement)
    return _try_without(packer, shape, node, leaving, allowed)


def _try_without(
    packer: Packer, shape: int, node: int, leaving: Sequence[Held], allowed: Flags | None
) -> MovePlan | None:
    """The plan in which just these leave, if the shape then fits and all find a home."""
    with packer.what_if():
        for each in leaving:
            packer.give_back(each.placement)
        if not packer.fits_on(shape, node):
            return None
        only = np.zeros(len(packer.ground.cpu), dtype=np.bool_)
        only[node] = True
        place = packer.choose(shape, only)
        if place is None:
            return None
        packer.take_chosen(place)
        moves = _homes(packer, leaving, allowed)
    return None if moves is None else MovePlan(moves, _sum(leaving), place)


def _homes(
    packer: Packer, leaving: Sequence[Held], allowed: Flags | None
) -> tuple[Move, ...] | None:
    """A place for each, the most demanding first; they stay taken."""
    moves = []
    for each in sorted(leaving, key=lambda each: _demand(packer, each), reverse=True):
        target = packer.choose(each.placement.shape, allowed)
        if target is None:
            return None
        packer.take_chosen(target)
        moves.append(Move(each.key, each.placement, target))
    return tuple(moves)


def _demand(packer: Packer, each: Held) -> tuple[int, int, int, int]:
    shape = packer.table.shapes[each.placement.shape]
    compute = max((ask.compute_milli for ask in shape.asks.values()), default=0)
    return (shape.devices, compute, shape.cpu_milli, -each.key)


def _sum(leaving: Iterable[Held]) -> float:
    return sum(each.disturbance for each in leaving)


def _rank(plan: MovePlan) -> tuple[float, int]:
    return (plan.disturbance, len(plan.moves))
