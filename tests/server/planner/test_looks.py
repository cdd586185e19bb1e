"""A look at clusters that fails is done again, and the first one of a planner misses nothing."""

import asyncio
import time
from dataclasses import replace

import pytest

from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.server.planner import contact
from dure.server.planner.contact import Contact
from dure.server.planner.loading import begin
from dure.server.planner.suspects import Suspects
from dure.stores.errors import StoreUnavailableError
from dure.stores.rows import Attempt
from dure.stores.store import Store
from dure.stores.transaction import Transaction
from tests.server.centres import QUICK, SPEC, job_row, prepare
from tests.stores.helpers import asynchronous


async def contact_of(store: Store) -> Contact:
    """As a planner that has just begun has it."""
    async with store.reading() as tx:
        begun = await begin(tx, time.time_ns, Suspects())
    return Contact(begun.centre, replace(QUICK, lost_after_s=0.2))


async def runs(store: Store, phase: JobPhase) -> str:
    """A job that runs in seoul, which is heard."""
    await prepare(store, {"seoul": SPEC})
    row = job_row()
    async with store.transaction() as tx:
        await tx.jobs.add(row)
        await tx.attempts.add(Attempt(row.id, 1, "seoul", 1, 1))
        await tx.attempts.mark_sent([(row.id, 1)])
        for state in (AttemptState.COMMITTED, AttemptState.RUNNING):
            await tx.attempts.advance(row.id, 1, state)
        await tx.jobs.put(replace(await tx.jobs.get(row.id), phase=phase, cluster="seoul"))
        await tx.clusters.touch("seoul")
    return row.id


@asynchronous
async def test_jobs_out_of_sight_are_seen_by_the_next_planner_if_their_cluster_is_heard(
    address: str,
) -> None:
    async with Store.open(address) as store:
        job = await runs(store, JobPhase.UNKNOWN)
        made = replace(await contact_of(store), settings=QUICK)
        async with store.reading() as tx:
            await made.look(tx)
        deeds = made.centre.take_deeds()
        assert deeds.seen == {job}
        async with store.transaction() as tx:
            await deeds.write(tx, epoch=1)
            assert (await tx.jobs.get(job)).phase is JobPhase.RUNNING


@asynchronous
async def test_a_cluster_that_fell_silent_is_found_so_again_when_the_look_failed(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Store.open(address) as store:
        job = await runs(store, JobPhase.RUNNING)
        made = await contact_of(store)
        await asyncio.sleep(0.4)
        find = contact._attempts_in

        async def fails(tx: Transaction, cluster: str) -> None:
            raise StoreUnavailableError("the database is away", "wait")

        monkeypatch.setattr(contact, "_attempts_in", fails)
        async with store.reading() as tx:
            with pytest.raises(StoreUnavailableError):
                await made.look(tx)
        monkeypatch.setattr(contact, "_attempts_in", find)
        async with store.reading() as tx:
            assert await made.look(tx)
        assert set(made.centre.deeds.unseen) == {job}
