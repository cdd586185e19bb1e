"""`dure server`: the process at the centre of the fleet, and what its operator does to it."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dure.domain.errors import InputError

if TYPE_CHECKING:
    from dure.server.options import ServerOptions
    from dure.stores.store import Store

app = typer.Typer(
    help="The centre of the fleet: takes jobs, plans, and speaks with the members of clusters.",
    invoke_without_command=True,
)
token_app = typer.Typer(help="Tokens, where no administrator has one.", no_args_is_help=True)
app.add_typer(token_app, name="token")

ResultT = TypeVar("ResultT")

_Data = Annotated[
    Path | None,
    typer.Option(help="Its folder; else one below XDG_STATE_HOME or ~/.local/state."),
]
_Database = Annotated[
    str,
    typer.Option(
        help="postgresql://USER@HOST/DATABASE; else SQLite in the folder.", envvar="DURE_DATABASE"
    ),
]
_Bus = Annotated[
    str,
    typer.Option(help="nats://HOST:PORT; else hints stay in the process.", envvar="DURE_BUS"),
]
_Series = Annotated[
    str,
    typer.Option(
        metavar="STORE",
        help="Where measurements are kept: sqlite (a file in the folder), off, or the address of a "
        "VictoriaMetrics or Prometheus; DURE_SERIES_TOKEN is sent to it.",
        envvar="DURE_SERIES",
    ),
]
_Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where people and programs ask.")]
_Grpc = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where members knock.")]
_Advertise = Annotated[
    str, typer.Option(metavar="URL", help="Where other servers reach this one; else --listen.")
]
_Cert = Annotated[str, typer.Option(help="File with the certificate and its chain.")]
_Key = Annotated[str, typer.Option(help="File with its key.")]
_ClientCa = Annotated[
    str, typer.Option(help="Members must also show a certificate of this authority.")
]
_Insecure = Annotated[
    bool, typer.Option("--insecure", help="Listen beyond this machine without TLS.")
]
_Ttl = Annotated[
    float | None, typer.Option(help="Seconds that a silent leader keeps others from leading.")
]
_LostAfter = Annotated[
    float | None, typer.Option(help="Seconds without contact after which a cluster is cut off.")
]
_Issuer = Annotated[
    str,
    typer.Option(
        metavar="URL", help="OpenID Connect issuer of people's tokens; rules are in --config."
    ),
]
_Audience = Annotated[str, typer.Option(help="Whom the issuer's tokens must be meant for.")]
_Config = Annotated[Path | None, typer.Option(help="YAML file of settings; options go first.")]
_File = Annotated[Path, typer.Argument(help="The backup.")]


@app.callback()
def server(
    context: typer.Context,
    data: _Data = None,
    database: _Database = "",
    bus: _Bus = "",
    series: _Series = "sqlite",
    listen: _Listen = "",
    grpc: _Grpc = "",
    advertise: _Advertise = "",
    tls_cert: _Cert = "",
    tls_key: _Key = "",
    tls_client_ca: _ClientCa = "",
    insecure: _Insecure = False,
    lease_ttl: _Ttl = None,
    lost_after: _LostAfter = None,
    oidc_issuer: _Issuer = "",
    oidc_audience: _Audience = "",
    config: _Config = None,
) -> None:
    """Be a server until SIGTERM. Without options: one process, one SQLite file, nothing else."""
    given: dict[str, Any] = {
        "advertise_url": advertise,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "tls_client_ca": tls_client_ca,
        "lease_ttl_s": lease_ttl,
        "lost_after_s": lost_after,
    }
    given |= _address("rest", listen, "--listen") | _address("grpc", grpc, "--grpc")
    oidc = {"issuer": oidc_issuer, "audience": oidc_audience}
    given["oidc"] = {name: value for name, value in oidc.items() if value}
    given = {name: value for name, value in given.items() if value}
    options = replace(
        _options(data, database, config, given),
        bus=bus,
        insecure=insecure,
        series=series,
        series_token=os.environ.get("DURE_SERIES_TOKEN", ""),
    )
    context.obj = options
    if context.invoked_subcommand is None:
        from dure.server import main

        main.run(options)


def _address(part: str, text: str, option: str) -> dict[str, Any]:
    from dure.server.options import address_of

    if not text:
        return {}
    host, port = address_of(text, option)
    return {f"{part}_host": host, f"{part}_port": port}


def _options(
    data: Path | None, database: str, config: Path | None, given: dict[str, Any]
) -> "ServerOptions":
    from dure.server.options import ServerOptions, default_data, read_settings, with_settings
    from dure.server.settings import ServerSettings

    settings = ServerSettings()
    if config is not None:
        settings = with_settings(settings, read_settings(config), str(config))
    settings = with_settings(settings, given, "")
    return ServerOptions(data or default_data(), database, settings=settings)


@app.command()
def init(context: typer.Context) -> None:
    """Make the database and the first administrator's token; prints the token this once."""
    from dure.server.main import first_token

    options: ServerOptions = context.obj

    async def work(store: "Store") -> bool:
        await store.migrate()
        return await first_token(store, options.token_file)

    if not _with_store(options, work):
        raise InputError(
            "the centre has tokens already", "make another with `dure server token create`"
        )
    typer.echo(options.token_file.read_text(encoding="utf-8").strip())


@app.command()
def migrate(context: typer.Context) -> None:
    """Bring the database's schema to what this version knows."""

    async def work(store: "Store") -> str:
        return await store.migrate()

    typer.echo(f"schema {_with_store(context.obj, work)}")


@app.command()
def backup(context: typer.Context, file: _File) -> None:
    """Write everything to a file, while servers run; either database can be restored from it."""

    async def work(store: "Store") -> int:
        return (await store.export(file)).rows

    typer.echo(f"{_with_store(context.obj, work)} rows in {file}")


@app.command()
def restore(context: typer.Context, file: _File) -> None:
    """Restore a backup into an empty database, while no server runs."""

    async def work(store: "Store") -> int:
        return (await store.import_(file)).rows

    typer.echo(f"{_with_store(context.obj, work)} rows from {file}")


@token_app.command("create")
def create_token(
    context: typer.Context,
    role: Annotated[str, typer.Option(help="admin, tenant, viewer or member.")] = "admin",
    name: Annotated[str, typer.Option(help="What it is for.")] = "",
    tenant: Annotated[str | None, typer.Option(help="Whose; needed for tenant.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Of which; needed for member.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a token, straight in the database; prints its secret this once."""
    from dure.domain.fleet.accounts import Role
    from dure.server.main import issue_token
    from dure.stores.repos.access import Grant

    roles = {each.value: each for each in Role}
    if role not in roles:
        raise InputError(f"{role!r} is no role", f"use one of {', '.join(roles)}", field="--role")
    grant = Grant(roles[role], name, tenant, cluster)

    async def work(store: "Store") -> tuple[str, str]:
        return await issue_token(store, grant)

    token_id, secret = _with_store(context.obj, work)
    typer.echo(json.dumps({"id": token_id, "secret": secret}) if as_json else secret)


def _with_store(options: "ServerOptions", work: Callable[["Store"], Awaitable[ResultT]]) -> ResultT:
    from dure.server.options import make_data
    from dure.stores.store import Store

    async def opened() -> ResultT:
        async with Store.open(options.address) as store:
            return await work(store)

    make_data(options.data)
    return asyncio.run(opened())
