"""Pools as nodes: what of each its tenant has and could have now, cluster by cluster.

Room is what is free of the pool's devices in a cluster, less what other pools keep there for
themselves: units that are lent count as long as nobody uses them, and again once they were called
back. What others lend, and what no pool holds, counts up to the pool's maximum.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dure.api.virtual import NodeShare, VirtualNode
from dure.domain.errors import DureError
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.lifecycle import AttemptState, ClusterState
from dure.domain.fleet.slices import WHOLE_MILLI, ShareMode, SliceTemplate
from dure.domain.fleet.tenancy import VNodePool
from dure.server import specs
from dure.server.records import Heard, heard_of
from dure.stores.repos.virtual import PoolUse
from dure.stores.rows import Cluster
from dure.stores.transaction import Transaction

_OPEN = (ClusterState.JOINED,)


@dataclass(frozen=True)
class _Place:
    """What one cluster has of a pool's devices."""

    groups: tuple[NodeGroup, ...]
    free_devices: int
    free_slices: Mapping[str, int]

    @property
    def devices(self) -> int:
        return sum(group.count * group.devices for group in self.groups)

    def per_device(self, amount: int) -> float:
        """Of what the hosts have in all."""
        return amount / self.devices if self.devices else 0.0

    @property
    def cpu_milli(self) -> float:
        return self.per_device(sum(group.count * group.cpu_milli for group in self.groups))

    @property
    def memory_bytes(self) -> float:
        return self.per_device(sum(group.count * group.host_memory_bytes for group in self.groups))

    def free(self, template: SliceTemplate) -> int:
        """Units that would fit now, whoever may have them."""
        if template.mode is ShareMode.WHOLE:
            return self.free_devices
        return self.free_slices.get(template.name, 0)


@dataclass(frozen=True)
class Reading:
    """All that nodes are made of, at one moment."""

    pools: Mapping[str, VNodePool]
    """Of all tenants."""
    clusters: Mapping[str, Heard]
    closed: frozenset[str]
    """Clusters that take nothing new now."""
    uses: Sequence[PoolUse]


async def read_nodes(tx: Transaction, heard_since_ns: int) -> Reading:
    """What is stored; clusters that were not heard of since then have no room."""
    pools: dict[str, VNodePool] = {}
    for row in await tx.pools.all():
        if row.tenant:
            try:
                pools[row.name] = specs.pool_of(row)
            except DureError:
                continue  # told where it is planned with
    clusters = {row.name: row for row in await tx.clusters.all()}
    news = {row.cluster: row for row in await tx.news.all()}
    return Reading(
        pools,
        {name: heard_of(news.get(name)) for name in clusters},
        frozenset(name for name, row in clusters.items() if not _open(row, heard_since_ns)),
        await tx.virtual.uses(pools),
    )


def _open(row: Cluster, heard_since_ns: int) -> bool:
    return row.state in _OPEN and (row.last_contact_ns or 0) >= heard_since_ns


def node_of(reading: Reading, name: str) -> VirtualNode | None:
    """A pool as a node; None: there is no such pool."""
    pool = reading.pools.get(name)
    if pool is None:
        return None
    template = template_of(pool)
    shares, cpu_milli, memory_bytes = [], 0.0, 0.0
    left = math.inf if pool.maximum is None else pool.maximum - _used_in_all(reading, name)
    for cluster, heard in sorted(reading.clusters.items()):
        share = _share(reading, pool, cluster, left)
        if share is None:
            continue
        left -= share.room
        shares.append(share)
        devices = (share.used + share.room) * template.compute_milli / WHOLE_MILLI
        place = place_of(heard, pool)
        cpu_milli += devices * place.cpu_milli
        memory_bytes += devices * place.memory_bytes
    allocatable = sum(share.used + share.room for share in shares)
    held = sum(share.units for share in shares)
    return VirtualNode(
        pool=name,
        profile=pool.profile,
        slice=pool.template,
        resource=template.resource_name,
        capacity=max(held, allocatable),
        allocatable=allocatable,
        cpu_milli=int(cpu_milli),
        memory_bytes=int(memory_bytes),
        unit_memory_bytes=template.memory_bytes,
        missing=max(0, pool.guaranteed - held),
        shares=shares,
    )


