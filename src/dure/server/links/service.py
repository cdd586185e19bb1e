"""The door for members: a gRPC server that checks who knocks and runs a link for each."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, NoReturn, Protocol

import grpc
from google.protobuf.message import DecodeError

from dure.domain.errors import DureError
from dure.domain.fleet.accounts import Role
from dure.domain.fleet.protocol.desired import AttemptKey, Plan
from dure.domain.fleet.protocol.link import AccessAnswer, CentreWord, Hello, MemberWord
from dure.domain.fleet.protocol.services import LoadSignal
from dure.domain.ids import ClusterId
from dure.server.auth import UnauthenticatedError
from dure.server.links.link import Link, LinkOver, farewell
from dure.server.links.reports import OutOfOrderError
from dure.server.links.wishing import WishDesk
from dure.server.ports import Gatekeeper, NotLinkedHere, State
from dure.server.rest.known import Known
from dure.server.services import Services
from dure.server.settings import Listening
from dure.stores.errors import ConflictError
from dure.stores.rows import Token
from dure.wire.codec import heard_from_member, to_member
from dure.wire.kinds import WireError
from dure.wire.parts import MOST_MESSAGE_BYTES, plan_parts
from dure.wire.v1 import member_pb2 as pb

_log = logging.getLogger(__name__)

SERVICE = "dure.v1.Members"
HELLO_S = 10.0
"""How long a member may take to say who it is."""
_GOODBYE_S = 2.0
_PARALLEL_LINKS = 4096
_KNOWN_S = 1.0
"""How old what wishes are checked against may be, where it does not refuse them."""


class Context(Protocol):
    """What gRPC gives the one who serves a call."""

    async def read(self) -> Any:
        """The next message, or `grpc.aio.EOF`."""

    async def write(self, message: pb.ToMember) -> None:
        """Send a message; waits while too many are under way."""

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        """End the call."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None:
        """What came with the call."""


