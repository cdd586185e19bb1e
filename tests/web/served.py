"""An application on a port of this machine, for as long as a test needs it."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from starlette.applications import Starlette


@contextmanager
def served(make: Callable[[str], Starlette]) -> Iterator[httpx.Client]:
    """A client of the application that is made for a HOST:PORT."""
    listener = socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(make(host), ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
    thread.start()
    try:
        with httpx.Client(base_url=f"http://{host}", timeout=30) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()
