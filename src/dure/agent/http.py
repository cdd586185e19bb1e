"""The agent's HTTP API: routes, errors as sentences, and who is asking.

Over the UNIX socket the kernel says which user a connection belongs to. Over TCP nobody does, so
that face only shows and takes reports.
"""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import uvicorn
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from dure.agent.advice_desk import AdviceDesk
from dure.agent.containers.answers import UnknownContainerError
from dure.agent.dashboard import DashboardDesk
from dure.agent.desk import Desk
from dure.agent.recording import RecordingDesk
from dure.agent.registry import ForbiddenError, UnknownTenantError
from dure.agent.service import Service
from dure.agent.telemetry.desk import TelemetryDesk
from dure.agent.wire import Peer, peer_of
from dure.client.containers import ExemptRequest
from dure.client.recordings import RecordingQuery
from dure.client.schema import (
    EndRequest,
    GoalsRequest,
    PolicyRequest,
    Problem,
    Report,
    TenantPatch,
    TenantSpec,
    WhyAnswer,
)
from dure.client.telemetry import FeedbackRequest
from dure.domain.errors import DureError, InputError
from dure.stores.series.exposition import CONTENT_TYPE
from dure.web.pages import Levels, page_routes

_log = logging.getLogger(__name__)

_PEER = "dure.peer"
_LARGEST_BODY = 1 << 20
_GRACE_S = 1
_REMEDY = "run `dure dashboard` on its host"
"""Where nobody says who he is."""

_M = TypeVar("_M", bound=BaseModel)


class _PeerProtocol(H11Protocol):
    """HTTP on a UNIX socket, with the credentials of the connecting process in the scope."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        wrapped = transport.get_extra_info("socket")
        peer = _peer_of_transport(wrapped) if wrapped is not None else None
        app = self.app

        async def with_peer(scope: Scope, receive: Receive, send: Send) -> None:
            scope[_PEER] = peer
            await app(scope, receive, send)

        self.app = with_peer


def _peer_of_transport(wrapped: Any) -> Peer | None:
    """Who connected, if the socket can tell."""
    if wrapped.family != socket.AF_UNIX:
        return None
    try:
        return peer_of(wrapped)
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Desks:
    """Whoever answers."""

    service: Service
    desk: Desk
    telemetry: TelemetryDesk
    advice: AdviceDesk


class _Api:
    """The handlers; each names its message, does one thing, answers one model."""

    def __init__(self, desks: Desks) -> None:
        self._service = desks.service
        self._desk = desks.desk
        self._telemetry = desks.telemetry
        self._advice = desks.advice
        self._dashboard = DashboardDesk(desks.service)
        self._recordings = RecordingDesk(desks.desk, desks.service.uid)

    def routes(self, *, trusted: bool) -> list[Route]:
        """All of them, or only those that need no credentials."""
        shown = [
            Route("/v1/status", self._status),
            Route("/v1/tenants", self._tenants),
            Route("/v1/tenants/{name}/why", self._why),
            Route("/v1/tenants/{name}/reports", self._report, methods=["POST"]),
            Route("/v1/containers", self._containers),
            Route("/v1/containers/{name}/why", self._why_container),
            Route("/v1/tenants/{name}/feedback", self._feedback, methods=["POST"]),
            Route("/v1/series", self._series),
            Route("/v1/series/names", self._series_names),
            Route("/v1/timeline", self._timeline),
            Route("/v1/policy/choices", self._policy_choices),
            Route("/v1/policy/advice", self._show_advice),
            Route("/metrics", self._metrics),
            *page_routes(lambda: Levels(agent="", changes=trusted, remedy=_REMEDY)),
        ]
        if not trusted:
            return [*shown, Route("/v1/policy", self._policy)]
        return [
            *shown,
            Route("/v1/policy", self._policy),
            Route("/v1/policy", self._set_policy, methods=["PUT"]),
            Route("/v1/goals", self._goals, methods=["POST"]),
            Route("/v1/recording", self._record),
            Route("/v1/tenants/{name}/end", self._end, methods=["POST"]),
            Route("/v1/tenants/{name}", self._declare, methods=["PUT"]),
            Route("/v1/tenants/{name}", self._change, methods=["PATCH"]),
            Route("/v1/tenants/{name}", self._forget, methods=["DELETE"]),
            Route("/v1/containers/{name}/pause", self._pause_container, methods=["POST"]),
            Route("/v1/containers/{name}/resume", self._resume_container, methods=["POST"]),
            Route("/v1/containers/{name}/exempt", self._exempt_container, methods=["PUT"]),
        ]

    async def _status(self, request: Request) -> Response:
        return await _answer(self._desk.status)

    async def _tenants(self, request: Request) -> Response:
        return await _answer(self._desk.tenants)

    async def _why(self, request: Request) -> Response:
        return await _answer(partial(self._why_held, _name(request)))

    def _why_held(self, name: str) -> WhyAnswer:
        return self._advice.added_to(self._service.why(name))

    async def _declare(self, request: Request) -> Response:
        spec = await _body(request, TenantSpec)
        return await _answer(partial(self._service.declare, _name(request), spec, _peer(request)))

    async def _change(self, request: Request) -> Response:
        patch = await _body(request, TenantPatch)
        name = _name(request)
        await run_in_threadpool(self._service.change, name, patch, _peer(request))
        return await _answer(partial(self._desk.tenant, name))

    async def _forget(self, request: Request) -> Response:
        await run_in_threadpool(self._service.forget, _name(request), _peer(request))
        return Response(status_code=204)

    async def _end(self, request: Request) -> Response:
        wanted = await _body(request, EndRequest)
        return await _answer(partial(self._service.end, _name(request), wanted, _peer(request)))

    async def _policy(self, request: Request) -> Response:
        return await _answer(self._service.policies)

    async def _set_policy(self, request: Request) -> Response:
        wanted = await _body(request, PolicyRequest)
        return await _answer(partial(self._service.set_policy, wanted, _peer(request)))

    async def _goals(self, request: Request) -> Response:
        wanted = await _body(request, GoalsRequest)
        return await _answer(partial(self._service.apply_goals, wanted, _peer(request)))

    async def _report(self, request: Request) -> Response:
        said = await _body(request, Report)
        peer = request.scope.get(_PEER)
        await run_in_threadpool(self._service.report, _name(request), said, peer)
        return Response(status_code=204)

    async def _feedback(self, request: Request) -> Response:
        said = await _body(request, FeedbackRequest)
        await run_in_threadpool(self._telemetry.say, _name(request), said)
        return Response(status_code=204)

    async def _series(self, request: Request) -> Response:
        labels = request.query_params.getlist("label")
        return await _answer(partial(self._telemetry.series, request.query_params, labels))

    async def _series_names(self, request: Request) -> Response:
        return await _answer(self._telemetry.names)

    async def _metrics(self, request: Request) -> Response:
        text = await run_in_threadpool(self._telemetry.metrics)
        return Response(text, media_type=CONTENT_TYPE)

    async def _timeline(self, request: Request) -> Response:
        return await _answer(partial(self._dashboard.timeline, request.query_params))

    async def _policy_choices(self, request: Request) -> Response:
        return await _answer(self._dashboard.choices)

    async def _show_advice(self, request: Request) -> Response:
        return await _answer(self._advice.answer)

    async def _record(self, request: Request) -> Response:
        asked = _read(RecordingQuery, request.query_params)
        begun = await run_in_threadpool(self._recordings.begin, asked, _peer(request))
        return StreamingResponse(begun.lines(), media_type="application/x-ndjson")

    async def _containers(self, request: Request) -> Response:
        return await _answer(self._desk.container_desk().status)

    async def _why_container(self, request: Request) -> Response:
        return await _answer(partial(self._desk.container_desk().why, _name(request)))

    async def _pause_container(self, request: Request) -> Response:
        desk = self._desk.container_desk()
        return await _answer(partial(desk.pause, _name(request), _peer(request)))

    async def _resume_container(self, request: Request) -> Response:
        desk = self._desk.container_desk()
        return await _answer(partial(desk.resume, _name(request), _peer(request)))

    async def _exempt_container(self, request: Request) -> Response:
        wanted = await _body(request, ExemptRequest)
        desk = self._desk.container_desk()
        return await _answer(partial(desk.exempt, _name(request), wanted.exempt, _peer(request)))


def _name(request: Request) -> str:
    return str(request.path_params["name"])


def _peer(request: Request) -> Peer:
    """Who asks; only the UNIX socket leads to handlers that want to know."""
    peer = request.scope.get(_PEER)
    if not isinstance(peer, Peer):
        raise ForbiddenError("it is not known who asks", "use the agent's own socket")
    return peer


async def _body(request: Request, model: type[_M]) -> _M:
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > _LARGEST_BODY:
        raise InputError("the message is too long", "send at most 1 MiB")
    try:
        return model.model_validate_json(await request.body() or b"{}")
    except ValidationError as error:
        raise _misfit(error) from error


def _read(model: type[_M], asked: Mapping[str, str]) -> _M:
    """What a query asks for."""
    try:
        return model.model_validate(dict(asked))
    except ValidationError as error:
        raise _misfit(error) from error


def _misfit(error: ValidationError) -> InputError:
    first = error.errors()[0]
    where = ".".join(str(step) for step in first["loc"])
    return InputError(first["msg"].lower(), "correct it", field=where)


async def _answer(act: Callable[[], BaseModel]) -> Response:
    """Run in a worker thread, since it may wait for a GPU's own thread."""
    answer = await run_in_threadpool(act)
    return Response(answer.model_dump_json(by_alias=True), media_type="application/json")


