"""Bills: what work came to, by whom and where, as JSON or CSV; months that are closed."""

import csv
import datetime
import io
import tempfile
from collections.abc import AsyncIterator
from typing import IO, Annotated

from fastapi import APIRouter, Path, Query
from pydantic import ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from dure.api.base import Document, LowerName, moment_text
from dure.api.bills import (
    BillColumn,
    BillDocument,
    BillLine,
    BillSum,
    CloseRequest,
    Day,
    Month,
    MonthDocument,
    MonthList,
    MonthState,
)
from dure.domain.fleet.amounts import decimal_text, rounded
from dure.server.auth import path_of
from dure.server.billing import (
    CLOSED,
    Line,
    Sum,
    Wish,
    added_up,
    bill_lines,
    close_month,
    month_so_far,
    sums_of,
)
from dure.server.calendar import Calendar
from dure.server.rest.door import Admin, Call, FleetReader, Reader, Speaks, answer, route
from dure.server.rest.problems import not_found, wrong
from dure.server.specs import fleet_spec
from dure.stores.repos.billing import Period
from dure.stores.rows import Closing, NewEvent
from dure.stores.transaction import Transaction

router = APIRouter(prefix="/v1/bills", tags=["bills"])
MOST_LINES = 10_000
"""Of a bill in JSON; CSV has no limit."""
CSV_COLUMNS = (
    "period", "tenant", "team", "service", "job", "attempt", "cluster", "profile", "day",
    "adjusts", "currency", "device_hours", "rent", "energy", "egress", "amount", "carbon_g",
    "amount_micro", "carbon_ug", "device_us",
)  # fmt: skip
"""They stay in this order; new ones come last."""
_NAMED = (
    BillColumn.TENANT, BillColumn.TEAM, BillColumn.SERVICE, BillColumn.JOB, BillColumn.ATTEMPT,
    BillColumn.CLUSTER, BillColumn.PROFILE, BillColumn.DAY,
)  # fmt: skip
_FIELDS = {BillColumn.SERVICE: "service_name"}
_CSV = "text/csv"
_IN_MEMORY = 4 * 1024 * 1024
"""Of a table; more of it waits in a file for its reader."""
_CHUNK = 64 * 1024
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What spreadsheets take for a formula, at the beginning of a cell."""
_HOUR_US, _HOUR_DIGITS = 3_600_000_000, 3


class BillQuery(Document):
    """Which bill is wanted; without a period, that of the present month."""

    model_config = ConfigDict(strict=False)

    month: Month | None = None
    since: Day | None = None
    until: Day | None = None
    """The last day, included."""
    tenant: LowerName | None = None
    team: LowerName | None = None
    service_name: LowerName | None = None
    by: Annotated[str, Field(max_length=100, examples=["team,cluster"])] = "tenant,team"


@route(router, "GET", "", Speaks(gives=BillDocument))
async def get_bill(call: Reader, query: Annotated[BillQuery, Query()]) -> Response:
    """Show what work came to; everybody sees what is theirs, each late line with its month."""
    lines: list[BillLine] = []
    totals: dict[str, Sum] = {}
    async with call.desk.services.state.reading() as tx:
        calendar, wish = await _wish(tx, call, query)
        async for line in bill_lines(tx, wish):
            if len(lines) == MOST_LINES:
                raise wrong(
                    "by", f"the bill has more than {MOST_LINES} lines", "ask for CSV, or less fine"
                )
            added_up(totals, line)
            lines.append(_document(line))
        closed = await _is_closed(tx, wish.period)
    return answer(
        BillDocument(
            period=str(wish.period),
            time_zone=calendar.name,
            closed=closed,
            totals=[BillSum(**totals[name].said()) for name in sorted(totals)],
            lines=lines,
        )
    )


@route(router, "GET", "/csv", Speaks(media=_CSV))
async def get_bill_csv(call: Reader, query: Annotated[BillQuery, Query()]) -> Response:
    """The same as a table after RFC 4180, however long it is."""
    # Made whole before the first byte goes out, so that no slow reader keeps the database waiting.
    table = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed once it was read
    try:
        async with call.desk.services.state.reading() as tx:
            _, wish = await _wish(tx, call, query)
            await _write(tx, wish, table)
        table.seek(0)
    except BaseException:
        table.close()
        raise
    name = f"bill-{str(wish.period).replace('/', '-to-')}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_chunks(table), headers=headers, media_type=_CSV)


async def _write(tx: Transaction, wish: Wish, table: IO[bytes]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(CSV_COLUMNS)
    async for line in bill_lines(tx, wish):
        said = line.sum.said()
        named = (_guarded(str(line.names.get(column, ""))) for column in _NAMED)
        sums = (said[name] for name in CSV_COLUMNS[len(_NAMED) + 2 :])
        writer.writerow([str(wish.period), *named, line.adjusts, *sums])
        if text.tell() > _CHUNK:
            table.write(text.getvalue().encode())
            text.seek(0)
            text.truncate()
    table.write(text.getvalue().encode())


def _guarded(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


async def _chunks(table: IO[bytes]) -> AsyncIterator[bytes]:
    with table:
        while chunk := table.read(_CHUNK):
            yield chunk


async def _wish(tx: Transaction, call: Call, query: BillQuery) -> tuple[Calendar, Wish]:
    caller = call.caller
    tenant = query.tenant or caller.root
    if caller.root not in {None, tenant}:
        raise not_found("tenant", tenant or "")
    for need, given, field in (
        ("team", query.team, "tenant"),
        ("serviceName", query.service_name, "team"),
    ):
        if given and not (tenant if field == "tenant" else query.team):
            raise wrong(need, f"is of a {field}", f"name the {field} too")
    node = path_of(tenant or "", query.team or "", query.service_name or "")
    if node and (await tx.tenants.find(node) is None or not _meets(caller.tenant, node)):
        raise not_found("tenant", node)
    calendar = Calendar(fleet_spec(await tx.policies.all()).billing.time_zone)
    period = _period(query, calendar, call.desk.services.now_ns())

    def shows(path: str) -> bool:
        return caller.sees(path) and (not node or path == node or path.startswith(f"{node}/"))

    return calendar, Wish(period, _columns(query.by), tenant, shows)


def _meets(bound: str | None, node: str) -> bool:
    """Whether somebody bound to one node sees anything of another."""
    if bound is None:
        return True
    return f"{node}/".startswith(f"{bound}/") or f"{bound}/".startswith(f"{node}/")


def _columns(by: str) -> tuple[BillColumn, ...]:
    known = {column.value: column for column in BillColumn}
    names = [name.strip() for name in by.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise wrong("by", f"'{name[:64]}' is none of its columns", f"use {', '.join(known)}")
    return tuple(known[name] for name in names)


def _period(query: BillQuery, calendar: Calendar, now_ns: int) -> Period:
    if query.month is not None:
        if query.since is not None or query.until is not None:
            raise wrong("month", "is a period, and so are days", "give a month, or days")
        return Period(month=query.month)
    if query.since is None and query.until is None:
        return Period(month=calendar.month(now_ns))
    today = calendar.day(now_ns)
    first = _day("since", query.since) if query.since else today.replace(day=1)
    last = _day("until", query.until) if query.until else today
    if last < first:
        raise wrong("until", "is before since", "give a later day")
    return Period(first_day=first.isoformat(), last_day=last.isoformat())


def _day(field: str, text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        raise wrong(field, f"'{text}' is no day", "write one as 2026-11-05") from error


async def _is_closed(tx: Transaction, period: Period) -> bool:
    """Days are never closed: what is told late of them is billed later, and shown there too."""
    closed_through = await tx.charges.closed_through(keep=False)
    return bool(period.month) and period.month <= closed_through


def _document(line: Line) -> BillLine:
    names = {_FIELDS.get(column, column.value): value for column, value in line.names.items()}
    return BillLine(**names, adjusts=line.adjusts, **line.sum.said())


# Months


@route(router, "GET", "/months", Speaks(gives=MonthList))
async def list_months(call: FleetReader) -> Response:
    """List the months in which something is billed, with the digests they are closed by."""
    async with call.desk.services.state.reading() as tx:
        calendar = Calendar(fleet_spec(await tx.policies.all()).billing.time_zone)
        closings = {row.month: row for row in await tx.closings.all()}
        months = [_closed(closings[month]) for month in sorted(closings)]
        for month in await tx.charges.months():
            if month not in closings:
                digest, totals = await month_so_far(tx, month)
                months.append(
                    MonthDocument(
                        month=month,
                        state=MonthState.OPEN,
                        digest=digest,
                        totals=sums_of(totals),
                        time_zone=calendar.name,
                    )
                )
        owed_us = await tx.meters.owed_us()
    hours = decimal_text(rounded(owed_us, _HOUR_US // 10**_HOUR_DIGITS), _HOUR_DIGITS)
    months.sort(key=lambda each: each.month)
    return answer(MonthList(items=months, unpriced_device_hours=hours))


@route(router, "POST", "/months/{month}/close", Speaks(CloseRequest, MonthDocument))
async def close(call: Admin, month: Annotated[Month, Path()]) -> Response:
    """Close a month that is over: nothing billed in it changes any more. Late use is billed in the
    month after, as an adjustment."""
    wanted = await call.document(CloseRequest)
    async with call.desk.changing() as change:
        calendar = Calendar(fleet_spec(await change.tx.policies.all()).billing.time_zone)
        closing, new = await close_month(
            change.tx, month, calendar, call.caller.actor, wanted.expect
        )
        if new:
            event = NewEvent(CLOSED, month, None, {"digest": closing.digest})
            await change.note(call.caller, event, "bill.close", month, digest=closing.digest)
    return answer(_closed(closing))


def _closed(row: Closing) -> MonthDocument:
    return MonthDocument(
        month=row.month,
        state=MonthState.CLOSED,
        digest=row.digest,
        totals=sums_of(row.totals["totals"]),
        time_zone=row.zone,
        closed_at=moment_text(row.closed_ns),
        closed_by=row.closed_by,
    )
