"""Links to the centre, one after the other: dials a server, speaks until either side is silent."""

import asyncio
import logging
import math
import random
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import grpc

from dure import __version__
from dure.domain.errors import DureError
from dure.domain.fleet.protocol.link import (
    AccessAnswer,
    AccessRequest,
    Ack,
    Goodbye,
    Hello,
    LogCancel,
    LogRequest,
    MemberWord,
    Ping,
    Welcome,
)
from dure.domain.fleet.protocol.reports import Report
from dure.domain.fleet.protocol.services import Routes, Signals
from dure.domain.fleet.protocol.wishes import Standing, Standings, Wishes
from dure.kit.backoff import Backoff
from dure.member.link.logs import LogDesk
from dure.member.link.outbox import Outbox
from dure.member.link.servers import Server, channel_to
from dure.member.runtime import Member
from dure.wire.codec import from_member, heard_from_centre
from dure.wire.kinds import WireError
from dure.wire.parts import PlanAssembler
from dure.wire.v1 import member_pb2 as pb
from dure.wire.v1 import member_pb2_grpc

_log = logging.getLogger("dure.member")

_HELLO_S = 10.0
"""How long a server may take to answer."""
_COALESCE_S = 0.1
"""Least time between two reports."""
_PING_PARTS = 3
"""A ping at every such part of the time after which silence ends a link."""
_STEADY_S = 3.0
"""A link that held so long was a good one: the next is tried at once."""
_REFUSED_S = 30.0
"""Longest wait before a server is asked again that does not want this member at all."""


class LinkLost(Exception):  # noqa: N818, an end, not always an error
    """The link is over, and why."""

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused
        """Whether no server wants this member; it asks again, but seldom."""


@dataclass(frozen=True, slots=True)
class Centre:
    """Where the centre is, and who this member is to it."""

    servers: Sequence[Server]
    token: str = field(repr=False, default="")
    token_file: Path | None = None
    """Read at every dial: it may be renewed."""

    def bearer(self) -> str:
        """What proves who this is."""
        if self.token_file is None:
            return self.token
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise DureError(
                f"{self.token_file} cannot be read ({error.strerror})", "give it the token"
            ) from error


class People(Protocol):
    """Those who declare jobs in the cluster itself."""

    def linked(self) -> None:
        """A new link: all that is not over is said on it."""

    async def wishes(self) -> Wishes:
        """What is to be said next; waits until there is something."""

    def hear(self, standings: Iterable[Standing]) -> None:
        """What the centre answers."""


class Keys(Protocol):
    """Those who let people of virtual clusters speak to the cluster."""

    async def access(self, request: AccessRequest) -> AccessAnswer:
        """A token, or why there is none."""


class Routers(Protocol):
    """Those who let services be found under names of the cluster."""

    def hear(self, word: Routes) -> None:
        """Where they answer now."""


class Session:
    """Keeps a member linked to its centre."""

    def __init__(
        self,
        member: Member,
        centre: Centre,
        people: People | None = None,
        keys: Keys | None = None,
        routers: Routers | None = None,
    ) -> None:
        self._member = member
        self._people = people
        self._keys = keys
        self._routers = routers
        self._centre = centre
        self._outbox = Outbox()
        self._incarnation = secrets.token_hex(8)
        self._next = random.randrange(len(centre.servers))

    async def run(self) -> None:
        """Link after link, until cancelled."""
        await self._member.ready()
        backoff = Backoff()
        while True:
            server = self._centre.servers[self._next % len(self._centre.servers)]
            try:
                await self._link(server, backoff)
            except LinkLost as lost:
                _log.warning("no link to %s: %s", server, lost)
                if lost.refused:
                    backoff.limit_s = _REFUSED_S
            except grpc.aio.AioRpcError as error:
                _log.warning("no link to %s: %s", server, error.details() or error.code())
            except (WireError, DureError) as error:
                _log.warning("no link to %s: %s", server, error)
            self._next += 1
            await asyncio.sleep(backoff.next_s())

    async def _link(self, server: Server, backoff: Backoff) -> None:
        async with channel_to(server) as channel:
            stub = member_pb2_grpc.MembersStub(channel)  # type: ignore[no-untyped-call]
            bearer = await asyncio.to_thread(self._centre.bearer)
            call = stub.Link(metadata=(("authorization", f"Bearer {bearer}"),))
            link = _Link(self._member, self._outbox, call, self._people, self._keys, self._routers)
            clock_s, began_s = asyncio.get_running_loop().time, math.inf
            try:
                await link.greet(self._hello())
                _log.info("linked to %s", server)
                began_s = clock_s()
                await link.run()
            finally:
                call.cancel()
                if clock_s() - began_s >= _STEADY_S:
                    backoff.limit_s = Backoff.limit_s
                    backoff.reset()

    def _hello(self) -> Hello:
        desk = self._member.desk
        return Hello(
            cluster=desk.cluster,
            kind=self._member.carrier.kind,
            incarnation=self._incarnation,
            version=__version__,
            epoch=desk.desires.epoch,
            revision=desk.desires.revision,
            takes_signals=True,
            takes_routes=self._routers is not None,
        )


