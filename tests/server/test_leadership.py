import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa

from dure.server.leadership import Leader
from dure.stores import tables
from dure.stores.errors import FencedError
from dure.stores.rows import Lease
from dure.stores.store import Store
from tests.stores.helpers import asynchronous, eventually


class Deeds:
    """What a leader does: counts how often it began, and was told to stop."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.stopped: list[int] = []

    async def lead(self, lease: Lease) -> None:
        """Lead until told to stop."""
        self.began.append(lease.epoch)
        try:
            await asyncio.sleep(3600)
        finally:
            self.stopped.append(lease.epoch)


@asynchronous
async def test_a_leader_stops_at_once_when_its_lease_is_taken_and_leads_again_later(
    tmp_path: Path,
) -> None:
    async with Store.open(f"sqlite:///{tmp_path / 'state.db'}") as store:
        await store.migrate()
        deeds, leader = Deeds(), Leader(store, "one", 2.0)
        running = asyncio.create_task(leader.run(deeds.lead))
        await eventually("it leads", lambda: deeds.began == [1])
        # It goes on for longer than one lease lasts.
        await asyncio.sleep(2.5)
        assert deeds.stopped == []
        async with store.transaction() as tx:
            await tx.link.execute(sa.update(tables.leases).values(expires_ns=0), "lease")
        other = await store.acquire("two", 60.0)
        assert other is not None
        await eventually("it stops", lambda: deeds.stopped == [1])
        assert not leader.leads
        await store.release(other)
        await eventually("it leads again", lambda: deeds.began == [1, 3])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        # Whoever ends lets another lead at once.
        assert await store.acquire("two", 60.0) is not None


@asynchronous
async def test_a_planner_that_fails_does_not_keep_others_from_leading(tmp_path: Path) -> None:
    began = 0

    async def fail(lease: Lease) -> None:
        nonlocal began
        began += 1
        if began == 1:
            raise ExceptionGroup("both", [FencedError("taken")])
        raise RuntimeError("a bug")

    async with Store.open(f"sqlite:///{tmp_path / 'state.db'}") as store:
        await store.migrate()
        leader = Leader(store, "one", 60.0)
        running = asyncio.create_task(leader.run(fail))
        await eventually("it tried thrice", lambda: began >= 3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await store.acquire("two", 60.0) is not None
