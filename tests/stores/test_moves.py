"""Rows of migrations: one at a time for a job, and nobody's word is overwritten."""

from dataclasses import replace

import pytest

from dure.domain.fleet.accounts import TenantKind
from dure.domain.fleet.migrations import MoveKind, MoveStep
from dure.stores.errors import ConflictError, DuplicateError
from dure.stores.ids import new_id
from dure.stores.retention import Retention
from dure.stores.rows import Migration, Tenant
from dure.stores.store import Store
from tests.stores.helpers import asynchronous, job


def move(job_id: str, step: MoveStep = MoveStep.SAVING) -> Migration:
    return Migration(new_id(), job_id, MoveKind.CHECKPOINT, step, 1, 1, "east", 2, "west")


async def prepared(store: Store) -> str:
    await store.migrate()
    sent = job()
    async with store.transaction() as tx:
        await tx.tenants.add(Tenant("acme", TenantKind.TENANT))
        await tx.jobs.add(sent)
    return sent.id


@asynchronous
async def test_a_job_has_one_unfinished_migration_and_any_number_before(address: str) -> None:
    async with Store.open(address) as store:
        job_id = await prepared(store)
        first, second = move(job_id), move(job_id)
        async with store.transaction() as tx:
            await tx.migrations.step_all([first])
        with pytest.raises(DuplicateError):
            async with store.transaction() as tx:
                await tx.migrations.step_all([second])
        async with store.transaction() as tx:
            ended = replace(first, step=MoveStep.UNDONE, ended_ns=5)
            await tx.migrations.step_all([ended, second])
        async with store.reading() as tx:
            assert await tx.migrations.unfinished() == (second,)
            assert await tx.migrations.unfinished([]) == ()
            assert await tx.migrations.latest(job_id) == second
            assert await tx.migrations.find(first.id) == ended


@asynchronous
async def test_a_step_is_refused_whole_where_somebody_called_it_off_meanwhile(address: str) -> None:
    async with Store.open(address) as store:
        job_id = await prepared(store)
        row = move(job_id)
        async with store.transaction() as tx:
            await tx.migrations.step_all([row])
            assert await tx.migrations.abort(row, "ann")
        with pytest.raises(ConflictError, match="called off meanwhile"):
            async with store.transaction() as tx:
                await tx.migrations.step_all([replace(row, step=MoveStep.RELEASING)])
        async with store.transaction() as tx:
            stored = await tx.migrations.get(row.id)
            assert (stored.step, stored.abort_by) == (MoveStep.SAVING, "ann")
            await tx.migrations.step_all([replace(stored, step=MoveStep.UNDONE, ended_ns=9)])


@asynchronous
async def test_a_late_word_calls_nothing_off_and_an_answer_is_never_taken_back(
    address: str,
) -> None:
    async with Store.open(address) as store:
        job_id = await prepared(store)
        row = move(job_id, MoveStep.RELEASING)
        async with store.transaction() as tx:
            await tx.migrations.step_all([row])
            assert not await tx.migrations.abort(row, "ann")
            await tx.migrations.acknowledge(row, 7)
            await tx.migrations.acknowledge(row, 3)
            await tx.migrations.step_all([replace(row, step=MoveStep.RESUMING)])
            assert (await tx.migrations.get(row.id)).acked == 7


@asynchronous
async def test_a_migration_is_kept_for_as_long_after_its_end_as_it_is_to_be(address: str) -> None:
    async with Store.open(address) as store:
        job_id = await prepared(store)
        async with store.transaction() as tx:
            now_ns = tx.now_ns
            ended = [
                replace(move(job_id), step=MoveStep.DONE, ended_ns=now_ns - round(age_s * 1e9))
                for age_s in (3600.0, 120.0, 30.0)
            ]
            under_way = replace(move(job_id), since_ns=1, begun_ns=1)
            await tx.migrations.step_all([*ended, under_way])
        assert (await store.prune(Retention(migrations_s=None))).migrations == 0
        assert (await store.prune(Retention(migrations_s=60.0), batch=1)).migrations == 2
        async with store.reading() as tx:
            assert await tx.migrations.find(ended[1].id) is None
            assert await tx.migrations.find(ended[2].id) == ended[2]
            assert await tx.migrations.unfinished() == (under_way,)
