"""Stored virtual clusters as values: what members are told of them, and where they are."""

from collections.abc import Iterable, Mapping

from dure.api.clusters import ClusterKind
from dure.api.virtual import VirtualClusterSpec
from dure.domain.fleet.virtual import VirtualCluster, VirtualTier
from dure.domain.ids import PoolId, TenantId
from dure.server.specs.clusters import cluster_spec, namespace_of
from dure.server.specs.reading import read_spec
from dure.stores import rows


def virtual_spec(row: rows.VirtualCluster) -> VirtualClusterSpec:
    """What an operator said of a virtual cluster."""
    plain = dict(row.spec) | {"tenant": row.tenant, "tier": row.tier}
    return read_spec(VirtualClusterSpec, plain, f"virtual cluster {row.name}")


def path_of(row: rows.VirtualCluster) -> str:
    """Whose it is, as a node of the tenants' tree."""
    team = row.spec.get("team")
    return f"{row.tenant}/{team}" if team else row.tenant


def is_in(row: rows.VirtualCluster, cluster: rows.Cluster) -> bool:
    """Whether a scoped virtual cluster has a namespace in a cluster."""
    if row.tier is not VirtualTier.SCOPED:
        return False
    if cluster_spec(cluster).kind is not ClusterKind.KUBERNETES:
        return False
    named = row.spec.get("clusters")
    return named is None or cluster.name in named


def told_to(
    row: rows.VirtualCluster, cluster: rows.Cluster, pools: Mapping[str, rows.Pool], *, known: bool
) -> VirtualCluster | None:
    """What a member is told of a virtual cluster; None: it has no part there.

    `known`: it has, or had, a namespace there, which goes where it shall have none any more.
    """
    spec = virtual_spec(row)
    scoped = row.tier is VirtualTier.SCOPED
    here_still = is_in(row, cluster)
    if scoped and not here_still and not known:
        return None
    nodes = [name for name in spec.pools if _may_be(pools.get(name), cluster.name)]
    if not scoped and not nodes:
        return None
    return VirtualCluster(
        name=row.name,
        tenant=TenantId(row.tenant),
        tier=row.tier,
        number=row.revision,
        namespace=namespace_of(cluster_spec(cluster), row.tenant) if scoped else "",
        pools=tuple(PoolId(name) for name in nodes),
        quota=spec.quota,
        defaults=spec.defaults if scoped else {},
        isolated=spec.isolated,
        leaving=row.deleting or (scoped and not here_still),
        forced=row.forced,
    )


def _may_be(pool: rows.Pool | None, cluster: str) -> bool:
    if pool is None:
        return False
    named = pool.spec.get("clusters")
    return named is None or cluster in named


def virtual_by_cluster(
    virtual: Iterable[rows.VirtualCluster],
    clusters: Iterable[rows.Cluster],
    pools: Iterable[rows.Pool],
    spaces: Iterable[rows.VirtualSpace],
) -> dict[str, tuple[VirtualCluster, ...]]:
    """What each member is told, by cluster."""
    by_name, all_of_them = {pool.name: pool for pool in pools}, list(virtual)
    known = {(space.name, space.cluster) for space in spaces}
    found: dict[str, tuple[VirtualCluster, ...]] = {}
    for cluster in clusters if all_of_them else ():
        told = [
            told_to(row, cluster, by_name, known=(row.name, cluster.name) in known)
            for row in all_of_them
        ]
        found[cluster.name] = tuple(each for each in told if each is not None)
    return found


def tenant_of_namespace(
    virtual: Iterable[rows.VirtualCluster], cluster: rows.Cluster, namespace: str
) -> str:
    """Whose namespace it is by a scoped virtual cluster; empty: nobody's."""
    for row in virtual:
        if row.deleting or not is_in(row, cluster):
            continue
        if namespace_of(cluster_spec(cluster), row.tenant) == namespace:
            return row.tenant
    return ""
