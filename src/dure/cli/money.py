"""`dure budget`, `dure feed`: what the fleet's work may cost, and what prices come from."""

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dure.cli.centre import AsJson, InContext, centre, echo_json
from dure.cli.things import Kind, group
from dure.domain.errors import InputError

if TYPE_CHECKING:
    from dure.api.base import Document
    from dure.api.money import BudgetDocument, FeedDocument
    from dure.cli.fitting import Column

_BATCH = 1000


def _budget_spec() -> "type[Document]":
    from dure.api.money import BudgetSpec

    return BudgetSpec


def _budget_calls() -> tuple[Any, Any, Any, Any]:
    from dure.client.fleet import calls

    def split(path: str) -> tuple[str, str]:
        tenant, _, name = path.rpartition("/")
        if not tenant:
            raise InputError(f"'{path}' names no budget", "write TENANT/NAME", field="BUDGET")
        return tenant, name

    return (
        calls.list_budgets,
        lambda path: calls.get_budget(*split(path)),
        lambda path, spec, revision: calls.put_budget(*split(path), spec, revision),
        lambda path, revision: calls.delete_budget(*split(path), revision),
    )


def _budget_columns() -> "list[Column[BudgetDocument]]":
    from dure.cli.fitting import Column

    return [
        Column("budget", lambda b: f"{b.tenant}/{b.name}", right=False),
        Column("unit", lambda b: b.spec.unit.value, right=False),
        Column("limit", lambda b: f"{b.spec.limit:,.2f}"),
        Column("spent", lambda b: f"{b.spent:,.2f}"),
        Column("share", lambda b: f"{b.spent / b.spec.limit:.0%}" if b.spec.limit else "", rank=1),
        Column("from", lambda b: b.spec.period_start, rank=3, right=False),
        Column("until", lambda b: b.spec.period_end, rank=2, right=False),
    ]


budget_app = group(
    Kind("budget", "TENANT/NAME", _budget_spec, _budget_calls, _budget_columns),
    "Budgets of tenants and teams, in money or grams of CO2.",
)


def _feed_spec() -> "type[Document]":
    from dure.api.money import FeedSpec

    return FeedSpec


def _feed_calls() -> tuple[Any, Any, Any, Any]:
    from dure.client.fleet import calls

    return calls.list_feeds, calls.get_feed, calls.put_feed, calls.delete_feed


def _feed_columns() -> "list[Column[FeedDocument]]":
    from dure.cli.fitting import Column

    return [
        Column("feed", lambda f: f.name, right=False),
        Column("kind", lambda f: f.spec.kind.value, right=False),
        Column("unit", lambda f: f.spec.unit, right=False),
        Column("step", lambda f: f.spec.step, right=False),
    ]


feed_app = group(
    Kind("feed", "NAME", _feed_spec, _feed_calls, _feed_columns),
    "Feeds of electricity prices and carbon intensity.",
)


@feed_app.command("push")
def push(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the feed.")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV with the columns at and value; - is stdin.")
    ],
    context: InContext = "",
) -> None:
    """Send points to a feed, in place of those at the same moments."""
    from dure.api.money import Points
    from dure.client.fleet import calls

    points = _points(file)
    with centre(context) as client:
        for first in range(0, len(points), _BATCH):
            part = Points(points=points[first : first + _BATCH])
            client.do(calls.add_points(name, part))
    typer.echo(f"{len(points)} points are stored in {name}.")


def _points(file: Path) -> list[Any]:
    from pydantic import ValidationError

    from dure.api.money import Point
    from dure.kit.files import read_text

    text = sys.stdin.read() if str(file) == "-" else read_text(file)
    found = []
    for number, row in enumerate(csv.DictReader(text.splitlines()), 2):
        try:
            found.append(Point(at=row["at"], value=float(row["value"])))
        except (KeyError, TypeError, ValueError, ValidationError) as error:
            raise InputError(
                "is no point", "write a moment and a number", file=f"{file}, line {number}"
            ) from error
    if not found:
        raise InputError("has no points", "write the columns at and value", file=str(file))
    return found


@feed_app.command("points")
def points(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the feed.")],
    since: Annotated[str, typer.Option(help="From this moment.")],
    until: Annotated[str, typer.Option(help="Until this moment.")],
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Print what a feed says, as CSV or JSON."""
    from dure.client.fleet import calls

    with centre(context) as client:
        found = client.do(calls.list_points(name, since, until))
    if as_json:
        echo_json(found)
        return
    typer.echo("at,value")
    for point in found.points:
        typer.echo(f"{point.at},{point.value:g}")
