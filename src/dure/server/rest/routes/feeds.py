"""Feeds of prices and carbon, and their points."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import ConfigDict
from starlette.responses import Response

from dure.api.base import Document, Moment, Name, moment_ns, moment_text, stored
from dure.api.history import Page
from dure.api.money import FeedDocument, FeedSpec, Point, PointList, Points, PointsTaken
from dure.server.rest.door import Admin, Reader, Speaks, answer, route
from dure.server.rest.named import Named, Part, part_of
from dure.server.rest.problems import RefusedError, not_found, wrong
from dure.server.rest.revisions import IF_MATCH, IF_NONE_MATCH, stamped
from dure.server.specs import cluster_spec, feed_spec, feeds_named
from dure.stores.rows import Feed, FeedPoint, NewEvent

router = APIRouter(prefix="/v1/feeds", tags=["feeds"])
FeedName = Annotated[Name, Path()]
EXTENDED = "feed.extended"
MOST_SHOWN = 100_000
"""Points of one answer: eleven years of hours."""


class Span(Document):
    """From one moment until another."""

    model_config = ConfigDict(strict=False)

    since: Moment
    until: Moment


@route(router, "GET", "", Speaks(gives=Page[FeedDocument]))
async def list_feeds(call: Reader, query: Part) -> Response:
    """List the feeds."""
    async with call.desk.services.state.reading() as tx:
        rows = await tx.feeds.all()
    part, more = part_of(rows, lambda row: row.name, query)
    return answer(Page[FeedDocument](items=[_document(row) for row in part], cursor=more))


@route(router, "GET", "/{name}", Speaks(gives=FeedDocument))
async def get_feed(call: Reader, name: FeedName) -> Response:
    """Show one feed."""
    async with call.desk.services.state.reading() as tx:
        row = await tx.feeds.find(name)
    if row is None:
        raise not_found("feed", name)
    return stamped(answer(_document(row)), row.revision)


@route(
    router,
    "PUT",
    "/{name}",
    Speaks(FeedSpec, FeedDocument, also=(201,), headers=(IF_MATCH, IF_NONE_MATCH)),
)
async def put_feed(call: Admin, name: FeedName) -> Response:
    """Create or change a feed; its kind stays."""
    document = await call.document(FeedSpec)
    plain = stored(document)
    spec = {key: value for key, value in plain.items() if key not in {"kind", "unit"}}

    def made(before: Feed | None) -> Feed:
        if before is None:
            return Feed(name, document.kind, document.unit, spec)
        if before.kind is not document.kind:
            raise wrong("kind", f"feed {name} is of kind {before.kind.value}", "name another feed")
        return replace(before, unit=document.unit, spec=spec)

    async with call.desk.changing() as change:
        row, new, changed = await Named(change.tx.feeds, "feed").put(call, (name,), made)
        if changed:
            await change.note(call.caller, NewEvent(EXTENDED, name), "feed.put", name, spec=plain)
    return stamped(answer(_document(row), 201 if new else 200), row.revision)


@route(router, "DELETE", "/{name}", Speaks(status=204, headers=(IF_MATCH,)))
async def delete_feed(call: Admin, name: FeedName) -> Response:
    """Remove a feed, with its points, that no cluster follows."""
    async with call.desk.changing() as change:
        for cluster in await change.tx.clusters.all():
            if name in feeds_named(cluster_spec(cluster)):
                raise RefusedError(
                    409, "in-use", f"cluster {cluster.name} follows feed {name}; change it first"
                )
        await Named(change.tx.feeds, "feed").remove(call, (name,))
        await change.note(call.caller, NewEvent(EXTENDED, name), "feed.remove", name)
    return Response(status_code=204)


@route(router, "GET", "/{name}/points", Speaks(gives=PointList))
async def list_points(call: Reader, name: FeedName, query: Annotated[Span, Query()]) -> Response:
    """Show what a feed says from one moment until another, with what holds at the first."""
    since_ns, until_ns = moment_ns(query.since), moment_ns(query.until)
    async with call.desk.services.state.reading() as tx:
        if await tx.feeds.find(name) is None:
            raise not_found("feed", name)
        rows = await tx.feeds.points(name, since_ns, until_ns)
    if len(rows) > MOST_SHOWN:
        raise wrong("until", f"{len(rows)} points are too many for one answer", "ask for less")
    points = [Point(at=moment_text(row.at_ns), value=row.value) for row in rows]
    return answer(PointList(feed=name, points=points))


@route(router, "POST", "/{name}/points", Speaks(Points, PointsTaken))
async def add_points(call: Admin, name: FeedName) -> Response:
    """Store points in place of those at the same moments; sent twice, nothing changes."""
    document = await call.document(Points)
    points = {moment_ns(point.at): point.value for point in document.points}
    rows = [FeedPoint(name, at_ns, value) for at_ns, value in sorted(points.items())]
    async with call.desk.changing() as change:
        if await change.tx.feeds.find(name) is None:
            raise not_found("feed", name)
        count = await change.tx.feeds.write(rows)
        span = {"from_ns": rows[0].at_ns, "to_ns": rows[-1].at_ns}
        event = NewEvent(EXTENDED, name, data=span)
        await change.note(call.caller, event, "feed.points", name, count=count)
    return answer(PointsTaken(feed=name, stored=count))


def _document(row: Feed) -> FeedDocument:
    return FeedDocument(
        name=row.name,
        spec=feed_spec(row),
        revision=row.revision,
        created_at=moment_text(row.created_ns),
    )
