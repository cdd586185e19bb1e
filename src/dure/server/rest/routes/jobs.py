"""Jobs: submitted, listed, shown, cancelled, waited for, watched, explained."""

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import ConfigDict, Field
from starlette.responses import Response

from dure.api.base import Document, Id, LowerName, Name
from dure.api.history import Page
from dure.api.job_views import (
    DryRun,
    JobDocument,
    JobEdit,
    JobExplanation,
    JobSummary,
    SortOrder,
    Submitted,
)
from dure.api.jobs import JobSpec
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.workloads import WorkloadKind
from dure.server.edits import cancel, edit
from dure.server.rest.desk import Desk
from dure.server.rest.door import Call, Reader, Speaks, Writer, answer, parsed, route
from dure.server.rest.migration_views import with_migration, with_step
from dure.server.rest.problems import RefusedError, not_found
from dure.server.rest.revisions import stamped
from dure.server.rest.streams import MEDIA, Said, pause, streamed, undisturbed
from dure.server.rest.submitting import Owner, check, owner_of, submission_of
from dure.server.rest.views import job_document, job_explanation, job_summary
from dure.stores.errors import KeyReusedError, NotFoundError
from dure.stores.repos.jobs import JobFilter
from dure.stores.rows import Attempt, Job, Json, Migration
from dure.stores.submissions import Submission
from dure.stores.transaction import Transaction

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
JobId = Annotated[Id, Path(description="Of the job.")]
_LABEL = r"^[^=\x00]{1,317}=[^\x00]{0,63}$"


class JobQuery(Document):
    """Which jobs are wanted."""

    model_config = ConfigDict(strict=False)

    tenant: LowerName | None = None
    team: LowerName | None = None
    service_name: LowerName | None = None
    name: Name | None = None
    cluster: LowerName | None = None
    array_id: Id | None = None
    phase: Annotated[list[JobPhase], Field(max_length=16)] = Field(default_factory=list)
    label: Annotated[list[Annotated[str, Field(pattern=_LABEL)]], Field(max_length=8)] = Field(
        default_factory=list
    )
    """`KEY=VALUE`; all of them must be there."""
    order: SortOrder = SortOrder.OLDEST
    cursor: Annotated[str, Field(pattern=r"^[0-9a-z]{0,26}$")] = ""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


class SubmitQuery(Document):
    """How a job is submitted."""

    model_config = ConfigDict(strict=False)

    dry_run: bool = False
    """Only check it; nothing is stored."""


class WaitQuery(Document):
    """How long is waited."""

    model_config = ConfigDict(strict=False)

    timeout: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """Seconds."""


@route(
    router,
    "POST",
    "",
    Speaks(JobSpec, Submitted, status=201, headers=("Idempotency-Key",)),
)
async def submit_job(call: Writer, query: Annotated[SubmitQuery, Query()]) -> Response:
    """Submit a job, or an array of them, durably: what is answered is stored."""
    raw = await call.body()
    spec = parsed(JobSpec, raw)
    owner = owner_of(spec, call.caller)
    now_ns = call.desk.services.now_ns()
    submission = submission_of(spec, owner, call.caller, key=call.key, raw=raw, now_ns=now_ns)
    try:
        await _check(call.desk, spec, owner, now_ns)
    except RefusedError:
        given = None if query.dry_run else await _first_answer(call.desk, submission)
        if given is None:
            raise
        return _replayed(given)
    if query.dry_run:
        return answer(DryRun(spec=spec, count=len(submission.jobs)), 200)
    services = call.desk.services
    began_ns = services.now_ns()
    given = await call.desk.known.submit(submission)
    if given is not submission.answer:
        return _replayed(given)
    if services.tracer is not None:
        for job in submission.jobs:
            about = {"dure.job": job.id, "dure.tenant": job.tenant}
            services.tracer.part(job.id, "job.submit", (began_ns, services.now_ns()), **about)
    call.desk.waker.tell()
    return answer(
        Submitted.model_validate(given), 201, Location=f"/v1/jobs/{submission.jobs[0].id}"
    )


def _replayed(given: Json) -> Response:
    return answer(Submitted.model_validate(given), 201, Idempotent_Replayed="true")


async def _first_answer(desk: Desk, submission: Submission) -> Json | None:
    """What was answered to the same submission under the same key, whatever speaks against it by
    now; None: nothing."""
    if submission.claim is None:
        return None
    async with desk.services.state.reading() as tx:
        with suppress(NotFoundError, KeyReusedError):
            return await tx.keys.answer(submission.claim)
    return None


async def _check(desk: Desk, spec: JobSpec, owner: Owner, now_ns: int) -> None:
    """Refuse only by what is read now; accept also by what was read a moment ago."""
    try:
        check(spec, owner, await desk.known.catalogue(), now_ns)
    except RefusedError:
        check(spec, owner, await desk.known.catalogue(fresh=True), now_ns)


@route(router, "GET", "", Speaks(gives=Page[JobSummary]))
async def list_jobs(call: Reader, query: Annotated[JobQuery, Query()]) -> Response:
    """List jobs page by page, in the order of submission or against it."""
    wanted = _scoped(call, query)
    if wanted is None:
        return answer(Page[JobSummary](items=[]))
    async with call.desk.services.state.reading() as tx:
        page = await tx.jobs.page(
            wanted,
            cursor=query.cursor,
            limit=query.limit,
            newest_first=query.order is SortOrder.NEWEST,
        )
        services = [row.id for row in page.rows if row.spec["kind"] == WorkloadKind.SERVING.value]
        attempts: dict[str, list[Attempt]] = {}
        for each in await tx.attempts.unfinished_of(services):
            attempts.setdefault(each.job_id, []).append(each)
        moves = await tx.migrations.unfinished({row.id for row in page.rows})
    moving = {move.job_id: move for move in moves}
    items = [
        with_step(job_summary(row, attempts.get(row.id, ())), moving.get(row.id))
        for row in page.rows
    ]
    return answer(Page[JobSummary](items=items, cursor=page.cursor))