class _Link:
    """One link."""

    def __init__(
        self,
        member: Member,
        outbox: Outbox,
        call: Any,
        people: People | None = None,
        keys: Keys | None = None,
        routers: Routers | None = None,
    ) -> None:
        self._member = member
        self._people = people
        self._keys = keys
        self._routers = routers
        self._answers: set[asyncio.Task[None]] = set()
        self._outbox = outbox
        self._call = call
        self._turn = asyncio.Lock()
        self._room = asyncio.Event()
        self._silence_s = _HELLO_S
        self._again: tuple[Report, ...] = ()
        self._logs = LogDesk(member, self._say)

    async def greet(self, hello: Hello) -> None:
        """Hello and welcome."""
        await self._say(hello)
        word = await self._hear()
        match word:
            case Welcome():
                self._silence_s = word.silence_s
                if not word.takes_wishes:
                    self._people = None
                self._stored(word.heard)  # made before the clock is set, and of that time
                self._member.hear_time(word.now_ns)
                self._again = self._outbox.resume(word.heard)
            case Goodbye():
                raise LinkLost(word.why, refused=not word.retry_elsewhere)
            case _:
                raise LinkLost(f"the first word of the server was a {type(word).__name__}")

    async def run(self) -> None:
        """Until it is over; always raises."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._listen())
                tasks.create_task(self._report())
                tasks.create_task(self._ping())
                if self._people is not None:
                    tasks.create_task(self._wish(self._people))
        except* (LinkLost, grpc.aio.AioRpcError, WireError, DureError) as group:
            raise _first(group) from None
        finally:
            await self._logs.close()
            for answer in self._answers:
                answer.cancel()

    # Up

    async def _say(self, word: MemberWord) -> None:
        message = from_member(word)
        async with self._turn:
            try:
                await self._call.write(message)
            except asyncio.InvalidStateError as error:
                raise LinkLost("the server has ended the link") from error

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(self._silence_s / _PING_PARTS)
            await self._say(Ping())

    async def _report(self) -> None:
        """Say again what was not stored; then everything that changes, not too often."""
        for report in self._again:
            await self._say(report)
        loop = asyncio.get_running_loop()
        told = loop.time()
        while True:
            if self._outbox.full:
                self._room.clear()
                await self._room.wait()
                continue
            now_ns = self._member.clock.now_ns()
            news = await self._member.news(whole=self._outbox.whole_needed)
            beat_s = self._member.desk.hearing_s
            if news is None and beat_s is not None and loop.time() - told >= beat_s:
                news = Report(seq=0, at_ns=now_ns, whole=False)
            if news is not None:
                told = loop.time()
                for report in self._outbox.number(news):
                    await self._say(report)
            await asyncio.sleep(_COALESCE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(beat_s):
                    await self._member.stirred()

    async def _wish(self, people: People) -> None:
        """Say what people of this cluster want; what is not answered is said again next time."""
        people.linked()
        while True:
            await self._say(await people.wishes())

    # Down

    async def _hear(self) -> Any:
        try:
            async with asyncio.timeout(self._silence_s):
                message: pb.ToMember = await self._call.read()
        except TimeoutError:
            raise LinkLost(f"the server said nothing for {self._silence_s:g} s") from None
        if message is grpc.aio.EOF:
            status = await self._call.code()
            refused = status in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
            why = await self._call.details() or "the server has ended the link"
            raise LinkLost(why, refused=refused)
        return heard_from_centre(message)

    async def _listen(self) -> None:
        plans = PlanAssembler()
        while True:
            word = await self._hear()
            match word:
                case pb.PlanPart():
                    plan = await asyncio.to_thread(plans.take, word)
                    if plan is not None:
                        await self._say(await self._member.plan(plan))
                case Ack():
                    self._heard(word)
                case Standings() if self._people is not None:
                    self._people.hear(word.standings)
                case Routes() if self._routers is not None:
                    self._routers.hear(word)
                case Signals():
                    self._member.signals(word.signals)
                case AccessRequest():
                    answer = asyncio.create_task(self._give_access(word))
                    self._answers.add(answer)
                    answer.add_done_callback(self._answers.discard)
                case LogRequest() | LogCancel():
                    await self._take_log_word(word)
                case Goodbye():
                    raise LinkLost(word.why, refused=not word.retry_elsewhere)
                case Ping():
                    pass
                case _:
                    raise LinkLost(f"the server said a {type(word).__name__} out of turn")

    async def _take_log_word(self, word: LogRequest | LogCancel) -> None:
        if isinstance(word, LogRequest):
            await self._logs.ask(word)
        else:
            self._logs.cancel(word.id)

    async def _give_access(self, request: AccessRequest) -> None:
        if self._keys is None:
            why = "this cluster has no API server of its own"
            await self._say(AccessAnswer(request.id, error=why))
        else:
            await self._say(await self._keys.access(request))

    def _heard(self, ack: Ack) -> None:
        self._stored(ack.seq)
        self._room.set()

    def _stored(self, seq: int) -> None:
        """What was stored is proof that the centre heard of this member when it was made."""
        for report in self._outbox.heard(seq):
            self._member.desk.heard(report)


def _first(group: BaseExceptionGroup[Any]) -> Exception:
    """One error of several: what ended the link, for people."""
    errors: list[Any] = []
    stack: list[Any] = [group]
    while stack:
        each = stack.pop()
        if isinstance(each, BaseExceptionGroup):
            stack += each.exceptions
        else:
            errors.append(each)
    lost = [each for each in errors if isinstance(each, LinkLost)]
    found: Exception = (lost or errors)[0]
    return found
