import asyncio

import pytest
import sqlalchemy as sa

from dure.domain.fleet.lifecycle import LEGAL_STEPS, AttemptState
from dure.stores import tables
from dure.stores.errors import ConflictError, DuplicateError, IllegalStepError
from dure.stores.rows import Attempt
from dure.stores.store import Store
from tests.stores.helpers import asynchronous, attempt, job, opened

_PATHS: dict[AttemptState, list[AttemptState]] = {
    AttemptState.RESERVED: [],
    AttemptState.COMMITTED: [AttemptState.COMMITTED],
    AttemptState.RUNNING: [AttemptState.COMMITTED, AttemptState.RUNNING],
    AttemptState.RELEASING: [AttemptState.COMMITTED, AttemptState.RELEASING],
    AttemptState.GONE: [AttemptState.GONE],
}


async def _reach(store: Store, state: AttemptState) -> Attempt:
    async with store.transaction() as tx:
        made = await tx.jobs.add(job())
        stored = await tx.attempts.add(attempt(made.id))
        for step in _PATHS[state]:
            stored = await tx.attempts.advance(made.id, 1, step)
    return stored


@asynchronous
async def test_only_legal_steps_are_stored(address: str) -> None:
    async with opened(address) as store:
        for old in AttemptState:
            for new in AttemptState:
                begun = await _reach(store, old)
                if new is old or new in LEGAL_STEPS[old]:
                    async with store.transaction() as tx:
                        after = await tx.attempts.advance(begun.job_id, 1, new, reason="why")
                    assert after.state is new
                    assert getattr(after, f"{new.value}_ns") is not None
                    assert after.reason == ("" if new is old else "why")
                else:
                    async with store.transaction() as tx:
                        with pytest.raises(IllegalStepError, match="cannot go from"):
                            await tx.attempts.advance(begun.job_id, 1, new)


@asynchronous
async def test_the_schema_itself_refuses_an_illegal_step(address: str) -> None:
    async with opened(address) as store:
        begun = await _reach(store, AttemptState.GONE)
        revive = (
            tables.attempts.update()
            .where(tables.attempts.c.job_id == begun.job_id)
            .values(state=AttemptState.RUNNING)
        )
        with pytest.raises(IllegalStepError):
            async with store.transaction() as tx:
                await tx.link.execute(revive, "attempt")
        async with store.reading() as tx:
            assert await tx.attempts.get(begun.job_id, 1) == begun


@asynchronous
async def test_training_commits_anew_only_when_the_old_attempt_is_gone(address: str) -> None:
    async with opened(address) as store:
        old = await _reach(store, AttemptState.RUNNING)
        async with store.transaction() as tx:
            await tx.attempts.add(attempt(old.job_id, 2, cluster="busan"))
        for step in (None, AttemptState.RELEASING):
            async with store.transaction() as tx:
                if step is not None:
                    await tx.attempts.advance(old.job_id, 1, step)
                with pytest.raises(ConflictError, match="an older one is not gone"):
                    await tx.attempts.advance(old.job_id, 2, AttemptState.COMMITTED)
        async with store.transaction() as tx:
            await tx.attempts.advance(old.job_id, 1, AttemptState.GONE)
            await tx.attempts.advance(old.job_id, 2, AttemptState.COMMITTED)
            assert [one.attempt for one in await tx.attempts.unfinished("busan")] == [2]
            assert await tx.attempts.unfinished("seoul") == ()


@asynchronous
async def test_the_schema_itself_refuses_a_second_live_attempt(address: str) -> None:
    async with opened(address) as store:
        old = await _reach(store, AttemptState.RUNNING)
        async with store.transaction() as tx:
            await tx.attempts.add(attempt(old.job_id, 2))
        commit = (
            tables.attempts.update()
            .where(tables.attempts.c.job_id == old.job_id, tables.attempts.c.attempt == 2)
            .values(state=AttemptState.COMMITTED, committed_ns=1)
        )
        with pytest.raises(DuplicateError):
            async with store.transaction() as tx:
                await tx.link.execute(commit, "attempt")


@asynchronous
async def test_serving_may_have_the_new_beside_the_old(address: str) -> None:
    async with opened(address) as store, store.transaction() as tx:
        made = await tx.jobs.add(job())
        for number in (1, 2):
            await tx.attempts.add(attempt(made.id, number, exclusive=False))
            await tx.attempts.advance(made.id, number, AttemptState.COMMITTED)
            await tx.attempts.advance(made.id, number, AttemptState.RUNNING)
        states = [one.state for one in await tx.attempts.of_job(made.id)]
        assert states == [AttemptState.RUNNING] * 2


@asynchronous
async def test_numbers_of_attempts_only_grow(address: str) -> None:
    async with opened(address) as store, store.transaction() as tx:
        made = await tx.jobs.add(job())
        await tx.attempts.add(attempt(made.id, 5))
        for number in (5, 4):
            with pytest.raises(ConflictError, match="has had attempt 5"):
                await tx.attempts.add(attempt(made.id, number))
        with pytest.raises(IllegalStepError, match="begin as reserved"):
            await tx.attempts.add(attempt(made.id, 6, state=AttemptState.RUNNING))


@asynchronous
async def test_of_commits_at_the_same_time_one_wins(address: str) -> None:
    async with opened(address) as store:
        async with store.transaction() as tx:
            made = await tx.jobs.add(job())
            for number in range(1, 9):
                await tx.attempts.add(attempt(made.id, number))

        async def commit(number: int) -> bool:
            try:
                async with store.transaction() as tx:
                    await tx.attempts.advance(made.id, number, AttemptState.COMMITTED)
            except ConflictError:
                return False
            return True

        won = await asyncio.gather(*(commit(number) for number in range(1, 9)))
        assert sum(won) == 1
        async with store.reading() as tx:
            live = sa.select(sa.func.count()).where(
                tables.attempts.c.state == AttemptState.COMMITTED
            )
            assert (await tx.link.execute(live, "attempts")).scalar_one() == 1
