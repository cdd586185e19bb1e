"""The book of sites: what each node group of each cluster has left, what it is, who can reach it.

One row per site, in columns. Rows are added when clusters join and never move, so that others may
keep row numbers; a cluster that is lost is marked down.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import HOURS_A_WEEK, Cluster, Fleet, NodeGroup
from dure.domain.fleet.decisions import Site, SiteSummary
from dure.domain.fleet.profiles import DeviceProfile
from dure.domain.fleet.series import HOUR_NS
from dure.domain.fleet.slices import WHOLE_MILLI, ShareMode
from dure.domain.ids import ClusterId
from dure.domain.units import GIB
from dure.fleet.fit import Footprint

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

DIMENSIONS = ("devices", "memory_gib", "bandwidth_devices", "cpus", "host_memory_gib")
"""What is scarce at a site; devices and bandwidth in whole devices."""
DEVICES, MEMORY, BANDWIDTH, CPUS, HOST = range(len(DIMENSIONS))

_MOST_DEVICES = 16
"""Devices of the largest node whose free devices are counted node by node."""
_FILL_KEEP = 0.9
"""How much of what is known of a site's filling survives a summary; some ten summaries' memory."""


def usage_of(footprint: Footprint, instances: int) -> Floats:
    """What so many instances take of each dimension."""
    devices = footprint.devices * instances
    return np.array(
        (
            devices * footprint.compute_milli / WHOLE_MILLI,
            devices * footprint.memory_bytes / GIB,
            devices * footprint.bandwidth_milli / WHOLE_MILLI,
            footprint.cpu_milli * instances / 1000.0,
            footprint.host_memory_bytes * instances / GIB,
        )
    )


@dataclass(slots=True)
class SiteColumns:
    """What is known of all sites, one row each."""

    cluster: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Row of its cluster."""
    kind: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Class of devices: profile and share mode."""
    up: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    nodes: Floats = field(default_factory=lambda: np.zeros(0))
    node_devices: Floats = field(default_factory=lambda: np.zeros(0))
    node_cpus: Floats = field(default_factory=lambda: np.zeros(0))
    node_host_gib: Floats = field(default_factory=lambda: np.zeros(0))
    link_domain: Floats = field(default_factory=lambda: np.zeros(0))
    owned: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    rent: Floats = field(default_factory=lambda: np.zeros(0))
    """Per device-hour in the base currency before the calendar; 0 where owned."""
    calendar: Floats = field(default_factory=lambda: np.zeros((0, HOURS_A_WEEK)))
    """[M, 168]: factors on the rent by hour since 1970, modulo a week."""
    pue: Floats = field(default_factory=lambda: np.zeros(0))
    base_w: Floats = field(default_factory=lambda: np.zeros(0))
    """Of a node, per device of it."""
    idle_w: Floats = field(default_factory=lambda: np.zeros(0))
    peak_w: Floats = field(default_factory=lambda: np.zeros(0))
    total: Floats = field(default_factory=lambda: np.zeros((0, len(DIMENSIONS))))
    """[M, D]: all there is."""
    free: Floats = field(default_factory=lambda: np.zeros((0, len(DIMENSIONS))))
    """[M, D]: free by the last summary, less what was ordered since and what waits there."""
    surplus: Floats = field(default_factory=lambda: np.zeros((0, len(DIMENSIONS))))
    """[M, D]: held by elastic gangs beyond their least size, which give it back when asked."""
    kept: Floats = field(default_factory=lambda: np.zeros((0, len(DIMENSIONS))))
    """[M, D]: not counted as free: what services there will need at their next peak."""
    free_on_used: Floats = field(default_factory=lambda: np.zeros(0))
    largest_free: Floats = field(default_factory=lambda: np.zeros(0))
    """Most free devices on one node."""
    by_free: Integers = field(default_factory=lambda: np.zeros((0, _MOST_DEVICES + 1), np.int64))
    """[M, devices]: nodes with so many free devices; -1: not told."""
    fill: Floats = field(default_factory=lambda: np.zeros(0))
    """Share of devices in use on nodes in use, smoothed."""
    grew: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Counts the times its free capacity grew."""
    grew_on_used: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Counts the times there came to be more of it on nodes in use."""
    told: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Counts its summaries."""


