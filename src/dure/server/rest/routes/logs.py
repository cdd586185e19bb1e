"""What instances of a job wrote, brought from its cluster; asked of another server where that has
the link."""

from collections.abc import AsyncIterator
from typing import Annotated

import httpx
from fastapi import APIRouter, Path, Query
from pydantic import ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from dure.api.base import Document, Id
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.ids import ClusterId, WorkloadId
from dure.server.ports import NotLinkedHere
from dure.server.rest.door import Call, Reader, Speaks, route
from dure.server.rest.problems import RefusedError
from dure.server.rest.routes.jobs import visible_job
from dure.stores.rows import Attempt

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
_MEDIA = "text/plain"
FORWARDED = "Dure-Forwarded"
"""Set on what one server asks of another, so that two do not ask each other for ever."""
_CONNECT_S = 5.0


class LogQuery(Document):
    """Which lines are wanted."""

    model_config = ConfigDict(strict=False)

    attempt: Annotated[int, Field(ge=1, le=2**31)] | None = None
    """Left out: the latest."""
    index: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Of the worker or replica."""
    follow: bool = False
    tail: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Lines from the end; left out: all there are."""


@route(router, "GET", "/{id}/logs", Speaks(media=_MEDIA))
async def get_logs(
    call: Reader,
    id: Annotated[Id, Path(description="Of the job.")],  # noqa: A002 - the interface's word
    query: Annotated[LogQuery, Query()],
) -> Response:
    """Stream what an instance of a job wrote."""
    async with call.desk.services.state.reading() as tx:
        await visible_job(tx, call, id)
        attempts = await tx.attempts.of_job(id)
    attempt = _chosen(attempts, query.attempt)
    source = call.desk.services.logs.logs(
        ClusterId(attempt.cluster),
        AttemptKey(WorkloadId(id), attempt.attempt),
        query.index,
        follow=query.follow,
        tail=query.tail,
    )
    try:
        first = await anext(source, b"")
    except NotLinkedHere as elsewhere:
        source = await _elsewhere(call, elsewhere)
        first = b""
    return StreamingResponse(_joined(first, source), media_type=_MEDIA)


def _chosen(attempts: tuple[Attempt, ...], wanted: int | None) -> Attempt:
    if not attempts:
        raise RefusedError(409, "not-started", "the job was not started yet; wait until it runs")
    if wanted is None:
        return attempts[-1]
    for attempt in attempts:
        if attempt.attempt == wanted:
            return attempt
    raise RefusedError(404, "not-found", f"the job has no attempt {wanted}; leave it out")


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk


async def _elsewhere(call: Call, where: NotLinkedHere) -> AsyncIterator[bytes]:
    """The same from the server that has the link, as the same asker."""
    if not where.url or FORWARDED.lower() in call.request.headers:
        raise RefusedError(
            503, "not-linked", f"{where.what}; {where.remedy}", headers={"Retry-After": "5"}
        )
    asked = call.request.url
    timeout = httpx.Timeout(None, connect=_CONNECT_S)
    client = httpx.AsyncClient(base_url=where.url, timeout=timeout)
    request = client.build_request(
        "GET",
        f"{asked.path}?{asked.query}",
        headers={"Authorization": call.request.headers["authorization"], FORWARDED: "1"},
    )
    try:
        response = await client.send(request, stream=True)
    except httpx.HTTPError as error:
        await client.aclose()
        raise RefusedError(
            503,
            "not-linked",
            f"the server at {where.url}, which has the link, does not answer; try again",
            headers={"Retry-After": "5"},
        ) from error
    if response.status_code != 200:
        detail = (await response.aread()).decode(errors="replace")[:1000]
        await client.aclose()
        raise RefusedError(503, "not-linked", f"the server at {where.url} refused: {detail}")
    return _passed_on(client, response)


async def _passed_on(client: httpx.AsyncClient, response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    finally:
        await response.aclose()
        await client.aclose()
