"""The server's composition: what is made of what, in which order it starts and in which it ends."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
import uvloop
from fastapi import FastAPI

from dure.domain.errors import InputError
from dure.domain.fleet.accounts import Role
from dure.kit.memory import keep_what_is_loaded
from dure.server.core import running
from dure.server.options import ServerOptions, check, make_data
from dure.server.ports import Bus
from dure.server.rest.app import build_app
from dure.server.settings import Listening
from dure.server.telemetry.keeping import measuring
from dure.stores.bus.local import LocalBus
from dure.stores.bus.nats import NatsBus
from dure.stores.errors import StoreUnavailableError
from dure.stores.ids import new_id
from dure.stores.repos.access import Grant
from dure.stores.rows import AuditEntry
from dure.stores.store import Store
from dure.stores.transaction import Transaction

_log = logging.getLogger("dure.server")

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_GRACE_S = 2
"""What requests under way get to end."""
_DATABASE_S = 30.0
"""How long a server that starts waits for its database: both may start at once."""
_AGAIN_S = 0.5
_SWITCH_S = 0.001
"""How long a thread that decides may keep those waiting that answer and renew the lease."""


def run(options: ServerOptions) -> None:
    """Be a server until SIGTERM or SIGINT."""
    check(options)
    make_data(options.data)
    sys.setswitchinterval(_SWITCH_S)
    keep_what_is_loaded()
    logging.basicConfig(level=logging.INFO, format=_LOG_FORMAT)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # A request is some dozens of turns of the loop: uvloop's cost a third less of the processor.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(options))


async def _serve(options: ServerOptions) -> None:
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    async with Store.open(options.address) as store, _bus(options.bus) as bus:
        schema = await prepared(store, options.token_file)
        _log.info("database %s has schema %s", _shown(options), schema)
        settings = options.settings
        async with (
            running(store, bus, settings) as core,
            measuring(core, options) as telemetry,
            _rest(build_app(core.services, telemetry), settings.listening) as rest,
        ):
            _log.info(
                "REST at %s, dashboard at %s/ui/, members at %s:%d",
                settings.listening.url,
                settings.listening.url,
                settings.listening.grpc_host,
                core.grpc_port,
            )
            await _either(end, rest)
            _log.info("ends")


async def prepared(store: Store, token_file: Path, within_s: float = _DATABASE_S) -> str:
    """Have the schema and the first token, as soon as the database answers; tells the schema."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + within_s
    while True:
        try:
            schema = await store.migrate()
            await first_token(store, token_file)
        except StoreUnavailableError as error:
            if loop.time() >= until_s:
                raise
            _log.warning("waits for the database: %s", error)
        else:
            return schema
        await asyncio.sleep(_AGAIN_S)


async def _either(end: asyncio.Event, rest: asyncio.Task[None]) -> None:
    """Until somebody asks for the end, or REST cannot go on."""
    asked = asyncio.create_task(end.wait())
    await asyncio.wait([asked, rest], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if rest.done() and not end.is_set():
        raise InputError("the REST interface ended", "see the log above; is its port in use?")


@asynccontextmanager
async def _bus(address: str) -> AsyncIterator[Bus]:
    bus: Bus = NatsBus(address) if address else LocalBus()
    await bus.start()
    try:
        yield bus
    finally:
        await bus.close()


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@asynccontextmanager
async def _rest(app: FastAPI, listening: Listening) -> AsyncIterator[asyncio.Task[None]]:
    server = _Uvicorn(
        uvicorn.Config(
            app,
            host=listening.rest_host.strip("[]"),
            port=listening.rest_port,
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
            ssl_certfile=listening.tls_cert or None,
            ssl_keyfile=listening.tls_key or None,
        )
    )

    async def serve() -> None:
        # Where the port is taken it ends the process by itself; that is for the caller to do.
        with contextlib.suppress(SystemExit):
            await server.serve()

    task = asyncio.create_task(serve())
    try:
        yield task
    finally:
        server.should_exit = True
        await task


async def first_token(store: Store, file: Path) -> bool:
    """A new centre gets a token for its first administrator; whether it was new.

    It is left in a file that only its owner may read, and stored nowhere else.
    """
    async with store.transaction() as tx:
        if await tx.tokens.all():
            return False
        _, secret = await _issue(tx, Grant(Role.ADMIN, "first"))
        write_secret(file, secret)
    _log.info("the first administrator's token is in %s", file)
    return True


async def issue_token(store: Store, grant: Grant) -> tuple[str, str]:
    """A new token's id and secret."""
    async with store.transaction() as tx:
        return await _issue(tx, grant)


async def _issue(tx: Transaction, grant: Grant) -> tuple[str, str]:
    token, secret = await tx.tokens.issue(grant)
    entry = AuditEntry(new_id(), tx.now_ns, "console", "token.create", token.id, "done")
    await tx.audit.add(entry)
    return token.id, secret


def write_secret(file: Path, secret: str) -> None:
    """Store a secret for the file's owner alone."""
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(secret + "\n")


def _shown(options: ServerOptions) -> str:
    """The database without its password."""
    scheme, separator, rest = options.address.rpartition("@")
    if not separator:
        return options.address
    return f"{scheme.partition('://')[0]}://…@{rest}"