@dataclass(slots=True)
class SiteBook:
    """All sites of all clusters that ever joined."""

    fleet: Fleet
    expected_fill: float
    columns: SiteColumns = field(default_factory=SiteColumns)
    names: list[Site] = field(default_factory=list)
    groups: list[NodeGroup] = field(default_factory=list)
    rows: dict[Site, int] = field(default_factory=dict)
    clusters: dict[ClusterId, Cluster] = field(default_factory=dict)
    cluster_ids: list[ClusterId] = field(default_factory=list)
    cluster_rows: dict[ClusterId, int] = field(default_factory=dict)
    sites_of: dict[ClusterId, list[int]] = field(default_factory=dict)
    kinds: list[tuple[DeviceProfile, ShareMode]] = field(default_factory=list)
    slices: dict[str, Integers] = field(default_factory=dict)
    """By template: how many more fit at each site; -1: no summary told."""
    lost: set[ClusterId] = field(default_factory=set)
    version: int = 0
    """Counts changes of what is joined and what it costs."""

    def __len__(self) -> int:
        return len(self.names)

    def join(self, cluster: Cluster) -> None:
        """Take a cluster in, back, or with new prices."""
        self.version += 1
        self.clusters[cluster.id] = cluster
        self.lost.discard(cluster.id)
        if cluster.id not in self.cluster_rows:
            self.cluster_rows[cluster.id] = len(self.cluster_ids)
            self.cluster_ids.append(cluster.id)
            self.sites_of[cluster.id] = []
        known = self.sites_of[cluster.id]
        for row in known:
            self.columns.up[row] = False
        for group in cluster.groups:
            row = self.rows.get(Site(cluster.id, group.name), -1)
            if row < 0:
                row = self._append(cluster, group)
                known.append(row)
            self._describe(row, cluster, group)

    def lose(self, cluster: ClusterId) -> None:
        """A cluster cannot be reached: nothing new goes there."""
        self.version += 1
        self.lost.add(cluster)
        for row in self.sites_of.get(cluster, ()):
            self.columns.up[row] = False

    def summarise(self, summary: SiteSummary) -> None:
        """Take over what a site says it has left."""
        row = self.rows.get(summary.site, -1)
        if row < 0:
            return
        columns = self.columns
        columns.told[row] += 1
        bandwidth = summary.free_bandwidth_milli
        free = np.array(
            (
                summary.free_compute_milli / WHOLE_MILLI,
                summary.free_memory_bytes / GIB,
                columns.total[row, BANDWIDTH] if bandwidth is None else bandwidth / WHOLE_MILLI,
                summary.free_cpu_milli / 1000.0,
                summary.free_host_memory_bytes / GIB,
            )
        )
        waiting = summary.waiting_devices
        if waiting:
            free[DEVICES] -= waiting
            free[MEMORY] -= waiting * self.kinds[columns.kind[row]][0].memory_bytes / GIB
        free -= columns.kept[row]
        if free[DEVICES] > columns.free[row, DEVICES] + 1e-9:
            columns.grew[row] += 1
        columns.free[row] = free
        on_used = max(0, summary.free_on_used_nodes - waiting)
        if on_used > columns.free_on_used[row] + 1e-9:
            columns.grew_on_used[row] += 1
        columns.free_on_used[row] = on_used
        columns.largest_free[row] = summary.largest_node_free
        if summary.nodes != columns.nodes[row]:
            self.version += 1  # what could run there has changed with its nodes
        columns.nodes[row] = summary.nodes
        self._total(row, summary.nodes)
        if summary.nodes_in_use:
            there = summary.nodes_in_use * columns.node_devices[row]
            fill = 1.0 - summary.free_on_used_nodes / there
            columns.fill[row] += (1.0 - _FILL_KEEP) * (fill - columns.fill[row])
        self._count(row, summary)

    def _count(self, row: int, summary: SiteSummary) -> None:
        """Take over how whole shapes and slices still fit."""
        by_free = self.columns.by_free[row]
        by_free[:] = -1
        if 0 < len(summary.nodes_by_free) <= len(by_free):
            by_free[:] = 0
            by_free[: len(summary.nodes_by_free)] = summary.nodes_by_free
        for counts in self.slices.values():
            counts[row] = -1
        for template, count in summary.free_slices:
            if template not in self.slices:
                self.slices[template] = np.full(len(self.names), -1, dtype=np.int64)
            self.slices[template][row] = count

    def take(self, row: int, usage: Floats) -> None:
        """Something was ordered there since the last summary."""
        self.columns.free[row] -= usage
        self.columns.free_on_used[row] = max(0.0, self.columns.free_on_used[row] - usage[DEVICES])

    def keep(self, row: int, change: Floats) -> None:
        """Keep so much more (or less) of what is free there for services."""
        self.columns.kept[row] += change
        self.columns.free[row] -= change
        if change[DEVICES] < -1e-9:
            self.columns.grew[row] += 1

    def give_back(self, row: int, usage: Floats, told: int) -> None:
        """An order came to nothing; a summary since then has already counted that."""
        if self.columns.told[row] == told:
            self.columns.free[row] += usage
            self.columns.grew[row] += 1

    def device_price(self, row: int) -> float:
        """What a device-hour there is worth by itself: its rent, or the energy at full power."""
        columns = self.columns
        if not columns.owned[row]:
            return float(columns.rent[row])
        cluster = self.clusters[self.names[row].cluster]
        per_kwh = self.fleet.rates.to_base(
            float(cluster.electricity_per_mwh.values.mean()) / 1000.0, cluster.tariff.currency
        )
        power_w = float(columns.peak_w[row] + columns.base_w[row])
        return max(0.0, power_w / 1000.0 * cluster.pue * per_kwh)

    def _append(self, cluster: Cluster, group: NodeGroup) -> int:
        row = len(self.names)
        site = Site(cluster.id, group.name)
        self.names.append(site)
        self.groups.append(group)
        self.rows[site] = row
        for template, counts in self.slices.items():
            self.slices[template] = np.append(counts, -1)
        columns = self.columns
        for name in SiteColumns.__slots__:
            column = getattr(columns, name)
            blank = np.zeros((1, *column.shape[1:]), dtype=column.dtype)
            setattr(columns, name, np.concatenate((column, blank)))
        columns.fill[row] = self.expected_fill
        columns.by_free[row] = -1
        return row

    def _describe(self, row: int, cluster: Cluster, group: NodeGroup) -> None:
        """Fill in what the cluster's own description says of a site."""
        profile = device_profile(group.profile)
        kind = (profile, group.mode)
        if kind not in self.kinds:
            self.kinds.append(kind)
        columns = self.columns
        changed = self.groups[row] != group
        self.groups[row] = group
        columns.cluster[row] = self.cluster_rows[cluster.id]
        columns.kind[row] = self.kinds.index(kind)
        columns.up[row] = True
        columns.node_devices[row] = group.devices
        columns.node_cpus[row] = group.cpu_milli / 1000.0
        columns.node_host_gib[row] = group.host_memory_bytes / GIB
        columns.link_domain[row] = group.link_domain
        columns.owned[row] = cluster.owned(group.profile)
        price = cluster.tariff.device_hour.get(group.profile, 0.0)
        columns.rent[row] = self.fleet.rates.to_base(price, cluster.tariff.currency)
        columns.calendar[row] = [
            cluster.tariff.factor(hour * HOUR_NS) for hour in range(HOURS_A_WEEK)
        ]
        columns.pue[row] = cluster.pue
        columns.base_w[row] = group.base_power_w / max(1, group.devices)
        columns.idle_w[row] = profile.power_w(0.0)
        columns.peak_w[row] = profile.power_w(1.0)
        first = columns.nodes[row] == 0
        self._total(row, group.count)
        if first or changed:
            columns.nodes[row] = group.count
            columns.free[row] = columns.total[row]
            columns.largest_free[row] = group.devices
            columns.grew[row] += 1

    def _total(self, row: int, nodes: int) -> None:
        group = self.groups[row]
        devices = nodes * group.devices
        memory = device_profile(group.profile).memory_bytes
        self.columns.total[row] = (
            devices,
            devices * memory / GIB,
            devices,
            nodes * group.cpu_milli / 1000.0,
            nodes * group.host_memory_bytes / GIB,
        )
