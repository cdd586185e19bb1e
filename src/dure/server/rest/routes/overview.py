"""The fleet at a glance."""

from fastapi import APIRouter
from starlette.responses import Response

from dure.api.overview import OverviewDocument
from dure.server.overview import read_overview
from dure.server.rest.door import Reader, Speaks, answer, route

router = APIRouter(prefix="/v1/overview", tags=["overview"])


@route(router, "GET", "", Speaks(gives=OverviewDocument))
async def get_overview(call: Reader) -> Response:
    """Show every cluster with its price, carbon, use and fragmentation, and jobs by phase."""
    services = call.desk.services
    async with services.state.reading() as tx:
        shown = await read_overview(tx, call.caller, services.settings.lost_after_s)
    return answer(shown)
