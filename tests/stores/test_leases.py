import asyncio

import pytest

from dure.stores import tables
from dure.stores.errors import FencedError
from dure.stores.repos.leases import LEADER
from dure.stores.rows import NewEvent
from dure.stores.store import Store
from tests.stores.helpers import asynchronous, job, opened

_LONG_S = 3600.0


async def _let_time_pass(store: Store) -> None:
    """As if the lease had run out: the clock is the database's, which a test cannot turn."""
    async with store.transaction() as tx:
        await tx.link.execute(tables.leases.update().values(expires_ns=1), "lease")


@asynchronous
async def test_one_leads_at_a_time_and_each_with_a_greater_epoch(address: str) -> None:
    async with opened(address) as store:
        first = await store.acquire("a", _LONG_S)
        assert first is not None
        assert (first.name, first.holder, first.epoch) == (LEADER, "a", 1)
        assert await store.acquire("b", _LONG_S) is None
        assert await store.acquire("a", _LONG_S) is None
        renewed = await store.renew(first, 2 * _LONG_S)
        assert (renewed.epoch, renewed.expires_ns > first.expires_ns) == (1, True)
        await store.release(renewed)
        second = await store.acquire("b", _LONG_S)
        assert second is not None
        assert second.epoch == 2
        with pytest.raises(FencedError):
            await store.renew(renewed, _LONG_S)
        await store.release(renewed)
        async with store.reading() as tx:
            assert await tx.leases.find() == second


@asynchronous
async def test_of_many_that_want_to_lead_one_does(address: str) -> None:
    async with opened(address) as store:
        for epoch in (1, 2, 3):
            got = await asyncio.gather(*(store.acquire(f"s{n}", _LONG_S) for n in range(8)))
            (leader,) = [lease for lease in got if lease is not None]
            assert leader.epoch == epoch
            await _let_time_pass(store)


@asynchronous
async def test_a_lease_runs_out_by_the_databases_clock(address: str) -> None:
    async with opened(address) as store:
        first = await store.acquire("a", 0.2)
        assert first is not None
        second = None
        while second is None:
            second = await store.acquire("b", _LONG_S)
        assert second.epoch == first.epoch + 1
        assert second.expires_ns - first.expires_ns >= (_LONG_S - 1) * 1e9


@asynchronous
async def test_who_does_not_lead_any_more_writes_nothing(address: str) -> None:
    async with opened(address) as store:
        lease = await store.acquire("a", _LONG_S)
        assert lease is not None

        async def write(epoch: int) -> None:
            async with store.transaction(fence=epoch) as tx:
                await tx.jobs.add(job())
                tx.events.add(NewEvent("job.placed", "x"))

        await write(lease.epoch)
        await _let_time_pass(store)
        with pytest.raises(FencedError, match="epoch 1 is over"):
            await write(lease.epoch)
        with pytest.raises(FencedError):
            await store.renew(lease, _LONG_S)
        newer = await store.acquire("b", _LONG_S)
        assert newer is not None
        with pytest.raises(FencedError):
            await write(lease.epoch)
        await write(newer.epoch)
        async with store.reading() as tx:
            assert len((await tx.jobs.page()).rows) == 2
            assert await tx.events.last() == 2


@asynchronous
async def test_a_lease_that_ends_during_a_transaction_undoes_it(address: str) -> None:
    async with opened(address) as store:
        lease = await store.acquire("a", _LONG_S)
        assert lease is not None

        async def write() -> None:
            async with store.transaction(fence=lease.epoch) as tx:
                await tx.jobs.add(job())
                await tx.link.execute(tables.leases.update().values(expires_ns=1), "lease")

        with pytest.raises(FencedError):
            await write()
        async with store.reading() as tx:
            assert (await tx.jobs.page()).rows == ()
            assert await tx.leases.find() is not None