class GrpcLine:
    """A gRPC stream as a line of words."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._turn = asyncio.Lock()

    async def say(self, word: CentreWord) -> None:
        """Send a word, a plan in parts."""
        async with self._turn:
            if isinstance(word, Plan):
                await self._say_plan(word)
            else:
                await self._context.write(to_member(word))

    async def _say_plan(self, plan: Plan) -> None:
        parts = plan_parts(plan)
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            await self._context.write(part)

    async def hear(self) -> MemberWord | None:
        """The next word; `WireError` where it is none."""
        raw = await self._context.read()
        if raw is grpc.aio.EOF:
            return None
        try:
            message = pb.FromMember.FromString(raw)
        except DecodeError as error:
            raise WireError(f"no message of a member ({error})") from error
        return heard_from_member(message)


class Links:
    """All links of this server; also the way to what instances wrote."""

    def __init__(self, state: State, own_url: str) -> None:
        self._state = state
        self._own_url = own_url
        self._links: dict[str, Link] = {}
        self._ending: set[asyncio.Task[Any]] = set()

    def add(self, link: Link) -> None:
        """A link is open; it takes the place of an older one of the same cluster."""
        self._links[link.cluster] = link

    async def remove(self, link: Link) -> None:
        """A link is over; that is noted even if nobody waits for it."""
        if self._links.get(link.cluster) is link:
            del self._links[link.cluster]
        ending = asyncio.create_task(link.close())
        self.await_end_of(ending)
        await asyncio.shield(ending)

    def await_end_of(self, task: asyncio.Task[Any] | None) -> None:
        """Note a task that uses the store: it must have ended before that is closed."""
        if task is not None:
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def end(self) -> None:
        """Let all links end, since this server does."""
        for link in self._links.values():
            link.end()

    async def settle(self) -> None:
        """Wait until everything about links has come to its end."""
        while self._ending:
            await asyncio.wait(set(self._ending))

    @property
    def clusters(self) -> frozenset[str]:
        """Clusters that this server has a link to."""
        return frozenset(self._links)

    async def logs(
        self, cluster: ClusterId, key: AttemptKey, index: int, *, follow: bool, tail: int | None
    ) -> AsyncIterator[bytes]:
        """What an instance wrote; `NotLinkedHere` where another server would have to be asked."""
        link = await self._link(cluster)
        async for chunk in link.logs.read(key, index, follow=follow, tail=tail):
            yield chunk

    async def access(self, cluster: ClusterId, name: str, for_s: int) -> AccessAnswer:
        """A token for the namespace of a virtual cluster; `NotLinkedHere` likewise."""
        return await (await self._link(cluster)).access.ask(name, for_s)

    async def signal(self, cluster: ClusterId, signal: LoadSignal) -> None:
        """Pass on what is said of a load; `NotLinkedHere` likewise."""
        (await self._link(cluster)).signals.put(signal)

    async def _link(self, cluster: ClusterId) -> Link:
        link = self._links.get(cluster)
        if link is None:
            async with self._state.reading() as tx:
                url = (await tx.clusters.get(cluster)).linked_url
            raise NotLinkedHere(cluster, "" if url == self._own_url else url)
        return link


class MemberDoor:
    """Takes members in."""

    def __init__(self, services: Services, gatekeeper: Gatekeeper, links: Links) -> None:
        self._services = services
        self._gatekeeper = gatekeeper
        self._links = links
        self._known = Known(services.state, _KNOWN_S)

    def handler(self) -> grpc.GenericRpcHandler:
        """For a gRPC server. Frames come as bytes: what cannot be read is refused with a reason."""
        method = grpc.stream_stream_rpc_method_handler(
            self._serve,
            request_deserializer=None,
            response_serializer=pb.ToMember.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"Link": method})

    async def _serve(self, _requests: Any, context: Context) -> None:
        self._links.await_end_of(asyncio.current_task())
        secret = _secret(context)
        try:
            token = await self._allowed(secret)
            if token is None:
                raise UnauthenticatedError(
                    "this needs the token of a member", "send it as authorization: Bearer TOKEN"
                )
            await self._converse(GrpcLine(context), secret, token)
        except UnauthenticatedError as error:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
        except WireError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except OutOfOrderError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except ConflictError as error:
            await context.abort(grpc.StatusCode.ABORTED, str(error))
        except PermissionError as error:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        except DureError as error:
            _log.warning("a link ends: %s", error)
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))

    async def _converse(self, line: GrpcLine, secret: str, token: Token) -> None:
        hello = await _hello(line)
        if hello.cluster != token.cluster:
            raise PermissionError(
                f"this token is of cluster {token.cluster}, not of {hello.cluster}; use its own"
            )

        async def still_allowed() -> bool:
            return await self._allowed(secret) is not None

        wishes = WishDesk(self._services, hello.cluster, self._known)
        link = Link(self._services, line, hello, still_allowed, wishes)
        try:
            await link.open()
            self._links.add(link)
            try:
                await link.run()
            finally:
                await self._links.remove(link)
        except LinkOver as over:
            _log.info("the link to cluster %s ends: %s", hello.cluster, over.why)
            async with asyncio.timeout(_GOODBYE_S):
                await line.say(farewell(over))

    async def _allowed(self, secret: str) -> Token | None:
        if not secret:
            return None
        try:
            token = await self._gatekeeper.authenticate(secret)
        except UnauthenticatedError:
            return None
        return token if token.role is Role.MEMBER else None


def _secret(context: Context) -> str:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization" and isinstance(value, str):
            scheme, _, secret = value.partition(" ")
            return secret.strip() if scheme.lower() == "bearer" else ""
    return ""


async def _hello(line: GrpcLine) -> Hello:
    try:
        async with asyncio.timeout(HELLO_S):
            word = await line.hear()
    except TimeoutError:
        raise WireError(f"said nothing for {HELLO_S:g} s") from None
    if not isinstance(word, Hello):
        raise WireError("the first word must be a hello")
    return word


def make_grpc_server(door: MemberDoor, listening: Listening) -> tuple[grpc.aio.Server, int]:
    """A server that is not started yet, and the port it will listen at."""
    server = grpc.aio.server(
        handlers=[door.handler()],
        options=[
            ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MOST_MESSAGE_BYTES),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
            # Two servers that share a port by accident would each get half of the members.
            ("grpc.so_reuseport", 0),
        ],
        maximum_concurrent_rpcs=_PARALLEL_LINKS,
    )
    address = f"{listening.grpc_host}:{listening.grpc_port}"
    if listening.tls_cert:
        return server, server.add_secure_port(address, _credentials(listening))
    return server, server.add_insecure_port(address)


def _credentials(listening: Listening) -> grpc.ServerCredentials:
    authority = Path(listening.tls_client_ca).read_bytes() if listening.tls_client_ca else None
    return grpc.ssl_server_credentials(
        [(Path(listening.tls_key).read_bytes(), Path(listening.tls_cert).read_bytes())],
        root_certificates=authority,
        require_client_auth=authority is not None,
    )
