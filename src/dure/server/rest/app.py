"""The REST application: routes, one answer for every error, the OpenAPI document."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from http import HTTPStatus

import httpx
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dure import __version__
from dure.api.complaints import misfits
from dure.domain.errors import DureError
from dure.server.auth import Gate, TokenGate
from dure.server.oidc import OidcIssuer
from dure.server.rerun.running import Reruns
from dure.server.rest.desk import Desk
from dure.server.rest.known import Known
from dure.server.rest.limits import RateLimit
from dure.server.rest.openapi import describe
from dure.server.rest.problems import RefusedError, refused
from dure.server.rest.refusals import note_refusal
from dure.server.rest.routes import ROUTERS
from dure.server.rest.waking import Waker
from dure.server.services import Services
from dure.server.telemetry.desk import Telemetry
from dure.server.telemetry.fleet import FleetReader
from dure.server.whatif import WhatIf
from dure.web.pages import Levels, SignIn, page_routes

_LOG = logging.getLogger(__name__)
_ISSUER_S = 5.0
"""For an answer of the OIDC issuer."""


def build_app(services: Services, telemetry: Telemetry | None = None) -> FastAPI:
    """The application of one server; without `telemetry` nothing is kept of what it measures."""
    limits = services.settings.rest
    state = services.state
    tokens = TokenGate(state, cache_s=limits.token_cache_s, now_ns=services.now_ns)
    http = httpx.AsyncClient(timeout=_ISSUER_S)
    oidc = services.settings.oidc
    desk = Desk(
        services=services,
        gate=Gate(tokens, None if oidc is None else OidcIssuer(oidc, http)),
        limits=limits,
        rates=RateLimit(limits.requests_per_s, limits.burst),
        strangers=RateLimit(limits.strangers_per_s, limits.strangers_burst),
        known=Known(state, limits.known_s),
        waker=Waker(services.bus, services.settings.poll_s),
        telemetry=telemetry or Telemetry(FleetReader(services), services.leads),
        whatif=WhatIf(state, services.now_ns),
        reruns=Reruns(state),
    )

    @contextlib.asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        listening = asyncio.create_task(desk.waker.listen())
        yield
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
        await http.aclose()

    app = FastAPI(
        title="Dure",
        version=__version__,
        description="The centre of a fleet of accelerators. Members speak gRPC, people this.",
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=life,
    )
    app.state.desk = desk
    for router in ROUTERS:
        app.include_router(router)
    app.router.routes.extend(page_routes(lambda: Levels(fleet="", sign_in=SignIn.TOKEN)))
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    app.add_exception_handler(DureError, _on_refusal)
    app.add_exception_handler(RequestValidationError, _on_misfit)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_bug)
    app.add_middleware(_Counting, desk=desk)
    return app


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, DureError)
    told = refused(error)
    if told is None:
        return await _on_bug(request, error)
    await note_refusal(request, told)
    return told.response()


async def _on_misfit(_: Request, error: Exception) -> Response:
    """A path or a query that does not fit; bodies are read by the routes themselves."""
    assert isinstance(error, RequestValidationError)
    fields = misfits(error.errors())
    first = fields[0]
    told = RefusedError(422, "invalid", f"{first.field}: {first.detail}; {first.remedy}", fields)
    return told.response()


async def _on_http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase.lower()
    remedy = "see /v1/openapi.json for what there is"
    kind = phrase.replace(" ", "-")
    return RefusedError(
        error.status_code, kind, f"{phrase}; {remedy}", headers=error.headers or {}
    ).response()


async def _on_bug(request: Request, error: Exception) -> Response:
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return RefusedError(
        500, "bug", "the server failed in a way it should not; its log says more"
    ).response()


class _Counting:
    """Counts answers by method and status."""

    def __init__(self, app: ASGIApp, desk: Desk) -> None:
        self._app = app
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._desk.answers[scope["method"], message["status"]] += 1
            await send(message)

        await self._app(scope, receive, counted)
