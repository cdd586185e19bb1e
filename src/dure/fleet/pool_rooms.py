"""Who may still use how much where: the isolation rule of pools, as sums over tables.

All in devices by place. What a tenant uses beyond its own units is on the *commons*: open devices,
and lent units that their owners do not use. The commons never run below zero by a placement that
stays within its room; they do when an owner calls units back, and then borrowers must give back.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.series import Floats
from dure.fleet.compiled import compiled

Units = NDArray[np.int64]


def _no_floats() -> Floats:
    return np.zeros((0, 0))


def _no_units() -> Units:
    return np.zeros((0, 0), dtype=np.int64)


@dataclass(slots=True)
class Tables:
    """What is held and used. Rows are pools or tenants, columns places."""

    capacity: Floats = field(default_factory=lambda: np.zeros(0))
    node_devices: Units = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Devices of one node at each place."""
    owner: list[int] = field(default_factory=list)
    """Tenant of each pool."""
    unit: list[float] = field(default_factory=list)
    """Devices that one unit of each pool takes."""
    dedicated: list[bool] = field(default_factory=list)
    units: Units = field(default_factory=_no_units)
    """[pools]"""
    lent: Units = field(default_factory=_no_units)
    """[pools]"""
    pool_use: Floats = field(default_factory=_no_floats)
    """[pools] by workloads that name the pool."""
    loose_use: Floats = field(default_factory=_no_floats)
    """[tenants] by workloads that name no pool."""

    def add_place(self) -> int:
        """A new column."""
        self.capacity = np.append(self.capacity, 0.0)
        self.node_devices = np.append(self.node_devices, 1)
        self._resize(len(self.owner), len(self.loose_use))
        return len(self.capacity) - 1

    def add_tenant(self) -> int:
        """A new row of loose use."""
        self._resize(len(self.owner), len(self.loose_use) + 1)
        return len(self.loose_use) - 1

    def add_pool(self, owner: int) -> int:
        """A new pool that holds nothing."""
        self.owner.append(owner)
        self.unit.append(1.0)
        self.dedicated.append(False)
        self._resize(len(self.owner), len(self.loose_use))
        return len(self.owner) - 1

    def _resize(self, pools: int, tenants: int) -> None:
        places = len(self.capacity)
        self.units = _grown_units(self.units, pools, places)
        self.lent = _grown_units(self.lent, pools, places)
        self.pool_use = _grown(self.pool_use, pools, places)
        self.loose_use = _grown(self.loose_use, tenants, places)


@dataclass(frozen=True, slots=True)
class View:
    """What follows from the tables at one moment."""

    tables: Tables
    idle: Floats
    """[pools] own units that no workload of the pool uses."""
    spare: Floats
    """[tenants] idle units of shared pools, less what workloads without a pool use of them."""
    loans: Floats
    """[tenants] lent units that no workload of their pools uses."""
    lent_idle: Floats
    """[tenants] what others may use of what it can spare: its loans, as far as that reaches."""
    over: Floats
    """[pools] what its workloads use beyond its units."""
    loose_over: Floats
    """[tenants] what workloads without a pool use beyond what its pools can spare."""
    commons: Floats
    """Open and lent devices that nobody uses; below zero: borrowers must give back."""
    unit: Floats
    """[pools] devices of one unit."""
    shared: Floats
    """[tenants, pools]: 1 for a tenant's pools that are not dedicated."""

    def look_again(self, held: Floats, place: int) -> None:
        """Bring one place up to date after its use changed; the rest is as it was."""
        tables = self.tables
        use = (tables.units, tables.lent, tables.pool_use, tables.loose_use)
        pools = (self.idle, self.over)
        tenants = (self.spare, self.loans, self.lent_idle, self.loose_over)
        _look_at(place, use, (self.unit, self.shared), pools, tenants)
        left = tables.capacity[place] - held[place] + _sum(self.lent_idle, place)
        self.commons[place] = left - _sum(self.over, place) - _sum(self.loose_over, place)

    def loose_room(self, tenant: int, place: int) -> float:
        """`loose_rooms` of one place."""
        own = self.spare[tenant, place] - self.lent_idle[tenant, place]
        return max(float(own + self.commons[place]), 0.0)

    def loose_rooms(self, tenant: int) -> Floats:
        """By place, what a workload that names no pool may still take."""
        own = self.spare[tenant] - self.lent_idle[tenant]
        return np.asarray(np.maximum(own + self.commons, 0.0))

    def pool_rooms(self, pool: int) -> Floats:
        """By place, what a workload of the pool may still take.

        Its idle units except those that are borrowed now, and the commons. Of the tenant's idle
        units only `lent_idle` can be borrowed, and of the pool's only those that it lends itself.
        A dedicated pool has its own units and no others.
        """
        idle = self.idle[pool]
        if self.tables.dedicated[pool]:
            return np.array(idle)
        tenant = self.tables.owner[pool]
        spare, lent_idle = self.spare[tenant], self.lent_idle[tenant]
        loans = np.minimum(self.tables.lent[pool] * self.tables.unit[pool], idle)
        unlent = np.minimum(idle - loans + self.loans[tenant], spare) - lent_idle
        return np.asarray(np.maximum(np.minimum(idle, unlent) + self.commons, 0.0))