def _problem(status: int, error: str, remedy: str = "") -> Response:
    return JSONResponse(Problem(error=error, remedy=remedy).model_dump(), status_code=status)


async def _on_dure_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, DureError)
    match error:
        case UnknownTenantError() | UnknownContainerError():
            status = 404
        case ForbiddenError():
            status = 403
        case InputError():
            status = 422
        case _:
            status = 500
    field = error.field if isinstance(error, InputError) else ""
    what = f"{field}: {error.what}" if field else error.what
    return _problem(status, what, error.remedy)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _problem(error.status_code, f"{request.method} {request.url.path}: {error.detail}")


async def _on_bug(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _problem(500, f"the agent failed in a way it should not ({type(error).__name__})")


def make_app(desks: Desks, *, trusted: bool) -> Starlette:
    """The API; `trusted`: over a socket that says who asks."""
    return Starlette(
        routes=list(_Api(desks).routes(trusted=trusted)),
        exception_handlers={
            DureError: _on_dure_error,
            HTTPException: _on_http_error,
            Exception: _on_bug,
        },
    )


class _Server(uvicorn.Server):
    """Leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _server(app: Starlette) -> _Server:
    return _Server(
        uvicorn.Config(
            app,
            http=_PeerProtocol,
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            timeout_graceful_shutdown=_GRACE_S,
        )
    )


async def serve(desks: Desks, own: socket.socket, tcp: socket.socket | None) -> None:
    """Answer until the process is asked to end."""
    faces = [(_server(make_app(desks, trusted=True)), own)]
    if tcp is not None:
        faces.append((_server(make_app(desks, trusted=False)), tcp))

    def end() -> None:
        for server, _ in faces:
            server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    await asyncio.gather(*(server.serve(sockets=[listener]) for server, listener in faces))
