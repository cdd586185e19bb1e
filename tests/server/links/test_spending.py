"""Use that reaches a server: charged once, also when it is late, has no price yet, or its nodes
are gone."""

import datetime
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from dure.domain.fleet.decisions import Explanation
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.fleet.protocol.reports import Inventory, NodeFact, Outcome, RunPhase, Usage
from dure.server.billing import close_month
from dure.server.calendar import Calendar
from dure.stores import tables
from dure.stores.rows import Budget, Charge, Policy
from dure.wire.plain import pack
from tests.server.centres import QUICK, World, world
from tests.server.members import PROFILE, FakeMember, group, linked, used
from tests.stores.helpers import asynchronous, charge

RENTED = {"tariff": {"deviceHour": {PROFILE: 2.0}}, "carbon": 500}
HOUR_NS = 3600 * 10**9
HOUR_US = 3600 * 10**6


async def placed(centre: World, member: FakeMember) -> AttemptKey:
    """A job that runs."""
    await member.join()
    job = await centre.submit()
    key = (await member.wanted()).key
    await member.status(key, RunPhase.RUNNING)
    await centre.phase(job, JobPhase.RUNNING)
    return key


async def told(member: FakeMember, *usage: Usage) -> None:
    await member.report(usage=usage)
    await member.until(lambda me: me.acked == me.seq)


async def charges(centre: World) -> tuple[Charge, ...]:
    async with centre.store.reading() as tx:
        return await tx.charges.all()


async def change_attempt(centre: World, key: AttemptKey, **values: Any) -> None:
    """As if it had been placed otherwise."""
    table = tables.attempts
    async with centre.store.transaction() as tx:
        statement = table.update().where(table.c.job_id == key.job).values(**values)
        await tx.link.execute(statement, "attempt")


@asynchronous
async def test_only_what_is_new_is_charged_whoever_tells_it_and_how_often(address: str) -> None:
    async with world(address, spec=RENTED) as centre:
        async with linked(centre.port, centre.secrets["seoul"], "seoul") as member:
            key = await placed(centre, member)
            await told(member, used(key, 900.0))
            await told(member, used(key, 900.0))
            await told(member, used(key, 300.0))
        # Another member of the cluster: it counts its reports from the start.
        async with linked(centre.port, centre.secrets["seoul"], "seoul", incarnation="two") as new:
            await new.join()
            await told(new, used(key, 900.0))
            await told(new, used(key, 1800.0))
        found = await charges(centre)
        assert sum(each.device_us for each in found) == HOUR_US // 2
        assert sum(each.rent_micro for each in found) == 1_000_000


