"""How every request comes in: who asks, whether they may, how often, with how large a body.

Routes are declared with `route`, which says who may use them and which documents they take and
give; the OpenAPI document and the tests of who may read the same declaration.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request, params
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from dure.api.base import Document, DocumentT, read_document, said_twice
from dure.api.complaints import shown_name
from dure.api.problems import MEDIA_TYPE
from dure.domain.fleet.accounts import Role
from dure.server.auth import Caller, ForbiddenError, UnauthenticatedError
from dure.server.rest.desk import Desk
from dure.server.rest.problems import RefusedError, misfit, wrong

HandlerT = TypeVar("HandlerT", bound=Callable[..., Awaitable[Response]])
JSON = "application/json"
_WITHOUT_QUERY: set[Callable[..., Any]] = set()
"""Handlers that read nothing of the query."""
TAKEN_MODELS: set[type[Document]] = set()
"""Documents that bodies are read as; the OpenAPI document describes them."""


class Access(Enum):
    """Who may use a route."""

    ANYONE = "anyone"
    SIGNED_IN = "signed-in"
    READ = "read"
    """Everybody but members, each what is theirs."""
    WRITE = "write"
    """Administrators, and tenants what is theirs."""
    FLEET = "fleet"
    """Reads of the whole fleet: administrators, and viewers that are bound to no tenant."""
    ADMIN = "admin"


_ROLES: Mapping[Access, frozenset[Role]] = {
    Access.SIGNED_IN: frozenset(Role),
    Access.READ: frozenset({Role.ADMIN, Role.TENANT, Role.VIEWER}),
    Access.WRITE: frozenset({Role.ADMIN, Role.TENANT}),
    Access.FLEET: frozenset({Role.ADMIN, Role.VIEWER}),
    Access.ADMIN: frozenset({Role.ADMIN}),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One request of somebody who may make it."""

    request: Request
    caller: Caller
    desk: Desk

    @property
    def key(self) -> str | None:
        """Its idempotency key."""
        key = self.request.headers.get("idempotency-key")
        if key is not None and not (0 < len(key) <= 255 and key.isprintable() and key.isascii()):
            raise RefusedError(
                422,
                "invalid",
                "Idempotency-Key: is no key; use 1 to 255 printable ASCII characters",
            )
        return key

    async def body(self) -> bytes:
        """The whole body, if it is not too large."""
        return await read_body(self.request, self.desk.limits.body_bytes)

    async def document(self, model: type[DocumentT]) -> DocumentT:
        """The body as a document."""
        return parsed(model, await self.body())


def parsed(model: type[DocumentT], raw: bytes) -> DocumentT:
    """A body as a document; refused with every field that is wrong."""
    try:
        document = read_document(model, raw)
    except ValidationError as error:
        raise misfit(error, model) from error
    twice = said_twice(raw)
    if twice:
        raise wrong(shown_name(twice), "is said twice in one object", "say it once")
    return document


async def read_body(request: Request, most_bytes: int) -> bytes:
    """A body, read no further than it may be long."""
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON:
        raise RefusedError(415, "not-json", f"the body is {kind!r}; send {JSON}")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most_bytes:
            raise RefusedError(
                413,
                "too-large",
                f"the body is longer than {most_bytes} bytes; send less at once",
                headers={"Connection": "close"},
            )
        parts.append(part)
    return b"".join(parts)


async def enter(request: Request, access: Access) -> Call:
    """Let a request in, or raise why not."""
    desk: Desk = request.app.state.desk
    try:
        caller = await desk.gate.identify(_bearer(request))
    except UnauthenticatedError:
        address = request.client.host if request.client else ""
        _within(desk.strangers.wait_s(address, time.monotonic()))
        raise
    _within(desk.rates.wait_s(caller.actor, time.monotonic()))
    request.state.caller = caller
    unbound = access is not Access.FLEET or caller.tenant is None
    if caller.role not in _ROLES[access] or not unbound:
        raise ForbiddenError(
            f"the role {caller.role.value} may not do this", "use a token that may"
        )
    if request.url.query and request.scope["endpoint"] in _WITHOUT_QUERY:
        name = next(iter(request.query_params), "?")
        raise RefusedError(422, "invalid", f"{name[:64]!r} means nothing here; leave it out")
    return Call(request, caller, desk)


def _bearer(request: Request) -> str:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not secret.strip():
        raise UnauthenticatedError(
            "the request shows no token", "send it as 'Authorization: Bearer TOKEN'"
        )
    return secret.strip()