def _scoped(call: Call, query: JobQuery) -> JobFilter | None:
    """What is asked for within what the asker may see; None: nothing of that."""
    bound = [*(call.caller.tenant or "").split("/"), "", ""]
    asked = [query.tenant, query.team, query.service_name]
    if any(mine and want and mine != want for mine, want in zip(bound, asked, strict=False)):
        return None
    tenant, team, service = (want or mine or None for mine, want in zip(bound, asked, strict=False))
    return JobFilter(
        tenant=tenant,
        team=team,
        service=service,
        name=query.name,
        cluster=query.cluster,
        array_id=query.array_id,
        phases=frozenset(query.phase),
        labels={key: value for key, _, value in (each.partition("=") for each in query.label)},
    )


async def visible_job(tx: Transaction, call: Call, job_id: str) -> Job:
    """A job that the asker may see."""
    row = await tx.jobs.find(job_id)
    if row is None or not call.caller.sees_job(row):
        raise not_found("job", job_id)
    return row


async def _read(call: Call, job_id: str) -> tuple[Job, tuple[Attempt, ...], Migration | None]:
    async with call.desk.services.state.reading() as tx:
        return (
            await visible_job(tx, call, job_id),
            await tx.attempts.of_job(job_id),
            await tx.migrations.latest(job_id),
        )


async def _reread(tx: Transaction, job_id: str) -> tuple[Job, JobDocument]:
    row, attempts = await tx.jobs.get(job_id), await tx.attempts.of_job(job_id)
    return row, _document(row, attempts, await tx.migrations.latest(job_id))


def _document(row: Job, attempts: tuple[Attempt, ...], move: Migration | None) -> JobDocument:
    return with_step(with_migration(job_document(row, attempts), move), move)


@route(router, "GET", "/{id}", Speaks(gives=JobDocument))
async def get_job(call: Reader, id: JobId) -> Response:  # noqa: A002 - the interface's word
    """Show a job with its attempts."""
    row, attempts, move = await _read(call, id)
    return stamped(answer(_document(row, attempts, move)), row.revision)


@route(router, "PATCH", "/{id}", Speaks(JobEdit, JobDocument))
async def edit_job(call: Writer, id: JobId) -> Response:  # noqa: A002 - the interface's word
    """Give a job another priority, suspend it or let it go on, pin it where it is or not any more;
    one that has ended stays as it is."""
    wanted = parsed(JobEdit, await call.body())
    async with call.desk.changing() as change:
        tx = change.tx
        row = await visible_job(tx, call, id)
        event = await edit(
            tx, row, priority=wanted.priority, suspended=wanted.suspend, pinned=wanted.pinned
        )
        if event is not None:
            await change.note(call.caller, event, "job.edit", id, **event.data)
        row, document = await _reread(tx, id)
    return stamped(answer(document), row.revision)


@route(router, "POST", "/{id}/cancel", Speaks(gives=JobDocument, status=202))
async def cancel_job(call: Writer, id: JobId) -> Response:  # noqa: A002 - the interface's word
    """Let a job end; asked twice, or of a job that has ended, nothing more happens."""
    async with call.desk.changing() as change:
        tx = change.tx
        await visible_job(tx, call, id)
        event = await cancel(tx, id, call.caller.actor)
        if event is not None:
            await change.note(call.caller, event, "job.cancel", id)
        row, document = await _reread(tx, id)
    return stamped(answer(document, 202), row.revision)


@route(router, "GET", "/{id}/wait", Speaks(gives=JobDocument))
async def wait_for_job(
    call: Reader,
    id: JobId,  # noqa: A002 - the interface's word
    query: Annotated[WaitQuery, Query()],
) -> Response:
    """Answer when the job has ended, or at the latest after the timeout, with how it stands."""
    until_s = time.monotonic() + min(query.timeout, call.desk.limits.wait_s)
    row, attempts, move = await _read(call, id)
    while not row.phase.ended and time.monotonic() < until_s:
        await pause(call.desk)
        row, attempts, move = await _read(call, id)
    return stamped(answer(_document(row, attempts, move)), row.revision)


@route(router, "GET", "/{id}/watch", Speaks(media=MEDIA))
async def watch_job(call: Reader, id: JobId) -> Response:  # noqa: A002 - the interface's word
    """Stream the job's state as server-sent events `job`, now and at each change, to its end."""
    await _read(call, id)
    return streamed(call.desk, _changes(call, id))


async def _changes(call: Call, job_id: str) -> AsyncIterator[Said]:
    before = ""
    while True:
        row, _, move = await undisturbed(_read(call, job_id))
        text = with_step(job_summary(row), move).model_dump_json()
        if text != before:
            before = text
            yield Said("job", text, str(row.revision))
        if row.phase.ended:
            return
        await pause(call.desk)


@route(router, "GET", "/{id}/explain", Speaks(gives=JobExplanation))
async def explain_job(call: Reader, id: JobId) -> Response:  # noqa: A002 - the interface's word
    """Say why a job is where it is, what that costs, what else there was, or why it waits."""
    row, attempts, move = await _read(call, id)
    return answer(with_migration(job_explanation(row, attempts), move))