def _share(reading: Reading, pool: VNodePool, cluster: str, left: float) -> NodeShare | None:
    """Its part in one cluster; None: it has none there."""
    if pool.clusters is not None and cluster not in pool.clusters:
        return None
    heard = reading.clusters[cluster]
    place = place_of(heard, pool)
    used = _used(reading, pool.id, cluster)
    lease = next((each for each in heard.allotments if each.pool == pool.id), None)
    if not place.devices and not used and lease is None:
        return None
    units, lent = (0, 0) if lease is None else (lease.units, lease.lent)
    room = 0
    if cluster not in reading.closed:
        unit = template_of(pool).compute_milli / WHOLE_MILLI
        taken = _about_to_start(reading, heard, pool, cluster) + _kept(reading, pool, cluster)
        room = max(0, place.free(template_of(pool)) - math.ceil(taken / unit - 1e-9))
        if pool.dedicated:
            room = min(room, max(0, units - used))
        room = int(max(0, min(room, left)))
    return NodeShare(cluster=cluster, units=units, lent=lent, used=used, room=room)


def template_of(pool: VNodePool) -> SliceTemplate:
    """What a unit of it is."""
    return device_profile(pool.profile).slice(pool.template or "whole")


def place_of(heard: Heard, pool: VNodePool) -> _Place:
    """What a cluster has of a pool's devices."""
    groups = () if heard.inventory is None else heard.inventory.groups
    fitting = tuple(
        group for group in groups if group.profile == pool.profile and group.mode is pool.mode
    )
    names = {group.name for group in fitting}
    sites = [site for site in heard.sites if site.site.group in names]
    slices: dict[str, int] = {}
    for site in sites:
        for name, count in site.free_slices:
            slices[name] = slices.get(name, 0) + count
    return _Place(fitting, sum(site.free_devices for site in sites), slices)


def physical_units(heard: Iterable[Heard], pool: VNodePool) -> int:
    """Units that so many clusters would have in all if nobody used anything."""
    most = template_of(pool).most
    return sum(place_of(each, pool).devices * most for each in heard)


# --- what is used ------------------------------------------------------------------------------


def _units(use: PoolUse) -> int:
    """Units that an attempt takes of its pool."""
    devices = int((use.job.get("resources") or {}).get("devices", 1))
    return int(use.order.get("instances", 1)) * devices


def _used(reading: Reading, pool: str, cluster: str) -> int:
    return sum(
        _units(use)
        for use in reading.uses
        if use.cluster == cluster and use.job.get("pool") == pool
    )


def _used_in_all(reading: Reading, pool: str) -> int:
    return sum(_units(use) for use in reading.uses if use.job.get("pool") == pool)


def _about_to_start(reading: Reading, heard: Heard, pool: VNodePool, cluster: str) -> float:
    """Devices that are given away of which the cluster has not heard yet."""
    names = {group.name for group in place_of(heard, pool).groups}
    total = 0.0
    for use in reading.uses:
        group = (use.order.get("site") or {}).get("group")
        if use.cluster == cluster and use.state is AttemptState.RESERVED and group in names:
            owner = reading.pools.get(str(use.job.get("pool")))
            unit = template_of(owner).compute_milli / WHOLE_MILLI if owner is not None else 1.0
            total += _units(use) * unit
    return total


def _kept(reading: Reading, pool: VNodePool, cluster: str) -> float:
    """Devices that other pools keep for themselves there, idle and not lent."""
    total = 0.0
    for lease in reading.clusters[cluster].allotments:
        other = reading.pools.get(lease.pool)
        if other is None or other.id == pool.id:
            continue
        if (other.profile, other.mode) != (pool.profile, pool.mode):
            continue
        idle = max(0, lease.units - lease.lent - _used(reading, other.id, cluster))
        total += idle * template_of(other).compute_milli / WHOLE_MILLI
    return total
