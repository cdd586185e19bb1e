"""What the API server asks of a kubelet, over HTTPS and with its certificate: logs of Pods, who
bears a token. What the fleet cannot do for a Pod is refused with the reason."""

import logging
from collections.abc import AsyncIterator
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from dure.api.access import WhoAmI
from dure.client.fleet import AsyncFleetClient, Context, FleetError, RefusedError, calls
from dure.domain.errors import DureError
from dure.domain.fleet.accounts import Role
from dure.virtual.book import PodBook

_log = logging.getLogger("dure.virtual")

OWNERS = "system:masters"
VIEWERS = "dure:viewers"
"""Groups of a virtual cluster's API server."""
_NO_LOGS = {400, 404, 409}
_REFUSED = {
    "exec": "commands cannot be run in Pods of a virtual cluster",
    "attach": "nobody can attach to Pods of a virtual cluster",
    "portForward": "ports of Pods of a virtual cluster cannot be forwarded",
    "run": "commands cannot be run in Pods of a virtual cluster",
}
_INSTEAD = {
    "exec": "write what you need to know to its log: kubectl logs",
    "attach": "read its log: kubectl logs -f",
    "portForward": "reach a service of the fleet by its address: dure front",
    "run": "write what you need to know to its log: kubectl logs",
}


class Pods(Protocol):
    """Where a Pod's job is known."""

    @property
    def book(self) -> PodBook:
        """All of them."""


class Kubelet:
    """Answers for all nodes of one virtual cluster."""

    def __init__(self, centre: AsyncFleetClient, tenant_path: str) -> None:
        self._centre = centre
        self._tenant_path = tenant_path
        self.pods: Pods | None = None
        """None: they are not known yet."""

    def app(self) -> Starlette:
        """Its paths are those of a kubelet."""
        place = "/{namespace}/{pod}/{container}"
        refused = [
            Route(f"/{word}{path}", self._refuse, methods=["GET", "POST"], name=word)
            for word in _REFUSED
            for path in ("/{namespace}/{pod}", place, "/{namespace}/{pod}/{uid}/{container}")
        ]
        return Starlette(
            routes=[
                Route(f"/containerLogs{place}", self._logs, methods=["GET"]),
                Route("/authenticate", self._authenticate, methods=["POST"]),
                Route("/healthz", _healthy, methods=["GET"]),
                *refused,
            ]
        )

    async def _refuse(self, request: Request) -> Response:
        word = request.url.path.split("/")[1]
        return PlainTextResponse(f"{_REFUSED[word]}; {_INSTEAD[word]}", 501)

    # Logs

    async def _logs(self, request: Request) -> Response:
        asked = request.query_params
        for name in ("sinceSeconds", "sinceTime", "timestamps"):
            if asked.get(name) not in (None, "", "0", "false"):
                return _sorry(501, f"{name}: when a line was written is not kept; use --tail")
        job, attempt = self._job(request.path_params["namespace"], request.path_params["pod"])
        if not job:
            return _sorry(400, "its job was not submitted yet; wait until it runs")
        wanted: dict[str, Any] = {"follow": asked.get("follow", "false")}
        if asked.get("tailLines"):
            wanted["tail"] = asked["tailLines"]
        if asked.get("previous") == "true":
            if attempt <= 1:
                return _sorry(400, "it was started once: there is no log before this one")
            wanted["attempt"] = str(attempt - 1)
        source = self._centre.logs(job, **wanted)
        try:
            first = await anext(source, b"")
        except RefusedError as error:
            return _sorry(400 if error.status in _NO_LOGS else 503, str(error))
        except FleetError as error:
            return _sorry(503, str(error))
        most = int(asked["limitBytes"]) if asked.get("limitBytes", "").isdigit() else None
        return StreamingResponse(_joined(first, source, most), media_type="text/plain")

    def _job(self, namespace: str, name: str) -> tuple[str, int]:
        """The job of a Pod and its attempt; empty: there is none."""
        for entry in () if self.pods is None else self.pods.book.entries.values():
            metadata = entry.pod["metadata"]
            same = (metadata.get("namespace"), metadata["name"]) == (namespace, name)
            if same and not entry.gone:
                return entry.job, 0 if entry.stand is None else entry.stand.attempt
        return "", 0

    # Tokens

    async def _authenticate(self, request: Request) -> Response:
        """Who bears a token of Dure: whoever owns the virtual cluster, or looks at it."""
        review = await request.json()
        token = str((review.get("spec") or {}).get("token", ""))
        status: dict[str, Any] = {"authenticated": False}
        try:
            who = await self._who(token)
            group = self._group(who)
            if group:
                user = {"username": f"dure:{who.actor}", "groups": [group]}
                status = {"authenticated": True, "user": user}
        except DureError as error:
            status["error"] = str(error)
        return JSONResponse(
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}
        )

    async def _who(self, token: str) -> WhoAmI:
        context = self._centre.context
        asker = Context(context.servers, token, ca_file=context.ca_file)
        async with AsyncFleetClient(asker, self._centre.patience) as client:
            return await client.do(calls.who_am_i())

    def _group(self, who: WhoAmI) -> str:
        """What somebody may do here; empty: nothing."""
        path, seen = self._tenant_path, who.tenant
        owns = seen is None or path == seen or path.startswith(f"{seen}/")
        if not owns or who.role is Role.MEMBER:
            return ""
        return VIEWERS if who.role is Role.VIEWER else OWNERS


async def _healthy(_: Request) -> Response:
    return PlainTextResponse("ok")


def _sorry(status: int, why: str) -> Response:
    return PlainTextResponse(why, status)


async def _joined(
    first: bytes, rest: AsyncIterator[bytes], most: int | None
) -> AsyncIterator[bytes]:
    left = most
    chunk = first
    while True:
        part = chunk if left is None else chunk[:left]
        if part:
            yield part
        if left is not None:
            left -= len(part)
            if left <= 0:
                return
        try:
            chunk = await anext(rest)
        except StopAsyncIteration:
            return
        except FleetError as error:
            _log.info("a log breaks off: %s", error)
            return
