"""A tiny centre over real gRPC: says what a test wants it to say, and notes what it hears."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from dure.domain.fleet.protocol.desired import AttemptKey, Desired, Plan, PlanAnswer
from dure.domain.fleet.protocol.link import Ack, CentreWord, Hello, LogChunk, Welcome
from dure.domain.fleet.protocol.reports import AttemptStatus, Report
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.wire.codec import heard_from_member, to_member
from dure.wire.parts import plan_parts
from dure.wire.v1 import member_pb2_grpc
from tests.member.core.factories import surroundings

LIMIT_S = 60.0


class Centre:
    """One server of a centre that keeps what it stored when links or the server go."""

    def __init__(self, *, silence_s: float = 5.0) -> None:
        self.silence_s = silence_s
        self.port = 0
        self.hellos: list[Hello] = []
        self.tokens: list[str] = []
        self.reports: list[Report] = []
        self.answers: list[PlanAnswer] = []
        self.chunks: list[LogChunk] = []
        self.told: dict[AttemptKey, AttemptStatus] = {}
        self.heard = 0
        self.acks = True
        self.deaf_after: int | None = None
        """Reports after which links are cut without an ack."""
        self.revision = 0
        self.plan = Plan(1, 0)
        self.around = surroundings()
        self.ahead_s = 0.0
        """Of the hosts of its members."""
        self._context: Any = None
        self._turn = asyncio.Lock()
        self._server: Any = None

    async def start(self, port: int = 0) -> None:
        self._server = grpc.aio.server()
        member_pb2_grpc.add_MembersServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)
        self._context = None

    async def Link(self, requests: Any, context: Any) -> None:  # noqa: N802, the name in the contract
        metadata = dict(context.invocation_metadata())
        self.tokens.append(metadata.get("authorization", ""))
        hello = heard_from_member(await context.read())
        assert isinstance(hello, Hello)
        if not self.hellos or self.hellos[-1].incarnation != hello.incarnation:
            self.heard = 0
        self.hellos.append(hello)
        self._context = context
        await self.say(Welcome("test", self.heard, self.now_ns(), self.silence_s))
        await self._say_plan()
        while (message := await context.read()) is not grpc.aio.EOF:
            if not await self._take(heard_from_member(message)):
                self._context = None
                return

    def now_ns(self) -> int:
        return time.time_ns() + round(self.ahead_s * NS_PER_S)

    async def _take(self, word: Any) -> bool:
        match word:
            case Report():
                if self.deaf_after is not None and len(self.reports) >= self.deaf_after:
                    self.deaf_after = None
                    return False
                self.reports.append(word)
                if word.seq > self.heard:
                    assert word.whole or word.seq == self.heard + 1
                    self.heard = word.seq
                    if word.whole:
                        self.told = {}
                    self.told |= {each.key: each for each in word.attempts}
                if self.acks:
                    await self.say(Ack(self.heard))
            case PlanAnswer():
                self.answers.append(word)
            case LogChunk():
                self.chunks.append(word)
        return True

    async def say(self, word: CentreWord) -> None:
        await self._write(to_member(word))

    async def _write(self, message: Any) -> None:
        """One at a time: a stream takes no second message while the first is under way."""
        async with self._turn:
            if self._context is not None:
                await self._context.write(message)

    async def want(self, *desired: Desired) -> None:
        self.revision += 1
        self.plan = Plan(1, self.revision, desired=desired, surroundings=self.around)
        await self._say_plan()

    async def _say_plan(self) -> None:
        if self._context is not None and self.plan.revision:
            for part in plan_parts(self.plan):
                await self._write(part)

    def status(self, name: str, attempt: int = 1) -> AttemptStatus | None:
        return self.told.get(AttemptKey(WorkloadId(name), attempt))

    async def until(self, what: str, check: Callable[[], object]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LIMIT_S):
                while not check():
                    await asyncio.sleep(0.02)
                return
        raise AssertionError(f"{what} did not happen; told: {self.told}")


@contextlib.asynccontextmanager
async def centre(**rest: Any) -> AsyncIterator[Centre]:
    made = Centre(**rest)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()
