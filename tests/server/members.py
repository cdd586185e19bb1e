"""A member that keeps its desired set in memory, on a real gRPC link; tests tell it what is."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.decisions import Placement, Site, SiteSummary
from dure.domain.fleet.protocol.desired import AttemptKey, Desired, Plan, PlanAnswer, Refusal, Want
from dure.domain.fleet.protocol.link import (
    Ack,
    Goodbye,
    Hello,
    LogCancel,
    LogChunk,
    LogRequest,
    MemberWord,
    Ping,
    Welcome,
)
from dure.domain.fleet.protocol.reports import (
    AttemptStatus,
    InstanceStatus,
    Inventory,
    NodeFact,
    Outcome,
    Report,
    RunPhase,
    Usage,
)
from dure.domain.fleet.protocol.wishes import Standing, Standings
from dure.domain.ids import ClusterId
from dure.domain.units import GIB
from dure.server.links.service import SERVICE
from dure.wire.codec import from_member, heard_from_centre
from dure.wire.parts import PlanAssembler
from dure.wire.v1 import member_pb2 as pb

PROFILE = "a100-40gb"
DEVICES = 8


def group(nodes: int = 4) -> NodeGroup:
    """Nodes of eight devices."""
    return NodeGroup("gpus", nodes, PROFILE, DEVICES, 128_000, 1024 * GIB, DEVICES)


def inventory(nodes: int = 4, **more: Any) -> Inventory:
    """A cluster of one group."""
    facts = tuple(NodeFact(f"node-{number}", "gpus") for number in range(nodes))
    return Inventory((group(nodes),), facts, frozenset({"logs"}), **more)


def summary(cluster: str, free: int, nodes: int = 4) -> SiteSummary:
    """What is left of one group."""
    used = -(-(nodes * DEVICES - free) // DEVICES)
    return SiteSummary(
        site=Site(ClusterId(cluster), "gpus"),
        profile=PROFILE,
        nodes=nodes,
        nodes_in_use=used,
        devices=nodes * DEVICES,
        free_devices=free,
        free_on_used_nodes=max(0, free - (nodes - used) * DEVICES),
        free_compute_milli=1000 * free,
        free_memory_bytes=free * 40 * GIB,
        free_cpu_milli=nodes * 128_000,
        free_host_memory_bytes=nodes * 1024 * GIB,
        largest_node_free=min(DEVICES, free),
    )


@dataclass
class FakeMember:
    """What a member knows and says; `acts` decides what it does about a new attempt."""

    cluster: str
    line: Any
    kind: str = "process"
    incarnation: str = "one"
    desired: dict[AttemptKey, Desired] = field(default_factory=dict)
    known: tuple[int, int] = (0, -1)
    welcome: Welcome | None = None
    goodbye: Goodbye | None = None
    plans: list[Plan] = field(default_factory=list)
    logs: list[LogRequest | LogCancel] = field(default_factory=list)
    standings: dict[str, Standing] = field(default_factory=dict)
    """The last of each wish, by UID."""
    acked: int = 0
    seq: int = 0
    refuses: Callable[[Desired], str] = lambda _: ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _parts: PlanAssembler = field(default_factory=PlanAssembler)

    async def say(self, word: MemberWord) -> None:
        """One word to the centre."""
        await self.line.write(from_member(word))

    async def listen(self) -> None:
        """Take in what the centre says, and answer plans."""
        while (raw := await self.line.read()) is not grpc.aio.EOF:
            word = heard_from_centre(raw)
            match word:
                case pb.PlanPart():
                    plan = self._parts.take(word)
                    if plan is not None:
                        await self._take(plan)
                case Welcome():
                    self.welcome = word
                case Ack():
                    self.acked = max(self.acked, word.seq)
                case Goodbye():
                    self.goodbye = word
                case LogRequest() | LogCancel():
                    self.logs.append(word)
                case Standings():
                    self.standings |= {each.uid: each for each in word.standings}
                case Ping():
                    await self.say(Ping())
            self.changed.set()

    async def _take(self, plan: Plan) -> None:
        self.plans.append(plan)
        if (plan.epoch, plan.revision) < self.known:
            await self.say(PlanAnswer(plan.epoch, plan.revision, False, "older than what is known"))
            return
        before = set(self.desired)
        if plan.base is None:
            self.desired = {each.key: each for each in plan.desired}
        else:
            assert (plan.epoch, plan.base) == self.known
            for key in plan.removed:
                self.desired.pop(key, None)
            self.desired |= {each.key: each for each in plan.desired}
        self.known = (plan.epoch, plan.revision)
        new = [each for key, each in self.desired.items() if key not in before]
        refused = tuple(Refusal(each.key, why) for each in new if (why := self.refuses(each)))
        refused_keys = {each.key for each in refused}
        accepted = tuple(each.key for each in new if each.key not in refused_keys)
        await self.say(
            PlanAnswer(plan.epoch, plan.revision, True, accepted=accepted, refused=refused)
        )

    async def report(self, **news: Any) -> int:
        """Send the next report; tells its number."""
        self.seq += 1
        await self.say(Report(self.seq, 1, news.pop("whole", False), **news))
        return self.seq

    async def join(self, free: int = 32, **more: Any) -> None:
        """Say what there is."""
        await self.report(
            whole=True, inventory=inventory(**more), sites=(summary(self.cluster, free),)
        )

    async def status(self, key: AttemptKey, phase: RunPhase, **more: Any) -> int:
        """Report one attempt."""
        usage, address = more.pop("usage", ()), more.pop("address", "")
        instance = InstanceStatus(
            0, "node-0", f"{key.job}-0", Placement(0, (0,)), ready=True, address=address
        )
        instances = (instance,) if phase is RunPhase.RUNNING else ()
        status = AttemptStatus(key, phase, instances=instances, **more)
        return await self.report(attempts=(status,), usage=usage)

    async def ended(self, key: AttemptKey, outcome: Outcome, why: str = "") -> int:
        """Report that nothing of an attempt is left."""
        return await self.status(key, RunPhase.GONE, outcome=outcome, why=why)

    async def until(self, holds: Callable[["FakeMember"], Any], limit_s: float = 30.0) -> Any:
        """Wait until something is so, and tell what it is."""
        async with asyncio.timeout(limit_s):
            while not (found := holds(self)):
                self.changed.clear()
                await self.changed.wait()
        return found

    async def wanted(self, want: Want = Want.RUN, limit_s: float = 30.0) -> Desired:
        """Wait for the one attempt that shall be so."""
        found = await self.until(
            lambda me: [each for each in me.desired.values() if each.want is want], limit_s
        )
        assert len(found) == 1, found
        one: Desired = found[0]
        return one

    async def refusal(self, limit_s: float = 30.0) -> tuple[grpc.StatusCode, str]:
        """Wait until the centre has ended the link; how, and why."""
        async with asyncio.timeout(limit_s):
            return await self.line.code(), await self.line.details()

    async def chunk(self, request: LogRequest, data: bytes, *, end: bool = False) -> None:
        """Send what an instance wrote."""
        await self.say(LogChunk(request.id, data, end))


def used(key: AttemptKey, device_s: float) -> Usage:
    """What an attempt has used in all, on one device until now."""
    now_ns = time.time_ns()
    return Usage(key, round(device_s * 1e6), now_ns - round(device_s * 1e9), now_ns)


@asynccontextmanager
async def linked(port: int, secret: str, cluster: str, **more: Any) -> AsyncIterator[FakeMember]:
    """A member with an open link; gone without a word when the context is left."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream(
            f"/{SERVICE}/Link",
            request_serializer=pb.FromMember.SerializeToString,
            response_deserializer=pb.ToMember.FromString,
        )(metadata=(("authorization", f"Bearer {secret}"),))
        member = FakeMember(cluster, call, **more)
        await member.say(Hello(ClusterId(cluster), member.kind, member.incarnation, "test"))
        listening = asyncio.create_task(member.listen())
        try:
            await member.until(lambda me: me.welcome or me.goodbye or listening.done())
            if member.welcome is not None:
                member.seq = member.welcome.heard
            yield member
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
                await listening
            call.cancel()
