"""Bills: what a tenant's work came to in a period, summed up from the ledger."""

import csv
import io
from enum import Enum
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import ConfigDict
from starlette.responses import Response

from dure.api.base import Document, LowerName, Moment, moment_ns, moment_text
from dure.api.money import BillDocument, BillLevel, BillLine
from dure.server.rest.door import Reader, Speaks, answer, route
from dure.server.rest.problems import not_found, wrong
from dure.server.specs import fleet_spec
from dure.stores.repos.ledger import SpendSum

router = APIRouter(prefix="/v1/bills", tags=["bills"])
_COLUMNS = {
    BillLevel.TENANT: (),
    BillLevel.TEAM: ("team",),
    BillLevel.SERVICE: ("team", "service"),
    BillLevel.CLUSTER: ("cluster", "profile"),
    BillLevel.JOB: ("team", "service", "cluster", "profile", "job_id"),
}
_FIELDS = {"service": "service_name", "job_id": "job"}
_CSV = "text/csv"


class BillFormat(Enum):
    """How a bill is written."""

    JSON = "json"
    CSV = "csv"


class BillQuery(Document):
    """Which bill is wanted."""

    model_config = ConfigDict(strict=False)

    since: Moment
    until: Moment
    by: BillLevel = BillLevel.TEAM
    format: BillFormat = BillFormat.JSON


@route(router, "GET", "/{tenant}", Speaks(gives=BillDocument))
async def get_bill(
    call: Reader, tenant: Annotated[LowerName, Path()], query: Annotated[BillQuery, Query()]
) -> Response:
    """Show the bill of a tenant for a period; one bound to a team sees that team's lines."""
    since_ns, until_ns = moment_ns(query.since), moment_ns(query.until)
    if until_ns <= since_ns:
        raise wrong("until", "is not after since", "give a later moment")
    columns = _COLUMNS[query.by]
    async with call.desk.services.state.reading() as tx:
        if call.caller.root not in {None, tenant} or await tx.tenants.find(tenant) is None:
            raise not_found("tenant", tenant)
        policies = await tx.policies.all()
        by = columns if call.caller.whole_tenant else tuple({*columns, "team", "service"})
        sums = await tx.spends.summed(tenant, since_ns, until_ns, by)
    if not call.caller.whole_tenant:
        sums = tuple(each for each in sums if call.caller.sees(_path(tenant, each)))
    lines = [_line(each) for each in sums]
    bill = BillDocument(
        tenant=tenant,
        period_start=moment_text(since_ns),
        period_end=moment_text(until_ns),
        currency=fleet_spec(policies).currency,
        amount=sum(line.amount for line in lines),
        carbon_g=sum(line.carbon_g for line in lines),
        lines=lines,
    )
    if query.format is BillFormat.CSV:
        return Response(_table(bill), media_type=_CSV)
    return answer(bill)


def _path(tenant: str, line: SpendSum) -> str:
    parts = (tenant, line.of.get("team", ""), line.of.get("service", ""))
    return "/".join(part for part in parts if part)


def _line(line: SpendSum) -> BillLine:
    said = {_FIELDS.get(name, name): value for name, value in line.of.items()}
    return BillLine(
        **said, device_hours=line.device_s / 3600.0, amount=line.money, carbon_g=line.carbon_g
    )


def _table(bill: BillDocument) -> str:
    """Lines of a bill as a spreadsheet reads them."""
    out = io.StringIO()
    fields = [field.alias or name for name, field in BillLine.model_fields.items()]
    table = csv.DictWriter(out, ["tenant", *fields, "currency"])
    table.writeheader()
    for line in bill.lines:
        table.writerow(
            {"tenant": bill.tenant, **line.model_dump(mode="json"), "currency": bill.currency}
        )
    return out.getvalue()
