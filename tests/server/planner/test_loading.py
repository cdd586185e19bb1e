"""A planner begins with all that is stored, also with what an earlier one did not write."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.server.links.plans import Known, PlanSource
from dure.server.planner.centre import Centre
from dure.server.planner.loading import Begun, begin
from dure.server.planner.planner import Planner
from dure.server.planner.suspects import Suspects
from dure.server.services import Services
from dure.server.whatif import Question, WhatIf
from dure.stores.bus.local import LocalBus
from dure.stores.rows import Attempt, Job
from dure.stores.store import Store
from dure.stores.transaction import Transaction
from tests.server.centres import QUICK, SPEC, job_row, prepare
from tests.server.rest.centre import TestLogs
from tests.stores.helpers import asynchronous, eventually


class Watched(Store):
    """Knows how many readings are under way."""

    readings = 0

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Transaction]:
        """As ever, but counted."""
        async with super().reading() as tx:
            self.readings += 1
            try:
                yield tx
            finally:
                self.readings -= 1


@asynccontextmanager
async def watched(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Store, list[int]]]:
    """A store with three jobs that wait, and how many readings were open at each submission."""
    found: list[int] = []
    submit = Centre.submit
    async with Watched.open(address) as store:
        assert isinstance(store, Watched)

        def noted(centre: Centre, row: Job, saved_share: float = 0.0) -> None:
            found.append(store.readings)
            submit(centre, row, saved_share)

        monkeypatch.setattr(Centre, "submit", noted)
        await prepare(store, {"seoul": SPEC})
        async with store.transaction() as tx:
            await tx.jobs.add_all([job_row() for _ in range(3)])
        yield store, found


@asynchronous
async def test_a_planner_submits_those_who_wait_after_it_has_read(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(address, monkeypatch) as (store, found):
        lease = await store.acquire("me", 60.0)
        assert lease is not None
        services = Services(store, LocalBus(), TestLogs(), QUICK)
        leading = asyncio.create_task(Planner(services).lead(lease))
        try:
            await eventually("all are submitted", lambda: len(found) == 3)
        finally:
            leading.cancel()
            await asyncio.wait([leading])
        assert found == [0, 0, 0]


@asynchronous
async def test_what_if_submits_those_who_wait_after_it_has_read(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(address, monkeypatch) as (store, found):
        await WhatIf(store, time.time_ns).ask(Question(()))
        assert found == [0, 0, 0]


async def begun(store: Store) -> Begun:
    async with store.reading() as tx:
        return await begin(tx, time.time_ns, Suspects())


async def moving_job(store: Store, old: AttemptState) -> str:
    """A job with a place in seoul, of which 0.4 is saved, and one kept for it in busan."""
    row = job_row()
    async with store.transaction() as tx:
        await tx.jobs.add(row)
        revision = await tx.clusters.next_revision("busan", epoch=1)
        await tx.attempts.add(Attempt(row.id, 1, "seoul", 1, 1))
        await tx.attempts.mark_sent([(row.id, 1)])
        for state in (AttemptState.COMMITTED, AttemptState.RUNNING):
            await tx.attempts.advance(row.id, 1, state)
        first = await tx.attempts.advance(row.id, 1, old)
        await tx.attempts.put_all([replace(first, status={"saved_share": 0.4})])
        order = {"site": {"cluster": "busan", "group": "gpus"}, "explanation": {"terms": []}}
        await tx.attempts.add(Attempt(row.id, 2, "busan", 1, revision, spec=order))
        placed = replace(await tx.jobs.get(row.id), phase=JobPhase.PLACED, cluster="busan")
        await tx.jobs.put(placed)
    return row.id


@asynchronous
async def test_a_reservation_whose_predecessor_is_gone_is_sent_by_the_next_planner(
    address: str,
) -> None:
    async with Store.open(address) as store:
        await prepare(store, {"seoul": SPEC, "busan": SPEC})
        job = await moving_job(store, AttemptState.GONE)
        async with store.transaction() as tx:
            row = await tx.clusters.linked("busan", "i", "")
        # Its member was told the set with the reservation in it, when that could not be sent.
        known = Known(row.desired_epoch, row.desired_revision)
        deeds = (await begun(store)).centre.take_deeds()
        assert deeds.sendable == {(job, 2): ("busan", 0.4)}
        async with store.transaction() as tx:
            await deeds.write(tx, epoch=1)
        plan = await PlanSource(store).next("busan", row.link_epoch, known)
        assert plan is not None
        (sent,) = plan.desired
        assert (sent.key.job, sent.key.attempt, sent.order.resume_share) == (job, 2, 0.4)
        # What its cluster may have heard of is not said again.
        assert not (await begun(store)).centre.take_deeds().sendable


@asynchronous
async def test_a_reservation_waits_for_a_predecessor_that_is_there(address: str) -> None:
    async with Store.open(address) as store:
        await prepare(store, {"seoul": SPEC, "busan": SPEC})
        await moving_job(store, AttemptState.RELEASING)
        assert not (await begun(store)).centre.take_deeds().sendable
