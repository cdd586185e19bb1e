"""Budgets whose periods another keeps than the machine."""

import numpy as np
import pytest

from dure.domain.fleet.clusters import Fleet
from dure.domain.fleet.events import RoundDue, SpendObserved, TenantSet
from dure.domain.fleet.policy import HOUR_NS, FleetPolicy
from dure.domain.fleet.tenancy import Budget, FleetTenant, Team
from dure.domain.ids import TenantId
from dure.fleet.budgets import BudgetBook
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings

ANN, BEN = TenantId("ann"), TenantId("ben")
POLICY = FleetPolicy(carbon_budget_g=1000.0)


def book() -> BudgetBook:
    made = BudgetBook(0.8)
    made.set_tenant(
        FleetTenant(ANN, budget=Budget(100.0, 50.0), teams=(Team("red", Budget(10.0)),))
    )
    made.set_tenant(FleetTenant(BEN, budget=Budget(100.0)))
    return made


def left(made: BudgetBook) -> tuple[list[float], list[float]]:
    money, grams = made.left(POLICY, np.zeros(2), np.zeros(2))
    return money.tolist(), grams.tolist()


def test_what_is_said_to_be_used_takes_the_place_of_what_was_counted() -> None:
    made = book()
    made.spend(ANN, 70.0, 30.0, "red")
    made.begin_with({ANN: (5.0, 2.0)}, {(ANN, "red"): (1.0, 0.0)}, 30.0)
    assert left(made) == ([95.0, 100.0, np.inf], [48.0, np.inf, 970.0])
    assert made.team_left({}) == {(ANN, "red"): (9.0, np.inf)}


def test_a_new_period_is_the_fleets_alone() -> None:
    made = book()
    made.begin_with({ANN: (5.0, 2.0)}, {(ANN, "red"): (1.0, 0.0)}, 0.0)
    made.spend(ANN, 80.0, 40.0, "red")
    made.idle_g = 9.0
    told = len(made.warnings(POLICY, 0.0))
    made.new_period()
    assert left(made) == ([15.0, 100.0, np.inf], [8.0, np.inf, 1000.0])
    assert told
    assert made.warnings(POLICY, 0.0) == []
    made.spend(ANN, 1.0, 3.0)
    assert made.used_g == 3.0


def test_without_anybody_else_all_budgets_start_again() -> None:
    made = book()
    made.spend(ANN, 80.0, 40.0, "red")
    made.new_period()
    assert left(made) == ([100.0, 100.0, np.inf], [50.0, np.inf, 1000.0])


@pytest.mark.parametrize(("now", "begin"), [(100, 100), (109, 100), (110, 110), (95, 90), (7, 0)])
def test_periods_follow_one_another_before_and_after_the_one_that_is_named(
    now: int, begin: int
) -> None:
    assert FleetPolicy(period_ns=10, period_start_ns=100).period_of(now) == begin
    assert FleetPolicy(period_ns=10).period_of(now) == now


def test_a_machine_that_begins_in_the_middle_of_a_period_ends_it_when_it_is_over() -> None:
    policy = FleetPolicy(carbon_budget_g=1000.0, period_ns=10 * HOUR_NS, period_start_ns=0)
    machine = GlobalMachine(GlobalSettings(Fleet(()), policy))
    machine.handle(TenantSet(27 * HOUR_NS, FleetTenant(ANN)))
    assert machine.state.start_ns == 20 * HOUR_NS
    machine.handle(SpendObserved(28 * HOUR_NS, ANN, 0.0, 5.0))
    machine.handle(RoundDue(29 * HOUR_NS))
    assert machine.state.budgets.used_g == 5.0
    machine.handle(RoundDue(55 * HOUR_NS))
    assert machine.state.start_ns == 50 * HOUR_NS
    assert machine.state.budgets.used_g == 0.0
