"""HTTP/1.1 connections to one API server, for httpx: kept open, used again, the latest first.

A member makes some requests for every job. httpx's own pool looks at all its connections for each
of them, and wraps every step for several event loops: three times the processor time of this.
"""

import asyncio
import select
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import h11
import httpx

_MOST_IDLE = 20
_IDLE_S = 30.0
"""A connection that nobody used for so long is closed: somebody on the way may have dropped it."""
_CHUNK_BYTES = 64 * 1024

SocketOptions = Sequence[tuple[int, int, int]]


class Connections(httpx.AsyncBaseTransport):
    """Carries requests out on connections of its own; belongs to one event loop."""

    def __init__(self, tls: ssl.SSLContext, options: SocketOptions) -> None:
        self._tls = tls
        self._options = options
        self._idle: list[_Connection] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The beginning of an answer; its body is read as it comes."""
        connection = self._idle_one() or await self._connect(request)
        try:
            head = await connection.ask(request)
        except BaseException:
            connection.close()
            raise
        body = _Body(connection, self, request)
        return httpx.Response(head.status_code, headers=head.headers.raw_items(), stream=body)

    async def aclose(self) -> None:
        """Close those that nobody uses; the others close when their answers are read."""
        while self._idle:
            self._idle.pop().close()

    def back(self, connection: "_Connection") -> None:
        """A connection whose answer was read whole."""
        if connection.again() and len(self._idle) < _MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def _idle_one(self) -> "_Connection | None":
        """The one used last, so that others grow old and are closed."""
        while self._idle and self._idle[0].is_old:
            self._idle.pop(0).close()
        while self._idle:
            connection = self._idle.pop()
            if connection.alive:
                return connection
            connection.close()
        return None

    async def _connect(self, request: httpx.Request) -> "_Connection":
        url, safe = request.url, request.url.scheme == "https"
        name = request.extensions.get("sni_hostname") or url.host
        with _mapped(httpx.ConnectTimeout, httpx.ConnectError, request):
            async with asyncio.timeout(_limit_s(request, "connect")):
                reader, writer = await asyncio.open_connection(
                    url.host,
                    url.port or (443 if safe else 80),
                    ssl=self._tls if safe else None,
                    server_hostname=name if safe else None,
                    limit=_CHUNK_BYTES,
                )
        return _Connection(reader, writer, self._options)


class _Connection:
    """One connection and where it is in its conversation."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        options: SocketOptions,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._socket: socket.socket = writer.get_extra_info("socket")
        for option in options:
            self._socket.setsockopt(*option)
        self._talk = h11.Connection(h11.CLIENT)
        self._used_s = time.monotonic()

    @property
    def alive(self) -> bool:
        """Whether the other side has not closed it; what lies unread can only be that it has."""
        if self._reader.at_eof() or self._writer.transport.is_closing():
            return False
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        return not poll.poll(0)

    @property
    def is_old(self) -> bool:
        """Whether nobody used it for long."""
        return time.monotonic() - self._used_s > _IDLE_S

    def again(self) -> bool:
        """Be ready for the next request; whether that is possible."""
        self._used_s = time.monotonic()
        if self._talk.our_state is not h11.DONE or self._talk.their_state is not h11.DONE:
            return False
        self._talk.start_next_cycle()
        return self.alive

    def close(self) -> None:
        """End it, whatever is under way."""
        self._writer.transport.abort()

    async def ask(self, request: httpx.Request) -> h11.Response:
        """Send a request; the beginning of its answer."""
        assert isinstance(request.stream, httpx.AsyncByteStream)
        head = h11.Request(
            method=request.method, target=request.url.raw_path, headers=request.headers.raw
        )
        body = b"".join([part async for part in request.stream])
        parts = [self._sent(head), self._sent(h11.Data(body)), self._sent(h11.EndOfMessage())]
        with _mapped(httpx.WriteTimeout, httpx.WriteError, request):
            async with asyncio.timeout(_limit_s(request, "write")):
                self._writer.write(b"".join(parts))
                await self._writer.drain()
        while True:
            event = await self.next(request)
            if isinstance(event, h11.Response):
                return event

    async def next(self, request: httpx.Request) -> Any:
        """The next event of the answer."""
        while (event := self._heard(request)) is h11.NEED_DATA:
            with _mapped(httpx.ReadTimeout, httpx.ReadError, request):
                async with asyncio.timeout(_limit_s(request, "read")):
                    data = await self._reader.read(_CHUNK_BYTES)
            self._talk.receive_data(data)
        return event

    def _sent(self, event: h11.Event) -> bytes:
        return self._talk.send(event) or b""

    def _heard(self, request: httpx.Request) -> Any:
        try:
            return self._talk.next_event()
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error), request=request) from error


class _Body(httpx.AsyncByteStream):
    """The body of an answer; read to its end it gives its connection back."""

    def __init__(self, connection: _Connection, home: Connections, request: httpx.Request) -> None:
        self._connection: _Connection | None = connection
        self._home = home
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._connection is not None:
            event = await self._connection.next(self._request)
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            else:
                connection, self._connection = self._connection, None
                self._home.back(connection)

    async def aclose(self) -> None:
        """Nobody reads the rest."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _limit_s(request: httpx.Request, what: str) -> float | None:
    limit_s: float | None = request.extensions.get("timeout", {}).get(what)
    return limit_s


@contextmanager
def _mapped(
    late: type[httpx.TimeoutException], broken: type[httpx.NetworkError], request: httpx.Request
) -> Iterator[None]:
    """Errors of sockets as those of httpx."""
    try:
        yield
    except TimeoutError as error:
        raise late("no answer in time", request=request) from error
    except OSError as error:
        raise broken(str(error), request=request) from error