def look(tables: Tables, held: Floats) -> View:
    """The view of the moment; `held` is what all pools keep of each place, in whole devices."""
    unit = np.asarray(tables.unit)[:, None]
    own = tables.units * unit
    idle = np.maximum(own - tables.pool_use, 0.0)
    over = np.maximum(tables.pool_use - own, 0.0)
    member = np.zeros((len(tables.loose_use), len(tables.owner)))
    member[tables.owner, np.arange(len(tables.owner))] = 1.0
    shared = member * ~np.asarray(tables.dedicated, dtype=bool)
    spare = shared @ idle
    absorbed = np.minimum(spare, tables.loose_use)
    spare = spare - absorbed
    loans = shared @ np.minimum(tables.lent * unit, idle)
    lent_idle = np.minimum(loans, spare)
    loose_over = tables.loose_use - absorbed
    commons = tables.capacity - held + lent_idle.sum(axis=0)
    commons = commons - over.sum(axis=0) - loose_over.sum(axis=0)
    return View(
        tables,
        idle,
        spare,
        loans,
        lent_idle,
        over,
        loose_over,
        commons,
        unit[:, 0].astype(np.float64),
        shared,
    )


@compiled
def _look_at(
    place: int,
    use: tuple[Units, Units, Floats, Floats],
    rules: tuple[Floats, Floats],
    pools: tuple[Floats, Floats],
    tenants: tuple[Floats, Floats, Floats, Floats],
) -> None:
    """One column of all that `look` finds, but the commons."""
    units, lent, pool_use, loose_use = use
    unit, shared = rules
    idle, over = pools
    spare, loans, lent_idle, loose_over = tenants
    for pool in range(unit.size):
        beyond = units[pool, place] * unit[pool] - pool_use[pool, place]
        idle[pool, place] = max(beyond, 0.0)
        over[pool, place] = max(-beyond, 0.0)
    for tenant in range(spare.shape[0]):
        own = loan = 0.0
        for pool in range(unit.size):
            if shared[tenant, pool] > 0.0:
                own += idle[pool, place]
                loan += min(lent[pool, place] * unit[pool], idle[pool, place])
        absorbed = min(own, loose_use[tenant, place])
        spare[tenant, place] = own - absorbed
        loans[tenant, place] = loan
        lent_idle[tenant, place] = min(loan, own - absorbed)
        loose_over[tenant, place] = loose_use[tenant, place] - absorbed


@compiled
def _sum(table: Floats, place: int) -> float:
    """Of a column, one row after the other, as sums over whole tables are made."""
    total = 0.0
    for row in range(table.shape[0]):
        total += table[row, place]
    return total


def _grown(table: Floats, rows: int, columns: int) -> Floats:
    """The table with zeros added below and to the right."""
    grown = np.zeros((rows, columns))
    grown[: table.shape[0], : table.shape[1]] = table
    return grown


def _grown_units(table: Units, rows: int, columns: int) -> Units:
    """Likewise."""
    grown = np.zeros((rows, columns), dtype=np.int64)
    grown[: table.shape[0], : table.shape[1]] = table
    return grown
