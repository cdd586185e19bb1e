"""What people declared, read in one go: clusters and their news, tenants, pools, policy."""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from dure.domain.errors import DureError
from dure.domain.fleet.clusters import Cluster, Fleet
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.protocol.desired import Partition, Surroundings
from dure.domain.fleet.series import Series
from dure.domain.fleet.tenancy import FleetTenant, VNodePool
from dure.domain.fleet.virtual import VirtualCluster
from dure.domain.fleet.windows import Window
from dure.domain.ids import TenantId
from dure.domain.units import NS_PER_S
from dure.server import specs
from dure.server.records import Heard, heard_of
from dure.server.virtual.specs import virtual_by_cluster
from dure.stores import rows
from dure.stores.transaction import Transaction

_log = logging.getLogger(__name__)

FEED_PAST_NS = 28 * 86400 * NS_PER_S
"""Of a feed: four weeks, so that forecasts see what weeks look like,"""
FEED_AHEAD_NS = 14 * 86400 * NS_PER_S
"""and all that is published ahead."""


@dataclass(frozen=True)
class Member:
    """A cluster, as declared and as it last said."""

    row: rows.Cluster
    heard: Heard
    cluster: Cluster | None
    """None: it has not said yet what it consists of, or its description cannot be read."""


@dataclass(frozen=True)
class Declared:
    """Everything that decisions rest on beside work."""

    members: Mapping[str, Member]
    tenants: tuple[FleetTenant, ...]
    pools: tuple[VNodePool, ...]
    policy: FleetPolicy
    fleet: Fleet
    partitions: Mapping[str, tuple[Partition, ...]]
    """Wishes whose end is not known, by cluster."""
    tenant_windows: Mapping[TenantId, tuple[Window, ...]]
    """When jobs may be moved by themselves, of tenants that say so,"""
    cluster_windows: Mapping[str, tuple[Window, ...]]
    """and of clusters that do."""
    virtual: Mapping[str, tuple[VirtualCluster, ...]]
    """Virtual clusters that have a part there, by cluster."""

    def surroundings(self, name: str) -> Surroundings | None:
        """What the local stage of a cluster needs to know; None: it is not known well enough."""
        member = self.members[name]
        if member.cluster is None:
            return None
        return Surroundings(
            cluster=member.cluster,
            policy=self.policy,
            tenants=self.tenants,
            pools=self.pools,
            allotments=member.heard.allotments,
            round_trip_ms=self._round_trip_ms(member.cluster),
            partitions=self.partitions.get(name, ()),
            virtual=self.virtual.get(name, ()),
        )

    def _round_trip_ms(self, cluster: Cluster) -> float:
        """From the users of its own region, which are nearest."""
        return self.fleet.latency_ms.get((cluster.region, cluster.id), 0.0)


async def read_declared(tx: Transaction) -> Declared:
    """All of it, as of this transaction."""
    policies = await tx.policies.all()
    clusters = await tx.clusters.all()
    feeds = await _series(tx, clusters)
    news = {each.cluster: each for each in await tx.news.all()}
    fleet = specs.fleet_of(policies, ())
    members = {row.name: _member(row, news.get(row.name), feeds) for row in clusters}
    budgets = await tx.budgets.all()
    pools = await tx.pools.all()
    return Declared(
        members={name: _priced(member, fleet) for name, member in members.items()},
        tenants=specs.tenants_of(await tx.tenants.all(), budgets, tx.now_ns),
        pools=tuple(specs.pool_of(row) for row in pools if row.tenant),
        policy=specs.policy_of(specs.policy_in_force(policies)),
        fleet=fleet,
        partitions=await _partitions(tx),
        tenant_windows=specs.tenant_windows(await tx.tenants.all()),
        cluster_windows=specs.cluster_windows(clusters),
        virtual=virtual_by_cluster(await tx.virtual.all(), clusters, pools, await tx.spaces.all()),
    )


def _priced(member: Member, fleet: Fleet) -> Member:
    """A cluster as it is, or left out where nobody can say what its currency is worth."""
    if member.cluster is None:
        return member
    try:
        fleet.rates.to_base(0.0, member.cluster.tariff.currency)
    except DureError as error:
        _log.warning("cluster %s is left out: %s", member.row.name, error)
        return replace(member, cluster=None)
    return member


async def _partitions(tx: Transaction) -> dict[str, tuple[Partition, ...]]:
    found: dict[str, tuple[Partition, ...]] = {}
    for row in await tx.partitions.all():
        if not row.phase.ended:
            wish = Partition(row.node, row.layout, row.number, row.drain)
            found[row.cluster] = (*found.get(row.cluster, ()), wish)
    return found


async def read_member(tx: Transaction, name: str) -> Member:
    """One cluster."""
    row = await tx.clusters.get(name)
    return _member(row, await tx.news.find(name), await _series(tx, (row,)))


async def _series(tx: Transaction, clusters: Iterable[rows.Cluster]) -> dict[str, Series]:
    """The feeds that these clusters' prices and carbon come from."""
    names: set[str] = set()
    for row in clusters:
        with suppress(DureError):  # told where the cluster itself is read
            names |= specs.feeds_named(specs.cluster_spec(row))
    found: dict[str, Series] = {}
    for name in sorted(names):
        feed = await tx.feeds.find(name)
        if feed is None:
            continue
        points = await tx.feeds.points(
            feed.name, tx.now_ns - FEED_PAST_NS, tx.now_ns + FEED_AHEAD_NS
        )
        series = specs.series_of(feed, points)
        if series is not None:
            found[feed.name] = series
    return found


def _member(
    row: rows.Cluster, news: rows.ClusterNews | None, feeds: Mapping[str, Series]
) -> Member:
    heard = heard_of(news)
    if heard.inventory is None:
        return Member(row, heard, None)
    try:
        return Member(row, heard, specs.cluster_of(row, heard.inventory.groups, feeds))
    except DureError as error:
        _log.warning("cluster %s is left out: %s", row.name, error)
        return Member(row, heard, None)
