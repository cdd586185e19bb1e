"""Recordings: what the planner is told and decides, as it comes, to be replayed elsewhere."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from dure.api.recordings import RecordingQuery
from dure.kit.taps import Bounds, poured
from dure.server.hints import EVENTS
from dure.server.recording import MOST_AT_ONCE, header, line_of
from dure.server.rest.door import Admin, Speaks, route
from dure.server.rest.problems import RefusedError

router = APIRouter(prefix="/v1/recording", tags=["recording"])
MEDIA = "application/x-ndjson"


@route(router, "GET", "", Speaks(media=MEDIA))
async def record_planner(call: Admin, query: Annotated[RecordingQuery, Query()]) -> Response:
    """Stream what the planner knows, then every event and what it decides, for a while.

    `dure sim fleet --replay` runs it again. Only the server that plans can: others answer 503.
    """
    services = call.desk.services
    if not services.leads():
        raise RefusedError(
            503,
            "not-leader",
            "this server does not plan now; ask the one that does",
            headers={"Retry-After": "1"},
        )
    tap = services.recorder.open()
    if tap is None:
        raise RefusedError(
            409, "busy", f"{MOST_AT_ONCE} recordings are under way; wait until one has ended"
        )
    async with call.desk.changing() as change:
        await change.note(call.caller, None, "recording.begin", "planner", seconds=query.seconds)
    services.bus.publish(EVENTS)  # wakes the planner, which lets the tap in
    bounds = Bounds(query.seconds, query.most_bytes)
    return StreamingResponse(poured(tap, line_of, bounds, header()), media_type=MEDIA)
