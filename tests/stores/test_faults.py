"""Databases that die under load, and leaders that are stopped and wake up."""

import asyncio
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from dure.stores import tables
from dure.stores.engine import StoreSettings, open_engine
from dure.stores.errors import StoreUnavailableError
from dure.stores.rows import Job, Lease, NewEvent
from dure.stores.store import Store
from tests.stores.helpers import asynchronous, job, opened, submission
from tests.stores.services import Postgres

pytestmark = pytest.mark.services

_ROOT = Path(__file__).resolve().parents[2]
_CLIENTS, _ARRAY = 12, 3
_DEATHS = 3
_IMPATIENT = StoreSettings(idle_transaction_s=1.0, lock_s=5.0)


class _Client:
    """Submits arrays of jobs one after another, each again under its key until it is answered."""

    def __init__(self, store: Store, number: int) -> None:
        self._store = store
        self._number = number
        self.sent = 0
        self.answered: list[list[str]] = []

    async def run(self, over: asyncio.Event) -> None:
        while not over.is_set():
            self.sent += 1
            key = f"{self._number}-{self.sent}"
            while True:
                jobs = [self._job(index) for index in range(_ARRAY)]
                try:
                    answer = await self._store.submit(submission(*jobs, key=key, body_hash=key))
                except StoreUnavailableError:
                    await asyncio.sleep(0.05)
                else:
                    self.answered.append(list(answer["ids"]))
                    break

    def _job(self, index: int) -> Job:
        array = f"{self._number}-{self.sent}"
        return job(array_id=array, array_index=index, labels={"array": array})


async def _restart(postgres: Postgres) -> None:
    async with asyncio.timeout(120.0):
        while not await asyncio.to_thread(postgres.ready):
            postgres.program.start()
            await asyncio.sleep(0.05)


@asynchronous
async def test_nothing_acknowledged_is_lost_and_nothing_half_stored_when_the_database_is_killed(
    postgres: Postgres,
) -> None:
    chance = random.Random(6)
    async with opened(postgres.fresh()) as store:
        clients = [_Client(store, number) for number in range(_CLIENTS)]
        over = asyncio.Event()
        async with asyncio.TaskGroup() as running:
            for client in clients:
                running.create_task(client.run(over))
            for _ in range(_DEATHS):
                before = sum(len(client.answered) for client in clients)
                while sum(len(client.answered) for client in clients) < before + 50:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(chance.uniform(0.0, 0.1))
                postgres.kill()
                await asyncio.sleep(chance.uniform(0.0, 0.5))
                await _restart(postgres)
            over.set()
        answered = [array for client in clients for array in client.answered]
        assert len(answered) == sum(client.sent for client in clients)
        async with store.reading() as tx:
            jobs = (await tx.link.execute(sa.select(tables.jobs), "jobs")).all()
            events = await tx.events.since(0, limit=10**6)
            labels = sa.select(sa.func.count()).select_from(tables.job_labels)
            assert (await tx.link.execute(labels, "labels")).scalar_one() == len(jobs)
    assert {row.id for row in jobs} == {one for array in answered for one in array}
    assert set(Counter(row.array_id for row in jobs).values()) == {_ARRAY}
    assert [event.seq for event in events] == list(range(1, len(jobs) + 1))
    assert {event.subject for event in events} == {row.id for row in jobs}


@asynchronous
async def test_reads_wait_for_a_database_that_comes_back(postgres: Postgres) -> None:
    async with opened(postgres.fresh()) as store:
        postgres.kill()

        async def ping_until_it_fails() -> None:
            # A child of the dead server may still answer for a moment.
            while True:
                await store.ping()

        with pytest.raises(StoreUnavailableError):
            await ping_until_it_fails()
        reading = asyncio.create_task(
            store.retrying(lambda tx: tx.tenants.get("acme"), within_s=120.0, read_only=True)
        )
        await asyncio.sleep(0.5)
        assert not reading.done()
        await _restart(postgres)
        assert (await reading).path == "acme"


async def _line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(120.0):
        return (await process.stdout.readline()).decode().strip()


async def _take_over(store: Store) -> Lease:
    async with asyncio.timeout(60.0):
        while True:
            # The stopped one may hold the row until PostgreSQL ends its transaction.
            with suppress(StoreUnavailableError):
                lease = await store.acquire("awake", 3600.0)
                if lease is not None:
                    return lease
            await asyncio.sleep(0.05)


@asynchronous
async def test_a_leader_stopped_past_its_lease_writes_nothing_when_it_wakes_up(
    postgres: Postgres,
) -> None:
    chance = random.Random(7)
    address = postgres.fresh()
    async with opened(address, _IMPATIENT) as store:
        for _ in range(5):
            old = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.stores.leader", address, "1.0"),
                cwd=_ROOT,
                stdout=subprocess.PIPE,
            )
            try:
                epoch = int(await _line(old))
                # Somewhere in the middle of a transaction, or between two.
                await asyncio.sleep(chance.uniform(0.1, 0.3))
                old.send_signal(signal.SIGSTOP)
                lease = await _take_over(store)
                assert lease.epoch == epoch + 1
                async with store.transaction(fence=lease.epoch) as tx:
                    tx.events.add(NewEvent("written", f"epoch-{lease.epoch}"))
                old.send_signal(signal.SIGCONT)
                assert await _line(old) == "fenced"
                async with asyncio.timeout(120.0):
                    assert await old.wait() == 0
            finally:
                if old.returncode is None:
                    old.kill()
                    await old.wait()
            await store.release(lease)
        async with store.reading() as tx:
            writers = [event.subject for event in await tx.events.since(0, limit=10**6)]
        order = sorted(set(writers), key=lambda name: int(name.removeprefix("epoch-")))
        assert len(order) == 10
        assert writers == sorted(writers, key=order.index)


@asynchronous
async def test_a_transaction_left_open_by_a_stopped_leader_holds_nobody_up(
    postgres: Postgres,
) -> None:
    async with opened(postgres.fresh(), _IMPATIENT) as store:
        first = await store.acquire("silent", 0.5)
        assert first is not None

        async def write() -> None:
            async with store.transaction(fence=first.epoch) as tx:
                await tx.leases.check(first.epoch, keep=True)
                # As if its process were stopped here, with the lease's row locked.
                lease = await _take_over(store)
                assert lease.epoch == first.epoch + 1
                tx.events.add(NewEvent("late", "x"))

        with pytest.raises(StoreUnavailableError):
            await write()
        async with store.reading() as tx:
            assert await tx.events.last() == 0


@asynchronous
async def test_transactions_of_a_stopped_process_that_wait_for_each_other_hold_up_others_once(
    postgres: Postgres,
) -> None:
    settings = StoreSettings()
    bump = tables.marks.update().values(value=tables.marks.c.value + 1)
    address = postgres.fresh()
    stopped = open_engine(address, settings)
    async with opened(address) as awake:
        held = [await stopped.connect() for _ in range(3)]
        await held[0].execute(bump)
        waiting = [asyncio.create_task(each.execute(bump)) for each in held[1:]]
        await asyncio.sleep(0.2)
        began = asyncio.get_running_loop().time()
        await awake.retrying(lambda tx: tx.link.execute(bump, "marks"), within_s=60.0)
        took_s = asyncio.get_running_loop().time() - began
        for task in waiting:
            with suppress(sa.exc.DBAPIError):
                await task
        for each in held:
            with suppress(sa.exc.DBAPIError):
                await each.close()
        await stopped.dispose()
        # One after the other it would be as many times as there are.
        assert took_s < (len(held) - 0.5) * settings.idle_transaction_s
