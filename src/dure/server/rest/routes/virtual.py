"""Virtual clusters: declared by an admin, seen by their tenants, with their nodes and access."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated

import httpx
from fastapi import APIRouter, Path, Query
from pydantic import ConfigDict
from starlette.responses import Response

from dure.api.base import Document, LowerName, maybe_moment, moment_text, stored
from dure.api.history import Page
from dure.api.virtual import (
    IssuedAccess,
    KubeconfigRequest,
    SpaceDocument,
    VirtualClusterDocument,
    VirtualClusterSpec,
    VirtualNodes,
    VirtualStanding,
)
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.virtual import FEATURE, SpacePhase, VirtualTier
from dure.domain.ids import ClusterId
from dure.domain.units import NS_PER_S
from dure.server.edits import cancel
from dure.server.hints import DESIRED
from dure.server.ports import NotLinkedHere
from dure.server.records import heard_of
from dure.server.rest.desk import Change
from dure.server.rest.door import Admin, Call, Reader, Speaks, Writer, answer, route
from dure.server.rest.named import Named, Part, part_of
from dure.server.rest.problems import RefusedError, not_found, wrong
from dure.server.rest.revisions import IF_MATCH, IF_NONE_MATCH, may_overwrite, stamped
from dure.server.rest.streams import MEDIA, Said, pause, streamed, undisturbed
from dure.server.virtual.checking import check_change, check_virtual
from dure.server.virtual.nodes import node_of, read_nodes
from dure.server.virtual.spaces import CHANGED, ask_all, finish, hindrance
from dure.server.virtual.specs import path_of, virtual_spec
from dure.stores.repos.jobs import JobFilter
from dure.stores.rows import NewEvent, VirtualCluster, VirtualSpace
from dure.stores.transaction import Transaction

router = APIRouter(prefix="/v1/virtualclusters", tags=["virtual clusters"])
VirtualName = Annotated[LowerName, Path()]
LABEL = "dure.io/virtual-cluster"
"""Of jobs that come from a dedicated virtual cluster."""
_NOUN = "virtual cluster"
_ALIVE_NS = 30 * NS_PER_S
"""A process that said nothing for so long is taken for dead."""
_LOOK_S = 1.0
_FORWARDED = "Dure-Forwarded"
_FORWARD_S = 40.0
_LIVE = frozenset(phase for phase in JobPhase if not phase.ended)


class RemoveQuery(Document):
    """How it is removed."""

    model_config = ConfigDict(strict=False)

    force: bool = False
    """Whether Pods that run there are no reason to refuse: they end."""


@route(router, "GET", "", Speaks(gives=Page[VirtualClusterDocument]))
async def list_virtual_clusters(call: Reader, query: Part) -> Response:
    """List the virtual clusters of the tenants that the asker may see."""
    async with call.desk.services.state.reading() as tx:
        rows = [row for row in await tx.virtual.all() if call.caller.sees(path_of(row))]
        part, more = part_of(rows, lambda row: row.name, query)
        items = [await _document(tx, call, row) for row in part]
    return answer(Page[VirtualClusterDocument](items=items, cursor=more))


@route(router, "GET", "/{name}", Speaks(gives=VirtualClusterDocument))
async def get_virtual_cluster(call: Reader, name: VirtualName) -> Response:
    """Show one virtual cluster."""
    async with call.desk.services.state.reading() as tx:
        row = await _visible(tx, call, name)
        found = await _document(tx, call, row)
    return stamped(answer(found), row.revision)


@route(
    router,
    "PUT",
    "/{name}",
    Speaks(
        VirtualClusterSpec,
        VirtualClusterDocument,
        also=(201,),
        headers=(IF_MATCH, IF_NONE_MATCH),
    ),
)
async def put_virtual_cluster(call: Admin, name: VirtualName) -> Response:
    """Create or change a virtual cluster; its tenant and tier stay what they are."""
    document = await call.document(VirtualClusterSpec)
    spec = stored(document)
    tenant, _ = str(spec.pop("tenant")), spec.pop("tier")

    def made(before: VirtualCluster | None) -> VirtualCluster:
        if before is None:
            return VirtualCluster(name, tenant, document.tier, spec)
        if IF_NONE_MATCH.lower() not in call.request.headers:
            check_change(before, document)
        return replace(before, spec=spec)

    async with call.desk.changing() as change:
        tx = change.tx
        await check_virtual(tx, name, document)
        row, new, changed = await Named(tx.virtual, _NOUN).put(call, (name,), made)
        if changed:
            await _tell(call, change, row, "virtual.put", spec=spec)
        found = await _document(tx, call, row)
    return stamped(answer(found, 201 if new else 200), row.revision)


@route(
    router,
    "DELETE",
    "/{name}",
    Speaks(gives=VirtualClusterDocument, status=202, headers=(IF_MATCH,)),
)
async def delete_virtual_cluster(
    call: Admin, name: VirtualName, query: Annotated[RemoveQuery, Query()]
) -> Response:
    """Remove a virtual cluster: it is gone once each of its clusters says that nothing is left.

    Refused while Pods run in it, unless forced.
    """
    async with call.desk.changing() as change:
        tx = change.tx
        row = await tx.virtual.find(name)
        if row is None:
            raise not_found(_NOUN, name)
        may_overwrite(call.request, _NOUN, name, row.revision)
        why = await _hindrance(tx, row)
        if why and not query.force:
            raise RefusedError(409, "in-use", f"virtual cluster {name} is in use: {why}")
        row = await tx.virtual.put(replace(row, deleting=True, forced=query.force))
        if query.force:
            await _end_jobs(tx, call, row)
        await _tell(call, change, row, "virtual.remove", force=query.force)
        found = await _document(tx, call, row)
        await finish(tx, row)
    return answer(found, 202)


async def _hindrance(tx: Transaction, row: VirtualCluster) -> str:
    if row.tier is VirtualTier.SCOPED:
        return hindrance(await tx.spaces.all(name=row.name))
    count = len(await _jobs(tx, row.name))
    if not count:
        return ""
    return f"{count} jobs of its Pods have not ended; delete its Pods, or remove it with force"


async def _jobs(tx: Transaction, name: str) -> list[str]:
    wanted = JobFilter(labels={LABEL: name}, phases=_LIVE)
    found, cursor = [], ""
    while True:
        page = await tx.jobs.page(wanted, cursor=cursor, limit=1000)
        found += [job.id for job in page.rows]
        cursor = page.cursor
        if not cursor:
            return found


async def _end_jobs(tx: Transaction, call: Call, row: VirtualCluster) -> None:
    if row.tier is not VirtualTier.DEDICATED:
        return
    for job in await _jobs(tx, row.name):
        event = await cancel(tx, job, call.caller.actor)
        if event is not None:
            tx.events.add(event)


async def _tell(
    call: Call, change: Change, row: VirtualCluster, action: str, **data: object
) -> None:
    """Let its clusters and all who follow hear of a change."""
    told = await ask_all(change.tx, row)
    event = NewEvent(CHANGED, row.name, row.tenant)
    await change.note(call.caller, event, action, row.name, **data)
    for cluster in told:
        call.desk.services.bus.publish(DESIRED, cluster.encode())


# --- dedicated ones --------------------------------------------------------------------------


@route(router, "GET", "/{name}/nodes", Speaks(gives=VirtualNodes))
async def list_virtual_nodes(call: Reader, name: VirtualName) -> Response:
    """Show the nodes of a dedicated virtual cluster: its pools, with what is there of them now."""
    return answer(await _nodes(call, name))


@route(router, "GET", "/{name}/nodes/watch", Speaks(media=MEDIA))
async def watch_virtual_nodes(call: Reader, name: VirtualName) -> Response:
    """Stream the nodes as server-sent events `nodes`, now and at each change."""
    await _nodes(call, name)
    return streamed(call.desk, _changes(call, name))


async def _changes(call: Call, name: str) -> AsyncIterator[Said]:
    before = ""
    while True:
        try:
            text = (await undisturbed(_nodes(call, name))).model_dump_json()
        except RefusedError:
            yield Said("gone", "{}")
            return
        if text != before:
            before = text
            yield Said("nodes", text)
        await asyncio.gather(pause(call.desk), asyncio.sleep(_LOOK_S))


async def _nodes(call: Call, name: str) -> VirtualNodes:
    services = call.desk.services
    silent_ns = round(services.settings.lost_after_s * NS_PER_S)
    async with services.state.reading() as tx:
        row = await _visible(tx, call, name)
        if row.tier is not VirtualTier.DEDICATED:
            raise wrong("name", f"'{name}' is scoped: it has no nodes", "name a dedicated one")
        if row.deleting:
            raise not_found(_NOUN, name)
        reading = await read_nodes(tx, await tx.database_now_ns() - silent_ns)
    spec = virtual_spec(row)
    nodes = [node for pool in spec.pools if (node := node_of(reading, pool)) is not None]
    return VirtualNodes(name=name, tenant=row.tenant, team=spec.team or "", nodes=nodes)


@route(router, "PUT", "/{name}/standing", Speaks(VirtualStanding, VirtualClusterDocument))
async def put_virtual_standing(call: Writer, name: VirtualName) -> Response:
    """Say how a dedicated virtual cluster is; its own process does."""
    standing = await call.document(VirtualStanding)
    async with call.desk.services.state.transaction() as tx:
        row = await _visible(tx, call, name)
        if row.tier is not VirtualTier.DEDICATED:
            raise wrong("name", f"'{name}' is scoped: it has no process", "name a dedicated one")
        plain = stored(standing)
        await tx.virtual.say(name, plain)
        if row.standing.get("phase") != standing.phase:
            tx.events.add(NewEvent(CHANGED, name, row.tenant, {"phase": standing.phase}))
        row = await tx.virtual.get(name)
        found = await _document(tx, call, row)
    return stamped(answer(found), row.revision)


# --- scoped ones -----------------------------------------------------------------------------


@route(router, "POST", "/{name}/access", Speaks(KubeconfigRequest, IssuedAccess))
async def issue_virtual_access(call: Writer, name: VirtualName) -> Response:
    """A token for the namespace of a scoped virtual cluster in one of its clusters."""
    wanted = await call.document(KubeconfigRequest)
    async with call.desk.services.state.reading() as tx:
        row = await _visible(tx, call, name)
        if row.tier is not VirtualTier.SCOPED:
            raise wrong("name", f"'{name}' is dedicated", "use its own address: dure vcluster show")
        space = await tx.spaces.find(name, wanted.cluster)
        news = await tx.news.find(wanted.cluster) if space is not None else None
    _check_space(name, wanted.cluster, space)
    inventory = heard_of(news).inventory
    if inventory is None or FEATURE not in inventory.features:
        raise RefusedError(
            409,
            "not-able",
            f"the member of cluster {wanted.cluster} knows no virtual clusters; upgrade it",
        )
    source = call.desk.services.access
    try:
        if source is None:
            raise NotLinkedHere(wanted.cluster, "")
        found = await source.access(ClusterId(wanted.cluster), name, wanted.hours * 3600)
    except NotLinkedHere as elsewhere:
        return await _elsewhere(call, wanted, elsewhere)
    async with call.desk.changing() as change:
        await change.note(
            call.caller, None, "virtual.access", name, cluster=wanted.cluster, hours=wanted.hours
        )
    return answer(
        IssuedAccess(
            url=found.url,
            authority=found.authority,
            token=found.token,
            namespace=found.namespace,
        )
    )


def _check_space(name: str, cluster: str, space: VirtualSpace | None) -> None:
    if space is None:
        raise wrong("cluster", f"virtual cluster '{name}' is not in '{cluster}'", "name another")
    if space.phase is not SpacePhase.READY:
        raise RefusedError(
            409,
            "not-ready",
            f"virtual cluster {name} is {space.phase.value} in cluster {cluster}"
            f"{': ' + space.reason if space.reason else ''}; wait, or see dure vcluster show",
        )


async def _elsewhere(call: Call, wanted: KubeconfigRequest, where: NotLinkedHere) -> Response:
    """The same from the server that has the link, as the same asker."""
    refusal = RefusedError(
        503, "not-linked", f"{where.what}; {where.remedy}", headers={"Retry-After": "5"}
    )
    if not where.url or _FORWARDED.lower() in call.request.headers:
        raise refusal
    async with httpx.AsyncClient(base_url=where.url, timeout=_FORWARD_S) as client:
        try:
            said = await client.post(
                call.request.url.path,
                content=wanted.model_dump_json(),
                headers={
                    "Authorization": call.request.headers["authorization"],
                    "Content-Type": "application/json",
                    _FORWARDED: "1",
                },
            )
        except httpx.HTTPError as error:
            raise refusal from error
    return Response(said.content, said.status_code, media_type=said.headers.get("content-type"))


# --- all of them -----------------------------------------------------------------------------


async def _visible(tx: Transaction, call: Call, name: str) -> VirtualCluster:
    row = await tx.virtual.find(name)
    if row is None or not call.caller.sees(path_of(row)):
        raise not_found(_NOUN, name)
    return row


async def _document(tx: Transaction, call: Call, row: VirtualCluster) -> VirtualClusterDocument:
    now_ns = call.desk.services.now_ns()
    return VirtualClusterDocument(
        name=row.name,
        spec=virtual_spec(row),
        deleting=row.deleting,
        spaces=[
            SpaceDocument(
                cluster=space.cluster,
                namespace=space.namespace,
                phase=space.phase,
                reason=space.reason,
                pods=space.pods,
            )
            for space in await tx.spaces.all(name=row.name)
        ],
        standing=VirtualStanding.model_validate(dict(row.standing)) if row.standing else None,
        said_at=maybe_moment(row.said_ns),
        alive=row.said_ns is not None
        and now_ns - row.said_ns < _ALIVE_NS
        and row.standing.get("phase") != "ended",
        revision=row.revision,
        created_at=moment_text(row.created_ns),
    )
