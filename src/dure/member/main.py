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
from dure.kube.access import load_access
from dure.kube.client import KubeClient
from dure.member.clock import FleetClock
from dure.member.core.desk import Desk
from dure.member.kube.carrier import KubeCarrier
from dure.member.kube.config import read_settings
from dure.member.kube.election import LeaseElection
from dure.member.kube.memory import SecretMemory
from dure.member.kube.settings import KubeSettings
from dure.member.link.session import Session
from dure.member.options import KubernetesOptions, MemberOptions, ProcessOptions
from dure.member.ports import Carrier, Election, Fence, Memory
from dure.member.process.carrier import ProcessCarrier
from dure.member.process.election import FileElection
from dure.member.process.fence import FileFence
from dure.member.process.memory import FileMemory
from dure.member.process.nodes import read_nodes
from dure.member.runtime import Member

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
    while True:
        async with _parts(options) as parts:
            await parts.election.lead()
            _log.info("this member acts for cluster %s", options.cluster)
            await _act(options, parts)
            _log.warning("another member acts for cluster %s", options.cluster)


async def _act(options: MemberOptions, parts: _Parts) -> None:
    """Until the lead is lost."""
    member = Member(Desk(options.cluster), parts.carrier, parts.memory, FleetClock(), parts.fence)
    work = [
        asyncio.create_task(member.run()),
        asyncio.create_task(Session(member, options.centre).run()),
        asyncio.create_task(parts.election.lost()),
    ]
    try:
        done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in reversed(work):
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


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
            yield _Parts(carrier, SecretMemory(client, name), election)
        finally:
            with suppress(DureError, TimeoutError):
                async with asyncio.timeout(_RESIGN_S):
                    await election.resign()
            await carrier.close()
