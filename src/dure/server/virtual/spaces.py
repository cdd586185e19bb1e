"""Namespaces of scoped virtual clusters: which clusters shall have one, and what they say of it."""

from collections.abc import Iterable
from dataclasses import replace

from dure.domain.fleet.lifecycle import ClusterState
from dure.domain.fleet.virtual import SpacePhase, SpaceStatus, VirtualTier
from dure.server.links.claims import in_one_line
from dure.server.specs.clusters import cluster_spec, namespace_of
from dure.server.virtual.specs import is_in
from dure.stores.rows import Cluster, NewEvent, VirtualCluster, VirtualSpace
from dure.stores.transaction import Transaction

CHANGED = "virtual.changed"
"""Subject: its name."""


async def ask_all(tx: Transaction, row: VirtualCluster) -> list[str]:
    """Let every cluster that has, or shall have, a part of it hear of it anew; which those are."""
    clusters = await tx.clusters.all()
    known = {space.cluster: space for space in await tx.spaces.all(name=row.name)}
    spaces = []
    for cluster in clusters:
        space = known.get(cluster.name)
        if space is None and is_in(row, cluster):
            where = namespace_of(cluster_spec(cluster), row.tenant)
            spaces.append(VirtualSpace(row.name, cluster.name, row.revision, where))
    await tx.spaces.set_all(spaces)
    told = [cluster.name for cluster in clusters]
    for name in told:
        await tx.clusters.next_revision(name, surroundings=True)
    return told


async def take_spaces(tx: Transaction, cluster: str, statuses: Iterable[SpaceStatus]) -> None:
    """Note what a member says; a virtual cluster that shall go, and is gone everywhere, goes."""
    latest = {status.name: status for status in statuses}
    for row in await tx.virtual.all(tier=VirtualTier.SCOPED) if latest else ():
        status = latest.get(row.name)
        if status is None:
            continue
        before = await tx.spaces.find(status.name, cluster)
        if before is None:
            where = namespace_of(cluster_spec(await tx.clusters.get(cluster)), row.tenant)
            before = VirtualSpace(row.name, cluster, status.number, where)
        elif status.number < before.number:
            continue
        said = replace(
            before,
            number=status.number,
            phase=status.phase,
            reason=in_one_line(status.why),
            pods=status.pods,
        )
        if said == await tx.spaces.find(status.name, cluster):
            continue
        if said.phase is SpacePhase.GONE and not row.deleting:
            if not is_in(row, await tx.clusters.get(cluster)):
                await tx.spaces.remove(row.name, cluster)
            continue
        await tx.spaces.set_all([said])
        data = {"cluster": cluster, "phase": said.phase.value, "reason": said.reason}
        tx.events.add(NewEvent(CHANGED, row.name, row.tenant, data))
        if row.deleting:
            await finish(tx, row)


async def finish(tx: Transaction, row: VirtualCluster) -> bool:
    """Remove a virtual cluster that shall go where nothing of it is left; whether it is gone."""
    clusters = {cluster.name: cluster for cluster in await tx.clusters.all()}
    waiting = [
        space
        for space in await tx.spaces.all(name=row.name)
        if not _is_gone(space, row, clusters[space.cluster])
    ]
    if waiting:
        return False
    await tx.virtual.remove(row.name)
    for name in clusters:
        await tx.clusters.next_revision(name, surroundings=True)
    tx.events.add(NewEvent(CHANGED, row.name, row.tenant, {"phase": SpacePhase.GONE.value}))
    return True


def _is_gone(space: VirtualSpace, row: VirtualCluster, cluster: Cluster) -> bool:
    if cluster.state is ClusterState.LOST or not cluster.link_epoch:
        return True  # It will not come back, or never was there.
    return space.phase is SpacePhase.GONE and space.number >= row.revision


def hindrance(spaces: Iterable[VirtualSpace]) -> str:
    """Why a scoped virtual cluster must not go silently; empty: nothing is known of."""
    for space in spaces:
        if space.pods:
            return (
                f"{space.pods} Pods run in namespace {space.namespace} of cluster {space.cluster}; "
                "end them, or remove it with force"
            )
    return ""
