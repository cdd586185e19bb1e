"""vNode pools: what is leased to each cluster, who may use what, lending and calling back.

Capacity is counted at *places*: the devices of one profile and mode in one cluster. A unit of a
pool is a slice, of which `SliceTemplate.most` fit on a device; a pool holds whole devices (a
dedicated one whole nodes), so that its units exist whatever others do. What is used is counted in
devices, a slice as its share of compute (`Footprint.device_share`). At each place there are

- *own* units: a tenant's, out of its pools; nobody else may use them unless they are lent;
- *open* devices, which no pool holds: anybody may use them;
- *lent* units: own ones that their owner leaves to others while it does not use them.

An owner that wants its units back calls them (`wants`): `lent` falls, and `to_reclaim` says who of
the borrowers gives back. How pools are split over places is in `pool_splits`, who may use what in
`pool_rooms`, what is called back from whom in `pool_calls`, what clusters are told in
`pool_leases`.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dure.domain.errors import InputError
from dure.domain.fleet.catalogue import CATALOGUE
from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.profiles import DeviceProfile
from dure.domain.fleet.series import Floats
from dure.domain.fleet.slices import WHOLE_MILLI, ShareMode, SliceTemplate
from dure.domain.fleet.tenancy import Allotment, VNodePool
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import ClusterId, PoolId, TenantId, WorkloadId
from dure.fleet.pool_calls import Borrowed, Use, givers, still_lent, whole_units
from dure.fleet.pool_checks import check_pool
from dure.fleet.pool_leases import Leases
from dure.fleet.pool_rooms import Tables, Units, View, look
from dure.fleet.pool_splits import SLACK, Holding, in_proportion, move_to_use, split

_MOST_PUT_RIGHT = 16
"""Places that are put right one by one; finding all anew takes as long as some more."""


@dataclass(frozen=True, slots=True)
class Place:
    """Devices of one profile and mode in one cluster: what pools are carved out of."""

    cluster: ClusterId
    profile: str
    mode: ShareMode


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A pool whose guarantee the fleet cannot hold."""

    pool: PoolId
    missing: int
    """Units for which there is no capacity in the clusters it may use."""


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Devices that borrowers must give back at a place."""

    place: Place
    devices: float
    workloads: tuple[WorkloadId, ...]
    """Who gives back, cheapest first; together they free at least that much where they can."""


class PoolBook:
    """Who holds what where. Amounts in devices, except units of pools."""

    def __init__(
        self, profiles: Mapping[str, DeviceProfile] = CATALOGUE, lease_ns: int | None = None
    ) -> None:
        self._profiles = profiles
        self._leases = Leases(lease_ns)
        self._tables = Tables()
        self._places: dict[Place, int] = {}
        self._tenants: dict[TenantId, int] = {}
        self._rows: dict[PoolId, int] = {}
        """Of all pools that ever were; those that are now:"""
        self._pools: dict[PoolId, VNodePool] = {}
        self._uses: dict[int, dict[WorkloadId, Use]] = {}
        self._wanted: dict[PoolId, tuple[int, Place | None]] = {}
        self._split_due = False
        self._lend_due = False
        self._rooms: dict[tuple[TenantId, PoolId | None], Floats] = {}
        self._reaches: dict[tuple[TenantId, PoolId | None], Floats] = {}
        self._view: View | None = None
        self._stale: set[int] = set()
        """Places whose use has changed since the view was found."""
        self._held: Floats | None = None
        self._allowed_at: dict[PoolId, NDArray[np.bool_]] = {}

    # --- what there is ---------------------------------------------------------------------

    def cluster_joined(self, cluster: Cluster) -> None:
        """A cluster is a member, came back, or has other nodes than before."""
        devices: dict[Place, int] = {}
        for group in cluster.groups:
            place = Place(cluster.id, group.profile, group.mode)
            devices[place] = devices.get(place, 0) + group.count * group.devices
            index = self._place(place)  # first: it may make the table larger
            self._tables.node_devices[index] = group.devices
        for place, index in self._places.items():
            if place.cluster == cluster.id:
                self._set_capacity(index, devices.get(place, 0))

    def cluster_lost(self, cluster: ClusterId) -> None:
        """A cluster cannot be reached: its pools go elsewhere where they can."""
        for place, index in self._places.items():
            if place.cluster == cluster:
                self._set_capacity(index, 0)

    def set_capacity(self, place: Place, devices: int) -> None:
        """Nodes of a place were lost or came back."""
        self._set_capacity(self._place(place), devices)

    def set_pools(self, tenant: TenantId, pools: Iterable[VNodePool]) -> None:
        """All pools of a tenant; those it had and are not named are dissolved."""
        named = {pool.id: pool for pool in pools}
        for pool in named.values():
            row = self._rows.get(pool.id)
            if row is not None and self._tables.owner[row] != self._tenants.get(tenant):
                raise InputError(f"pool '{pool.id}' is another tenant's", "give it another name")
            check_pool(pool, tenant, self._profiles)
        for known in list(self._pools.values()):
            if known.tenant == tenant and known.id not in named:
                self._dissolve(known.id)
        for pool_id, pool in named.items():
            if self._pools.get(pool_id) != pool:
                row = self._row(pool_id, tenant)
                self._tables.unit[row] = self._template(pool).compute_milli / WHOLE_MILLI
                self._tables.dedicated[row] = pool.dedicated
                self._pools[pool_id] = pool
                self._changed(split=True)

    # --- what is used ----------------------------------------------------------------------

    def took(self, workload: Workload, place: Place, devices: float) -> None:
        """A workload occupies so many devices of a place; called again, so many more."""
        index = self._place(place)
        uses = self._uses.setdefault(index, {})
        before = uses.get(workload.id)
        if before is None:
            tenant = self._tenant(workload.tenant)
            pool = -1 if workload.pool is None else self._row(workload.pool, workload.tenant)
            before = Use(tenant, pool, 0.0)
        uses[workload.id] = replace(before, devices=before.devices + devices)
        self._count(before, index, devices)

    def gave_back(self, workload: WorkloadId, place: Place, devices: float | None = None) -> None:
        """A workload gave devices of a place back; None: all it had there."""
        index = self._place(place)
        use = self._uses.get(index, {}).pop(workload, None)
        if use is None:
            return
        back = use.devices if devices is None else min(devices, use.devices)
        if use.devices - back > SLACK:
            self._uses[index][workload] = replace(use, devices=use.devices - back)
        else:
            back = use.devices
        self._count(use, index, -back)

    def wants(self, pool: PoolId, units: int, place: Place | None = None) -> None:
        """The pool's tenant waits for so many of its units (there); 0: no longer."""
        if self._wanted.get(pool, (0, None)) == (units, place):
            return
        if units:
            self._wanted[pool] = (units, place)
        else:
            self._wanted.pop(pool, None)
        self._lend_due = True

    def wants_devices(self, pool: PoolId, devices: float, place: Place | None = None) -> None:
        """`wants`, for so many devices' worth of units."""
        unit = self._tables.unit[self._rows[pool]] if pool in self._rows else 1.0
        self.wants(pool, math.ceil(devices / unit - SLACK), place)

    # --- who may use what ------------------------------------------------------------------

    @property
    def places(self) -> tuple[Place, ...]:
        """Every place, in the order of the columns that `rooms` returns."""
        return tuple(self._places)

    def index(self, place: Place) -> int:
        """The column of a place."""
        return self._places[place]

    def rooms(self, tenant: TenantId, pool: PoolId | None) -> Floats:
        """Devices by place that a workload of this tenant (and pool) may still take. Read only.

        Isolation in one number: own units that nobody occupies, what is open, and what others
        lend; never another tenant's unlent units. Infinite everywhere while there are no pools.
        """
        if not self._pools and pool is None:
            return np.full(len(self._places), np.inf)
        key = (tenant, pool)
        if key not in self._rooms:
            self._rooms[key] = self._find_rooms(tenant, pool)
        return self._rooms[key]

    def may_use(self, workload: Workload, place: Place, devices: float) -> bool:
        """Whether a workload may take so many devices of a place."""
        index = self._places.get(place)
        if index is None:
            return False
        if workload.pool is None and self._pools:
            tenant = self._tenant(workload.tenant)  # first: it may make the tables larger
            room = self._look().loose_room(tenant, index)
        else:
            room = float(self.rooms(workload.tenant, workload.pool)[index])
        return room >= devices - SLACK

    def reach(self, tenant: TenantId, pool: PoolId | None) -> Floats:
        """Devices by place that a workload of this tenant (and pool) could have at most, were
        nobody else there: all but what others keep for themselves and never lend. Read only."""
        key = (tenant, pool)
        if key not in self._reaches:
            self._reaches[key] = self._find_reach(tenant, pool)
        return self._reaches[key]

    def below_maximum(self, pool: PoolId) -> float:
        """Devices that a pool may still take before it is at its maximum; infinite without one."""
        known = self._pools.get(pool)
        if known is None or known.maximum is None:
            return math.inf
        row = self._rows[pool]
        used = float(self._tables.pool_use[row].sum())
        return max(known.maximum * float(self._tables.unit[row]) - used, 0.0)

    def idle(self, pool: PoolId) -> float:
        """Devices of a pool's own units that none of its workloads uses, wherever they are."""
        return float(self._look().idle[self._rows[pool]].sum()) if pool in self._pools else 0.0

    # --- leases ----------------------------------------------------------------------------

    def shortfalls(self) -> list[Shortfall]:
        """Guarantees that no capacity stands behind, as of the last `revise`."""
        missing = {
            pool.id: pool.guaranteed - int(self._tables.units[self._rows[pool.id]].sum())
            for pool in self._pools.values()
        }
        return [Shortfall(pool, units) for pool, units in missing.items() if units > 0]

    def revise(self, now_ns: int) -> dict[ClusterId, tuple[Allotment, ...]]:
        """Bring the leases up to date; returns all allotments of each cluster that changed.

        Nothing changes unless pools, capacity or what owners wait for did, or a lease is half over.
        """
        if self._split_due:
            split(self._holdings(), self._tables.capacity, self._tables.node_devices)
            self._held = None
        if self._split_due or self._lend_due:
            self._lend()
        elif self._leases.lease_ns is None:
            return {}
        self._split_due = self._lend_due = False
        wanted: dict[ClusterId, dict[PoolId, tuple[int, int]]] = {}
        places, tables = self.places, self._tables
        for pool in self._pools:
            row = self._rows[pool]
            for index in np.flatnonzero(tables.units[row]):
                leases = wanted.setdefault(places[index].cluster, {})
                leases[pool] = (int(tables.units[row, index]), int(tables.lent[row, index]))
        return self._leases.publish(wanted, now_ns)

    def rebalance(self) -> None:
        """Bring idle units to where their pool is used beyond them; takes effect at `revise`."""
        if move_to_use(self._holdings(), self._tables.capacity, self._tables.node_devices):
            self._held = None
            self._lend_due = True
            self._changed()

    def crowded(self) -> dict[Place, tuple[WorkloadId, ...]]:
        """Places where more is borrowed than is lent, and who uses something there."""
        view, places = self._look(), self.places
        short = map(int, np.flatnonzero(view.commons < -SLACK)) if self._pools else ()
        return {places[index]: tuple(self._uses.get(index, ())) for index in short}

    def to_reclaim(
        self,
        costs: Mapping[WorkloadId, float],
        leaving: Mapping[Place, Collection[WorkloadId]] | None = None,
    ) -> list[Reclaim]:
        """What borrowers must give back so that every called unit is free, least cost first.

        `costs` is what displacing each workload costs; those not named are not displaced.
        `leaving` are those who were told to stop and have not yet: theirs is as good as free.
        """
        found = []
        for place in self.crowded():
            index, view = self._places[place], self._look()
            missing, borrowed = -view.commons[index], Borrowed(self._tables, view, index)
            gone = (leaving or {}).get(place, ())
            who = givers(self._uses.get(index, {}), borrowed, missing, costs, gone)
            found.append(Reclaim(place, missing, who))
        return found

    # --- inside ----------------------------------------------------------------------------

    def _changed(self, *, split: bool = False) -> None:
        if split:
            self._split_due = True
            self._held = None
            self._allowed_at.clear()
        self._rooms.clear()
        self._reaches.clear()
        self._view = None
        self._stale.clear()

    def _place(self, place: Place) -> int:
        if place not in self._places:
            self._places[place] = self._tables.add_place()
            self._changed(split=bool(self._pools))
        return self._places[place]

    def _tenant(self, tenant: TenantId) -> int:
        if tenant not in self._tenants:
            self._tenants[tenant] = self._tables.add_tenant()
            self._changed()
        return self._tenants[tenant]

    def _row(self, pool: PoolId, tenant: TenantId) -> int:
        if pool not in self._rows:
            self._rows[pool] = self._tables.add_pool(self._tenant(tenant))
            self._changed()
        return self._rows[pool]

    def _set_capacity(self, index: int, devices: int) -> None:
        if devices < 0:
            raise InputError(f"a place has {devices} devices", "use 0 or more")
        if self._tables.capacity[index] != devices:
            self._tables.capacity[index] = devices
            self._changed(split=True)

    def _dissolve(self, pool: PoolId) -> None:
        row = self._rows[pool]
        del self._pools[pool]
        self._wanted.pop(pool, None)
        self._tables.units[row] = 0
        self._tables.lent[row] = 0
        self._changed(split=True)

    def _count(self, use: Use, index: int, devices: float) -> None:
        tables = self._tables
        table, row = (tables.loose_use, use.tenant) if use.pool < 0 else (tables.pool_use, use.pool)
        left = table[row, index] + devices
        table[row, index] = left if left > SLACK else 0.0
        if self._pools:
            self._rooms.clear()
            self._stale.add(index)

    def _look(self) -> View:
        """The view of the moment: found anew after a change, put right where only use changed."""
        if self._held is None:
            self._held = np.zeros(len(self._places))
            for each in self._holdings():
                self._held += each.reserved(each.units, self._tables.node_devices)
        if self._view is None or len(self._stale) > _MOST_PUT_RIGHT:
            self._view = look(self._tables, self._held)
        else:
            for index in self._stale:
                self._view.look_again(self._held, index)
        self._stale.clear()
        return self._view

    def _find_rooms(self, tenant: TenantId, pool: PoolId | None) -> Floats:
        row = self._tenant(tenant)
        if pool is None:
            return self._look().loose_rooms(row)
        known = self._pools.get(pool)
        if known is None or known.tenant != tenant:
            return np.zeros(len(self._places))
        rooms = np.minimum(self._look().pool_rooms(self._rows[pool]), self.below_maximum(pool))
        return np.where(self._allowed(known), rooms, 0.0)

    def _find_reach(self, tenant: TenantId, pool: PoolId | None) -> Floats:
        own = None if pool is None else self._pools.get(pool)
        if pool is not None and (own is None or own.tenant != tenant):
            return np.zeros(len(self._places))
        left = self._tables.capacity.copy()
        most = math.inf
        if own is not None and own.maximum is not None:
            most = own.maximum * float(self._tables.unit[self._rows[own.id]])
        for each, holding in zip(self._pools.values(), self._holdings(), strict=True):
            unit = self._tables.unit[self._rows[each.id]]
            if each is own and each.dedicated:
                return np.asarray(np.minimum(holding.units * unit, most))
            if each.tenant == tenant and not each.dedicated:
                continue
            lent = np.minimum(in_proportion(each.lendable, holding.units), holding.units)
            left -= holding.reserved(holding.units, self._tables.node_devices) - lent * unit
        return left if own is None else np.where(self._allowed(own), np.minimum(left, most), 0.0)

    def _allowed(self, pool: VNodePool) -> NDArray[np.bool_]:
        """Where the pool may be."""
        found = self._allowed_at.get(pool.id)
        if found is None:
            at = [
                place.profile == pool.profile
                and place.mode is pool.mode
                and (pool.clusters is None or place.cluster in pool.clusters)
                for place in self._places
            ]
            found = self._allowed_at[pool.id] = np.array(at, dtype=bool)
        return found

    def _template(self, pool: VNodePool) -> SliceTemplate:
        return self._profiles[pool.profile].slice(pool.template or "whole")

    def _holdings(self) -> list[Holding]:
        """Live pools as the splitting rule sees them; their units are views that it writes to."""
        tables = self._tables
        return [
            Holding(
                units=tables.units[self._rows[pool.id]],
                use=tables.pool_use[self._rows[pool.id]] / tables.unit[self._rows[pool.id]],
                per_device=self._template(pool).most,
                guaranteed=pool.guaranteed,
                dedicated=pool.dedicated,
                allowed=self._allowed(pool),
            )
            for pool in self._pools.values()
        ]

    def _lend(self) -> None:
        """Set what each pool lends at each place: all it may, less what its owner calls back."""
        tables = self._tables
        for pool in self._pools.values():
            row = self._rows[pool.id]
            units = tables.units[row]
            tables.lent[row] = np.minimum(in_proportion(pool.lendable, units), units)
        self._changed()
        called = {
            self._rows[pool]: self._call(pool, wanted, place)
            for pool, (wanted, place) in self._wanted.items()
            if pool in self._pools and self._pools[pool].lendable
        }
        for row, lent in called.items():
            tables.lent[row] = lent
        self._changed()

    def _call(self, pool: PoolId, wanted: int, place: Place | None) -> Units:
        """What is still lent at each place once so many units are kept for their owner."""
        row = self._rows[pool]
        unit = self._tables.unit[row]
        idle = self._look().idle[row]
        rooms = self.rooms(self._pools[pool].tenant, pool)
        named = self._places.get(place, -1) if place is not None else -1
        return still_lent(
            np.array(self._tables.lent[row]),
            whole_units(idle, unit),
            whole_units(np.minimum(rooms, idle), unit),
            wanted,
            named,
        )
