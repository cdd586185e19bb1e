"""Hands requests on to instances of a service, and their answers back, as they come.

A request that an instance surely did not begin, since it took no connection, is given to another
one. One that may have been begun is repeated once at most, and only where HTTP calls that safe.
Nothing is added to a request but who asked, and nothing of an answer is kept for the next one.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from dure.front.table import Backend, Table
from dure.front.traffic import Traffic

_log = logging.getLogger(__name__)

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_REPEATABLE = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"}
_OF_ONE_HOP = {
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
    *("transfer-encoding", "upgrade"),
}
_TOLD_ANEW = {"x-forwarded-for", "x-forwarded-proto"}
_FAULT = 500
"""Answers from here on are errors of the service."""
_BODILESS, _WITHOUT_BODY = {204, 304}, {"content-length"}
"""Answers that have no body, whatever they say of its length."""
_KEPT_OPEN = 1000
_MOST_KEPT = 1 << 20
"""Of a request's body, to be able to send it again; a longer one is sent once."""
_CONNECT_S = 2.0
_KEEP_OPEN_S = 2.0
"""Shorter than servers keep connections open, so that few are found closed."""


class Front:
    """One service behind one address."""

    def __init__(self, table: Table, patience_s: float, answer_s: float) -> None:
        self.table = table
        self.traffic = Traffic(time.monotonic())
        self._patience_s = patience_s
        self._changed = asyncio.Event()
        # Below a client, which would keep cookies of one who asks and send them for others.
        self._http = httpx.AsyncHTTPTransport(
            limits=httpx.Limits(
                max_connections=None,
                max_keepalive_connections=_KEPT_OPEN,
                keepalive_expiry=_KEEP_OPEN_S,
            ),
            trust_env=False,
        )
        self._timeout = httpx.Timeout(answer_s, connect=_CONNECT_S, pool=None).as_dict()

    def app(self) -> Starlette:
        """As an application of ASGI."""

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            await self._http.aclose()

        route = Route("/{path:path}", self.answer, methods=_METHODS)
        return Starlette(routes=[route], lifespan=lifespan)

    def changed(self) -> None:
        """There may be instances that were not there before."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def answer(self, request: Request) -> Response:
        """Ask one instance after the other until one answers."""
        body = _Body(request)
        try:
            await body.begin()
        except ClientDisconnect:
            return Response(status_code=400)
        until_s = time.monotonic() + self._patience_s
        tried: set[str] = set()
        begun = 0
        while True:
            backend = self.table.choose(time.monotonic(), tried)
            if backend is None:
                if not await self._more(until_s):
                    return _nobody(len(self.table))
                tried.clear()
                continue
            try:
                return await self._ask(backend, request, body)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                tried.add(backend.address)
                _log.info("%s does not answer: %s", backend.address, error)
            except httpx.TransportError as error:
                tried.add(backend.address)
                begun += 1
                _log.warning("%s failed: %s", backend.address, error)
                if not _may_repeat(request, body, begun, error):
                    return _failed(backend.address)

    async def _more(self, until_s: float) -> bool:
        """Wait for another instance; False when the patience is over."""
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            return False
        try:
            async with asyncio.timeout(min(left_s, _CONNECT_S)):
                with self.traffic.a_wait():
                    await self._changed.wait()
        except TimeoutError:
            pass  # One that was there may answer again.
        return True

    async def _ask(self, backend: Backend, request: Request, body: "_Body") -> Response:
        url = httpx.URL(f"http://{backend.address}").copy_with(raw_path=_raw_path(request))
        backend.in_flight += 1
        self.traffic.began(backend.address, time.monotonic())
        try:
            asked = httpx.Request(
                request.method,
                url,
                headers=_onward(request),
                content=body.content(),
                extensions={"timeout": self._timeout},
            )
            told = await self._http.handle_async_request(asked)
        except BaseException as error:
            backend.in_flight -= 1
            if isinstance(error, httpx.TransportError):
                backend.failed(time.monotonic())
            if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                self.traffic.refused(backend.address)
            else:
                self._count(backend, body, failed=True)
            raise
        backend.answered()
        dropped = _OF_ONE_HOP | (_WITHOUT_BODY if told.status_code in _BODILESS else set())
        headers = [
            (name, value)
            for name, value in told.headers.raw
            if name.lower().decode("latin-1") not in dropped
        ]
        answer = StreamingResponse(self._streamed(told, backend, body), told.status_code)
        answer.raw_headers = [(name.lower(), value) for name, value in headers]
        return answer

    async def _streamed(
        self, told: httpx.Response, backend: Backend, body: "_Body"
    ) -> AsyncIterator[bytes]:
        try:
            async for part in told.aiter_raw():
                yield part
        finally:
            backend.in_flight -= 1
            self._count(backend, body, failed=told.status_code >= _FAULT)
            await told.aclose()

    def _count(self, backend: Backend, body: "_Body", *, failed: bool) -> None:
        now_s = time.monotonic()
        self.traffic.ended(backend.address, now_s, now_s - body.came_s, failed=failed)


class _Body:
    """What a request carries: kept while it is short, else read as it is sent."""

    def __init__(self, request: Request) -> None:
        self.came_s = time.monotonic()
        self._parts = request.stream()
        self._kept = b""
        self.whole = False
        """Whether all of it is kept."""

    async def begin(self) -> None:
        """Read as much as is kept."""
        async for part in self._parts:
            self._kept += part
            if len(self._kept) > _MOST_KEPT:
                return
        self.whole = True

    def content(self) -> bytes | AsyncIterator[bytes]:
        """To be sent."""
        return self._kept if self.whole else self._rest()

    async def _rest(self) -> AsyncIterator[bytes]:
        yield self._kept
        async for part in self._parts:
            yield part


def _may_repeat(request: Request, body: _Body, begun: int, error: httpx.TransportError) -> bool:
    """Whether another instance may be asked what one may have begun."""
    safe = request.method in _REPEATABLE and body.whole
    return safe and begun == 1 and not isinstance(error, httpx.ReadTimeout)


def _raw_path(request: Request) -> bytes:
    path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query: bytes = request.scope["query_string"]
    return path + b"?" + query if query else path


def _onward(request: Request) -> list[tuple[bytes, bytes]]:
    """Headers for the instance: those of the request, and who asked."""
    named = request.headers.get("connection", "")
    dropped = _OF_ONE_HOP | _TOLD_ANEW | {each.strip().lower() for each in named.split(",")}
    kept = [
        (name, value)
        for name, value in request.headers.raw
        if name.decode("latin-1") not in dropped
    ]
    if request.client is not None:
        before = request.headers.getlist("x-forwarded-for")
        kept.append((b"x-forwarded-for", ", ".join([*before, request.client.host]).encode()))
    kept.append((b"x-forwarded-proto", request.url.scheme.encode()))
    return kept


def _nobody(instances: int) -> Response:
    what = "none of its instances answers" if instances else "it has no instance that is ready"
    return _problem(503, f"the service cannot answer: {what}; try again later")


def _failed(address: str) -> Response:
    return _problem(502, f"the instance at {address} ended in the middle of the request")


def _problem(status: int, detail: str) -> Response:
    return JSONResponse(
        {"title": "Service unavailable", "status": status, "detail": detail},
        status,
        headers={"Retry-After": "1"},
        media_type="application/problem+json",
    )
