"""`dure fleet policy`: how the planner weighs, by name."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dure.cli.centre import AsJson, InContext, centre, echo_json
from dure.cli.things import Kind, group

if TYPE_CHECKING:
    from dure.api.base import Document
    from dure.api.policies import PolicyDocument
    from dure.cli.fitting import Column


def _spec() -> "type[Document]":
    from dure.api.policies import PolicySpec

    return PolicySpec


def _calls() -> tuple[Any, Any, Any, Any]:
    from dure.client.fleet import calls

    return calls.list_policies, calls.get_policy, calls.put_policy, calls.delete_policy


def _columns() -> "list[Column[PolicyDocument]]":
    from dure.cli.fitting import Column

    return [
        Column("policy", lambda p: p.name, right=False),
        Column("in force", lambda p: "yes" if p.in_force else "", right=False),
        Column("revision", lambda p: str(p.revision)),
        Column("created", lambda p: p.created_at, right=False),
    ]


app = group(
    Kind("policy", "NAME", _spec, _calls, _columns),
    "Policies of the fleet's planner; `dure policy` is about one GPU.",
)


@app.command("apply")
def apply(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the policy.")],
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Put a policy in force."""
    from dure.client.fleet import calls

    with centre(context) as client:
        found = client.do(calls.apply_policy(name))
    if as_json:
        echo_json(found)
    else:
        typer.echo(f"policy {name} is in force.")
