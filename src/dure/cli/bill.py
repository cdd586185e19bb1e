"""`dure bill`: what work came to in money and grams, by whom and where; and months that close."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dure.cli.centre import AsJson, InContext, centre, echo_json, echo_table
from dure.domain.errors import InputError

if TYPE_CHECKING:
    from dure.api.bills import BillDocument, BillLine, BillSum, MonthDocument
    from dure.cli.fitting import Column

_STDOUT = "-"

app = typer.Typer(
    help="What work came to, by tenant, team, service, cluster, …; months that close.",
    invoke_without_command=True,
    subcommand_metavar="[close MONTH | months]",
)


@app.callback()
def bill(
    invoked: typer.Context,
    month: Annotated[str, typer.Option(help="As 2026-11; else the present one.")] = "",
    since: Annotated[str, typer.Option(help="From this day on, as 2026-11-05.")] = "",
    until: Annotated[str, typer.Option(help="Until the end of this day.")] = "",
    tenant: Annotated[str, typer.Option(help="Of this tenant alone.")] = "",
    team: Annotated[str, typer.Option(help="Of this team of the tenant.")] = "",
    service: Annotated[str, typer.Option(help="Of this service of the team.")] = "",
    by: Annotated[
        str,
        typer.Option(
            metavar="COLUMNS",
            help="Any of tenant, team, service, job, attempt, cluster, profile, day, "
            "with commas between.",
        ),
    ] = "tenant,team",
    csv: Annotated[
        str, typer.Option(metavar="FILE", help="Write CSV there; - is standard output.")
    ] = "",
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Show what work came to in a month, or in some days."""
    if invoked.invoked_subcommand is not None:
        return
    from dure.client.fleet import calls

    wanted: dict[str, Any] = {
        "month": month, "since": since, "until": until, "tenant": tenant, "team": team,
        "serviceName": service, "by": by,
    }  # fmt: skip
    if csv and as_json:
        raise InputError("a bill is written once", "give --csv or --json", field="--csv")
    with centre(context) as client:
        if csv:
            _write(client.bill_table(**wanted), csv)
            return
        found = client.do(calls.get_bill(**wanted))
    if as_json:
        echo_json(found)
    else:
        _print(found)


def _write(chunks: Iterable[bytes], target: str) -> None:
    """A table on standard output, or in a file that is there whole or not at all."""
    if target == _STDOUT:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return
    file = Path(target)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as out:
            out.writelines(chunks)
        unfinished.replace(file)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror})", "choose another place", file=target
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
    typer.echo(f"The bill is in {file}.")


def _print(found: "BillDocument") -> None:
    from dure.cli.fitting import Column

    def named(name: str, value: Any, rank: int) -> "list[Column[BillLine]]":
        shown = any(value(line) for line in found.lines)
        return [Column(name, value, rank=rank, right=False)] if shown else []

    columns: list[Column[BillLine]] = [
        *named("tenant", lambda line: line.tenant, 0),
        *named("team", lambda line: line.team, 0),
        *named("service", lambda line: line.service_name, 1),
        *named("job", lambda line: line.job, 1),
        *named("attempt", lambda line: str(line.attempt or ""), 2),
        *named("cluster", lambda line: line.cluster, 1),
        *named("profile", lambda line: line.profile, 1),
        *named("day", lambda line: line.day, 1),
        *named("adjusts", lambda line: line.adjusts, 0),
        *_sums(),
    ]
    echo_table(columns, found.lines, f"Nothing was used in {found.period}.")
    state = "closed" if found.closed else "open"
    for total in found.totals:
        typer.echo(
            f"{found.period} ({state}, {found.time_zone}): {total.amount} {total.currency}, "
            f"{total.carbon_g} gCO2, {total.device_hours} device-hours"
        )


def _sums() -> "list[Column[BillLine]]":
    from dure.cli.fitting import Column

    return [
        Column("device hours", lambda line: line.device_hours, rank=2),
        Column("rent", lambda line: line.rent, rank=3),
        Column("energy", lambda line: line.energy, rank=3),
        Column("egress", lambda line: line.egress, rank=3),
        Column("amount", lambda line: f"{line.amount} {line.currency}"),
        Column("gCO2", lambda line: str(line.carbon_g)),
    ]


@app.command("months")
def months(as_json: AsJson = False, context: InContext = "") -> None:
    """List the months in which something is billed, open and closed."""
    from dure.cli.fitting import Column
    from dure.client.fleet import calls

    with centre(context) as client:
        found = client.do(calls.list_months())
    if as_json:
        echo_json(found)
        return
    columns: list[Column[MonthDocument]] = [
        Column("month", lambda each: each.month, right=False),
        Column("state", lambda each: each.state.value, right=False),
        Column("amount", lambda each: _amounts(each.totals)),
        Column("gCO2", lambda each: str(sum(total.carbon_g for total in each.totals))),
        Column("closed", lambda each: each.closed_at or "", rank=2, right=False),
        Column("by", lambda each: each.closed_by or "", rank=3, right=False),
        Column("digest", lambda each: each.digest, rank=4, right=False),
    ]
    echo_table(columns, found.items, "Nothing is billed yet.")
    if float(found.unpriced_device_hours):
        typer.echo(
            f"{found.unpriced_device_hours} device-hours have no price yet: the server's log "
            "says what is missing."
        )


def _amounts(totals: "list[BillSum]") -> str:
    return ", ".join(f"{total.amount} {total.currency}" for total in totals)


@app.command("close")
def close(
    month: Annotated[str, typer.Argument(metavar="MONTH", help="As 2026-10; it must be over.")],
    expect: Annotated[
        str,
        typer.Option(
            metavar="DIGEST",
            help="Of `dure bill months`, as you looked at it; refused if it is another by now.",
        ),
    ] = "",
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Close a month: nothing in it changes any more, late use adjusts the month after."""
    from dure.client.fleet import calls

    with centre(context) as client:
        closed = client.do(calls.close_month(month, expect or None))
    if as_json:
        echo_json(closed)
    else:
        typer.echo(
            f"{closed.month} is closed: {_amounts(closed.totals) or 'nothing was used'}; "
            f"digest {closed.digest}"
        )
