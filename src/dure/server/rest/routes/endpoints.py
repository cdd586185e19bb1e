"""Where a service answers: read once, or followed as it changes."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

from fastapi import APIRouter
from starlette.responses import Response

from dure.api.endpoints import Endpoint, Endpoints
from dure.server.handover import shares, weighted
from dure.server.rest.door import Call, Reader, Speaks, answer, route
from dure.server.rest.routes.jobs import JobId, visible_job
from dure.server.rest.streams import MEDIA, Said, pause, streamed, undisturbed
from dure.stores.rows import Attempt

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@route(router, "GET", "/{id}/endpoints", Speaks(gives=Endpoints))
async def get_endpoints(call: Reader, id: JobId) -> Response:  # noqa: A002 - the interface's word
    """Show where the instances of a service answer; none of a job that is no service."""
    return answer(await _read(call, id))


@route(router, "GET", "/{id}/endpoints/watch", Speaks(media=MEDIA))
async def watch_endpoints(call: Reader, id: JobId) -> Response:  # noqa: A002 - the interface's word
    """Stream them as server-sent events `endpoints`, now and at each change, to the job's end."""
    await _read(call, id)
    return streamed(call.desk, _changes(call, id))


async def _changes(call: Call, job_id: str) -> AsyncIterator[Said]:
    before = ""
    while True:
        found = await undisturbed(_read(call, job_id))
        text = found.model_dump_json()
        if text != before:
            before = text
            yield Said("endpoints", text)
        if found.ended:
            return
        await pause(call.desk)


async def _read(call: Call, job_id: str) -> Endpoints:
    services = call.desk.services
    async with services.state.reading() as tx:
        row = await visible_job(tx, call, job_id)
        attempts = await tx.attempts.unfinished_of([job_id])
        now_ns = await tx.database_now_ns()
    items = list(endpoints_of(attempts, shares(attempts, now_ns, services.settings.pace)))
    return Endpoints(job=job_id, ended=row.phase.ended, items=items)


def endpoints_of(attempts: Iterable[Attempt], parts: Mapping[int, float]) -> Iterator[Endpoint]:
    """Instances that are ready, each with its part of what its attempt gets."""
    for attempt, each, weight in weighted(attempts, parts):
        yield Endpoint(
            address=each.address,
            cluster=attempt.cluster,
            attempt=attempt.attempt,
            index=each.index,
            weight=weight,
        )
