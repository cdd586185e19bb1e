"""Lent units are called back: what stays lent, and which of the borrowers give back."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from dure.domain.fleet.series import Floats
from dure.domain.ids import WorkloadId
from dure.fleet.pool_rooms import Tables, Units, View
from dure.fleet.pool_splits import SLACK


@dataclass(frozen=True, slots=True)
class Use:
    """What one workload takes up at one place."""

    tenant: int
    pool: int
    """Row of its pool, or -1."""
    devices: float


class Borrowed:
    """What is used beyond its owners' units at one place, as workloads leave it."""

    def __init__(self, tables: Tables, view: View, index: int) -> None:
        self._dedicated = tables.dedicated
        self._over = view.over[:, index].copy()
        self._loose = view.loose_over[:, index].copy()

    def give_back(self, use: Use) -> float:
        """How much less is borrowed once this workload is gone.

        One of a pool frees what the pool uses beyond its units, and units of its own beyond that,
        which what its tenant runs outside of pools then moves to; not if they are dedicated.
        """
        left = use.devices
        if use.pool >= 0:
            back = min(left, float(self._over[use.pool]))
            self._over[use.pool] -= back
            left -= back
            if self._dedicated[use.pool]:
                return back
        loose = min(left, float(self._loose[use.tenant]))
        self._loose[use.tenant] -= loose
        return use.devices - left + loose


def givers(
    uses: Mapping[WorkloadId, Use],
    borrowed: Borrowed,
    devices: float,
    costs: Mapping[WorkloadId, float],
    leaving: Collection[WorkloadId] = (),
) -> tuple[WorkloadId, ...]:
    """Borrowers at a place that together free so much: least cost per device first.

    `uses` is what workloads take up there, `costs` what displacing each of them costs; those
    without a cost are not displaced. What those `leaving` will free need not be freed again.
    """
    devices -= sum(borrowed.give_back(use) for name, use in uses.items() if name in leaving)
    known = [
        (costs[workload] / use.devices, workload, use)
        for workload, use in uses.items()
        if workload in costs and workload not in leaving
    ]
    chosen: list[tuple[float, WorkloadId, float]] = []
    freed = 0.0
    for _, workload, use in sorted(known, key=lambda each: (each[0], each[1])):
        if freed >= devices - SLACK:
            break
        useful = borrowed.give_back(use)
        if useful > SLACK:
            chosen.append((costs[workload], workload, useful))
            freed += useful
    for giver in sorted(chosen, key=lambda each: (-each[0], each[1])):
        if freed - giver[2] >= devices - SLACK:
            chosen.remove(giver)
            freed -= giver[2]
    return tuple(workload for _, workload, _ in sorted(chosen))


def still_lent(lent: Units, units: Units, free: Units, wanted: int, named: int) -> Units:
    """What of `lent` stays lent at each place once so many units are kept for their owner.

    `units` are those the owner does not use, `free` those among them that nobody else does.
    """
    # Where units are free nobody is displaced; the place the owner names comes before all.
    order = sorted(range(len(units)), key=lambda k: (k != named, -free[k], -units[k], k))
    for index in order:
        kept = min(wanted, int(units[index]))
        if kept:
            lent[index] = min(lent[index], units[index] - kept)
            wanted -= kept
    return lent


def whole_units(devices: Floats, unit: float) -> Units:
    """Whole units in so many devices."""
    return np.floor(devices / unit + SLACK).astype(np.int64)
