"""A server without its REST interface: links to members, and planning while it leads."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dure.kit.tracing import make_tracer
from dure.server.auth import TokenGate
from dure.server.housekeeping import keep_house
from dure.server.leadership import Leader
from dure.server.links.service import Links, MemberDoor, make_grpc_server
from dure.server.ports import Bus, State
from dure.server.services import Services
from dure.server.settings import ServerSettings
from dure.stores.rows import Lease

if TYPE_CHECKING:
    from dure.server.planner.planner import Planner

_log = logging.getLogger(__name__)

_GRACE_S = 1.0
"""What links get to end by themselves."""


@dataclass(frozen=True)
class Core:
    """What runs."""

    services: Services
    links: Links
    grpc_port: int
    leader: Leader


@asynccontextmanager
async def running(state: State, bus: Bus, settings: ServerSettings) -> AsyncIterator[Core]:
    """A core that serves until the context is left; the store is migrated, the bus started."""
    links = Links(state, settings.listening.url)
    leader = Leader(state, holder_name(), settings.lease_ttl_s)
    tracer = make_tracer("dure-server")
    services = Services(
        state,
        bus,
        links,
        settings,
        leads=lambda: leader.leads,
        tracer=tracer,
        access=links,
        signals=links,
    )
    grpc_server, port = make_grpc_server(
        MemberDoor(services, TokenGate(state), links), settings.listening
    )

    async def lead(lease: Lease) -> None:
        planner = await asyncio.shield(loading)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(planner.lead(lease))
            tasks.create_task(keep_house(services, lease))

    await grpc_server.start()
    loading = asyncio.create_task(asyncio.to_thread(_load_planner, services))
    leading = asyncio.create_task(leader.run(lead))
    try:
        yield Core(services, links, port, leader)
    finally:
        links.end()
        await grpc_server.stop(_GRACE_S)
        await links.settle()
        leading.cancel()
        await asyncio.gather(leading, loading, return_exceptions=True)
        if tracer is not None:
            await asyncio.to_thread(tracer.close)


def _load_planner(services: Services) -> "Planner":
    """A planner whose compiled loops are ready: loading them takes longer than all the rest."""
    from dure.server.planner.planner import Planner  # noqa: PLC0415 - the server listens meanwhile
    from dure.server.planner.warmup import warm_up  # noqa: PLC0415

    warm_up()
    return Planner(services)


def holder_name() -> str:
    """Who leads, for people."""
    return f"{socket.gethostname()}:{os.getpid()}"
