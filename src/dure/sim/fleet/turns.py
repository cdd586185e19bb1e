"""How long requests of services wait for their turn on devices that are given out as queue units.

A queue unit has no slice of its own: requests take turns with those of the others on its device.
The rule is the one the centre expects by (`dure.fleet.turns`), but with the true neighbours: a job
keeps its share of the device busy, a service as far as it has requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.slices import WHOLE_MILLI, expected_wait_s, worst_wait_s

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MS_PER_S = 1000.0


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """A device on which an instance of a service has a queue unit."""

    device: tuple[int, int]
    """Cluster and device."""
    own_milli: int
    held_milli: int
    """By all that are there, this instance too."""
    serving: bool
    """Whether it takes requests; else it holds its place and is idle."""


@dataclass(frozen=True, slots=True)
class _Table:
    """All places in columns."""

    row: Ints
    device: Ints
    own: Floats
    jobs: Floats
    """Share of the device that is held by others than services."""
    serving: NDArray[np.bool_]


class Turns:
    """Who shares which device at sites of queue units; a row for each order of a service."""

    def __init__(self) -> None:
        self._places: dict[int, Ints] = {}
        """By row: row, number of the device, own and held share, and whether it serves: [5, n]."""
        self._devices: dict[tuple[int, int], int] = {}
        """Numbers of all devices that ever had a queue unit of a service."""
        self._table: _Table | None = None
        """Of the places as they are; None: to be made anew."""

    def set(self, row: int, places: Sequence[TurnPlace]) -> None:
        """Where an order's instances are now; nowhere: it has no queue units."""
        if places:
            self._places[row] = self._columns(row, places)
            self._table = None
        elif self._places.pop(row, None) is not None:
            self._table = None

    def waits_ms(self, alone_ms: Floats, use: Floats) -> Floats:
        """[rows]: mean wait for turns, where an order's most crowded instance is; 0 without turns.

        `alone_ms` is what a request takes alone on a device, `use` the share of time in which the
        order's instances have something to do.
        """
        waits = np.zeros(len(alone_ms))
        if not self._places:
            return waits
        if self._table is None:
            self._table = self._tabulate()
        table = self._table
        busy = np.where(table.serving, table.own * use[table.row], 0.0)
        others = table.jobs + np.bincount(table.device, weights=busy)[table.device] - busy
        alone_s = alone_ms[table.row] / _MS_PER_S
        found = np.minimum(
            expected_wait_s(alone_s, np.clip(others, 0.0, 1.0)),
            worst_wait_s(alone_s, busy, table.own * WHOLE_MILLI),
        )
        np.maximum.at(waits, table.row, np.where(table.serving, found * _MS_PER_S, 0.0))
        return waits

    def _columns(self, row: int, places: Sequence[TurnPlace]) -> Ints:
        number = self._devices
        return np.array(
            [
                (
                    row,
                    number.setdefault(each.device, len(number)),
                    each.own_milli,
                    each.held_milli,
                    each.serving,
                )
                for each in places
            ],
            dtype=np.int64,
        ).T

    def _tabulate(self) -> _Table:
        row, device, own, held, serving = np.concatenate(list(self._places.values()), axis=1)
        of_services = np.bincount(device, weights=own)[device]
        return _Table(
            row=row,
            device=device,
            own=own / WHOLE_MILLI,
            jobs=np.maximum(held - of_services, 0.0) / WHOLE_MILLI,
            serving=serving.astype(np.bool_),
        )
