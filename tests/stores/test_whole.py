import asyncio
import random

from dure.stores.rows import NewEvent
from dure.stores.store import Store
from tests.stores.helpers import asynchronous, opened


async def _write(store: Store, number: int) -> None:
    async with store.transaction() as tx:
        tx.events.add(NewEvent("written", str(number)))


@asynchronous
async def test_writers_that_are_cancelled_at_any_moment_leave_nothing_locked(address: str) -> None:
    chance = random.Random(6)
    async with opened(address) as store:
        for number in range(60):
            tasks = [asyncio.create_task(_write(store, number)) for _ in range(3)]
            await asyncio.sleep(chance.uniform(0.0, 0.012))
            for task in tasks:
                task.cancel()
            await asyncio.sleep(chance.uniform(0.0, 0.002))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(5.0):
            await _write(store, -1)
        async with store.reading() as tx:
            events = await tx.events.since(0)
        # Each was stored whole or not at all.
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert events[-1].subject == "-1"