@asynchronous
async def test_use_that_is_told_when_its_month_is_closed_adjusts_the_next(address: str) -> None:
    calendar = Calendar()
    now_ns = int(datetime.datetime.now(datetime.UTC).timestamp()) * 10**9
    first_ns = calendar.begin_ns(calendar.day(now_ns).replace(day=1))
    before, present = calendar.month(first_ns - 1), calendar.month(first_ns)
    async with (
        world(address, spec=RENTED) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        key = await placed(centre, member)
        await change_attempt(centre, key, reserved_ns=first_ns - 48 * HOUR_NS)
        early_ns = first_ns - 24 * HOUR_NS
        await told(member, Usage(key, HOUR_US, early_ns, early_ns + HOUR_NS))
        async with centre.store.transaction() as tx:
            closing, _ = await close_month(tx, before, calendar, "me")
        # The member was cut off at the turn of the month, and tells of it now.
        edge_ns = first_ns - HOUR_NS
        later_ns = min(first_ns + HOUR_NS, now_ns)
        await told(member, Usage(key, 3 * HOUR_US, edge_ns, later_ns))
        found = await charges(centre)
        by_month = {(each.day[:7], each.month): each for each in found}
        assert by_month.keys() == {(before, before), (before, present), (present, present)}
        assert by_month[before, before].device_us == HOUR_US
        assert sum(each.device_us for each in found) == 3 * HOUR_US
        async with centre.store.transaction() as tx:
            again, new = await close_month(tx, before, calendar, "me")
        assert (again, new) == (closing, False)


@asynchronous
async def test_use_without_a_price_is_kept_and_charged_once_there_is_one(address: str) -> None:
    async with (
        world(address, spec=RENTED) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        key = await placed(centre, member)
        # Nobody has said yet what nodes of that group consist of.
        (attempt,) = await centre.attempts(key.job)
        site = {"cluster": "seoul", "group": "new"}
        await change_attempt(centre, key, spec=dict(attempt.spec) | {"site": site})
        await told(member, used(key, 900.0))
        await told(member, used(key, 1800.0))
        await member.ended(key, Outcome.SUCCEEDED)
        assert await charges(centre) == ()
        async with centre.store.reading() as tx:
            assert await tx.meters.owed_us() == HOUR_US // 2
        new = replace(group(), name="new")
        await member.report(inventory=Inventory((group(), new), (NodeFact("node-0", "gpus"),)))
        await member.report(whole=True)
        await member.until(lambda me: me.acked == me.seq)
        assert sum(each.rent_micro for each in await charges(centre)) == 1_000_000
        async with centre.store.reading() as tx:
            assert await tx.meters.owed_us() == 0


@asynchronous
async def test_use_of_nodes_that_are_gone_is_charged_at_what_they_cost(address: str) -> None:
    async with (
        world(address, spec=RENTED) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        key = await placed(centre, member)
        other = replace(group(), name="others")
        await member.report(inventory=Inventory((other,), (NodeFact("node-9", "others"),)))
        await told(member, used(key, 3600.0))
        found = await charges(centre)
        assert sum(each.rent_micro for each in found) == 2_000_000
        assert {each.profile for each in found} == {PROFILE}


@asynchronous
async def test_bringing_data_is_paid_once_whatever_weight_money_has(address: str) -> None:
    async with (
        world(address, spec=RENTED) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        key = await placed(centre, member)
        (attempt,) = await centre.attempts(key.job)
        explained = pack(Explanation((("rent", 9.0), ("transfer", 3.0))))
        await change_attempt(centre, key, spec=dict(attempt.spec) | {"explanation": explained})
        async with centre.store.transaction() as tx:
            await tx.budgets.add(Budget("acme", "all", "money", 1000.0, 0, 2**62))
            await tx.policies.add(Policy("dear", {"batch": {"costWeight": 2.0}}))
            await tx.policies.add(Policy("fleet", {"policy": "dear"}))
        await told(member, used(key, 1800.0))
        await told(member, used(key, 3600.0))
        found = await charges(centre)
        assert sum(each.egress_micro for each in found) == 1_500_000
        assert sum(each.money_micro for each in found) == 3_500_000
        async with centre.store.reading() as tx:
            assert (await tx.budgets.get("acme", "all")).spent_amount == 3.5


@asynchronous
async def test_months_are_closed_by_themselves_where_the_fleet_says_so(address: str) -> None:
    settings = replace(QUICK, prune_s=0.1)
    async with world(address, settings=settings) as centre:
        job = await centre.submit()
        async with centre.store.transaction() as tx:
            await tx.charges.add_all([charge(job, "2025-01-01"), charge(job, "2025-02-01")])
            await tx.policies.add(Policy("fleet", {"billing": {"closeAfter": "2d"}}))

        async def closed() -> bool:
            async with centre.store.reading() as tx:
                return await tx.charges.closed_through(keep=False) == "2025-02"

        await centre.until(closed, "2025-02 closed")
        async with centre.store.reading() as tx:
            entries = await tx.link.execute(
                sa.select(tables.audit).where(tables.audit.c.action == "bill.close"), "audit"
            )
            found = {(row.subject, row.actor) for row in entries}
            assert [each.month for each in await tx.closings.all()] == ["2025-01", "2025-02"]
        assert found == {("2025-01", "system"), ("2025-02", "system")}
