"""A member on paper: a real gRPC link, a desired set in memory, attempts that are said to run."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from dure import __version__
from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.decisions import Placement, Site, SiteSummary
from dure.domain.fleet.protocol.desired import AttemptKey, Desired, Plan, PlanAnswer, Want
from dure.domain.fleet.protocol.link import Ack, Hello, MemberWord, Ping, Welcome
from dure.domain.fleet.protocol.reports import (
    AttemptStatus,
    InstanceStatus,
    Inventory,
    NodeFact,
    Outcome,
    Report,
    RunPhase,
)
from dure.domain.ids import ClusterId
from dure.domain.units import GIB
from dure.server.links.service import SERVICE
from dure.wire.codec import from_member, heard_from_centre
from dure.wire.parts import PlanAssembler
from dure.wire.v1 import member_pb2 as pb

KIND = "process"
GROUP, PROFILE, DEVICES = "gpus", "a100-40gb", 8
_CPU_MILLI, _HOST_BYTES = 128_000, 1024 * GIB
_IN_A_REPORT = 250
"""Attempts in one report, as members do."""
_PING_S = 2.0
_AGAIN_S = 0.5
_WELCOME_S = 60.0

_log = logging.getLogger(__name__)


def inventory(nodes: int) -> Inventory:
    """A cluster of one group of equal nodes."""
    group = NodeGroup(GROUP, nodes, PROFILE, DEVICES, _CPU_MILLI, _HOST_BYTES, DEVICES)
    facts = tuple(NodeFact(f"node-{number}", GROUP) for number in range(nodes))
    return Inventory((group,), facts)


def _summary(cluster: str, nodes: int, used: int) -> SiteSummary:
    """What is left where so many devices are in use, packed together."""
    free = max(0, nodes * DEVICES - used)
    busy = min(nodes, -(-used // DEVICES))
    return SiteSummary(
        site=Site(ClusterId(cluster), GROUP),
        profile=PROFILE,
        nodes=nodes,
        nodes_in_use=busy,
        devices=nodes * DEVICES,
        free_devices=free,
        free_on_used_nodes=max(0, free - (nodes - busy) * DEVICES),
        free_compute_milli=1000 * free,
        free_memory_bytes=free * 40 * GIB,
        free_cpu_milli=nodes * _CPU_MILLI,
        free_host_memory_bytes=nodes * _HOST_BYTES,
        largest_node_free=min(DEVICES, free),
    )


@dataclass
class PaperMember:
    """Takes every plan, and says that everything runs."""

    cluster: str
    nodes: int
    desired: dict[AttemptKey, Desired] = field(default_factory=dict)
    running: set[AttemptKey] = field(default_factory=set)
    acked: int = 0
    welcome: asyncio.Event = field(default_factory=asyncio.Event)
    links: int = 0
    """How often a link was opened."""
    _line: Any = None
    _seq: int = 0
    _parts: PlanAssembler = field(default_factory=PlanAssembler)

    @property
    def all_heard(self) -> bool:
        """Whether the centre has stored every report."""
        return self.acked == self._seq

    async def live(self, line: Any) -> None:
        """Say hello, then listen until the link is over."""
        self._line, self._parts = line, PlanAssembler()
        self.links += 1
        await self._say(Hello(ClusterId(self.cluster), KIND, "paper", __version__))
        async with asyncio.TaskGroup() as tasks:
            pinging = tasks.create_task(self._ping())
            await self._listen()
            pinging.cancel()

    async def _say(self, word: MemberWord) -> None:
        await self._line.write(from_member(word))

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(_PING_S)
            await self._say(Ping())

    async def _listen(self) -> None:
        while (raw := await self._line.read()) is not grpc.aio.EOF:
            word = heard_from_centre(raw)
            match word:
                case pb.PlanPart():
                    plan = await asyncio.to_thread(self._parts.take, word)
                    if plan is not None:
                        await self._take(plan)
                case Welcome():
                    self._seq = word.heard
                    await self._report(whole=True, inventory=inventory(self.nodes))
                    self.welcome.set()
                case Ack():
                    self.acked = word.seq

    async def _take(self, plan: Plan) -> None:
        """Accept what is new, then say that it runs, and that what was given up is gone."""
        if plan.base is None:
            self.desired = {}
        for key in plan.removed:
            self.desired.pop(key, None)
        self.desired |= {each.key: each for each in plan.desired}
        self.running &= self.desired.keys()
        new = [each.key for each in plan.desired if each.key not in self.running]
        await self._say(PlanAnswer(plan.epoch, plan.revision, True, accepted=tuple(new)))
        self.running.update(new)
        released = [key for key, each in self.desired.items() if each.want is Want.RELEASE]
        told = [_status(key, RunPhase.RUNNING) for key in new]
        told += [_status(key, RunPhase.GONE) for key in released]
        for some in _batches(told, _IN_A_REPORT):
            await self._report(attempts=some)

    async def _report(self, *, whole: bool = False, **news: Any) -> None:
        self._seq += 1
        sites = (_summary(self.cluster, self.nodes, len(self.running)),)
        await self._say(Report(self._seq, 1, whole, sites=sites, **news))


def _status(key: AttemptKey, phase: RunPhase) -> AttemptStatus:
    if phase is RunPhase.GONE:
        return AttemptStatus(key, phase, Outcome.STOPPED)
    instance = InstanceStatus(0, "node-0", f"{key.job}-0", Placement(0, (0,)), ready=True)
    return AttemptStatus(key, phase, instances=(instance,))


def _batches(told: Sequence[AttemptStatus], size: int) -> Iterator[tuple[AttemptStatus, ...]]:
    for start in range(0, len(told), size):
        yield tuple(told[start : start + size])


@asynccontextmanager
async def linked(port: int, secret: str, cluster: str, nodes: int) -> AsyncIterator[PaperMember]:
    """A member whose link is open, and opened anew where it is lost, until the context is left."""
    member = PaperMember(cluster, nodes)
    living = asyncio.create_task(_live(member, f"127.0.0.1:{port}", secret))
    try:
        async with asyncio.timeout(_WELCOME_S):
            await member.welcome.wait()
        yield member
    finally:
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)


async def _live(member: PaperMember, address: str, secret: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        while True:
            call = channel.stream_stream(
                f"/{SERVICE}/Link",
                request_serializer=pb.FromMember.SerializeToString,
                response_deserializer=pb.ToMember.FromString,
            )(metadata=(("authorization", f"Bearer {secret}"),))
            try:
                await member.live(call)
            except* (grpc.aio.AioRpcError, asyncio.InvalidStateError) as lost:
                _log.info("a link of the member on paper was lost: %s", lost.exceptions[0])
            finally:
                call.cancel()
            await asyncio.sleep(_AGAIN_S)
