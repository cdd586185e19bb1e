"""Requests to one API server, sent again for a while where that can do no harm."""

import asyncio
import json
import random
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from dure.kit.backoff import Backoff
from dure.kube.access import Access
from dure.kube.connections import Connections
from dure.kube.errors import (
    KubeError,
    KubeOverloadedError,
    KubeServerError,
    KubeUnreachableError,
    refused,
    unreachable,
)
from dure.kube.resources import Object
from dure.kube.tokens import BearerAuth

JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"

_RETRY_LIMIT_S = 2.0
"""The longest wait between two attempts at one request."""
_AT_ONCE = 16
"""Requests under way at a time, beside streams: each more would open a connection of its own, and a
TLS handshake costs both sides more than the wait for another's."""
_CANCELLED_S = 1.0
"""How long a cancelled request may take to come to a clean end."""
_KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 3),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 20_000),
]
"""A cut link says nothing: a watch that hears nothing finds out within some 20 s."""


@dataclass(frozen=True)
class Patience:
    """How long a client waits, and for what."""

    answer_s: float = 30.0
    """For one answer; a write waits for admission, which webhooks may delay by 10 s each."""
    connect_s: float = 5.0
    """For a connection."""
    retry_for_s: float = 10.0
    """How long a request that failed for want of a server is repeated; 0 for not at all."""


@dataclass(frozen=True)
class Request:
    """One request, and whether it may be sent twice."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Object | None = None
    content_type: str = JSON
    repeatable: bool = True
    accept: str = JSON


class Transport:
    """Connections to one cluster, used by any number of tasks of one event loop."""

    def __init__(self, access: Access, patience: Patience, chance: random.Random) -> None:
        self.url = access.url
        self.patience = patience
        self._chance = chance
        self._places = asyncio.Semaphore(_AT_ONCE)
        name = access.server_name
        self._extensions: dict[str, Any] = {"sni_hostname": name} if name else {}
        self._http = httpx.AsyncClient(
            base_url=access.url,
            auth=BearerAuth(access.tokens) if access.tokens else None,
            timeout=self._timeout(patience.answer_s),
            headers={"user-agent": "dure"},
            transport=_connections(access),
        )

    async def close(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    async def send(self, request: Request) -> Object:
        """The answer, asked for again while that may help and can do no harm."""
        waits = Backoff(limit_s=_RETRY_LIMIT_S, chance=self._chance)
        until = time.monotonic() + self.patience.retry_for_s
        while True:
            try:
                async with self._places:
                    return await self._send_once(request)
            except KubeError as error:
                wait_s = _wait_s(error, request, waits)
                if wait_s is None or time.monotonic() + wait_s > until:
                    raise
            await asyncio.sleep(wait_s)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        query: Mapping[str, str],
        silence_s: float | None,
        accept: str = "*/*",
    ) -> AsyncIterator[httpx.Response]:
        """An answer that is read as it comes; one that says nothing for so long is broken."""
        request = self._http.build_request(
            "GET",
            path,
            params=query,
            headers={"accept": accept},
            timeout=self._timeout(silence_s),
            extensions=self._extensions,
        )
        response = await self._answered(request)
        try:
            if response.is_error:
                await response.aread()
                raise refused(response, f"GET {path}")
            yield response
        except httpx.HTTPError as error:
            raise unreachable(self.url, error) from error
        finally:
            await response.aclose()

    async def _answered(self, request: httpx.Request, *, whole: bool = False) -> httpx.Response:
        """The beginning of an answer, or all of it.

        Whoever is cancelled meanwhile first sees the connection made: httpcore leaves the socket
        of one that is cut off in its TLS handshake open.
        """
        sending = asyncio.create_task(self._http.send(request, stream=not whole))
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            await asyncio.wait([sending], timeout=_CANCELLED_S)
            if sending.done() and not sending.cancelled() and sending.exception() is None:
                await sending.result().aclose()
            sending.cancel()
            raise
        except httpx.HTTPError as error:
            raise unreachable(self.url, error) from error

    def _timeout(self, read_s: float | None) -> httpx.Timeout:
        other_s, connect_s = self.patience.answer_s, self.patience.connect_s
        return httpx.Timeout(connect=connect_s, read=read_s, write=other_s, pool=None)

    async def _send_once(self, request: Request) -> Object:
        content = None if request.body is None else json.dumps(request.body)
        headers = {"accept": request.accept}
        if content:
            headers["content-type"] = request.content_type
        response = await self._answered(
            self._http.build_request(
                request.method,
                request.path,
                params=request.query,
                content=content,
                headers=headers,
                extensions=self._extensions,
            ),
            whole=True,
        )
        if response.is_error:
            raise refused(response, f"{request.method} {request.path}")
        body = response.json()
        if not isinstance(body, dict):
            raise KubeServerError(f"{request.path}: the answer is no object", "check the address")
        return body


def _connections(access: Access) -> httpx.AsyncBaseTransport:
    """Straight to the API server, or by way of a proxy, which httpx knows how to speak with."""
    if access.proxy is None:
        return Connections(access.tls(), _KEEPALIVE)
    return httpx.AsyncHTTPTransport(
        verify=access.tls(),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
        socket_options=_KEEPALIVE,
        proxy=access.proxy,
    )


def _wait_s(error: KubeError, request: Request, waits: Backoff) -> float | None:
    """How long to wait before asking again; None: that would not help, or might do harm."""
    if isinstance(error, KubeOverloadedError):
        return max(error.retry_after_s, waits.next_s())
    never_sent = isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout)
    if isinstance(error, KubeUnreachableError | KubeServerError):
        return waits.next_s() if request.repeatable or never_sent else None
    return None
