"""Pages of many jobs, memory of a server that plans for them, and how soon it takes them over."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from dure.bench.centre import bed, paper_member
from dure.bench.centre.fill import CLUSTER, fill
from dure.bench.centre.procfs import Memory, memory
from dure.client.fleet import AsyncFleetClient, calls
from dure.sim.benches.report import Tell

PAGE = 100
_ORDERS = {"first": "oldest", "last": "newest"}
"""The last page of a list is the first of the list from its other end."""
_SETTLE_S = 10.0
_ATTACH_S = 300.0
_POLL_S = 0.1


@dataclass(frozen=True)
class PageTimes:
    """What a server with many jobs showed."""

    database: str
    jobs: int
    live: int
    filled_s: float
    taken_over: int
    take_over_s: float
    attached_s: float
    """From the member's hello until the centre had its report of every live attempt."""
    pages_s: dict[str, list[float]]
    """By which page."""
    took_over_memory: Memory
    """When the planner knew everything, before the member came."""
    end_memory: Memory


async def measure(
    database: str, address: str, folder: Path, size: tuple[int, int, int], tell: Tell
) -> PageTimes:
    """Fill a database with jobs, live ones and looks at each page; have a server lead on it."""
    jobs, live, looks = size
    nodes = live // paper_member.DEVICES + 1
    tell(f"storing {jobs} jobs", 0.0)
    began_s = time.perf_counter()
    secret = await fill(address, jobs, live, nodes)
    filled_s = time.perf_counter() - began_s
    async with bed.server(folder, address, secret) as server, server.client() as client:
        tell("taking over", 0.4)
        taken_over, take_over_s = await server.took_over()
        after = memory(server.process.pid)
        member_secret = (await client.do(calls.issue_member_token(CLUSTER))).secret
        began_s = time.perf_counter()
        async with paper_member.linked(server.grpc_port, member_secret, CLUSTER, nodes) as member:
            tell("attaching the member", 0.6)
            await _attached(member, live)
            attached_s = time.perf_counter() - began_s
            tell("asking for pages", 0.8)
            pages_s = {name: await _pages(client, order, looks) for name, order in _ORDERS.items()}
            await asyncio.sleep(_SETTLE_S)
            return PageTimes(
                database,
                jobs,
                live,
                filled_s,
                taken_over,
                take_over_s,
                attached_s,
                pages_s,
                after,
                memory(server.process.pid),
            )


async def _attached(member: paper_member.PaperMember, live: int) -> None:
    """Wait until the member has every attempt and the centre has heard of each."""
    async with asyncio.timeout(_ATTACH_S):
        while len(member.running) < live or not member.all_heard:
            await asyncio.sleep(_POLL_S)


async def _pages(client: AsyncFleetClient, order: str, looks: int) -> list[float]:
    took_s = []
    for _ in range(looks):
        began_s = time.perf_counter()
        page = await client.do(calls.list_jobs(order=order, limit=PAGE))
        took_s.append(time.perf_counter() - began_s)
        assert len(page.items) == PAGE
    return took_s
