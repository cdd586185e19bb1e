"""How a pool's guaranteed units are split over the places it may be at.

What a pool holds stays where it is unless it must move, so that leases change seldom: first every
pool keeps what still exists, then missing units go where the pool is used beyond its units and
otherwise in proportion to the devices that are free.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.series import Floats

SLACK = 1e-6
"""Of a device: what rounding of fractions may add up to."""

Units = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Holding:
    """One pool: what it holds, uses and may hold, by place."""

    units: Units
    """Held now; the splitting functions write to it."""
    use: Floats
    """In units."""
    per_device: int
    """Units that fit on a device."""
    guaranteed: int
    dedicated: bool
    allowed: NDArray[np.bool_]

    def chunks(self, node_devices: Units) -> Units:
        """Devices it takes at a time: whole nodes if they are its own, else single devices."""
        return node_devices if self.dedicated else np.ones_like(node_devices)

    def reserved(self, units: Units, node_devices: Units) -> Units:
        """Devices that so many units keep from others."""
        chunk = self.chunks(node_devices)
        return -(-units // (chunk * self.per_device)) * chunk

    def fitting(self, devices: Floats, node_devices: Units) -> Units:
        """Units that so many free devices have room for."""
        chunk = self.chunks(node_devices)
        whole = np.floor(np.maximum(devices, 0.0) / chunk + SLACK).astype(np.int64)
        return np.where(self.allowed, whole * chunk * self.per_device, 0)


def split(holdings: Sequence[Holding], capacity: Floats, node_devices: Units) -> None:
    """Bring every pool to its guarantee as far as devices reach; earlier pools go first."""
    left = capacity.copy()
    for holding in holdings:
        kept = np.minimum(holding.units, holding.fitting(left, node_devices))
        surplus = int(kept.sum()) - holding.guaranteed
        if surplus > 0:
            kept -= _least_used(kept, holding.use, surplus)
        holding.units[:] = kept
        left -= holding.reserved(kept, node_devices)
    for holding in holdings:
        _add_missing(holding, left, node_devices)


def _add_missing(holding: Holding, left: Floats, node_devices: Units) -> None:
    """Find room for the units a pool lacks; takes the devices from `left`."""
    missing = holding.guaranteed - int(holding.units.sum())
    if missing <= 0:
        return
    held = holding.reserved(holding.units, node_devices)
    room = holding.fitting(left + held, node_devices) - holding.units
    beyond = np.ceil(np.maximum(holding.use - holding.units, 0.0) - SLACK).astype(np.int64)
    first = _at_most(np.minimum(beyond, room), missing)
    step = holding.chunks(node_devices) * holding.per_device
    more = _in_steps(missing - int(first.sum()), room - first, step)
    holding.units[:] += first + more
    left -= holding.reserved(holding.units, node_devices) - held


def move_to_use(holdings: Sequence[Holding], capacity: Floats, node_devices: Units) -> bool:
    """Move idle units to where their pool is used beyond them; whether anything moved."""
    left = capacity.copy()
    for holding in holdings:
        left -= holding.reserved(holding.units, node_devices)
    moved = False
    for holding in holdings:
        held = holding.reserved(holding.units, node_devices)
        room = holding.fitting(left + held, node_devices) - holding.units
        beyond = np.floor(np.maximum(holding.use - holding.units, 0.0) + SLACK).astype(np.int64)
        idle = np.floor(np.maximum(holding.units - holding.use, 0.0) + SLACK).astype(np.int64)
        taken = _at_most(np.minimum(beyond, np.maximum(room, 0)), int(idle.sum()))
        if not taken.any():
            continue
        holding.units[:] += taken - _least_used(idle, np.zeros(len(idle)), int(taken.sum()))
        left -= holding.reserved(holding.units, node_devices) - held
        moved = True
    return moved


def in_proportion(amount: int, weights: Units) -> Units:
    """A whole amount divided like the weights, remainders to the largest; all 0 if they are."""
    whole = int(weights.sum())
    if not whole:
        return np.zeros(len(weights), dtype=np.int64)
    parts: Units = np.asarray(amount * weights // whole)
    rest = amount * weights - parts * whole
    order = np.lexsort((np.arange(len(weights)), -rest))
    parts[order[: amount - int(parts.sum())]] += 1
    return parts


def _at_most(wanted: Units, limit: int) -> Units:
    """The first of the wanted amounts up to a limit in all."""
    before = np.cumsum(wanted) - wanted
    return np.asarray(np.clip(limit - before, 0, wanted))


def _least_used(units: Units, use: Floats, amount: int) -> Units:
    """Which units to take away: where most lie idle first."""
    idle = np.floor(np.clip(units - use, 0, None) + SLACK).astype(np.int64)
    taken = np.zeros(len(units), dtype=np.int64)
    for available in (idle, units - idle):
        order = np.lexsort((np.arange(len(units)), -available))
        taken[order] += _at_most(available[order], amount - int(taken.sum()))
    return taken


def _in_steps(amount: int, room: Units, steps: Units) -> Units:
    """An amount over places in proportion to their room, in whole steps as far as it goes."""
    amount = min(amount, int(room.sum()))
    if amount <= 0:
        return np.zeros(len(room), dtype=np.int64)
    parts: Units = np.minimum(in_proportion(amount, room) // steps * steps, room)
    rest = amount - int(parts.sum())
    # What is left over goes step by step to where most room is left, a broken step last.
    while rest > 0:
        index = int(np.argmax(room - parts))
        more = min(int(steps[index]), int(room[index] - parts[index]), rest)
        parts[index] += more
        rest -= more
    return parts
