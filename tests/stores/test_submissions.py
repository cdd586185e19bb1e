import asyncio
from collections.abc import Sequence

import pytest

from dure.domain.errors import DureError
from dure.domain.fleet.accounts import TenantKind
from dure.stores.errors import KeyReusedError, NotFoundError, StoreUnavailableError
from dure.stores.group import GroupCommit
from dure.stores.repos.jobs import JobFilter
from dure.stores.rows import Job, Json, Tenant
from dure.stores.store import Store
from tests.stores.helpers import asynchronous, job, opened, submission


async def _stored(store: Store) -> set[str]:
    async with store.reading() as tx:
        return {row.id for row in (await tx.jobs.page(JobFilter(), limit=10_000)).rows}


@asynchronous
async def test_what_is_submitted_together_is_stored_with_its_events(address: str) -> None:
    async with opened(address) as store:
        jobs = [job(labels={"n": str(number)}) for number in range(200)]
        answers = await asyncio.gather(*(store.submit(submission(one)) for one in jobs))
        assert [answer["ids"] for answer in answers] == [[one.id] for one in jobs]
        assert await _stored(store) == {one.id for one in jobs}
        async with store.reading() as tx:
            assert {event.subject for event in await tx.events.since(0)} == {j.id for j in jobs}
            labelled = await tx.jobs.page(JobFilter(labels={"n": "7"}))
        assert [row.id for row in labelled.rows] == [jobs[7].id]


@asynchronous
async def test_one_bad_submission_spoils_no_other(address: str) -> None:
    async with opened(address) as store:
        good = [job() for _ in range(20)]
        bad = [job(tenant="nobody"), good[0]]
        sent: list[Job] = [*good[:10], bad[0], *good[10:]]
        results = await asyncio.gather(
            *(store.submit(submission(one)) for one in sent), return_exceptions=True
        )
        failed = [result for result in results if isinstance(result, BaseException)]
        assert [type(error) for error in failed] == [NotFoundError]
        assert await _stored(store) == {one.id for one in good}
        array = submission(job(), job(), good[0])
        with pytest.raises(DureError):
            await store.submit(array)
        assert await _stored(store) == {one.id for one in good}


@asynchronous
async def test_a_key_counts_once_also_within_one_commit_and_between_servers(address: str) -> None:
    async with opened(address) as store, opened(address) as other:
        sent = [submission(job(), key="k", body_hash="h") for _ in range(20)]
        answers = await asyncio.gather(
            *((store if n % 2 else other).submit(one) for n, one in enumerate(sent))
        )
        (first,) = {tuple(answer["ids"]) for answer in answers}
        assert await _stored(store) == set(first)
        results = await asyncio.gather(
            store.submit(submission(job(), key="k", body_hash="other")),
            store.submit(submission(job(), key="k2", body_hash="other")),
            return_exceptions=True,
        )
        assert isinstance(results[0], KeyReusedError)
        assert not isinstance(results[1], BaseException)
        assert len(await _stored(store)) == 2


@asynchronous
async def test_keys_of_different_tenants_do_not_meet(address: str) -> None:
    async with opened(address) as store:
        async with store.transaction() as tx:
            await tx.tenants.add(Tenant("other", TenantKind.TENANT))
        await store.submit(submission(job(), key="k", body_hash="1"))
        await store.submit(submission(job(tenant="other"), key="k", body_hash="2"))
        assert len(await _stored(store)) == 2


@asynchronous
async def test_what_arrives_during_a_commit_shares_the_next() -> None:
    batches: list[int] = []

    async def write(items: Sequence[int]) -> list[int | Exception]:
        batches.append(len(items))
        await asyncio.sleep(0.01)
        return [ValueError(str(item)) if item == 13 else 2 * item for item in items]

    group = GroupCommit[int, int](write, most=32)
    results = await asyncio.gather(*(group.submit(n) for n in range(100)), return_exceptions=True)
    assert [r for r in results if isinstance(r, int)] == [2 * n for n in range(100) if n != 13]
    assert isinstance(results[13], ValueError)
    assert max(batches) == 32
    assert len(batches) <= 5
    waiting = asyncio.create_task(group.submit(1))
    await asyncio.sleep(0)
    waiting.cancel()
    assert await group.submit(2) == 4
    await group.close()
    with pytest.raises(StoreUnavailableError, match="being closed"):
        await group.submit(3)


@asynchronous
async def test_a_writer_that_fails_fails_its_batch_and_no_later_one() -> None:
    calls = 0

    async def write(items: Sequence[Json]) -> list[Json | Exception]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise NotFoundError("the database is away")
        return list(items)

    group = GroupCommit[Json, Json](write)
    with pytest.raises(NotFoundError):
        await group.submit({})
    assert await group.submit({"a": 1}) == {"a": 1}
