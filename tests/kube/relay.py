"""A relay before a server that a test can cut: no word goes through until it is mended."""

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit


class Relay:
    """Listens on loopback and passes bytes on in both directions."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._to = (parts.hostname, parts.port)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._links: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where clients find the relay."""
        return f"https://127.0.0.1:{self._port}"

    async def mend(self) -> None:
        """Let connections through (again)."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Break every connection and refuse new ones."""
        assert self._server is not None
        self._server.close()
        for link in tuple(self._links):
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        with suppress(OSError, asyncio.CancelledError):
            try:
                far_reader, far_writer = await asyncio.open_connection(*self._to)
                try:
                    await asyncio.gather(_pass(reader, far_writer), _pass(far_reader, writer))
                finally:
                    far_writer.close()
            finally:
                writer.close()
                self._links.discard(task)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
