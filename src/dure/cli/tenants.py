"""`dure tenants`, `set`, `forget` and `end`: who is declared, and what was said of them."""

import pwd
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.terminal import duration_option_ns, output_console

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dure.client.schema import TenantStatus

_WIDTH = 120

Json = Annotated[bool, typer.Option("--json", help="Print every figure as JSON instead of text.")]
Named = Annotated[str, typer.Argument(help="The tenant.", metavar="TENANT")]


def tenants(as_json: Json = False) -> None:
    """List the tenants an agent knows, with what was said of each."""
    from dure.client.api import find_agent
    from dure.client.schema import TenantList

    with find_agent() as client:
        listed = client.tenants()
    if as_json:
        typer.echo(TenantList(tenants=listed).model_dump_json(indent=2, by_alias=True))
        return
    if not listed:
        typer.echo("No tenants. Start one: dure run -- PROGRAM")
        return
    console = output_console(_WIDTH)
    console.print(tenants_view(listed, console.width))


def change(
    tenant: Named,
    changes: Annotated[
        list[str],
        typer.Argument(help="What to change, as 'weight=2'; 'none' clears.", metavar="KEY=VALUE…"),
    ],
    as_json: Json = False,
) -> None:
    """Change a tenant while it runs; keys are the options of `dure run`."""
    from dure.cli.wishes import patch_of
    from dure.client.api import find_agent

    patch = patch_of(changes)
    with find_agent() as client:
        changed = client.change(tenant, patch)
    if as_json:
        typer.echo(changed.model_dump_json(indent=2, by_alias=True))
    else:
        console = output_console(_WIDTH)
        console.print(tenants_view((changed,), console.width))


def forget(tenant: Named) -> None:
    """Forget a tenant that runs nothing any more; `dure end` ends what it runs."""
    from dure.client.api import find_agent

    with find_agent() as client:
        client.forget(tenant)
    typer.echo(f"{tenant} is forgotten.")


def end(
    tenant: Named,
    grace: Annotated[
        str, typer.Option(help="Time between asking its processes to end and killing them.")
    ] = "5s",
) -> None:
    """End a tenant's processes; under MPS in the way that harms no other tenant."""
    from dure.client.api import find_agent
    from dure.domain.units import NS_PER_S

    grace_s = duration_option_ns(grace, "--grace") / NS_PER_S
    with find_agent() as client:
        ended = client.end(tenant, grace_s)
    if not ended.asked:
        typer.echo(f"{tenant} has no process.")
        return
    killed = f", of which {len(ended.killed)} had to be killed" if ended.killed else ""
    several = f"{len(ended.asked)} processes of {tenant} were"
    what = f"1 process of {tenant} was" if len(ended.asked) == 1 else several
    typer.echo(f"{what} ended{killed}.")


def tenants_view(listed: "tuple[TenantStatus, ...]", width: int) -> "RenderableType":
    """The tenants as a table: what was said, not how they fare; that is `dure top`."""
    from dure.cli.fitting import Column, fitting_table
    from dure.cli.top_view import promise_words
    from dure.domain.units import format_bytes
    from dure.kernel.goal_words import share_words, span_words

    columns: list[Column[TenantStatus]] = [
        Column("tenant", lambda t: t.name, right=False),
        Column("user", lambda t: _user(t.uid), rank=5, right=False),
        Column("class", lambda t: t.spec.tenant_class, rank=2, right=False),
        Column("goal", lambda t: t.spec.goal or "", rank=4, right=False),
        Column("weight", lambda t: f"{t.spec.weight:g}", rank=2),
        Column("promise", lambda t: promise_words(t.spec), rank=1, right=False),
        Column("floor", lambda t: share_words(t.spec.sm_share) if t.spec.sm_share else "", rank=3),
        Column("limit", lambda t: _size(t.spec.memory_limit_bytes), rank=3),
        Column("reserve", lambda t: _size(t.spec.memory_reserve_bytes or None), rank=3),
        Column(
            "expected",
            lambda t: span_words(t.spec.expected_ns) if t.spec.expected_ns else "",
            rank=6,
        ),
        Column(
            "copies",
            lambda t: (
                f"{format_bytes(t.spec.copy_bytes_per_s)}/s" if t.spec.copy_bytes_per_s else ""
            ),
            rank=6,
        ),
        Column("pids", _pids, rank=4, right=False),
        Column("command", lambda t: _short(" ".join(t.spec.command)), rank=7, right=False),
    ]
    return fitting_table(columns, _each_once(listed), width)


def _each_once(listed: "tuple[TenantStatus, ...]") -> "list[TenantStatus]":
    """A tenant on several GPUs is listed for each; here it is one, with all its processes."""
    found: dict[str, TenantStatus] = {}
    for tenant in listed:
        before = found.get(tenant.name)
        clients = (*before.clients, *tenant.clients) if before else tenant.clients
        found[tenant.name] = tenant.model_copy(update={"clients": clients})
    return list(found.values())


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _size(size: int | None) -> str:
    from dure.domain.units import format_bytes

    return "" if size is None else format_bytes(size)


def _pids(tenant: "TenantStatus") -> str:
    pids = [str(client.pid) for client in tenant.clients]
    return " ".join(pids[:3]) + (f" +{len(pids) - 3}" if len(pids) > 3 else "")


def _short(words: str) -> str:
    return words if len(words) <= 40 else f"{words[:39]}…"