def _within(wait_s: float) -> None:
    if wait_s > 0:
        seconds = max(1, round(wait_s + 0.5))
        raise RefusedError(
            429,
            "too-many",
            f"too many requests; wait {seconds} s",
            headers={"Retry-After": str(seconds)},
        )


async def _signed_in(request: Request) -> Call:
    return await enter(request, Access.SIGNED_IN)


async def _read(request: Request) -> Call:
    return await enter(request, Access.READ)


async def _write(request: Request) -> Call:
    return await enter(request, Access.WRITE)


async def _fleet(request: Request) -> Call:
    return await enter(request, Access.FLEET)


async def _admin(request: Request) -> Call:
    return await enter(request, Access.ADMIN)


SignedIn = Annotated[Call, Depends(_signed_in)]
Reader = Annotated[Call, Depends(_read)]
Writer = Annotated[Call, Depends(_write)]
FleetReader = Annotated[Call, Depends(_fleet)]
Admin = Annotated[Call, Depends(_admin)]

_BY_DEPENDENCY = {
    _signed_in: Access.SIGNED_IN,
    _read: Access.READ,
    _write: Access.WRITE,
    _fleet: Access.FLEET,
    _admin: Access.ADMIN,
}


def access_of(handler: Callable[..., Any]) -> Access:
    """Who may use the route of a handler, as its first parameter says."""
    for annotation in handler.__annotations__.values():
        for part in getattr(annotation, "__metadata__", ()):
            dependency = getattr(part, "dependency", None)
            if dependency in _BY_DEPENDENCY:
                return _BY_DEPENDENCY[dependency]
    return Access.ANYONE


def _reads_query(handler: Callable[..., Any]) -> bool:
    return any(
        isinstance(part, params.Query)
        for annotation in handler.__annotations__.values()
        for part in getattr(annotation, "__metadata__", ())
    )


@dataclass(frozen=True)
class Speaks:
    """The documents of a route."""

    takes: type[Document] | None = None
    gives: type[BaseModel] | None = None
    status: int = 200
    also: tuple[int, ...] = ()
    """Further statuses that give the same document."""
    media: str = JSON
    """Of what it gives."""
    headers: tuple[str, ...] = ()
    """Of requests, that the OpenAPI document shall name: `If-Match`, …"""


def route(
    router: APIRouter, method: str, path: str, speaks: Speaks | None = None
) -> Callable[[HandlerT], HandlerT]:
    """Declare a route; the handler's docstring is its description."""
    said = speaks or Speaks()

    def declare(handler: HandlerT) -> HandlerT:
        if not _reads_query(handler):
            _WITHOUT_QUERY.add(handler)
        if said.takes is not None:
            TAKEN_MODELS.add(said.takes)
        router.add_api_route(
            path,
            handler,
            methods=[method],
            operation_id=handler.__name__,
            responses=_responses(said),
            openapi_extra=_extra(said, access_of(handler)),
            response_model=None,
            status_code=said.status,
        )
        return handler

    return declare


def _responses(said: Speaks) -> dict[int | str, dict[str, Any]]:
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    answers: dict[int | str, dict[str, Any]] = {
        "default": {"description": "Refused, and why", "content": {MEDIA_TYPE: problem}}
    }
    for status in (said.status, *said.also):
        answers[status] = {"description": "Done"}
        if said.gives is not None:
            answers[status]["model"] = said.gives
        elif said.media != JSON:
            answers[status]["content"] = {said.media: {"schema": {"type": "string"}}}
    return answers


def _extra(said: Speaks, access: Access) -> dict[str, Any]:
    extra: dict[str, Any] = {"x-dure-access": access.value}
    if access is not Access.ANYONE:
        extra["security"] = [{"bearer": []}]
    if said.headers:
        extra["parameters"] = [
            {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
            for name in said.headers
        ]
    if said.takes is not None:
        reference = {"$ref": f"#/components/schemas/{said.takes.__name__}"}
        extra["requestBody"] = {"required": True, "content": {JSON: {"schema": reference}}}
    return extra


def answer(document: BaseModel, status: int = 200, **headers: str) -> Response:
    """A document as an answer; headers with `_` for `-`."""
    return Response(
        document.model_dump_json(by_alias=True),
        status,
        {name.replace("_", "-"): value for name, value in headers.items()},
        JSON,
    )
