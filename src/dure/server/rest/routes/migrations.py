"""Migrations of jobs: asked for, weighed beforehand, looked at, called off."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import ConfigDict
from starlette.responses import Response

from dure.api.base import Document
from dure.api.migrations import (
    CheckpointDone,
    MigrationDocument,
    MigrationList,
    MigrationPreview,
    MigrationRequest,
    MoveTerm,
)
from dure.domain.fleet.lifecycle import AttemptState, ClusterState, JobPhase
from dure.domain.fleet.migrations import MoveKind, MoveStep
from dure.domain.fleet.windows import any_open, windows_of
from dure.domain.ids import TenantId
from dure.fleet.asked_moves import Weighed
from dure.server import specs
from dure.server.hints import EVENTS
from dure.server.planner.deeds import ASKED
from dure.server.rest.door import Call, Reader, Speaks, Writer, answer, route
from dure.server.rest.migration_views import migration_document
from dure.server.rest.problems import RefusedError, not_found, wrong
from dure.server.rest.routes.jobs import JobId, visible_job
from dure.stores.ids import new_id
from dure.stores.rows import Attempt, Job, Migration, NewEvent
from dure.stores.transaction import Transaction

router = APIRouter(tags=["migrations"])
_PATH = "/v1/jobs/{id}/migration"
_STEPS = {
    MoveKind.WARM: [
        MoveStep.WARMING,
        MoveStep.SHIFTING,
        MoveStep.DRAINING,
        MoveStep.RELEASING,
        MoveStep.DONE,
    ],
    MoveKind.CHECKPOINT: [
        MoveStep.SAVING,
        MoveStep.RELEASING,
        MoveStep.RESUMING,
        MoveStep.DONE,
    ],
    MoveKind.REQUEUE: [MoveStep.RELEASING, MoveStep.RESUMING, MoveStep.DONE],
}


class MigrateQuery(Document):
    """How a migration is asked for."""

    model_config = ConfigDict(strict=False)

    dry_run: bool = False
    """Only say what it would come to; nothing is begun."""


@route(router, "POST", _PATH, Speaks(MigrationRequest, MigrationDocument, status=202))
async def migrate_job(
    call: Writer,
    id: JobId,  # noqa: A002 - the interface's word
    query: Annotated[MigrateQuery, Query()],
) -> Response:
    """Bring a job to another cluster; with `dryRun`, a preview of it is answered with status 200.

    Asked again for the same place while it is under way it is the same migration.
    """
    wanted = await call.document(MigrationRequest)
    if query.dry_run:
        return answer(await _preview(call, id, wanted), 200)
    async with call.desk.changing() as change:
        tx = change.tx
        job = await visible_job(tx, call, id)
        await tx.jobs.lock([id])
        under_way = await tx.migrations.unfinished([id])
        if under_way and wanted.to in (None, under_way[0].new_cluster):
            return answer(migration_document(under_way[0]), 202)
        if under_way:
            raise RefusedError(
                409,
                "in-use",
                f"job {id} is on its way to {under_way[0].new_cluster or 'another cluster'}; "
                f"wait for its end, or call it off: dure migrate {id} --abort",
            )
        why_not = await _hindrance(tx, job, wanted, change.now_ns)
        if why_not:
            raise RefusedError(409, "not-now", why_not)
        there = await tx.attempts.unfinished_of([id])
        row = _asked(job, there, wanted, call.caller.actor, change.now_ns)
        await tx.migrations.add(row)
        data = {"id": row.id, "to": row.new_cluster}
        event = NewEvent(ASKED, id, job.tenant, data)
        await change.note(call.caller, event, "job.migrate", id, **data)
    call.desk.services.bus.publish(EVENTS)
    return answer(migration_document(row), 202)


@route(router, "GET", _PATH, Speaks(gives=MigrationDocument))
async def get_migration(call: Reader, id: JobId) -> Response:  # noqa: A002 - the interface's word
    """Show the last migration of a job, under way or over."""
    async with call.desk.services.state.reading() as tx:
        await visible_job(tx, call, id)
        row = await tx.migrations.latest(id)
    if row is None:
        raise not_found("migration of job", id)
    return answer(migration_document(row))


@route(router, "DELETE", _PATH, Speaks(gives=MigrationDocument, status=202))
async def abort_migration(call: Writer, id: JobId) -> Response:  # noqa: A002 - the interface's word
    """Call a migration off: the job stays where it is. Refused once its old place is told to end,
    and while its cluster is drained."""
    async with call.desk.changing() as change:
        tx = change.tx
        job = await visible_job(tx, call, id)
        row = await _under_way(tx, id)
        old = await tx.clusters.find(row.old_cluster)
        if row.stop_anyway and old is not None and old.state is ClusterState.DRAINING:
            raise RefusedError(
                409,
                "not-now",
                f"cluster {row.old_cluster} is drained, so that job {id} cannot stay; "
                f"dure clusters uncordon {row.old_cluster}, then call it off",
            )
        if not await tx.migrations.abort(row, call.caller.actor):
            raise RefusedError(
                409,
                "too-late",
                f"the old place of job {id} was told to end (step {row.step.value}); wait until "
                f"it is done, then bring it back: dure migrate {id} --to {row.old_cluster}",
            )
        event = NewEvent(ASKED, id, job.tenant, {"id": row.id, "abort": True})
        await change.note(call.caller, event, "job.migrate.abort", id, id=row.id)
        row = await tx.migrations.get(row.id)
    call.desk.services.bus.publish(EVENTS)
    return answer(migration_document(row), 202)


@route(router, "POST", "/v1/jobs/{id}/checkpoint", Speaks(CheckpointDone, MigrationDocument))
async def checkpoint_done(call: Writer, id: JobId) -> Response:  # noqa: A002 - the interface's word
    """Say, for a job's program, that it has saved what a migration asked it to save."""
    number = (await call.document(CheckpointDone)).number
    async with call.desk.changing() as change:
        tx = change.tx
        job = await visible_job(tx, call, id)
        row = await _under_way(tx, id)
        if number != row.request:
            raise wrong(
                "number",
                f"is {number}, and checkpoint {row.request} was asked for",
                "say the number that the program found",
                status=409,
                kind="outdated",
            )
        await tx.migrations.acknowledge(row, number)
        event = NewEvent(ASKED, id, job.tenant, {"id": row.id, "saved": number})
        await change.note(call.caller, event, "job.checkpoint", id, number=number)
        row = await tx.migrations.get(row.id)
    call.desk.services.bus.publish(EVENTS)
    return answer(migration_document(row))


