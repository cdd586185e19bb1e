"""Events: listed after a number, or followed as they happen."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field
from starlette.responses import Response

from dure.api.base import Document, Line, LowerName, moment_text
from dure.api.history import EventDocument, EventList
from dure.server.rest.door import Call, Reader, Speaks, answer, route
from dure.server.rest.problems import wrong
from dure.server.rest.streams import MEDIA, Said, pause, streamed, undisturbed
from dure.stores.errors import ExpiredError
from dure.stores.repos.events import PRUNED
from dure.stores.rows import Event
from dure.stores.transaction import Transaction

router = APIRouter(prefix="/v1/events", tags=["events"])
_BATCH = 500
_ID_LENGTH = 26
_MOST_SEQ = 2**62
_FOR_ALL = frozenset({"cluster.joined", "cluster.lost", "cluster.changed", "policy.changed"})
"""Kinds that are nobody's own; every tenant may see them."""


class EventQuery(Document):
    """Which events are wanted."""

    model_config = ConfigDict(strict=False)

    after: Annotated[int, Field(ge=0, le=_MOST_SEQ)] | None = None
    """The number of the last one that is known; left out: the oldest there is."""
    tenant: LowerName | None = None
    subject: Line | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


class StreamQuery(Document):
    """Which events are to be followed."""

    model_config = ConfigDict(strict=False)

    after: Annotated[int, Field(ge=0, le=_MOST_SEQ)] | None = None
    """The number of the last one that is known; left out: from now on."""
    tenant: LowerName | None = None
    subject: Line | None = None


@route(router, "GET", "", Speaks(gives=EventList))
async def list_events(call: Reader, query: Annotated[EventQuery, Query()]) -> Response:
    """List events after a number; 410 where some of those were pruned."""
    async with call.desk.services.state.reading() as tx:
        after = await tx.events.mark(PRUNED) if query.after is None else query.after
        rows, last = await _after(tx, call, query, after, query.limit)
    return answer(EventList(items=[_document(row) for row in rows], last=last))


@route(router, "GET", "/stream", Speaks(media=MEDIA, headers=("Last-Event-ID",)))
async def follow_events(call: Reader, query: Annotated[StreamQuery, Query()]) -> Response:
    """Follow events as server-sent events.

    With `Last-Event-ID` or `after` it goes on after that number. Where some of those were pruned,
    an event `gap` tells the number it goes on after: read the present state anew.
    """
    given = call.request.headers.get("last-event-id")
    after = query.after if given is None else _number(given)
    return streamed(call.desk, _following(call, query, after))


def _number(text: str) -> int:
    # Python turns no longer text into a number.
    short = text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_SEQ))
    if not short or int(text) > _MOST_SEQ:
        raise wrong("Last-Event-ID", "is no number of an event", "send the last id you got")
    return int(text)


async def _following(call: Call, query: StreamQuery, given: int | None) -> AsyncIterator[Said]:
    after = await undisturbed(_last(call)) if given is None else given
    while True:
        before = after
        try:
            rows, after = await undisturbed(_read(call, query, after))
        except ExpiredError:
            after = await undisturbed(_last(call))
            yield Said("gap", f'{{"last":{after}}}', str(after))
            continue
        for row in rows:
            yield Said(row.kind, _document(row).model_dump_json(), str(row.seq))
        if after == before:
            await pause(call.desk)


async def _last(call: Call) -> int:
    async with call.desk.services.state.reading() as tx:
        return await tx.events.last()


async def _read(call: Call, query: StreamQuery, after: int) -> tuple[list[Event], int]:
    async with call.desk.services.state.reading() as tx:
        return await _after(tx, call, query, after, _BATCH)


async def _after(
    tx: Transaction, call: Call, query: EventQuery | StreamQuery, after: int, limit: int
) -> tuple[list[Event], int]:
    """Events that the asker may see, and the number up to which none is missing."""
    tenant = query.tenant
    last = await tx.events.last()
    rows = await tx.events.since(after, limit, tenant=tenant, subject=query.subject)
    up_to = rows[-1].seq if len(rows) == limit else max(after, last)
    return await _visible(tx, call, rows), up_to


async def _visible(tx: Transaction, call: Call, rows: tuple[Event, ...]) -> list[Event]:
    caller = call.caller
    if caller.root is None:
        return list(rows)
    mine = [row for row in rows if row.tenant == caller.root or row.kind in _FOR_ALL]
    if caller.whole_tenant:
        return mine
    # Events name the tenant alone, so that whose team they are of is asked of their jobs.
    jobs = {job.id: job for job in await tx.jobs.many({row.subject[:_ID_LENGTH] for row in mine})}
    return [
        row
        for row in mine
        if row.kind in _FOR_ALL
        or ((job := jobs.get(row.subject[:_ID_LENGTH])) is not None and caller.sees_job(job))
        or (row.kind == "tenant.changed" and caller.sees(row.subject))
    ]


def _document(row: Event) -> EventDocument:
    return EventDocument(
        seq=row.seq,
        at=moment_text(row.at_ns),
        kind=row.kind,
        subject=row.subject,
        tenant=row.tenant,
        data=dict(row.data),
    )
