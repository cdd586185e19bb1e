"""What was measured at the centre, and what people say of what runs for them."""

import re
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field
from starlette.responses import Response

from dure.api.base import Document
from dure.api.measurements import (
    FeedbackRequest,
    SeriesDocument,
    SeriesList,
    SeriesNames,
    SeriesPoint,
)
from dure.domain.series import Found
from dure.server.rest.door import FleetReader, Speaks, Writer, answer, route
from dure.server.rest.problems import not_found
from dure.stores.rows import NewEvent

router = APIRouter(prefix="/v1", tags=["measurements"])
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")]


class SeriesQuery(Document):
    """Which series, and when."""

    model_config = ConfigDict(strict=False)

    name: _Text
    label: Annotated[list[_Text], Field(max_length=20, default_factory=list)]
    """NAME=VALUE; may repeat."""
    since: Annotated[str, Field(max_length=32)] = "5m"
    """How far back from the end."""
    step: Annotated[str, Field(max_length=32)] = ""
    """What one point sums up; left out: what fits."""
    end: Annotated[int, Field(ge=0, le=2**53)] | None = None
    """In milliseconds since 1970; left out: now."""


@route(router, "GET", "/series", Speaks(gives=SeriesList))
async def get_series(call: FleetReader, query: Annotated[SeriesQuery, Query()]) -> Response:
    """Show what was measured under a name over a span of time."""
    asked = {"name": query.name, "since": query.since, "step": query.step}
    if query.end is not None:
        asked["end"] = str(query.end)
    understood, found = await call.desk.telemetry.series(asked, query.label)
    span = understood.span
    return answer(
        SeriesList(
            start_ms=span.start_ms,
            end_ms=span.end_ms,
            step_ms=span.step_ms,
            series=[_document(each) for each in found],
        )
    )


@route(router, "GET", "/series/names", Speaks(gives=SeriesNames))
async def list_series_names(call: FleetReader) -> Response:
    """List what is measured."""
    return answer(SeriesNames(names=await call.desk.telemetry.names()))


@route(router, "POST", "/feedback", Speaks(FeedbackRequest, status=204))
async def give_feedback(call: Writer) -> Response:
    """Take what somebody says of what runs for a tenant; it counts as a measurement."""
    said = await call.document(FeedbackRequest)
    async with call.desk.changing() as change:
        row = await change.tx.tenants.find(said.tenant)
        if row is None or not call.caller.sees(said.tenant):
            raise not_found("tenant", said.tenant)
        note = _CONTROL.sub(" ", said.note).strip()
        data = {"verdict": said.verdict, "note": note}
        event = NewEvent("tenant.feedback", said.tenant, said.tenant.partition("/")[0], data)
        await change.note(call.caller, event, "tenant.feedback", said.tenant, **data)
    call.desk.services.figures.feedback[said.tenant, said.verdict] += 1
    return Response(status_code=204)


def _document(found: Found) -> SeriesDocument:
    return SeriesDocument(
        name=found.series.name,
        labels=dict(found.series.labels),
        points=[SeriesPoint(**point._asdict()) for point in found.points],
    )
