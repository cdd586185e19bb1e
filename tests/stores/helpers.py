"""What the tests of stores share: coroutines as tests, an opened store, things to put into it."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from dure.domain.fleet.accounts import TenantKind
from dure.stores.engine import StoreSettings
from dure.stores.ids import new_id
from dure.stores.rows import Attempt, Charge, Cluster, Job, NewEvent, Tenant
from dure.stores.store import Store
from dure.stores.submissions import Submission

LIMIT_S = 300.0
"""Generous: no test here takes a tenth of it on an idle machine."""


def asynchronous(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a coroutine as a test, within the limit."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(LIMIT_S):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


@asynccontextmanager
async def opened(address: str, settings: StoreSettings | None = None) -> AsyncIterator[Store]:
    """A migrated store with the tenant acme and the clusters seoul and busan."""
    async with Store.open(address, settings) as store:
        await store.migrate()
        async with store.transaction() as tx:
            if await tx.tenants.find("acme") is None:
                await tx.tenants.add(Tenant("acme", TenantKind.TENANT))
                await tx.clusters.add(Cluster("seoul", "kubernetes"))
                await tx.clusters.add(Cluster("busan", "process"))
        yield store


def job(name: str = "train", **more: Any) -> Job:
    """A job of acme."""
    fields: dict[str, Any] = {"tenant": "acme", "spec": {"image": "trainer"}} | more
    return Job(id=new_id(), name=name, **fields)


def attempt(job_id: str, number: int = 1, **more: Any) -> Attempt:
    """An attempt in seoul."""
    fields: dict[str, Any] = {"cluster": "seoul", "epoch": 1, "desired_revision": 1} | more
    return Attempt(job_id, number, **fields)


def charge(job_id: str, day: str = "2026-11-05", **more: Any) -> Charge:
    """A charge of acme for a device in seoul, of a day."""
    fields: dict[str, Any] = {
        "month": day[:7],
        "currency": "USD",
        "tenant": "acme",
        "team": "",
        "service": "",
        "cluster": "seoul",
        "profile": "a100-40gb",
        "from_ns": 0,
        "to_ns": 10,
    } | more
    return Charge(job_id, fields.pop("attempt", 1), day, **fields)


def submission(*jobs: Job, key: str | None = None, body_hash: str = "") -> Submission:
    """Jobs as they are submitted, each with an event."""
    return Submission(
        jobs,
        {"ids": [one.id for one in jobs]},
        tuple(NewEvent("job.submitted", one.id, one.tenant) for one in jobs),
        key,
        body_hash,
    )


async def eventually(what: str, holds: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Look again and again until it holds; fails past the limit."""
    loop = asyncio.get_running_loop()
    until = loop.time() + limit_s
    while not holds():
        assert loop.time() < until, f"after {limit_s:.0f} s still not: {what}"
        await asyncio.sleep(0.02)
