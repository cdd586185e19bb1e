"""The server itself: whether it lives and is ready, who one is to it, and its figures."""

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from dure.api.access import WhoAmI
from dure.server.rest.desk import Desk
from dure.server.rest.door import FleetReader, SignedIn, Speaks, answer, route
from dure.stores.series.exposition import CONTENT_TYPE

router = APIRouter(tags=["system"])
_TEXT = "text/plain"


@route(router, "GET", "/healthz", Speaks(media=_TEXT))
async def healthy() -> Response:
    """Answer that the process lives."""
    return PlainTextResponse("ok\n")


@route(router, "GET", "/readyz", Speaks(media=_TEXT))
async def ready(request: Request) -> Response:
    """Answer that requests can be served: the database answers."""
    desk: Desk = request.app.state.desk
    await desk.services.state.ping()
    return PlainTextResponse("ok\n")


@route(router, "GET", "/v1/whoami", Speaks(gives=WhoAmI))
async def who_am_i(call: SignedIn) -> Response:
    """Say whom the server takes the asker for."""
    caller = call.caller
    return answer(
        WhoAmI(actor=caller.actor, role=caller.role, tenant=caller.tenant, cluster=caller.cluster)
    )


@route(router, "GET", "/metrics", Speaks(media=_TEXT))
async def metrics(call: FleetReader) -> Response:
    """Figures in Prometheus' format: the fleet, what the centre promises, how this server does."""
    return Response(await call.desk.telemetry.metrics(call.desk.answers), media_type=CONTENT_TYPE)
