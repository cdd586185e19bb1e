"""What the tests of the server share: a core on a fresh database, clusters, tokens, jobs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from dure.domain.fleet.accounts import Role, TenantKind
from dure.domain.fleet.lifecycle import JobPhase
from dure.server.core import Core, running
from dure.server.ports import Bus
from dure.server.settings import Listening, ServerSettings
from dure.stores.bus.local import LocalBus
from dure.stores.ids import new_id
from dure.stores.repos.access import Grant
from dure.stores.rows import Attempt, Cluster, Job, Json, NewEvent, Tenant
from dure.stores.store import Store
from dure.stores.submissions import Submission

SPEC = {"region": "kr", "electricity": 100, "carbon": 400}
"""Of a cluster that owns its devices and pays for power."""
QUICK = ServerSettings(
    listening=Listening(grpc_port=0),
    lease_ttl_s=5.0,
    lost_after_s=30.0,
    round_s=0.05,
    idle_round_s=0.5,
    poll_s=0.2,
    ping_s=0.5,
    gone_kept_s=0.3,
)
LIMIT_S = 60.0


@dataclass
class World:
    """A store with acme and some clusters."""

    store: Store
    bus: Bus
    secrets: dict[str, str]
    """Of members' tokens, by cluster."""
    core: Core

    @property
    def port(self) -> int:
        """Where members knock."""
        return self.core.grpc_port

    async def submit(self, **spec: Any) -> str:
        """A job of acme that any cluster could run; tells its id."""
        job = job_row(**spec)
        event = NewEvent("job.submitted", job.id, job.tenant)
        await self.store.submit(Submission((job,), {"id": job.id}, (event,)))
        self.bus.publish("events")
        return job.id

    async def change(self, job_id: str, event: str, **fields: Any) -> None:
        """Let a person change a job."""
        async with self.store.transaction() as tx:
            job = await tx.jobs.put(replace(await tx.jobs.get(job_id), **fields))
            tx.events.add(NewEvent(event, job_id, job.tenant))
        self.bus.publish("events")

    async def cancel(self, job_id: str) -> None:
        """Let its owner cancel a job."""
        await self.change(job_id, "job.cancelled", phase=JobPhase.CANCELLING)

    async def change_cluster(self, name: str, **fields: Any) -> None:
        """Let a person change a cluster."""
        async with self.store.transaction() as tx:
            await tx.clusters.put(replace(await tx.clusters.get(name), **fields))
            tx.events.add(NewEvent("cluster.changed", name))
        self.bus.publish("events")

    async def job(self, job_id: str) -> Job:
        """As it is stored."""
        async with self.store.reading() as tx:
            return await tx.jobs.get(job_id)

    async def attempts(self, job_id: str) -> tuple[Attempt, ...]:
        """As they are stored."""
        async with self.store.reading() as tx:
            return await tx.attempts.of_job(job_id)

    async def until(
        self, holds: Callable[[], Awaitable[Any]], what: str = "", limit_s: float = LIMIT_S
    ) -> Any:
        """Look again and again until something is so."""
        loop = asyncio.get_running_loop()
        end = loop.time() + limit_s
        while not (found := await holds()):
            assert loop.time() < end, f"after {limit_s:g} s still not: {what}"
            await asyncio.sleep(0.02)
        return found

    async def phase(self, job_id: str, *phases: JobPhase) -> Job:
        """Wait until a job is in one of these phases."""

        async def look() -> Job | None:
            job = await self.job(job_id)
            return job if job.phase in phases else None

        found: Job = await self.until(look, f"{job_id} in {[each.value for each in phases]}")
        return found


def job_row(**spec: Any) -> Job:
    """A job of acme; `row` holds fields of the row itself."""
    row: dict[str, Any] = spec.pop("row", {})
    document: Json = {
        "name": "train",
        "kind": "batch",
        "command": ["true"],
        "resources": {"memory": "1GiB"},
        "work": {"time": "1h"},
    } | spec
    return Job(id=new_id(), tenant="acme", name="train", spec=document, **row)


async def prepare(store: Store, clusters: dict[str, Json]) -> dict[str, str]:
    """Declare acme and clusters; the secrets of their members."""
    await store.migrate()
    secrets = {}
    async with store.transaction() as tx:
        await tx.tenants.add(Tenant("acme", TenantKind.TENANT))
        for name, spec in clusters.items():
            await tx.clusters.add(Cluster(name, "process", spec))
            _, secrets[name] = await tx.tokens.issue(Grant(Role.MEMBER, cluster=name))
    return secrets


@asynccontextmanager
async def world(
    address: str, *clusters: str, settings: ServerSettings = QUICK, spec: Json | None = None
) -> AsyncIterator[World]:
    """A running core with members that may knock."""
    async with Store.open(address) as store:
        named = clusters or ("seoul",)
        secrets = await prepare(store, dict.fromkeys(named, spec or SPEC))
        bus = LocalBus()
        async with running(store, bus, settings) as core:
            yield World(store, bus, secrets, core)
