"""Clusters: declared, cordoned, drained, declared lost, removed; and what is wanted of them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from dure.api.access import IssuedToken
from dure.api.base import LowerName, maybe_moment, moment_text, stored
from dure.api.clusters import (
    ClusterDetails,
    ClusterDocument,
    ClusterSpec,
    DeviceCount,
    NodeDocument,
    PlanDocument,
    PlannedAttempt,
    StateRequest,
    WarningDocument,
)
from dure.api.history import Page
from dure.domain.errors import InputError
from dure.domain.fleet.accounts import Role
from dure.domain.fleet.catalogue import CATALOGUE
from dure.domain.fleet.decisions import SiteSummary
from dure.domain.fleet.lifecycle import ClusterState
from dure.kit.words import nearest
from dure.server.records import heard_of
from dure.server.rest.door import Admin, Call, Reader, Speaks, answer, route
from dure.server.rest.named import Named, Part, part_of
from dure.server.rest.problems import RefusedError, not_found, wrong
from dure.server.rest.revisions import IF_MATCH, IF_NONE_MATCH, may_overwrite, stamped
from dure.server.rest.routes.partitions import partition_document
from dure.server.rest.routes.tokens import issue
from dure.server.specs import cluster_spec, feeds_named, fleet_of
from dure.stores.repos.access import Grant
from dure.stores.rows import Attempt, Cluster, ClusterNews, Job, NewEvent
from dure.stores.transaction import Transaction

router = APIRouter(prefix="/v1/clusters", tags=["clusters"])
ClusterName = Annotated[LowerName, Path()]
CHANGED = "cluster.changed"
_SHOWN_WARNINGS = 20


@route(router, "GET", "", Speaks(gives=Page[ClusterDocument]))
async def list_clusters(call: Reader, query: Part) -> Response:
    """List the clusters of the fleet."""
    async with call.desk.services.state.reading() as tx:
        rows = await tx.clusters.all()
        news = {each.cluster: each for each in await tx.news.all()}
    part, more = part_of(rows, lambda row: row.name, query)
    documents = [_document(call, row, news.get(row.name)) for row in part]
    return answer(Page[ClusterDocument](items=documents, cursor=more))


@route(router, "GET", "/{name}", Speaks(gives=ClusterDetails))
async def get_cluster(call: Reader, name: ClusterName) -> Response:
    """Show one cluster; its nodes and warnings to those who see the whole fleet."""
    async with call.desk.services.state.reading() as tx:
        row, news = await tx.clusters.find(name), await tx.news.find(name)
        if row is None:
            raise not_found("cluster", name)
        details = ClusterDetails(**dict(_document(call, row, news)))
        if call.caller.root is None:
            details = await _detailed(tx, details, news)
    return stamped(answer(details), row.revision)


async def _detailed(
    tx: Transaction, details: ClusterDetails, news: ClusterNews | None
) -> ClusterDetails:
    inventory = heard_of(news).inventory
    nodes = [
        NodeDocument(name=node.name, group=node.group, up=node.up, why=node.why)
        for node in (inventory.nodes if inventory is not None else ())
    ]
    wishes = await tx.partitions.all(cluster=details.name)
    warnings = await tx.events.latest("warning", details.name, _SHOWN_WARNINGS)
    return details.model_copy(
        update={
            "nodes": nodes,
            "partitions": [partition_document(wish) for wish in wishes],
            "warnings": [
                WarningDocument(at=moment_text(each.at_ns), what=str(each.data["what"]))
                for each in warnings
            ],
        }
    )


@route(
    router,
    "PUT",
    "/{name}",
    Speaks(ClusterSpec, ClusterDocument, also=(201,), headers=(IF_MATCH, IF_NONE_MATCH)),
)
async def put_cluster(call: Admin, name: ClusterName) -> Response:
    """Declare a cluster or change what is said of it; its member then joins with a token."""
    document = await call.document(ClusterSpec)
    spec = stored(document)
    _check_profiles(document)

    def made(before: Cluster | None) -> Cluster:
        kind = document.kind.value
        return Cluster(name, kind, spec) if before is None else replace(before, spec=spec)

    async with call.desk.changing() as change:
        await _check_names(change.tx, document)
        before = await change.tx.clusters.find(name)
        if before is not None and before.kind != document.kind.value:
            raise wrong(
                "kind",
                f"cluster {name} is of kind {before.kind}, which cannot be changed",
                "declare another cluster",
            )
        row, new, changed = await Named(change.tx.clusters, "cluster").put(call, (name,), made)
        if changed:
            event = NewEvent(CHANGED, name)
            await change.note(call.caller, event, "cluster.put", name, spec=spec)
        news = await change.tx.news.find(name)
    return stamped(answer(_document(call, row, news), 201 if new else 200), row.revision)


@route(router, "PUT", "/{name}/state", Speaks(StateRequest, ClusterDocument))
async def set_cluster_state(call: Admin, name: ClusterName) -> Response:
    """Cordon a cluster, drain it, declare it lost, or let it have work again."""
    wanted = (await call.document(StateRequest)).state
    async with call.desk.changing() as change:
        row = await change.tx.clusters.find(name)
        if row is None:
            raise not_found("cluster", name)
        if row.state is not wanted:
            row = await change.tx.clusters.put(replace(row, state=wanted))
            event = NewEvent(CHANGED, name, data={"state": wanted.value})
            await change.note(call.caller, event, "cluster.state", name, state=wanted.value)
        news = await change.tx.news.find(name)
    return stamped(answer(_document(call, row, news)), row.revision)


@route(router, "DELETE", "/{name}", Speaks(status=204, headers=(IF_MATCH,)))
async def delete_cluster(call: Admin, name: ClusterName) -> Response:
    """Remove a cluster that nothing ran in; its members' tokens are revoked with it."""
    async with call.desk.changing() as change:
        tx = change.tx
        row = await tx.clusters.find(name)
        if row is None:
            raise not_found("cluster", name)
        may_overwrite(call.request, "cluster", name, row.revision)
        await _refuse_used(tx, row)
        for token in await tx.tokens.all(cluster=name):
            await tx.tokens.revoke(token.id)
            call.desk.gate.tokens.forget(token.id)
        if await tx.news.find(name) is not None:
            await tx.news.remove(name)
        await tx.clusters.remove(name)
        await change.note(call.caller, NewEvent(CHANGED, name), "cluster.remove", name)
    return Response(status_code=204)


