"""The HTTPS door of a virtual cluster's nodes: only who shows a certificate is heard."""

import asyncio
import contextlib
import ssl
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from dure.domain.errors import InputError
from dure.virtual.certificates import Pair


@dataclass(frozen=True)
class Listening:
    """Where, and whom to believe."""

    host: str
    port: int
    pair: Pair
    clients: Path
    """Who signs the certificates of those who may ask."""


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def serve(app: Starlette, listening: Listening) -> None:
    """Until cancelled."""
    server = _Uvicorn(
        uvicorn.Config(
            app,
            host=listening.host,
            port=listening.port,
            ssl_certfile=str(listening.pair.certificate),
            ssl_keyfile=str(listening.pair.key),
            ssl_ca_certs=str(listening.clients),
            ssl_cert_reqs=ssl.CERT_REQUIRED,
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
    )
    serving = asyncio.create_task(_quietly(server))
    try:
        await asyncio.shield(serving)
        raise InputError(
            f"cannot listen at {listening.host}:{listening.port}", "give another --kubelet"
        )
    finally:
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await serving


async def _quietly(server: uvicorn.Server) -> None:
    with contextlib.suppress(SystemExit):  # uvicorn's, where it cannot listen
        await server.serve()