@route(router, "GET", "/v1/migrations", Speaks(gives=MigrationList))
async def list_migrations(call: Reader) -> Response:
    """List the migrations that have not ended, of all jobs that the asker may see."""
    async with call.desk.services.state.reading() as tx:
        rows = await tx.migrations.unfinished()
        jobs = {job.id: job for job in await tx.jobs.many({row.job_id for row in rows})}
    seen = [row for row in rows if row.job_id in jobs and call.caller.sees_job(jobs[row.job_id])]
    return answer(MigrationList(items=[migration_document(row) for row in seen]))


async def _under_way(tx: Transaction, job_id: str) -> Migration:
    found = await tx.migrations.unfinished([job_id])
    if not found:
        raise not_found("migration under way of job", job_id)
    return found[0]


def _asked(
    job: Job, there: Iterable[Attempt], wanted: MigrationRequest, who: str, now_ns: int
) -> Migration:
    runs = [each for each in there if each.state is AttemptState.RUNNING]
    return Migration(
        id=new_id(),
        job_id=job.id,
        kind=specs.move_kind(job),
        step=MoveStep.ASKED,
        since_ns=now_ns,
        old_attempt=runs[-1].attempt if runs else job.attempt,
        old_cluster=runs[-1].cluster if runs else job.cluster or "",
        new_cluster=wanted.to or "",
        asked_by=who,
        why=f"{who} asked for it",
        begun_ns=now_ns,
    )


async def _hindrance(tx: Transaction, job: Job, wanted: MigrationRequest, now_ns: int) -> str:
    """Why a job cannot be moved now, and what to do; empty: it can."""
    if job.phase is not JobPhase.RUNNING:
        return f"job {job.id} is {job.phase.value}; only a job that runs can be moved"
    if job.pinned:
        return f"job {job.id} is pinned; unpin it first: dure unpin {job.id}"
    if wanted.to is not None and (why := await _no_target(tx, job, wanted.to)):
        return f"{why}; name another one"
    closed = "" if wanted.now else await _closed(tx, job, wanted, now_ns)
    return f"no window of {closed} is open now; wait for one, or say --now" if closed else ""


async def _no_target(tx: Transaction, job: Job, name: str) -> str:
    """Why a cluster cannot be where a job goes; empty: it can."""
    target = await tx.clusters.find(name)
    if target is None:
        raise not_found("cluster", name)
    if target.name == job.cluster:
        return f"job {job.id} is in cluster {name} already"
    joined = target.state is ClusterState.JOINED
    return "" if joined else f"cluster {name} is {target.state.value}"


async def _closed(tx: Transaction, job: Job, wanted: MigrationRequest, now_ns: int) -> str:
    """Whose windows are all closed; empty: nobody's."""
    if not any_open(specs.job_terms(job).windows, now_ns):
        return f"job {job.id}"
    tenants = specs.tenant_windows([await tx.tenants.get(job.tenant)])
    if not any_open(tenants.get(TenantId(job.tenant), ()), now_ns):
        return f"tenant {job.tenant}"
    for name in (job.cluster, wanted.to):
        row = None if name is None else await tx.clusters.find(name)
        if row is not None and not any_open(windows_of(specs.cluster_spec(row).windows), now_ns):
            return f"cluster {name}"
    return ""


async def _preview(call: Call, job_id: str, wanted: MigrationRequest) -> MigrationPreview:
    now_ns = call.desk.services.now_ns()
    async with call.desk.services.state.reading() as tx:
        job = await visible_job(tx, call, job_id)
        hindrance = await _hindrance(tx, job, wanted, now_ns)
        closed = await _closed(tx, job, wanted, now_ns)
    found = await call.desk.whatif.weigh_move(job_id, wanted.to)
    if isinstance(found, str):
        raise RefusedError(409, "not-now", f"job {job_id} cannot be moved: {found}")
    return _preview_of(job, found, in_window=not closed, hindrance=hindrance)


def _preview_of(job: Job, found: Weighed, *, in_window: bool, hindrance: str) -> MigrationPreview:
    terms, move = specs.job_terms(job), found.candidate
    saves = found.kind is MoveKind.CHECKPOINT
    return MigrationPreview(
        job=job.id,
        kind=found.kind,
        from_site=str(found.source),
        to_site=str(found.target),
        steps=_STEPS[found.kind],
        pause_seconds=3600.0 * found.pause_h,
        checkpoint_wait_seconds=terms.checkpoint_wait_s if saves else None,
        egress=move.transfer,
        stay=move.stay,
        terms=[MoveTerm(name=name, amount=amount) for name, amount in move.terms],
        saving=move.saving,
        carbon_saved_g=found.grant.carbon_saved_g,
        in_window=in_window,
        hindrance=hindrance,
    )