@route(router, "POST", "/{name}/tokens", Speaks(gives=IssuedToken, status=201))
async def issue_member_token(call: Admin, name: ClusterName) -> Response:
    """Issue a token for a member of this cluster; its secret is told this once."""
    async with call.desk.changing() as change:
        if await change.tx.clusters.find(name) is None:
            raise not_found("cluster", name)
        grant = Grant(Role.MEMBER, f"member of {name}", cluster=name)
        issued = await issue(call, change, grant)
    return answer(issued, 201)


@route(router, "GET", "/{name}/plan", Speaks(gives=PlanDocument))
async def get_plan(call: Reader, name: ClusterName) -> Response:
    """Show the desired set of a cluster: the attempts of those jobs that the asker may see."""
    async with call.desk.services.state.reading() as tx:
        row = await tx.clusters.find(name)
        if row is None:
            raise not_found("cluster", name)
        attempts = await tx.attempts.unfinished(name)
        jobs = {job.id: job for job in await tx.jobs.many({each.job_id for each in attempts})}
    mine = [each for each in attempts if call.caller.sees_job(jobs[each.job_id])]
    return answer(
        PlanDocument(
            cluster=name,
            desired_epoch=row.desired_epoch,
            desired_revision=row.desired_revision,
            accepted_epoch=row.accepted_epoch,
            accepted_revision=row.accepted_revision,
            attempts=[_planned(each, jobs) for each in mine],
        )
    )


def _planned(attempt: Attempt, jobs: Mapping[str, Job]) -> PlannedAttempt:
    return PlannedAttempt(
        job=attempt.job_id,
        attempt=attempt.attempt,
        tenant=jobs[attempt.job_id].tenant,
        state=attempt.state,
        epoch=attempt.epoch,
        desired_revision=attempt.desired_revision,
        reason=attempt.reason,
        spec=dict(attempt.spec),
    )


async def _refuse_used(tx: Transaction, row: Cluster) -> None:
    unfinished = await tx.attempts.unfinished(row.name)
    if unfinished and row.state is not ClusterState.LOST:
        raise RefusedError(
            409,
            "in-use",
            f"{len(unfinished)} attempts are in cluster {row.name}; drain it first, or declare it "
            "lost",
        )


def _check_profiles(spec: ClusterSpec) -> None:
    for name in spec.tariff.device_hour:
        if name.lower() not in CATALOGUE:
            raise wrong(
                f"tariff.deviceHour.{name}",
                f"'{name}' is not a known accelerator",
                nearest(name, CATALOGUE),
            )


async def _check_names(tx: Transaction, spec: ClusterSpec) -> None:
    known = {feed.name for feed in await tx.feeds.all()}
    for name in feeds_named(spec) - known:
        field = "carbon.feed" if spec.carbon.feed == name else "electricity.feed"
        raise wrong(field, f"there is no feed '{name}'", nearest(name, known))
    rates = fleet_of(await tx.policies.all(), ()).rates
    try:
        rates.to_base(0.0, spec.tariff.currency)
    except InputError as error:
        remedy = "add it to `rates` of the fleet (dure fleet settings) first"
        raise wrong("tariff.currency", error.what, remedy) from error


def _document(call: Call, row: Cluster, news: ClusterNews | None) -> ClusterDocument:
    now_ns = call.desk.services.now_ns()
    silent_ns = None if row.last_contact_ns is None else now_ns - row.last_contact_ns
    spec = cluster_spec(row)
    if call.caller.root is not None:
        own = {name: ns for name, ns in spec.namespaces.items() if name == call.caller.root}
        spec = spec.model_copy(update={"namespaces": own})
    sites = heard_of(news).sites
    lost_after_s = call.desk.services.settings.lost_after_s
    return ClusterDocument(
        name=row.name,
        spec=spec,
        state=row.state,
        connected=silent_ns is not None and silent_ns < lost_after_s * 1e9,
        last_contact_at=maybe_moment(row.last_contact_ns),
        devices=sum(site.devices for site in sites),
        free_devices=sum(site.free_devices for site in sites),
        accelerators=_accelerators(sites),
        desired_revision=row.desired_revision,
        accepted_epoch=row.accepted_epoch,
        accepted_revision=row.accepted_revision,
        revision=row.revision,
        created_at=moment_text(row.created_ns),
    )


def _accelerators(sites: Iterable[SiteSummary]) -> dict[str, DeviceCount]:
    found: dict[str, DeviceCount] = {}
    for site in sites:
        before = found.get(site.profile, DeviceCount(devices=0, free_devices=0))
        found[site.profile] = DeviceCount(
            devices=before.devices + site.devices,
            free_devices=before.free_devices + site.free_devices,
        )
    return found
