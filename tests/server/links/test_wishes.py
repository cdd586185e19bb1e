"""Jobs that people declare in a cluster: stored once, checked as all, edited, withdrawn."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.protocol.desired import Want
from dure.domain.fleet.protocol.reports import Outcome, RunPhase
from dure.domain.fleet.protocol.wishes import Standing, Wish, Wishes
from dure.server.core import running
from dure.stores.bus.local import LocalBus
from dure.stores.repos.access import AuditFilter
from dure.stores.rows import Budget
from dure.stores.store import Store
from tests.server.centres import QUICK, SPEC, World, world
from tests.server.members import FakeMember, linked
from tests.stores.helpers import asynchronous

BOUND = SPEC | {"namespaces": {"acme": "dure-acme"}}
DOCUMENT: dict[str, Any] = {
    "kind": "batch",
    "command": ["true"],
    "resources": {"memory": "1GiB"},
    "work": {"time": "1h"},
}


def wish(uid: str = "u-1", generation: int = 1, **more: Any) -> Wish:
    document = DOCUMENT | more.pop("document", {})
    if more.get("withdrawn") or more.pop("light", False):
        document = {}
    return Wish(uid, generation, more.pop("namespace", "dure-acme"), "train", document, **more)


def joined(here: World, cluster: str = "seoul") -> AbstractAsyncContextManager[FakeMember]:
    return linked(here.port, here.secrets[cluster], cluster)


async def told(member: FakeMember, uid: str, holds: Any = lambda _: True) -> Standing:
    """Wait for a standing that is so."""

    def find(me: FakeMember) -> Standing | None:
        known = me.standings.get(uid)
        return known if known is not None and holds(known) else None

    found: Standing = await member.until(find)
    return found


async def jobs(here: World) -> list[Any]:
    async with here.store.reading() as tx:
        return list((await tx.jobs.page()).rows)


@asynchronous
async def test_a_wish_said_any_number_of_times_is_one_job_of_the_namespaces_tenant(
    address: str,
) -> None:
    async with world(address, spec=BOUND) as here:
        answers = []
        for _ in range(2):
            async with joined(here) as member:
                await member.say(Wishes((wish(), wish())))
                await member.say(Wishes((wish(),)))
                answers.append((await told(member, "u-1")).job)
        (job,) = await jobs(here)
        assert (job.tenant, job.name) == ("acme", "train")
        assert answers == [job.id, job.id]
        async with here.store.reading() as tx:
            origin = await tx.origins.get("seoul", "u-1")
        assert (origin.namespace, origin.name, origin.job_id) == ("dure-acme", "train", job.id)


@asynchronous
async def test_the_same_uid_of_another_cluster_is_another_job(address: str) -> None:
    async with world(address, "seoul", "busan", spec=BOUND) as here:
        for cluster in ("seoul", "busan"):
            async with joined(here, cluster) as member:
                await member.say(Wishes((wish(),)))
                await told(member, "u-1")
        assert len(await jobs(here)) == 2


@asynchronous
async def test_an_unbound_namespace_is_refused_with_the_remedy_until_somebody_binds_it(
    address: str,
) -> None:
    async with world(address, spec=BOUND) as here, joined(here) as member:
        await member.say(Wishes((wish(namespace="theirs"),)))
        refusal = (await told(member, "u-1")).refusal
        assert refusal is not None
        assert (refusal.reason, refusal.field) == ("NamespaceNotBound", "metadata.namespace")
        assert "dure clusters set seoul --set namespaces.TENANT=theirs" in refusal.remedy
        assert not refusal.final
        assert not await jobs(here)
        await here.change_cluster("seoul", spec=SPEC | {"namespaces": {"acme": "theirs"}})
        await member.say(Wishes((wish(namespace="theirs"),)))
        assert (await told(member, "u-1", lambda each: each.job)).refusal is None


@pytest.mark.parametrize(
    ("document", "field", "final"),
    [
        ({"tenant": "other"}, "spec.tenant", False),
        ({"kind": "nonsense"}, "kind", True),
        ({"resources": {"memory": "much"}}, "resources.memory", True),
        ({"pool": "gold"}, "pool", False),
        ({"team": "nobody"}, "team", False),
    ],
)
@asynchronous
async def test_what_rest_would_refuse_is_refused_with_its_field(
    address: str, document: dict[str, Any], field: str, final: bool
) -> None:
    async with world(address, spec=BOUND) as here, joined(here) as member:
        await member.say(Wishes((wish(document=document),)))
        refusal = (await told(member, "u-1")).refusal
        assert refusal is not None
        assert refusal.field == field
        assert refusal.what
        assert refusal.remedy
        assert refusal.final is final
        assert not await jobs(here)


@asynchronous
async def test_budget_and_quota_hold_for_wishes_too(address: str) -> None:
    async with world(address, spec=BOUND) as here, joined(here) as member:
        async with here.store.transaction() as tx:
            spent = Budget("acme", "month", "money", 1.0, 0, 2**62, 2.0, {"refuse": True})
            await tx.budgets.add(spent)
        await asyncio.sleep(1.1)  # what wishes are checked against may be a second old
        await member.say(Wishes((wish(),)))
        refusal = (await told(member, "u-1")).refusal
        assert refusal is not None
        assert refusal.reason == "Budget"
        assert not refusal.final


@asynchronous
async def test_a_withdrawn_wish_cancels_its_job_and_never_becomes_one_afterwards(
    address: str,
) -> None:
    async with world(address, spec=BOUND) as here, joined(here) as member:
        await member.join()
        await member.say(Wishes((wish("a"), wish("b"))))
        a, b = await told(member, "a"), await told(member, "b")
        await member.until(lambda me: len(me.desired) == 2)
        await member.say(Wishes((wish("a", 2, withdrawn=True), wish("c", 1, withdrawn=True))))
        assert (await told(member, "a", lambda each: each.withdrawn)).generation == 2
        await told(member, "c", lambda each: each.withdrawn)
        # Late words about them, as of an older link.
        await member.say(Wishes((wish("a", 1), wish("c", 1))))
        await told(member, "c", lambda each: each.withdrawn)
        leaving = await member.until(
            lambda me: [k for k, each in me.desired.items() if each.want is Want.RELEASE]
        )
        assert [key.job for key in leaving] == [a.job]
        await member.ended(leaving[0], Outcome.STOPPED)
        await here.phase(a.job, JobPhase.CANCELLED)
        assert {job.id for job in await jobs(here)} == {a.job, b.job}
        async with here.store.reading() as tx:
            entries = (await tx.audit.page(AuditFilter(subject=a.job))).rows
            assert {each.action for each in entries} == {"job.submit", "job.cancel"}
            assert {each.actor for each in entries} == {"kubectl:seoul/dure-acme/train"}


@asynchronous
async def test_edits_of_priority_reach_the_job_in_their_order_and_nothing_else_changes(
    address: str,
) -> None:
    async with world(address, spec=BOUND) as here, joined(here) as member:
        await member.say(Wishes((wish(),)))
        standing = await told(member, "u-1")
        await member.say(Wishes((wish(generation=3, document={"priority": 7}),)))
        await told(member, "u-1", lambda each: each.generation == 3)
        await member.say(Wishes((wish(generation=2, document={"priority": 1}),)))
        await member.say(Wishes((wish(generation=4, document={"priority": 7, "retries": 9}),)))
        await told(member, "u-1", lambda each: each.generation == 4)
        job = await here.job(standing.job)
        assert (job.priority, job.spec.get("retries")) == (7, None)


@asynchronous
async def test_a_suspended_job_loses_its_place_and_gets_one_again_when_it_may_go_on(
    address: str,
) -> None:
    async with world(address, spec=BOUND) as here, joined(here) as member:
        await member.join()
        await member.say(Wishes((wish(),)))
        first = await member.wanted()
        await member.status(first.key, RunPhase.RUNNING)
        running = await told(member, "u-1", lambda each: each.phase is JobPhase.RUNNING)
        assert (running.cluster, running.slice) == ("seoul", "whole")
        assert running.cost_per_hour > 0
        assert running.g_co2_per_hour > 0
        await member.say(Wishes((wish(generation=2, document={"suspend": True}),)))
        await member.wanted(Want.RELEASE)
        await member.ended(first.key, Outcome.STOPPED)
        waits = await told(member, "u-1", lambda each: each.phase is JobPhase.QUEUED)
        assert waits.suspended
        assert "suspended" in (await here.job(running.job)).reason
        await asyncio.sleep(0.5)
        assert [each.attempt for each in await here.attempts(running.job)] == [1]
        await member.say(Wishes((wish(generation=3),)))
        second = await member.until(
            lambda me: [each for each in me.desired.values() if each.key.attempt == 2]
        )
        assert second[0].want is Want.RUN


@asynccontextmanager
async def world_again(address: str, before: World) -> AsyncIterator[World]:
    """Another server on the same database."""
    async with Store.open(address) as store:
        bus = LocalBus()
        async with running(store, bus, QUICK) as core:
            yield World(store, bus, before.secrets, core)


@asynchronous
async def test_a_job_that_is_suspended_from_the_start_waits_also_for_a_new_leader(
    address: str,
) -> None:
    async with world(address, spec=BOUND) as here, joined(here) as member:
        await member.join()
        await member.say(Wishes((wish(document={"suspend": True}),)))
        standing = await told(member, "u-1", lambda each: "suspended" in each.why)
        assert standing.phase is JobPhase.QUEUED
    async with (
        world_again(address, here) as again,
        linked(again.port, here.secrets["seoul"], "seoul") as member,
    ):
        await member.join()
        await member.say(Wishes((wish(light=True),)))
        await told(member, "u-1")
        await asyncio.sleep(1.0)
        assert not member.desired
        await member.say(Wishes((wish(generation=2),)))
        assert (await member.wanted()).key.attempt == 1


@asynchronous
async def test_a_wish_that_the_centre_does_not_know_is_asked_for_whole(address: str) -> None:
    async with world(address, spec=BOUND) as here, joined(here) as member:
        await member.say(Wishes((wish(light=True),)))
        standing = await told(member, "u-1")
        assert (standing.generation, standing.job, standing.refusal) == (0, "", None)


@asynchronous
async def test_priority_of_a_running_job_reaches_its_cluster(address: str) -> None:
    async with world(address, spec=BOUND) as here, joined(here) as member:
        await member.join()
        await member.say(Wishes((wish(),)))
        wanted = await member.wanted()
        await member.status(wanted.key, RunPhase.RUNNING)
        await told(member, "u-1", lambda each: each.phase is JobPhase.RUNNING)
        await member.say(Wishes((wish(generation=2, document={"priority": 9}),)))
        await member.until(lambda me: me.desired[wanted.key].order.workload.priority == 9)
        assert (await here.job(wanted.key.job)).phase is JobPhase.RUNNING
