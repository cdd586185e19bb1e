"""Keeps a door open until whoever opened it ends it."""

import asyncio
import os
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn

from dure.domain.errors import InputError
from dure.web.door import Door

_GRACE_S = 1
_PAGE = """<!doctype html><meta charset="utf-8"><title>Dure</title>
<meta http-equiv="refresh" content="0; url={url}"><a href="{url}">Open the dashboard</a>
"""


def listen(host: str, port: int) -> socket.socket:
    """Where a door will be; port 0: any that is free."""
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise InputError(
            f"cannot listen at {host}:{port} ({error.strerror})", "use another port", field="--port"
        ) from error


def serve(door: Door, listener: socket.socket) -> None:
    """Answer until SIGINT or SIGTERM."""
    server = uvicorn.Server(
        uvicorn.Config(
            door.app(),
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
    )
    with suppress(KeyboardInterrupt):
        asyncio.run(server.serve(sockets=[listener]))


def open_browser(url: str, show: Callable[[str], bool]) -> Path:
    """Show an address without telling it to everybody who lists this host's processes: browsers
    are given a file that only its owner may read, and that leads there."""
    descriptor, name = tempfile.mkstemp(prefix="dure-dashboard-", suffix=".html")
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(_PAGE.format(url=url))
    page = Path(name)
    show(page.as_uri())
    return page
