"""Nodes whose devices shall be divided anew: asked for by an admin, carried out by the member."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from dure.api.base import LowerName, maybe_moment, moment_text
from dure.api.clusters import NodeName, PartitionDocument, PartitionRequest
from dure.domain.fleet.lifecycle import PartitionPhase
from dure.server.hints import DESIRED
from dure.server.links.partitions import CHANGED
from dure.server.records import heard_of
from dure.server.rest.door import Admin, Speaks, answer, route
from dure.server.rest.problems import RefusedError, not_found
from dure.stores.rows import NewEvent, Partition
from dure.stores.transaction import Transaction

router = APIRouter(prefix="/v1/clusters", tags=["clusters"])
ClusterName = Annotated[LowerName, Path()]
NodePath = Annotated[NodeName, Path()]
_PATH = "/{name}/nodes/{node}/partition"


@route(router, "POST", _PATH, Speaks(PartitionRequest, PartitionDocument, status=202))
async def partition_node(call: Admin, name: ClusterName, node: NodePath) -> Response:
    """Have a node's devices divided anew; refused by its cluster while anything uses them, unless
    that is to be moved first.

    Asked again while it is under way it is the same wish.
    """
    asked = await call.document(PartitionRequest)
    layout = asked.layout
    async with call.desk.changing() as change:
        tx = change.tx
        await _check_node(tx, name, node)
        # The row of the cluster is locked from here on, so that there is one wish at a time.
        number = await tx.clusters.next_revision(name, surroundings=True)
        wish = await tx.partitions.find(name, node)
        if wish is not None and not wish.phase.ended and wish.layout != layout:
            raise RefusedError(
                409,
                "in-use",
                f"node {node} is being divided as {wish.layout}; wait for its end, or withdraw it",
            )
        if wish is None or wish.phase.ended:
            wish = await tx.partitions.ask(
                Partition(name, node, layout, number, asked.drain, asked_ns=change.now_ns)
            )
            data = {"node": node, "layout": layout, "phase": wish.phase.value}
            event = NewEvent(CHANGED, name, data=data)
            await change.note(call.caller, event, "cluster.partition", name, **data)
    call.desk.services.bus.publish(DESIRED, name.encode())
    return answer(partition_document(wish), 202)


@route(router, "DELETE", _PATH, Speaks(status=204))
async def withdraw_partition(call: Admin, name: ClusterName, node: NodePath) -> Response:
    """Withdraw such a wish: the node is used again as it is; its manager may be at work still."""
    async with call.desk.changing() as change:
        tx = change.tx
        if await tx.clusters.find(name) is None:
            raise not_found("cluster", name)
        await tx.clusters.next_revision(name, surroundings=True)
        wish = await tx.partitions.find(name, node)
        if wish is None or wish.phase.ended:
            raise not_found("unfinished partition of node", node)
        await tx.partitions.become(wish, PartitionPhase.FAILED, "withdrawn")
        data = {"node": node, "layout": wish.layout, "phase": PartitionPhase.FAILED.value}
        event = NewEvent(CHANGED, name, data=data | {"reason": "withdrawn"})
        await change.note(call.caller, event, "cluster.partition.withdraw", name, node=node)
    call.desk.services.bus.publish(DESIRED, name.encode())
    return Response(status_code=204)


async def _check_node(tx: Transaction, name: str, node: str) -> None:
    if await tx.clusters.find(name) is None:
        raise not_found("cluster", name)
    inventory = heard_of(await tx.news.find(name)).inventory
    if inventory is None or node not in {each.name for each in inventory.nodes}:
        raise not_found(f"node of cluster {name} with devices called", node)


def partition_document(row: Partition) -> PartitionDocument:
    """A wish, and what has become of it."""
    return PartitionDocument(
        node=row.node,
        layout=row.layout,
        drain=row.drain,
        phase=row.phase,
        reason=row.reason,
        asked_at=moment_text(row.asked_ns),
        ended_at=maybe_moment(row.ended_ns),
    )
