"""How many jobs a second the store takes durably, and how soon pages of many jobs come.

    python bench/store.py [--database postgresql://…] [--jobs 100000]

Without a database it measures SQLite in a temporary file. CPU time is this process's own: a busy
machine changes how long things take, less what they cost.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from dure.domain.fleet.accounts import TenantKind
from dure.domain.fleet.lifecycle import JobPhase
from dure.kit.host import describe_host
from dure.stores.ids import new_id
from dure.stores.repos.jobs import JobFilter
from dure.stores.rows import Cluster, Job, NewEvent, Tenant
from dure.stores.store import Store
from dure.stores.submissions import Submission

_TENANTS = 10
_SUBMITS = 5000
_SPEC = {"image": "registry.example/trainer:1", "command": ["python", "train.py"], "gpus": 2}
_LIVE = frozenset({JobPhase.QUEUED, JobPhase.PLACED, JobPhase.RUNNING})


def _job(number: int, phase: JobPhase = JobPhase.QUEUED) -> Job:
    return Job(
        new_id(),
        f"tenant-{number % _TENANTS}",
        f"job-{number}",
        _SPEC | {"env": {"SEED": str(number), "NOTE": "x" * 300}},
        labels={"team": f"team-{number % 50}", "run": str(number % 1000)},
        phase=phase,
        cluster=None if phase is JobPhase.QUEUED else f"cluster-{number % 3}",
    )


async def _prepare(store: Store, jobs: int) -> None:
    await store.migrate()
    async with store.transaction() as tx:
        for number in range(_TENANTS):
            await tx.tenants.add(Tenant(f"tenant-{number}", TenantKind.TENANT))
        for number in range(3):
            await tx.clusters.add(Cluster(f"cluster-{number}", "kubernetes"))
    for start in range(0, jobs, 2000):
        async with store.transaction() as tx:
            await tx.jobs.add_all(
                [
                    _job(n, JobPhase.RUNNING if n >= 0.8 * jobs else JobPhase.SUCCEEDED)
                    for n in range(start, min(start + 2000, jobs))
                ]
            )


async def _submit(store: Store, clients: int) -> None:
    waits_s: list[float] = []
    numbers = iter(range(_SUBMITS))

    async def client() -> None:
        for number in numbers:
            one = _job(number)
            event = NewEvent("job.submitted", one.id, one.tenant, {"name": one.name})
            began = time.perf_counter()
            await store.submit(
                Submission((one,), {"id": one.id}, (event,), f"key-{clients}-{number}", "hash")
            )
            waits_s.append(time.perf_counter() - began)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(client() for _ in range(clients)))
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    p99_s = statistics.quantiles(waits_s, n=100)[98]
    print(
        f"{clients:4d} clients: {_SUBMITS / took_s:7.0f} submits/s, {1e3 * p99_s:6.1f} ms p99, "
        f"{1e3 * cpu_s / _SUBMITS:.2f} ms CPU each"
    )


async def _pages(store: Store) -> None:
    cases = {
        "all": JobFilter(),
        "of a tenant": JobFilter(tenant="tenant-3"),
        "live": JobFilter(phases=_LIVE),
        "live, of a tenant": JobFilter(tenant="tenant-3", phases=_LIVE),
        "running in a cluster": JobFilter(
            cluster="cluster-1", phases=frozenset({JobPhase.RUNNING})
        ),
        "with a label": JobFilter(labels={"run": "7"}),
    }
    for name, wanted in cases.items():
        times_ms = []
        for newest_first in (False, True):
            took = []
            for _ in range(9):
                began = time.perf_counter()
                async with store.reading() as tx:
                    await tx.jobs.page(wanted, newest_first=newest_first)
                took.append(1e3 * (time.perf_counter() - began))
            times_ms.append(statistics.median(took))
        print(f"page of 100, {name}: first {times_ms[0]:.1f} ms, last {times_ms[1]:.1f} ms")


async def _run(database: str, jobs: int) -> None:
    async with Store.open(database) as store:
        await _prepare(store, jobs)
        for clients in (1, 16, 64):
            await _submit(store, clients)
        await _pages(store)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--database", help="an empty one; none: SQLite in a temporary file")
    options.add_argument("--jobs", type=int, default=100_000, help="that are there already")
    chosen = options.parse_args()
    print(describe_host("sqlalchemy", "psycopg", "aiosqlite"))
    with tempfile.TemporaryDirectory() as folder:
        database = chosen.database or f"sqlite:///{Path(folder) / 'state.db'}"
        print(database.partition(":")[0], "with", chosen.jobs, "jobs")
        asyncio.run(_run(database, chosen.jobs))


if __name__ == "__main__":
    main()
