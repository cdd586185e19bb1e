"""A door to agent and centre on this machine's loopback, for the browser of whoever opened it.

Browsers reach neither UNIX sockets nor tokens that the command line keeps. The door does, as its
owner: the agent's socket tells who asks, the centre gets the stored token. Every question must show
the key that came with the address, so no other page and no other user of this host can ask.
"""

import secrets
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from dure.web.pages import HEADERS, Levels, SignIn, page_routes

AGENT, FLEET = "/agent", "/fleet"
_METHODS = ["GET", "PUT", "POST", "PATCH", "DELETE"]
_PASSED_UP = ("accept", "content-type", "idempotency-key", "if-match", "if-none-match")
_PASSED_DOWN = ("content-type", "etag", "location", "retry-after")
_LARGEST_BODY = 1 << 20
_CONNECT_S = 5.0
_READ_S = 150.0
"""The longest answer is a re-run of an hour; streams say something every few seconds."""


@dataclass(frozen=True)
class Upstream:
    """Who answers behind the door."""

    url: str
    noun: str
    """As people call it: the agent, the centre."""
    remedy: str
    """What to do where it does not answer."""
    socket: Path | None = None
    """Where it listens, if not at the address."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every question."""
    ca_file: str = ""

    def client(self) -> httpx.AsyncClient:
        """Connections to it."""
        uds = None if self.socket is None else str(self.socket)
        trusted = ssl.create_default_context(cafile=self.ca_file) if self.ca_file else True
        return httpx.AsyncClient(
            base_url=self.url,
            transport=httpx.AsyncHTTPTransport(uds=uds, verify=trusted),
            headers=dict(self.headers),
            timeout=httpx.Timeout(_READ_S, connect=_CONNECT_S),
        )


@dataclass(frozen=True)
class Door:
    """One door: what it leads to, and its key."""

    agent: Upstream | None
    fleet: Upstream | None
    host: str
    """HOST:PORT that it is reached at; other names are refused, also those that lead here."""
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def url(self) -> str:
        """What a browser is to open; the part behind # is not sent anywhere."""
        return f"http://{self.host}/ui/#key={self.key}"

    def levels(self) -> Levels:
        """What can be looked at."""
        return Levels(
            agent=None if self.agent is None else AGENT,
            fleet=None if self.fleet is None else FLEET,
            sign_in=SignIn.KEY,
        )

    def app(self) -> Starlette:
        """The application."""
        routes: list[Route] = page_routes(self.levels)
        for path, upstream in ((AGENT, self.agent), (FLEET, self.fleet)):
            if upstream is not None:
                passage = _Passage(self, upstream)
                routes.append(Route(f"{path}/{{path:path}}", passage.ask, methods=_METHODS))
        return Starlette(routes=routes)


class _Passage:
    """Carries questions to one upstream and answers back, as they come."""

    def __init__(self, door: Door, upstream: Upstream) -> None:
        self._door = door
        self._upstream = upstream
        self._client: httpx.AsyncClient | None = None

    async def ask(self, request: Request) -> Response:
        """One question."""
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        body = await request.body()
        if self._client is None:
            self._client = self._upstream.client()
        asked = self._client.build_request(
            request.method,
            f"/{request.path_params['path']}",
            params=httpx.QueryParams(request.url.query),
            content=body,
            headers=_kept(request.headers, _PASSED_UP),
        )
        try:
            answer = await self._client.send(asked, stream=True)
        except httpx.HTTPError as error:
            what = f"{self._upstream.noun} does not answer ({type(error).__name__})"
            return _problem(502, what, self._upstream.remedy)
        return StreamingResponse(
            _whole(answer),
            status_code=answer.status_code,
            headers={**HEADERS, **_kept(answer.headers, _PASSED_DOWN), "Cache-Control": "no-store"},
            background=BackgroundTask(answer.aclose),
        )

    def _refusal(self, request: Request) -> Response | None:
        if request.headers.get("host", "") != self._door.host:
            return _problem(421, "this door has another name", f"open {self._door.host}")
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not secrets.compare_digest(
            key.encode(), self._door.key.encode()
        ):
            return _problem(
                401, "the key is missing or wrong", "open the address that `dure dashboard` printed"
            )
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > _LARGEST_BODY:
            return _problem(413, "the message is too long", "send at most 1 MiB")
        return None


async def _whole(answer: httpx.Response) -> AsyncIterator[bytes]:
    async for chunk in answer.aiter_bytes():
        yield chunk


def _kept(headers: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


def _problem(status: int, error: str, remedy: str) -> Response:
    return JSONResponse(
        {"error": error, "remedy": remedy}, status_code=status, headers=dict(HEADERS)
    )
