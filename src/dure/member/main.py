"""The member's composition: what is made of what, in which order it starts and in which it ends."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from dure.domain.errors import DureError
from dure.domain.ids import ClusterId
from dure.domain.metrics.kinds import Reading
from dure.kit.tracing import Tracer, make_tracer
from dure.kube.access import load_access
from dure.kube.client import KubeClient
from dure.member.clock import FleetClock
from dure.member.core.desk import Desk
from dure.member.core.warmup import warm_up
from dure.member.door.door import Door
from dure.member.door.mirrors import Mirrors
from dure.member.kube.carrier import KubeCarrier
from dure.member.kube.config import read_settings
from dure.member.kube.election import LeaseElection
from dure.member.kube.memory import SecretMemory
from dure.member.kube.routes import Routing
from dure.member.kube.settings import KubeSettings
from dure.member.kube.spaces import Around, Spaces
from dure.member.link.session import Session
from dure.member.options import KubernetesOptions, MemberOptions, ProcessOptions
from dure.member.ports import Carrier, Election, Fence, Memory
from dure.member.process.carrier import ProcessCarrier
from dure.member.process.election import FileElection
from dure.member.process.fence import FileFence
from dure.member.process.memory import FileMemory
from dure.member.process.nodes import read_nodes
from dure.member.runtime import Member
from dure.member.telemetry.readings import read_member
from dure.member.telemetry.serving import metrics_shown

_log = logging.getLogger("dure.member")

_RESIGN_S = 5.0
"""A member that ends gives its lease back if that takes no longer; else it runs out."""
_LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a member needs of its cluster."""

    carrier: Carrier
    memory: Memory
    election: Election
    fence: Fence | None = None
    client: KubeClient | None = None
    """Of a cluster of Kubernetes: there people may declare jobs."""
    settings: KubeSettings | None = None
    """Of such a cluster."""
    api_url: str = ""
    """Where people find its API server; empty: where the member does."""


def run(options: MemberOptions) -> None:
    """Be the member of a cluster until SIGTERM or SIGINT; what runs there runs on."""
    logging.basicConfig(format=_LOG_FORMAT, level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(_until_told(options))


async def _until_told(options: MemberOptions) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    serving = asyncio.create_task(serve(options))
    waiting = asyncio.create_task(told.wait())
    try:
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
    finally:
        waiting.cancel()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
    _log.info("the member ends; what runs here runs on")


async def serve(options: MemberOptions) -> None:
    """Lead, act, and lead again, until cancelled."""
    acting: list[Member] = []

    def read() -> list[Reading]:
        return list(read_member(options.cluster, acting[0] if acting else None))

    tracer = make_tracer("dure-member", options.environment)
    async with metrics_shown(options.metrics, read), _closing(tracer):
        await asyncio.to_thread(warm_up)
        while True:
            async with _parts(options) as parts:
                await parts.election.lead()
                _log.info("this member acts for cluster %s", options.cluster)
                member = Member(
                    Desk(options.cluster),
                    parts.carrier,
                    parts.memory,
                    FleetClock(),
                    parts.fence,
                    tracer,
                )
                acting.append(member)
                try:
                    await _act(options, parts, member)
                finally:
                    acting.clear()
                _log.warning("another member acts for cluster %s", options.cluster)


@asynccontextmanager
async def _closing(tracer: Tracer | None) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if tracer is not None:
            await asyncio.to_thread(tracer.close)


async def _act(options: MemberOptions, parts: _Parts, member: Member) -> None:
    """Until the lead is lost."""
    door = None if parts.client is None else _door(parts.client, member)
    spaces = None if parts.client is None else _spaces(parts, parts.client, member)
    routing = _routing(parts, member)
    work = [
        asyncio.create_task(member.run()),
        asyncio.create_task(Session(member, options.centre, door, spaces, routing).run()),
        asyncio.create_task(parts.election.lost()),
    ]
    if door is not None:
        work.append(asyncio.create_task(door.run()))
    if spaces is not None:
        work.append(asyncio.create_task(spaces.run()))
    if routing is not None:
        work.append(asyncio.create_task(routing.run()))
    try:
        done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in reversed(work):
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


def _door(client: KubeClient, member: Member) -> Door:
    return Door(client, member, member.warn, Mirrors(client, member.desk, member.clock).run)


def _routing(parts: _Parts, member: Member) -> Routing | None:
    if parts.client is None or parts.settings is None or not parts.settings.routes:
        return None
    return Routing(parts.client, parts.settings, member.warn)


def _spaces(parts: _Parts, client: KubeClient, member: Member) -> Spaces:
    around = Around(client.access.namespace, parts.api_url)
    return Spaces(client, member.desk, around, member.stir)


@asynccontextmanager
async def _parts(options: MemberOptions) -> AsyncIterator[_Parts]:
    match options.cluster_kind:
        case ProcessOptions() as process:
            async with _process(options.cluster, process) as parts:
                yield parts
        case KubernetesOptions() as kubernetes:
            async with _kubernetes(options, kubernetes) as parts:
                yield parts


@asynccontextmanager
async def _process(cluster: ClusterId, options: ProcessOptions) -> AsyncIterator[_Parts]:
    nodes = read_nodes(options.nodes)
    state = options.state.absolute()
    election, memory = FileElection(state), FileMemory(state)
    carrier = ProcessCarrier(cluster, nodes, state)
    try:
        yield _Parts(carrier, memory, election, FileFence(state))
    finally:
        await carrier.close()
        memory.close()
        election.close()


@asynccontextmanager
async def _kubernetes(
    options: MemberOptions, kubernetes: KubernetesOptions
) -> AsyncIterator[_Parts]:
    access = load_access(kubernetes.kubeconfig, kubernetes.context, options.environment)
    if kubernetes.namespace:
        access = replace(access, namespace=kubernetes.namespace)
    name = f"dure-member-{options.cluster}"
    identity = kubernetes.identity or f"{socket.gethostname()}-{os.getpid()}"
    async with KubeClient(access) as client:
        settings = KubeSettings(options.cluster, access.namespace)
        if kubernetes.config is not None:
            settings = read_settings(kubernetes.config, settings)
        carrier = KubeCarrier(client, settings)
        election = LeaseElection(client, name, identity)
        try:
            memory = SecretMemory(client, name)
            yield _Parts(
                carrier,
                memory,
                election,
                client=client,
                settings=settings,
                api_url=settings.api_url,
            )
        finally:
            with suppress(DureError, TimeoutError):
                async with asyncio.timeout(_RESIGN_S):
                    await election.resign()
            await carrier.close()
