"""Submissions over REST while the planner runs: how many a second are stored, how soon."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from dure.api.clusters import ClusterKind, ClusterSpec
from dure.api.jobs import JobSpec, Resources
from dure.api.tenancy import TenantSpec
from dure.bench.centre import bed, paper_member
from dure.bench.centre.procfs import Shares
from dure.client.fleet import calls
from dure.domain.fleet.workloads import WorkloadKind

_CLUSTER, _TENANT = "paper", "acme"
_NODES = 32
"""Of eight devices each: the first jobs run, the others wait, and the planner weighs them all."""
_WARM_UP = 50


@dataclass(frozen=True)
class SubmitTimes:
    """What so many clients at once came to."""

    database: str
    clients: int
    answers_s: list[float]
    took_s: float
    server_cpu_s: float
    client_cpu_s: float

    @property
    def per_s(self) -> float:
        """Submissions that were stored, by the second."""
        return len(self.answers_s) / self.took_s


async def measure(
    database: str, address: str, folder: Path, clients: tuple[int, ...], seconds: float
) -> list[SubmitTimes]:
    """A server of its own on a database, asked by each of these numbers of clients in turn."""
    async with bed.server(folder, address) as server, server.client() as client:
        await server.took_over()
        await client.do(calls.put_tenant(_TENANT, TenantSpec(), calls.CREATE))
        spec = ClusterSpec(kind=ClusterKind.PROCESS, region="kr")
        await client.do(calls.put_cluster(_CLUSTER, spec, calls.CREATE))
        secret = (await client.do(calls.issue_member_token(_CLUSTER))).secret
        async with paper_member.linked(server.grpc_port, secret, _CLUSTER, _NODES):
            numbers = count()
            for _ in range(_WARM_UP):
                await client.do(calls.submit(_spec(next(numbers))))
            return [await _rush(database, server, many, seconds, numbers) for many in clients]


async def _rush(
    database: str, server: bed.Server, clients: int, seconds: float, numbers: Iterator[int]
) -> SubmitTimes:
    answers_s: list[float] = []
    shares = Shares({"server": server.process.pid})
    began_s, cpu_s = time.perf_counter(), time.process_time()

    async def one() -> None:
        """Submits one job after the other over a connection of its own, until the time is over."""
        async with server.client() as client:
            while (sent_s := time.perf_counter()) - began_s < seconds:
                await client.do(calls.submit(_spec(next(numbers))))
                answers_s.append(time.perf_counter() - sent_s)

    await asyncio.gather(*(one() for _ in range(clients)))
    took_s = time.perf_counter() - began_s
    used_s = shares.taken_s()["server"]
    return SubmitTimes(database, clients, answers_s, took_s, used_s, time.process_time() - cpu_s)


def _spec(number: int) -> JobSpec:
    return JobSpec(
        name=f"job-{number}",
        kind=WorkloadKind.BATCH,
        tenant=_TENANT,
        image="registry.example/trainer:1",
        command=["python", "train.py"],
        env={"SEED": str(number)},
        resources=Resources(memory="20GiB"),
    )
