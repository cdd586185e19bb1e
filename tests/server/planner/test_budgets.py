"""What is left of budgets is the same for the planner as for those who read them."""

import time
from dataclasses import replace

import numpy as np
import pytest

from dure.api.base import moment_text
from dure.domain.fleet.accounts import TenantKind
from dure.domain.fleet.events import RoundDue, SpendObserved
from dure.domain.ids import TenantId
from dure.server.planner.centre import Centre
from dure.server.planner.following import Follower, read_batch
from dure.server.planner.loading import Begun, begin
from dure.server.planner.suspects import Suspects
from dure.server.specs import FLEET_POLICY
from dure.stores.rows import Budget, NewEvent, Policy, Tenant
from dure.stores.store import Store
from tests.server.centres import SPEC, job_row, prepare
from tests.stores.helpers import asynchronous, charge

DAY_NS = 86400 * 10**9
MICRO = 10**6


async def begun(store: Store) -> Begun:
    async with store.reading() as tx:
        return await begin(tx, time.time_ns, Suspects())


def left(centre: Centre, tenant: str) -> tuple[float, float]:
    """Money and grams."""
    state = centre.machine.state
    none = np.zeros(len(state.budgets.tenants))
    money, grams = state.budgets.left(state.policy, none, none)
    row = state.budgets.rows[TenantId(tenant)]
    return float(money[row]), float(grams[row])


async def filled(store: Store) -> None:
    """Acme spent 500 long ago and 20 of late, which of its two budgets one counts alone."""
    await prepare(store, {"seoul": SPEC})
    job = job_row()
    async with store.transaction() as tx:
        now_ns = tx.now_ns
        await tx.tenants.add(Tenant("acme/vision", TenantKind.TEAM, "acme"))
        await tx.tenants.add(Tenant("globex", TenantKind.TENANT))
        await tx.jobs.add(job)
        old_ns, new_ns = now_ns - 200 * DAY_NS, now_ns - DAY_NS
        old = charge(job.id, "2026-05-05", from_ns=old_ns, to_ns=old_ns + 10)
        new = charge(job.id, "2026-11-05", from_ns=new_ns, to_ns=new_ns + 10, team="vision")
        await tx.charges.add_all([replace(old, rent_micro=500 * MICRO)])
        await tx.charges.add_all([replace(new, rent_micro=20 * MICRO, carbon_ug=7 * MICRO)])
        year = (now_ns - 300 * DAY_NS, now_ns + 60 * DAY_NS)
        month = (now_ns - 10 * DAY_NS, now_ns + 20 * DAY_NS)
        for each in (
            Budget("acme", "year", "money", 1000.0, *year, 520.0),
            Budget("acme", "month", "money", 100.0, *month, 20.0),
            Budget("acme/vision", "air", "gCO2", 50.0, *month, 7.0),
            Budget("globex", "month", "money", 50.0, *month, 10.0),
        ):
            await tx.budgets.add(each)


@asynchronous
async def test_the_least_of_what_budgets_leave_is_left(address: str) -> None:
    async with Store.open(address) as store:
        await filled(store)
        centre = (await begun(store)).centre
        assert left(centre, "acme") == (80.0, np.inf)
        assert left(centre, "globex") == (40.0, np.inf)
        budgets = centre.machine.state.budgets
        assert budgets.team_left({}) == {(TenantId("acme"), "vision"): (np.inf, 43.0)}
        # More of the year's goes than of the month's: that one counts from now on.
        async with store.transaction() as tx:
            await tx.budgets.charge("acme", "year", 475.0)
        assert left((await begun(store)).centre, "acme") == (5.0, np.inf)


@asynchronous
async def test_budgets_go_on_when_the_policys_period_is_over(address: str) -> None:
    async with Store.open(address) as store:
        await filled(store)
        centre = (await begun(store)).centre
        centre.feed(SpendObserved(centre.now_ns(), "acme", 30.0, 1.0, "vision"))
        centre.feed(RoundDue(centre.now_ns() + centre.machine.state.policy.period_ns))
        assert left(centre, "acme") == (50.0, np.inf)
        budgets = centre.machine.state.budgets
        assert budgets.team_left({})[TenantId("acme"), "vision"] == (np.inf, 42.0)
        assert budgets.used_g == pytest.approx(0.0)


@asynchronous
async def test_everything_is_read_anew_when_a_budgets_period_begins(address: str) -> None:
    async with Store.open(address) as store:
        await filled(store)
        async with store.transaction() as tx:
            soon_ns = tx.now_ns + DAY_NS
            await tx.budgets.add(Budget("acme", "next", "money", 1.0, soon_ns, soon_ns + DAY_NS))
        assert (await begun(store)).until_ns == soon_ns


@asynchronous
async def test_a_changed_budget_counts_with_what_is_spent_of_it(address: str) -> None:
    async with Store.open(address) as store:
        await filled(store)
        found = await begun(store)
        async with store.transaction() as tx:
            await tx.budgets.remove("acme", "month")
            tx.events.add(NewEvent("budget.changed", "acme/month", "acme"))
        async with store.reading() as tx:
            batch = await read_batch(tx, found.seq, found.centre)
        assert batch is not None
        Follower(found.centre).take(batch)
        # Never a limit of one budget with what is spent of another.
        assert left(found.centre, "acme") == (80.0, np.inf)
        assert found.centre.book.outdated == "a budget has changed"
        assert left((await begun(store)).centre, "acme") == (480.0, np.inf)


async def carbon_policy(store: Store, began_ns: int, **spec: object) -> None:
    """A policy with a budget of the whole fleet is in force."""
    async with store.transaction() as tx:
        await tx.policies.add(
            Policy("green", {"carbonBudgetKg": 1.0, "period": "240h", **spec}, created_ns=began_ns)
        )
        await tx.policies.add(Policy(FLEET_POLICY, {"policy": "green"}))
        tx.events.add(NewEvent("policy.changed", "green", ""))


@asynchronous
async def test_the_fleets_carbon_budget_goes_on_where_another_planner_left_it(address: str) -> None:
    async with Store.open(address) as store:
        await filled(store)
        began_ns = time.time_ns() - 35 * DAY_NS
        await carbon_policy(store, began_ns)
        for _ in range(2):
            state = (await begun(store)).centre.machine.state
            assert state.start_ns == began_ns + 30 * DAY_NS
            assert state.budgets.used_g == pytest.approx(7.0)
            assert state.adaptation.pacer.used_g == pytest.approx(7.0)
            assert state.adaptation.pacer.unreported_g == 0.0  # it was not all just now


@asynchronous
async def test_what_was_emitted_before_the_carbon_budgets_period_is_not_of_it(
    address: str,
) -> None:
    async with Store.open(address) as store:
        await filled(store)
        soon = moment_text(time.time_ns() - DAY_NS // 2)
        await carbon_policy(store, 5, periodStart=soon)
        state = (await begun(store)).centre.machine.state
        assert state.budgets.used_g == pytest.approx(0.0)
        assert left((await begun(store)).centre, "acme") == (80.0, np.inf)


@asynchronous
async def test_another_period_of_the_carbon_budget_is_read_anew(address: str) -> None:
    async with Store.open(address) as store:
        await filled(store)
        found = await begun(store)
        await carbon_policy(store, time.time_ns())
        async with store.reading() as tx:
            batch = await read_batch(tx, found.seq, found.centre)
        assert batch is not None
        Follower(found.centre).take(batch)
        assert found.centre.book.outdated == "the period of the fleet's carbon budget has changed"
