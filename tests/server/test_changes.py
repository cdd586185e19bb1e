"""Steps of attempts and jobs as the planner takes them, and the plans that follow for clusters."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from dure.domain.fleet.decisions import Order, Site
from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.protocol.desired import AttemptKey, Plan, PlanAnswer, Refusal, Want
from dure.domain.fleet.protocol.reports import Outcome
from dure.domain.ids import ClusterId, WorkloadId
from dure.server import specs
from dure.server.changes import Ending, read_changes
from dure.server.links import plans, reports
from dure.server.links.plans import Known, PlanSource
from dure.server.links.reports import store_answer
from dure.server.planner.deeds import Deeds, Placing
from dure.stores.errors import ConflictError, FencedError
from dure.stores.rows import Attempt, Job
from dure.stores.store import Store
from dure.stores.transaction import Transaction
from tests.server.centres import SPEC, job_row, prepare
from tests.stores.helpers import asynchronous


@dataclass
class Desk:
    """A store without a planner: the test decides."""

    store: Store
    epoch: int
    links: dict[str, int]

    async def decide(self, deeds: Deeds) -> None:
        """As the leader does."""
        async with self.store.transaction(fence=self.epoch) as tx:
            await deeds.write(tx, self.epoch)

    async def plan(self, cluster: str, known: Known | None = None) -> Plan | None:
        """What a member would be told."""
        source = PlanSource(self.store)
        return await source.next(cluster, self.links[cluster], known or Known())

    async def accept(self, cluster: str, plan: Plan) -> None:
        """Let a member take a plan with all its attempts."""
        keys = tuple(each.key for each in plan.desired)
        async with self.store.transaction() as tx:
            answer = PlanAnswer(plan.epoch, plan.revision, True, accepted=keys)
            await store_answer(tx, cluster, self.links[cluster], answer)

    async def end(self, cluster: str, key: tuple[str, int]) -> None:
        """Let a cluster say that an attempt is gone."""
        async with self.store.transaction() as tx:
            revision = await tx.clusters.next_revision(cluster)
            changes = await read_changes(tx, {key})
            changes.revisions = {cluster: revision}
            changes.end(key, Ending(Outcome.STOPPED, "moved", 0.25))
            await changes.write(tx)

    async def job(self, job: Job) -> Job:
        """As stored."""
        async with self.store.reading() as tx:
            return await tx.jobs.get(job.id)

    async def attempt(self, job: Job, number: int) -> Attempt:
        """As stored."""
        return await self.attempt_of(_key(job, number))

    async def attempt_of(self, key: AttemptKey) -> Attempt:
        """As stored."""
        async with self.store.reading() as tx:
            return await tx.attempts.get(key.job, key.attempt)


@asynccontextmanager
async def desk(address: str) -> AsyncIterator[Desk]:
    """A desk that leads, with members of seoul and busan linked."""
    async with Store.open(address) as store:
        await prepare(store, {"seoul": SPEC, "busan": SPEC})
        lease = await store.acquire("test", 60.0)
        assert lease is not None
        links = {}
        async with store.transaction() as tx:
            for name in ("busan", "seoul"):
                links[name] = (await tx.clusters.linked(name, "one", "here")).link_epoch
        yield Desk(store, lease.epoch, links)


async def _submitted(desk: Desk, **spec: object) -> Job:
    async with desk.store.transaction() as tx:
        return await tx.jobs.add(job_row(**spec))


def _order(job: Job, attempt: int = 1, cluster: str = "seoul") -> Order:
    site = Site(ClusterId(cluster), "gpus")
    return Order(specs.job_terms(job).workload, site, attempt, 1)


def _key(job: Job, attempt: int = 1) -> AttemptKey:
    return AttemptKey(WorkloadId(job.id), attempt)


@asynchronous
async def test_a_difference_holds_what_changed_and_nothing_else(address: str) -> None:
    async with desk(address) as here:
        first, second = await _submitted(here), await _submitted(here)
        await here.decide(Deeds(placings=[Placing(_order(first))]))
        whole = await here.plan("seoul")
        assert whole is not None
        assert whole.base is None
        assert [each.key for each in whole.desired] == [_key(first)]
        known = Known(whole.epoch, whole.revision)
        assert await here.plan("seoul", known) is None
        await here.accept("seoul", whole)
        await here.decide(Deeds(placings=[Placing(_order(second))]))
        more = await here.plan("seoul", known)
        assert more is not None
        assert more.base == whole.revision
        assert [each.key for each in more.desired] == [_key(second)]
        await here.decide(Deeds(releases={(first.id, 1): ("seoul", "enough")}))
        await here.end("seoul", (first.id, 1))
        last = await here.plan("seoul", Known(more.epoch, more.revision))
        assert last is not None
        assert (last.desired, last.removed) == ((), (_key(first),))


@asynchronous
async def test_a_job_that_moves_is_sent_to_its_new_place_once_the_old_is_gone(
    address: str,
) -> None:
    async with desk(address) as here:
        job = await _submitted(here)
        await here.decide(Deeds(placings=[Placing(_order(job))]))
        plan = await here.plan("seoul")
        assert plan is not None
        await here.accept("seoul", plan)
        await here.decide(
            Deeds(
                placings=[Placing(_order(job, 2, "busan"))],
                releases={(job.id, 1): ("seoul", "moves to busan")},
            )
        )
        old = await here.plan("seoul", Known(plan.epoch, plan.revision))
        new = await here.plan("busan")
        assert old is not None
        assert new is not None
        assert [(each.want, each.why) for each in old.desired] == [(Want.RELEASE, "moves to busan")]
        assert new.desired == ()
        assert (await here.attempt(job, 2)).sent_ns is None
        await here.end("seoul", (job.id, 1))
        assert (await here.job(job)).phase is JobPhase.PLACED
        await here.decide(Deeds(sendable={(job.id, 2): ("busan", 0.25)}))
        new = await here.plan("busan", Known(new.epoch, new.revision))
        assert new is not None
        assert [(each.key, each.order.resume_share) for each in new.desired] == [
            (_key(job, 2), 0.25)
        ]


@asynchronous
async def test_a_reservation_nobody_heard_of_is_gone_at_once_and_one_that_was_sent_must_end(
    address: str,
) -> None:
    async with desk(address) as here:
        unsent, sent = await _submitted(here), await _submitted(here)
        await here.decide(Deeds(placings=[Placing(_order(sent))]))
        assert await here.plan("seoul") is not None
        await here.decide(Deeds(placings=[Placing(_order(unsent))]))
        why = ("seoul", "makes room")
        await here.decide(Deeds(releases={(unsent.id, 1): why, (sent.id, 1): why}))
        assert (await here.attempt(unsent, 1)).state is AttemptState.GONE
        assert (await here.job(unsent)).phase is JobPhase.QUEUED
        left = await here.attempt(sent, 1)
        assert left.state is AttemptState.RELEASING
        assert left.committed_ns is not None
        # Its cluster may have it by now: nothing else of the job may start before it says no.
        await here.decide(Deeds(placings=[Placing(_order(sent, 2, "busan"))]))
        plan = await here.plan("busan")
        assert plan is not None
        assert plan.desired == ()


@asynchronous
async def test_a_job_cancelled_meanwhile_is_not_placed(address: str) -> None:
    async with desk(address) as here:
        job = await _submitted(here)
        async with here.store.transaction() as tx:
            await tx.jobs.put(replace(job, phase=JobPhase.CANCELLING))
        await here.decide(Deeds(placings=[Placing(_order(job))], cancels={job.id}))
        assert (await here.job(job)).phase is JobPhase.CANCELLED
        plan = await here.plan("seoul")
        assert plan is not None
        assert plan.desired == ()


@asynchronous
async def test_a_decision_of_a_leader_that_was_replaced_is_not_stored(address: str) -> None:
    async with desk(address) as here:
        job = await _submitted(here)
        here.epoch -= 1
        with pytest.raises(FencedError):
            await here.decide(Deeds(placings=[Placing(_order(job))]))
        assert (await here.job(job)).phase is JobPhase.QUEUED


@asynchronous
async def test_an_older_attempt_than_the_job_has_had_is_not_placed(address: str) -> None:
    async with desk(address) as here:
        job = await _submitted(here)
        await here.decide(Deeds(placings=[Placing(_order(job))]))
        await here.decide(Deeds(placings=[Placing(_order(job, 1, "busan"))]))
        assert (await here.attempt(job, 1)).cluster == "seoul"


@asynchronous
async def test_a_link_that_is_over_gets_no_plan(address: str) -> None:
    async with desk(address) as here:
        job = await _submitted(here)
        await here.decide(Deeds(placings=[Placing(_order(job))]))
        async with here.store.transaction() as tx:
            await tx.clusters.linked("seoul", "two", "there")
        with pytest.raises(ConflictError, match="said hello again"):
            await here.plan("seoul")
        assert (await here.attempt(job, 1)).sent_ns is None


@asynchronous
async def test_what_is_given_up_while_a_plan_is_made_is_not_in_it(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(address) as here:
        kept, left = await _submitted(here), await _submitted(here)
        await here.decide(Deeds(placings=[Placing(_order(kept)), Placing(_order(left))]))
        write = here.store.transaction

        @asynccontextmanager
        async def late() -> AsyncIterator[Transaction]:
            monkeypatch.undo()
            await here.decide(Deeds(releases={(left.id, 1): ("seoul", "makes room")}))
            async with write() as tx:
                yield tx

        monkeypatch.setattr(here.store, "transaction", late)
        plan = await here.plan("seoul")
        assert plan is not None
        assert [each.key for each in plan.desired] == [_key(kept)]
        assert (await here.attempt(left, 1)).state is AttemptState.GONE
        # The plan is the one of the revision that was read; what came after it follows.
        after = await here.plan("seoul", Known(plan.epoch, plan.revision))
        assert after is not None
        assert _key(left) in after.removed


@asynchronous
async def test_a_plan_and_its_answer_hold_however_many_attempts(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "_AT_A_TIME", 2)
    monkeypatch.setattr(reports, "_PART", 2)
    async with desk(address) as here:
        jobs = [await _submitted(here) for _ in range(7)]
        await here.decide(Deeds(placings=[Placing(_order(job)) for job in jobs]))
        plan = await here.plan("seoul")
        assert plan is not None
        keys = tuple(each.key for each in plan.desired)
        assert set(keys) == {_key(job) for job in jobs}
        refused = Refusal(keys[0], "no room")
        answer = PlanAnswer(plan.epoch, plan.revision, True, accepted=keys[1:], refused=(refused,))
        for part in reports.answer_parts(answer):
            async with here.store.transaction() as tx:
                await store_answer(tx, "seoul", here.links["seoul"], part)
        states = {key: (await here.attempt_of(key)).state for key in keys}
        assert states.pop(keys[0]) is AttemptState.GONE
        assert set(states.values()) == {AttemptState.COMMITTED}
