"""What speaks against a virtual cluster: unknown names, and pools beyond the hardware."""

from collections.abc import Mapping

from dure.api.clusters import ClusterKind
from dure.api.virtual import VirtualClusterSpec
from dure.domain.fleet.tenancy import VNodePool
from dure.domain.fleet.virtual import VirtualTier
from dure.kit.words import nearest
from dure.server import specs
from dure.server.records import Heard, heard_of
from dure.server.rest.problems import RefusedError, wrong
from dure.server.virtual.nodes import physical_units
from dure.stores.rows import Pool, VirtualCluster
from dure.stores.transaction import Transaction


async def check_virtual(tx: Transaction, name: str, spec: VirtualClusterSpec) -> None:
    """Raise what speaks against it."""
    if await tx.tenants.find(spec.tenant) is None:
        raise wrong("tenant", f"there is no tenant '{spec.tenant}'", "create it first")
    team = f"{spec.tenant}/{spec.team}"
    if spec.team is not None and await tx.tenants.find(team) is None:
        raise wrong("team", f"there is no team '{team}'", "create it first")
    others = [row for row in await tx.virtual.all() if row.name != name]
    if spec.tier is VirtualTier.SCOPED:
        await _check_clusters(tx, spec)
        _check_alone(spec, others)
    else:
        await _check_pools(tx, spec, others)


def check_change(before: VirtualCluster, spec: VirtualClusterSpec) -> None:
    """Raise where something would become of it that it cannot."""
    if before.deleting:
        raise RefusedError(
            409, "in-use", f"virtual cluster {before.name} is being removed; wait until it is gone"
        )
    for field, then, now in (
        ("tenant", before.tenant, spec.tenant),
        ("tier", before.tier, spec.tier),
    ):
        if then != now:
            raise wrong(field, "cannot be changed", "remove the virtual cluster and make it anew")


async def _check_clusters(tx: Transaction, spec: VirtualClusterSpec) -> None:
    known = {row.name: row for row in await tx.clusters.all()}
    for number, name in enumerate(spec.clusters or ()):
        where = f"clusters[{number}]"
        if name not in known:
            raise wrong(where, f"there is no cluster '{name}'", nearest(name, known))
        if specs.cluster_spec(known[name]).kind is not ClusterKind.KUBERNETES:
            raise wrong(where, f"'{name}' is no Kubernetes: it has no namespaces", "leave it out")


def _check_alone(spec: VirtualClusterSpec, others: list[VirtualCluster]) -> None:
    """A tenant has one namespace in a cluster."""
    for row in others:
        if row.tier is not VirtualTier.SCOPED or row.tenant != spec.tenant:
            continue
        named = row.spec.get("clusters")
        shared = spec.clusters is None or named is None or set(named) & set(spec.clusters)
        if shared:
            raise wrong(
                "tenant",
                f"'{spec.tenant}' has the virtual cluster '{row.name}' there already",
                "change that one, or name other clusters",
                status=409,
                kind="duplicate",
            )


async def _check_pools(
    tx: Transaction, spec: VirtualClusterSpec, others: list[VirtualCluster]
) -> None:
    pools = {row.name: row for row in await tx.pools.all() if row.tenant == spec.tenant}
    news = {row.cluster: heard_of(row) for row in await tx.news.all()}
    taken = {pool: row.name for row in others for pool in row.spec.get("pools", ())}
    for number, name in enumerate(spec.pools):
        where = f"pools[{number}]"
        if name not in pools:
            raise wrong(where, f"'{spec.tenant}' has no pool '{name}'", nearest(name, pools))
        if name in taken:
            raise wrong(
                where,
                f"pool '{name}' is a node of virtual cluster '{taken[name]}'",
                "give each virtual cluster pools of its own",
                status=409,
                kind="duplicate",
            )
        _check_capacity(where, specs.pool_of(pools[name]), news)


def _check_capacity(where: str, pool: VNodePool, news: Mapping[str, Heard]) -> None:
    allowed = [
        heard
        for cluster, heard in news.items()
        if pool.clusters is None or cluster in pool.clusters
    ]
    units = physical_units(allowed, pool)
    if pool.guaranteed > units:
        raise wrong(
            where,
            f"pool '{pool.id}' guarantees {pool.guaranteed} units, and the clusters that it may "
            f"use have {units} in all",
            f"lower what it guarantees to {units}, or let more clusters join first",
            status=409,
            kind="over-capacity",
        )


async def check_pool_of_virtual(tx: Transaction, name: str, pool: Pool | None) -> None:
    """Raise where a pool that is a node of a virtual cluster would go or become no node of it."""
    owner = next((row for row in await tx.virtual.all() if name in row.spec.get("pools", ())), None)
    if owner is None:
        return
    if pool is None or pool.tenant != owner.tenant:
        raise RefusedError(
            409,
            "in-use",
            f"pool {name} is a node of virtual cluster {owner.name}; take it out of that first",
        )
    news = {row.cluster: heard_of(row) for row in await tx.news.all()}
    _check_capacity("guaranteed", specs.pool_of(pool), news)
