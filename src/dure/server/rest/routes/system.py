"""The server itself: whether it lives and is ready, who one is to it, and its figures."""

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from dure.api.access import WhoAmI
from dure.server.rest.desk import Desk
from dure.server.rest.door import FleetReader, SignedIn, Speaks, answer, route

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
    """Figures in Prometheus' format: answers, jobs by phase, clusters, whether it leads."""
    desk = call.desk
    async with desk.services.state.reading() as tx:
        phases = await tx.jobs.counts()
        last = await tx.events.last()
    lines = ["# TYPE dure_http_answers_total counter"]
    lines += [
        f'dure_http_answers_total{{method="{method}",status="{status}"}} {count}'
        for (method, status), count in sorted(desk.answers.items())
    ]
    lines.append("# TYPE dure_jobs gauge")
    lines += [f'dure_jobs{{phase="{phase.value}"}} {count}' for phase, count in phases.items()]
    lines += ["# TYPE dure_events_total counter", f"dure_events_total {last}"]
    lines += ["# TYPE dure_leads gauge", f"dure_leads {int(desk.services.leads())}"]
    return PlainTextResponse("\n".join(lines) + "\n")
