"""How much memory a server needs for many jobs, how soon it takes them over, how soon pages come.

    python bench/server.py [--database postgresql://…] [--jobs 100000] [--live 20000]

Fills a database (without one: SQLite in a temporary folder), starts `dure server` on it as a
process of its own and asks it over REST, once with its leader's memory complete.
"""

import argparse
import asyncio
import contextlib
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from dure.domain.fleet.accounts import Role, TenantKind
from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.decisions import Order, Site
from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.protocol import Inventory
from dure.domain.ids import ClusterId
from dure.domain.units import GIB
from dure.kit.host import describe_host
from dure.server import specs
from dure.server.records import inventory_data, order_spec
from dure.stores import tables
from dure.stores.ids import new_id
from dure.stores.repos.access import Grant
from dure.stores.repos.base import values_of
from dure.stores.rows import Attempt, Cluster, Job, Tenant
from dure.stores.store import Store

_CLUSTERS = ("one", "two", "three")
_BATCH = 1000
_REST = "127.0.0.1:17650"
_GRPC = "127.0.0.1:17651"
_PAGES = 20
_PATIENCE_S = 300.0
_GROUP = NodeGroup("gpus", 2000, "a100-40gb", 8, 128_000, 1024 * GIB, 8)


@dataclass(frozen=True)
class _Wanted:
    address: str
    jobs: int
    live: int


def _job(phase: JobPhase, cluster: str | None) -> Job:
    spec = {
        "name": "train",
        "kind": "batch",
        "image": "registry.example/trainer:1",
        "env": {"NOTE": "x" * 300},
        "resources": {"memory": "20GiB"},
    }
    attempt = 0 if cluster is None else 1
    return Job(new_id(), "acme", "train", spec, phase=phase, attempt=attempt, cluster=cluster)


def _attempt(job: Job) -> Attempt:
    cluster = job.cluster or ""
    order = Order(specs.job_terms(job).workload, Site(ClusterId(cluster), "gpus"), 1, 1)
    return Attempt(
        *(job.id, 1, cluster, 1, 1),
        state=AttemptState.RUNNING,
        spec=order_spec(order),
        sent_ns=1,
        committed_ns=1,
        running_ns=1,
    )


async def _fill(wanted: _Wanted) -> str:
    """Half of the live jobs run, half of them wait; tells an administrator's secret."""
    async with Store.open(wanted.address) as store:
        await store.migrate()
        async with store.transaction() as tx:
            await tx.tenants.add(Tenant("acme", TenantKind.TENANT))
            for name in _CLUSTERS:
                await tx.clusters.add(Cluster(name, "kubernetes"))
                await tx.news.said(name, inventory=inventory_data(Inventory((_GROUP,))))
            _, secret = await tx.tokens.issue(Grant(Role.ADMIN))
        ended, waits = wanted.jobs - wanted.live, wanted.jobs - wanted.live // 2
        for start in range(0, wanted.jobs, _BATCH):
            jobs = []
            for number in range(start, min(start + _BATCH, wanted.jobs)):
                cluster = _CLUSTERS[number % len(_CLUSTERS)]
                if number < ended:
                    jobs.append(_job(JobPhase.SUCCEEDED, cluster))
                elif number < waits:
                    jobs.append(_job(JobPhase.RUNNING, cluster))
                else:
                    jobs.append(_job(JobPhase.QUEUED, None))
            attempts = [values_of(_attempt(j)) for j in jobs if j.phase is JobPhase.RUNNING]
            async with store.transaction() as tx:
                await tx.jobs.add_all(jobs)
                if attempts:
                    await tx.link.execute(tables.attempts.insert(), "attempts", attempts)
    return secret


@asynccontextmanager
async def _server(address: str, folder: Path) -> AsyncIterator[tuple[int, Path]]:
    log = folder / "log"
    command = "from dure.cli.main import main; main()"
    options = ("--data", str(folder), "--database", address, "--listen", _REST, "--grpc", _GRPC)
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", command, "server", *options, stdout=out, stderr=out
        )
    try:
        yield process.pid, log
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _taken_over(log: Path) -> str:
    """What the server says when its planner knows everything."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            found = re.search(r"took over \d+ jobs in [\d.]+ s", log.read_text(encoding="utf-8"))
            if found is not None:
                return found.group(0)
            await asyncio.sleep(0.1)


def _memory_mib(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    parts = [line.split() for line in lines if line.startswith(("VmRSS", "VmHWM"))]
    return {part[0].rstrip(":"): int(part[1]) / 1024 for part in parts}


async def _pages(secret: str) -> None:
    headers = {"Authorization": f"Bearer {secret}"}
    async with httpx.AsyncClient(base_url=f"http://{_REST}", headers=headers) as client:
        for what, query in (("first", "limit=100"), ("last", "limit=100&order=newest")):
            took_ms = []
            for _ in range(_PAGES):
                began = time.perf_counter()
                (await client.get(f"/v1/jobs?{query}")).raise_for_status()
                took_ms.append(1000 * (time.perf_counter() - began))
            middle, most = statistics.median(took_ms), max(took_ms)
            print(f"{what} page of 100: median {middle:.0f} ms, most {most:.0f} ms")


async def _measure(wanted: _Wanted, folder: Path) -> None:
    print(describe_host())
    began = time.perf_counter()
    secret = await _fill(wanted)
    print(f"{wanted.jobs} jobs, {wanted.live} live, stored in {time.perf_counter() - began:.0f} s")
    async with _server(wanted.address, folder) as (pid, log):
        print(await _taken_over(log))
        await _pages(secret)
        await asyncio.sleep(10.0)
        for name, mib in _memory_mib(pid).items():
            print(f"{name} {mib:.0f} MiB")


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", default="")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--live", type=int, default=20_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        address = given.database or f"sqlite:///{folder}/state.db"
        asyncio.run(_measure(_Wanted(address, given.jobs, given.live), Path(folder)))


if __name__ == "__main__":
    main()
