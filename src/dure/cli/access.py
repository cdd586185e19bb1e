"""`dure login`, `whoami`, `token`, `events`, `audit`: who one is to the centre, what happened."""

from typing import Annotated, Any

import typer

from dure.cli.centre import AsJson, InContext, ago, centre, echo_json, echo_table
from dure.domain.errors import InputError

token_app = typer.Typer(help="Tokens of the centre.", no_args_is_help=True)


def login(
    servers: Annotated[
        list[str], typer.Argument(metavar="URL…", help="Of the centre's servers; any will do.")
    ],
    name: Annotated[str, typer.Option(help="Of the context.")] = "default",
    ca: Annotated[str, typer.Option(help="File of the authority that vouches for them.")] = "",
    token: Annotated[
        str,
        typer.Option(help="Else it is asked for, or read from DURE_TOKEN.", envvar="DURE_TOKEN"),
    ] = "",
) -> None:
    """Store which centre to ask and as whom; it is tried out first."""
    from dure.client.fleet import Context, FleetClient, calls
    from dure.client.fleet.config import save_context

    secret = token or typer.prompt("Token", hide_input=True)
    context = Context(tuple(server.rstrip("/") for server in servers), secret.strip(), ca)
    for server in context.servers:
        if not server.startswith(("http://", "https://")):
            raise InputError(f"'{server}' is no server", "write http://… or https://…", field="URL")
    with FleetClient(context) as client:
        me = client.do(calls.who_am_i())
    file = save_context(name, context)
    whose = f" of {me.tenant}" if me.tenant else ""
    typer.echo(f"You are {me.actor}, {me.role.value}{whose}; stored as '{name}' in {file}.")


def whoami(as_json: AsJson = False, context: InContext = "") -> None:
    """Say whom the centre takes you for."""
    from dure.client.fleet import calls

    with centre(context) as client:
        me = client.do(calls.who_am_i())
    if as_json:
        echo_json(me)
    else:
        typer.echo(f"{me.actor}, {me.role.value}{' of ' + me.tenant if me.tenant else ''}")


@token_app.command("list")
def list_tokens(as_json: AsJson = False, context: InContext = "") -> None:
    """List tokens, without their secrets."""
    from dure.api.access import TokenDocument
    from dure.cli.fitting import Column
    from dure.client.fleet import calls

    with centre(context) as client:
        found = list(client.each(calls.list_tokens))
    if as_json:
        echo_json({"tokens": [each.model_dump(mode="json") for each in found]})
        return
    columns: list[Column[TokenDocument]] = [
        Column("token", lambda t: t.id, right=False),
        Column("name", lambda t: t.name, rank=1, right=False),
        Column("role", lambda t: t.role.value, right=False),
        Column("for", lambda t: t.tenant or t.cluster or "all", right=False),
        Column("age", lambda t: ago(t.created_at), rank=2),
        Column("expires", lambda t: t.expires_at or "", rank=3, right=False),
        Column("revoked", lambda t: t.revoked_at or "", rank=3, right=False),
    ]
    echo_table(columns, found, "No tokens.")


@token_app.command("create")
def create_token(
    role: Annotated[str, typer.Option(help="admin, tenant, viewer or member.")],
    name: Annotated[str, typer.Option(help="Whose or what for.")] = "",
    tenant: Annotated[str, typer.Option(help="Whose things it is for.")] = "",
    cluster: Annotated[str, typer.Option(help="Of a member.")] = "",
    expires: Annotated[str, typer.Option(help="A moment; else it holds until revoked.")] = "",
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Issue a token and print its secret, this once."""
    from dure.api.access import TokenRequest
    from dure.cli.centre import made_from
    from dure.client.fleet import calls

    given = {"role": role, "name": name, "tenant": tenant, "cluster": cluster, "expires": expires}
    wanted = made_from(TokenRequest, {key: value for key, value in given.items() if value})
    with centre(context) as client:
        issued = client.do(calls.issue_token(wanted))
    if as_json:
        echo_json(issued)
    else:
        typer.echo(issued.secret)


@token_app.command("revoke")
def revoke_token(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Its id, not its secret.")],
    context: InContext = "",
) -> None:
    """Make a token worthless."""
    from dure.client.fleet import calls

    with centre(context) as client:
        client.do(calls.revoke_token(token))
    typer.echo(f"token {token} is revoked.")


def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more happens.")] = False,
    after: Annotated[int | None, typer.Option(min=0, help="After this number.")] = None,
    subject: Annotated[str, typer.Option(help="Of this job, cluster, …")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Events at most.")] = 100,
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Print what happened, one event to a line."""
    from dure.client.fleet import calls

    wanted: dict[str, Any] = {"subject": subject} if subject else {}
    with centre(context) as client:
        if not follow:
            found = client.do(calls.list_events(after=after, limit=limit, **wanted))
            for event in found.items:
                _print_event(event, as_json=as_json)
            return
        for said in client.events(after, **wanted):
            _print_event(said, as_json=as_json)


def _print_event(event: Any, *, as_json: bool) -> None:
    import json

    from dure.api.history import EventDocument

    if not isinstance(event, EventDocument):
        typer.echo(f"(events up to {event.last} were pruned or missed)", err=True)
        return
    if as_json:
        typer.echo(event.model_dump_json())
        return
    data = json.dumps(event.data, ensure_ascii=False) if event.data else ""
    typer.echo(f"{event.seq:>8}  {event.at}  {event.kind:<18}  {event.subject}  {data}".rstrip())


def audit(
    actor: Annotated[str, typer.Option(help="Who.")] = "",
    action: Annotated[str, typer.Option(help="What.")] = "",
    subject: Annotated[str, typer.Option(help="To what.")] = "",
    since: Annotated[str, typer.Option(help="From this moment.")] = "",
    until: Annotated[str, typer.Option(help="Until this moment.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Entries at most.")] = 100,
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Print who asked for what, the newest first."""
    from dure.api.access import AuditDocument
    from dure.cli.fitting import Column
    from dure.client.fleet import calls

    wanted = {"actor": actor, "action": action, "subject": subject, "since": since, "until": until}
    with centre(context) as client:
        found = client.do(calls.list_audit(**wanted, limit=limit)).items
    if as_json:
        echo_json({"entries": [each.model_dump(mode="json") for each in found]})
        return
    columns: list[Column[AuditDocument]] = [
        Column("at", lambda a: a.at, right=False),
        Column("actor", lambda a: a.actor, right=False),
        Column("action", lambda a: a.action, right=False),
        Column("subject", lambda a: a.subject, rank=1, right=False),
        Column("outcome", lambda a: a.outcome, right=False),
    ]
    echo_table(columns, found, "No entries.")
