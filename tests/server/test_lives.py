"""Jobs from submission to end, over a real link with a member that tests tell what happens."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.programs import Thing
from dure.domain.fleet.protocol.desired import AttemptKey, Want
from dure.domain.fleet.protocol.reports import Outcome, RunPhase
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.server.core import running
from dure.stores.bus.nats import NatsBus
from dure.stores.rows import Budget
from dure.stores.store import Store
from tests.server.centres import QUICK, SPEC, World, prepare, world
from tests.server.members import FakeMember, inventory, linked, summary, used
from tests.stores.helpers import asynchronous


def _without(key: AttemptKey, member: FakeMember) -> bool:
    return key not in member.desired


@asynchronous
async def test_a_submitted_job_runs_in_a_cluster_and_succeeds(address: str) -> None:
    async with (
        world(address) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        await member.join()
        job = await centre.submit()
        desired = await member.wanted()
        assert desired.key == AttemptKey(WorkloadId(job), 1)
        assert desired.program.command == ("true",)
        assert desired.namespace == "dure-acme"
        await member.status(desired.key, RunPhase.RUNNING)
        assert (await centre.phase(job, JobPhase.RUNNING)).cluster == "seoul"
        await member.ended(desired.key, Outcome.SUCCEEDED)
        await centre.phase(job, JobPhase.SUCCEEDED)
        # What is gone leaves the desired set, so that the member may forget it.
        await member.until(lambda me: not me.desired)
        (attempt,) = await centre.attempts(job)
        assert attempt.state is AttemptState.GONE
        assert attempt.spec["explanation"]["terms"]
        async with centre.store.reading() as tx:
            kinds = [event.kind for event in await tx.events.since(0, subject=job)]
        assert [kind for kind in kinds if kind.startswith("attempt.")] == [
            "attempt.reserved",
            "attempt.committed",
            "attempt.running",
            "attempt.gone",
        ]


@asynchronous
async def test_a_report_that_comes_twice_changes_nothing(address: str) -> None:
    async with world(address) as centre:
        async with linked(centre.port, centre.secrets["seoul"], "seoul") as member:
            await member.join()
            job = await centre.submit()
            key = (await member.wanted()).key
            await member.status(key, RunPhase.RUNNING, usage=(used(key, 3600.0),))
            await member.until(lambda me: me.acked == me.seq)
            member.seq -= 1
            await member.status(key, RunPhase.RUNNING, usage=(used(key, 3600.0),))
            # A second completion, under a new number, changes nothing either.
            await member.ended(key, Outcome.SUCCEEDED)
            await centre.phase(job, JobPhase.SUCCEEDED)
            await member.ended(key, Outcome.FAILED, "late news")
            await member.until(lambda me: me.acked == me.seq)
        assert (await centre.job(job)).phase is JobPhase.SUCCEEDED
        async with centre.store.reading() as tx:
            events = await tx.events.since(0, subject=job)
            charges = await tx.charges.all()
        assert sum(each.device_us for each in charges) == 3600 * 10**6
        assert [event.kind for event in events].count("attempt.gone") == 1


@asynchronous
async def test_a_program_that_fails_is_started_anew_until_its_retries_are_used_up(
    address: str,
) -> None:
    async with (
        world(address) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        await member.join()
        job = await centre.submit(retries=1)
        for attempt in (1, 2):
            desired = await member.wanted()
            assert desired.key.attempt == attempt
            await member.status(desired.key, RunPhase.RUNNING)
            await member.ended(desired.key, Outcome.FAILED, "exit code 3")
            await member.until(partial(_without, desired.key))
        failed = await centre.phase(job, JobPhase.FAILED)
        assert (failed.failures, failed.reason) == (2, "exit code 3")


@asynchronous
async def test_a_cancelled_job_is_over_when_its_cluster_says_so(address: str) -> None:
    async with (
        world(address) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        await member.join()
        job = await centre.submit()
        key = (await member.wanted()).key
        await member.status(key, RunPhase.RUNNING)
        await centre.phase(job, JobPhase.RUNNING)
        await centre.cancel(job)
        assert (await member.wanted(Want.RELEASE)).key == key
        assert (await centre.job(job)).phase is JobPhase.CANCELLING
        # Whatever its exit code was: it was told to stop.
        await member.ended(key, Outcome.FAILED, "killed")
        await centre.phase(job, JobPhase.CANCELLED)
        await member.until(lambda me: not me.desired)


@asynchronous
async def test_a_job_that_waits_is_cancelled_at_once(address: str) -> None:
    async with world(address) as centre:
        job = await centre.submit()
        await centre.cancel(job)
        await centre.phase(job, JobPhase.CANCELLED)
        assert await centre.attempts(job) == ()


@asynchronous
async def test_what_one_cluster_refuses_another_runs(address: str) -> None:
    async with (
        world(address, "busan", "seoul") as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as seoul,
        linked(centre.port, centre.secrets["busan"], "busan") as busan,
    ):
        await seoul.join()
        await busan.join()
        refused: list[str] = []

        def refuse(desired: object) -> str:
            refused.append("once")
            return "it is the wrong day" if len(refused) == 1 else ""

        seoul.refuses = busan.refuses = refuse
        job = await centre.submit()

        async def second() -> bool:
            return [each.state for each in await centre.attempts(job)] == [
                AttemptState.GONE,
                AttemptState.COMMITTED,
            ]

        await centre.until(second, "a second attempt")
        first, other = await centre.attempts(job)
        assert first.cluster != other.cluster
        assert first.reason == "it is the wrong day"


@asynchronous
async def test_a_job_waits_for_the_things_it_names_and_says_so(address: str) -> None:
    async with (
        world(address) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        await member.join()
        job = await centre.submit(envFrom=[{"secret": "key"}])

        async def told() -> bool:
            reason = (await centre.job(job)).reason
            return reason == "cluster seoul has no secret 'key' for tenant 'acme'"

        await centre.until(told, "the reason")
        things = frozenset({(TenantId("acme"), Thing("secret", "key"))})
        await member.report(inventory=inventory(things=things))
        assert (await member.wanted()).key.job == job


@asynchronous
async def test_a_job_that_can_never_fit_fails_with_the_reason(address: str) -> None:
    async with (
        world(address) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        await member.join()
        job = await centre.submit(resources={"memory": "4TiB"})
        failed = await centre.phase(job, JobPhase.FAILED)
        assert "can never run" in failed.reason
        assert "seoul/gpus" in failed.reason


@asynchronous
async def test_more_jobs_than_devices_are_placed_as_room_comes(address: str) -> None:
    async with (
        world(address) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        await member.report(
            whole=True, inventory=inventory(1), sites=(summary("seoul", 8, nodes=1),)
        )
        jobs = [await centre.submit(resources={"devices": 8, "whole": True}) for _ in range(2)]
        first = await member.wanted()
        await member.status(first.key, RunPhase.RUNNING)
        await member.report(sites=(summary("seoul", 0, nodes=1),))
        other = next(job for job in jobs if job != first.key.job)

        async def explained() -> bool:
            waiting = await centre.job(other)
            return waiting.phase is JobPhase.QUEUED and bool(waiting.reason)

        await centre.until(explained, "a reason to wait")
        await member.ended(first.key, Outcome.SUCCEEDED)
        await member.report(sites=(summary("seoul", 8, nodes=1),))
        second = await member.until(lambda me: [each for each in me.desired if each.job == other])
        assert second == [AttemptKey(WorkloadId(other), 1)]


@asynchronous
async def test_use_is_charged_to_the_budget_with_the_report_that_brings_it(address: str) -> None:
    spec = {"tariff": {"deviceHour": {"a100-40gb": 2.0}}, "carbon": 500}
    async with (
        world(address, spec=spec) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        async with centre.store.transaction() as tx:
            await tx.budgets.add(Budget("acme", "month", "money", 1000.0, 0, 2**62))
            await tx.budgets.add(Budget("acme", "air", "carbon", 1e9, 0, 2**62))
        await member.join()
        job = await centre.submit()
        key = (await member.wanted()).key
        await member.status(key, RunPhase.RUNNING, usage=(used(key, 1800.0),))
        await centre.phase(job, JobPhase.RUNNING)
        async with centre.store.reading() as tx:
            lines = await tx.charges.all()
            money = await tx.budgets.get("acme", "month")
            air = await tx.budgets.get("acme", "air")
        assert sum(line.rent_micro for line in lines) == 1_000_000
        assert money.spent_amount == pytest.approx(1.0)
        assert 0 < sum(line.carbon_ug for line in lines) / 1e6 == pytest.approx(air.spent_amount)
        assert sum(line.device_us for line in lines) == 1800 * 10**6
        assert {(line.profile, line.cluster) for line in lines} == {("a100-40gb", "seoul")}


@asynchronous
async def test_a_cluster_keeps_what_is_gone_for_a_while_and_its_last_use_is_charged(
    address: str,
) -> None:
    settings = replace(QUICK, gone_kept_s=300.0, gone_kept=1)
    async with world(address, settings=settings) as centre:
        async with linked(centre.port, centre.secrets["seoul"], "seoul") as member:
            await member.join()
            first = await centre.submit()
            key = (await member.wanted()).key
            await member.ended(key, Outcome.SUCCEEDED)
            await centre.phase(first, JobPhase.SUCCEEDED)
            await member.report(usage=(used(key, 60.0),))
            await member.until(lambda me: me.acked == me.seq)
            async with centre.store.reading() as tx:
                lines = await tx.charges.all()
            assert {line.job_id for line in lines} == {first}
            assert sum(line.device_us for line in lines) == 60 * 10**6
        async with linked(centre.port, centre.secrets["seoul"], "seoul") as member:
            # Said anew to a member that comes back, but not to be run.
            assert (await member.wanted(Want.RELEASE)).key == key
            second = await centre.submit()
            other = (await member.wanted()).key
            await member.ended(other, Outcome.SUCCEEDED)
            await centre.phase(second, JobPhase.SUCCEEDED)
            # No more than so many are kept: the older one may be forgotten.
            await member.until(lambda me: set(me.desired) == {other})


@asynchronous
async def test_logs_come_over_the_link_of_this_server(address: str) -> None:
    async with (
        world(address) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        await member.join()
        await centre.submit()
        key = (await member.wanted()).key

        async def read() -> list[bytes]:
            seoul, source = ClusterId("seoul"), centre.core.services.logs
            return [chunk async for chunk in source.logs(seoul, key, 0, follow=False, tail=None)]

        reading = asyncio.create_task(read())
        (request,) = await member.until(lambda me: me.logs)
        await member.chunk(request, b"one\n")
        await member.chunk(request, b"two\n", end=True)
        assert await reading == [b"one\n", b"two\n"]


@asynchronous
async def test_a_bus_that_never_answers_only_makes_it_slower(tmp_path: Path) -> None:
    bus = NatsBus("nats://127.0.0.1:9")
    async with Store.open(f"sqlite:///{tmp_path / 'state.db'}") as store:
        secrets = await prepare(store, {"seoul": SPEC})
        await bus.start()
        async with running(store, bus, QUICK) as core:
            centre = World(store, bus, secrets, core)
            async with linked(centre.port, secrets["seoul"], "seoul") as member:
                await member.join()
                job = await centre.submit()
                await member.ended((await member.wanted()).key, Outcome.SUCCEEDED)
                await centre.phase(job, JobPhase.SUCCEEDED)
        assert not bus.healthy
        await bus.close()
