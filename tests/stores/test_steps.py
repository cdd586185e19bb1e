"""Many steps in one transaction: locked, written together, refused where they break a rule."""

from dataclasses import replace

import pytest

from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.stores.errors import ConflictError, IllegalStepError
from dure.stores.repos.jobs import Step
from dure.stores.rows import Job
from dure.stores.store import Store
from tests.stores.helpers import asynchronous, attempt, job, opened


@asynchronous
async def test_jobs_take_steps_together_and_ends_are_stamped(address: str) -> None:
    one, two = job("one"), job("two")
    async with opened(address) as store:
        async with store.transaction() as tx:
            await tx.jobs.add_all([one, two])
        async with store.transaction() as tx:
            standings = await tx.jobs.lock([one.id, two.id, "nobody"])
            assert set(standings) == {one.id, two.id}
            await tx.jobs.step_all(
                [
                    Step(one.id, JobPhase.PLACED, 1, "seoul", 0),
                    Step(two.id, JobPhase.FAILED, 0, None, 2, "broken"),
                ]
            )
        async with store.transaction() as tx:
            # Only who still waits is told why.
            await tx.jobs.tell_why({one.id: "too late", two.id: "too late"})
            placed, failed = await tx.jobs.get(one.id), await tx.jobs.get(two.id)
            live = await tx.jobs.live()
        assert (placed.phase, placed.cluster, placed.revision) == (JobPhase.PLACED, "seoul", 2)
        assert (failed.failures, failed.reason, failed.ended_ns) == (2, "broken", failed.updated_ns)
        assert [each.id for each in live] == [one.id]


async def _all_become(
    store: Store, one: Job, numbers: tuple[int, ...], state: AttemptState
) -> None:
    async with store.transaction() as tx:
        rows = await tx.attempts.lock([(one.id, number) for number in numbers])
        await tx.attempts.put_all([replace(row, state=state) for row in rows.values()])


@asynchronous
async def test_the_schema_refuses_steps_that_many_take_together(address: str) -> None:
    one = job()
    async with opened(address) as store:
        async with store.transaction() as tx:
            await tx.jobs.add(one)
            await tx.attempts.add_all([attempt(one.id), attempt(one.id, 2)])
        with pytest.raises(IllegalStepError):
            await _all_become(store, one, (1,), AttemptState.RUNNING)
        with pytest.raises(ConflictError, match="while an older one is not gone"):
            await _all_become(store, one, (1, 2), AttemptState.COMMITTED)
        async with store.reading() as tx:
            states = {each.state for each in await tx.attempts.of_job(one.id)}
        assert states == {AttemptState.RESERVED}


@asynchronous
async def test_a_cluster_s_set_is_what_is_unfinished_or_kept_and_changes_by_revision(
    address: str,
) -> None:
    one, two = job(), job()
    async with opened(address) as store:
        async with store.transaction() as tx:
            await tx.jobs.add_all([one, two])
            await tx.attempts.add_all(
                [attempt(one.id, desired_revision=3), attempt(two.id, desired_revision=5)]
            )
            assert await tx.attempts.mark_sent([(one.id, 1)]) == {(one.id, 1)}
            await tx.attempts.advance(one.id, 1, AttemptState.GONE)
        async with store.transaction() as tx:
            changed = await tx.attempts.in_set("seoul", since=3, most=9)
            assert [each.job_id for each in changed] == [two.id]
            (first,) = await tx.attempts.in_set("seoul", most=1)
            (second,) = await tx.attempts.in_set("seoul", after=(first.job_id, 1), most=9)
            assert {first.job_id, second.job_id} == {one.id, two.id}
            assert await tx.attempts.mark_sent([(one.id, 1), (two.id, 1)]) == {(two.id, 1)}
            ((kept, number, _),) = await tx.attempts.kept("seoul")
            await tx.attempts.drop([(kept, number)], 6)
        async with store.reading() as tx:
            assert [each.job_id for each in await tx.attempts.in_set("seoul", most=9)] == [two.id]
            changed = await tx.attempts.in_set("seoul", since=5, most=9)
        assert [(each.job_id, each.desired_revision) for each in changed] == [(one.id, 6)]
        assert changed[0].sent_ns is not None


@asynchronous
async def test_only_the_newest_link_of_a_cluster_holds(address: str) -> None:
    async with opened(address) as store:
        async with store.transaction() as tx:
            first = await tx.clusters.linked("seoul", "a", "http://one")
            await tx.clusters.heard_report("seoul", 7)
            again = await tx.clusters.linked("seoul", "a", "http://two")
            assert (again.link_epoch, again.report_seq) == (first.link_epoch + 1, 7)
            # An end that is noted late does not take the newer link away.
            await tx.clusters.unlinked("seoul", first.link_epoch)
            held = await tx.clusters.hold_link("seoul", again.link_epoch)
            assert held.linked_url == "http://two"
            reborn = await tx.clusters.linked("seoul", "b", "http://two")
            assert reborn.report_seq == 0
        with pytest.raises(ConflictError, match="said hello again"):
            async with store.transaction() as tx:
                await tx.clusters.hold_link("seoul", again.link_epoch)
