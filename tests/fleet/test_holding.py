"""Budgets of teams and the fleet's carbon budget, as the global machine keeps them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.fleet.events import RoundDue, SpendObserved, TenantSet
from dure.domain.fleet.instructions import Warn
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.series import HOUR_NS
from dure.domain.fleet.tenancy import Budget, FleetTenant, Team
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import TenantId, WorkloadId
from dure.fleet.bills import FLEET
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.holding import CARBON_IS_SHORT, TEAM_IS_OUT, carbon_outlook
from tests.fleet.factories import cluster, group, job, patient
from tests.fleet.machines import machine, of_kind, orders, submit

ANN = TenantId("ann")


def limited(**budget: float) -> GlobalMachine:
    """One tenant with a team `red` that has a budget and a team `blue` that has none."""
    made = machine(cluster("east", groups=(group(devices=1, nodes=8),)))
    teams = (Team("red", Budget(**budget)), Team("blue"))
    made.handle(TenantSet(0, FleetTenant(ANN, teams=teams)))
    return made


def of_team(name: str, team: str, **more: Any) -> Workload:
    return job(name, team=team, **more)


@pytest.mark.parametrize("budget", [{"money": 100.0}, {"carbon_g": 100.0}])
def test_a_team_is_warned_at_four_fifths_and_at_the_end_of_its_budget(
    budget: dict[str, float],
) -> None:
    made = limited(**budget)
    made.handle(SpendObserved(0, ANN, 79.0, 79.0, "red"))
    assert made.handle(RoundDue(0)) == []
    made.handle(SpendObserved(0, ANN, 2.0, 2.0, "red"))
    (near,) = of_kind(made.handle(RoundDue(0)), Warn)
    assert "team 'red'" in str(near)
    assert "81%" in str(near)
    made.handle(SpendObserved(0, ANN, 20.0, 20.0, "red"))
    (end,) = of_kind(made.handle(RoundDue(0)), Warn)
    assert "used up" in str(end)
    assert made.handle(RoundDue(0)) == []


def test_nothing_new_is_placed_for_a_team_whose_budget_is_used_up() -> None:
    made = limited(money=100.0)
    made.handle(SpendObserved(0, ANN, 101.0, 0.0, "red"))
    submit(made, of_team("red-1", "red"), of_team("blue-1", "blue"), job("none"))
    assert set(orders(made.handle(RoundDue(0)))) == {"blue-1", "none"}
    assert made.why_waiting(WorkloadId("red-1")) == TEAM_IS_OUT


def test_a_higher_budget_lets_a_team_go_on() -> None:
    made = limited(money=100.0)
    made.handle(SpendObserved(0, ANN, 101.0, 0.0, "red"))
    submit(made, of_team("red-1", "red"))
    assert orders(made.handle(RoundDue(0))) == {}
    made.handle(TenantSet(0, FleetTenant(ANN, teams=(Team("red", Budget(money=200.0)),))))
    assert "red-1" in orders(made.handle(RoundDue(HOUR_NS)))


@settings(max_examples=25, deadline=None)
@given(
    money=st.floats(1.0, 40.0),
    hours=st.lists(st.floats(0.5, 6.0), min_size=1, max_size=8),
    spent=st.floats(0.0, 40.0),
)
def test_what_a_team_has_spent_and_was_promised_never_exceeds_its_budget(
    money: float, hours: list[float], spent: float
) -> None:
    made = limited(money=money)
    made.handle(SpendObserved(0, ANN, spent, 0.0, "red"))
    submit(made, *(of_team(f"job-{n}", "red", hours=each) for n, each in enumerate(hours)))
    placed = list(orders(made.handle(RoundDue(0))).values())
    promised = sum(dict(order.explanation.terms)["rent"] for order in placed)
    assert not placed or spent + promised <= money + 1e-6


def test_grams_of_idle_nodes_use_up_the_carbon_budget_and_no_tenants() -> None:
    made = machine(cluster("east"), policy=FleetPolicy(carbon_budget_g=1000.0))
    made.handle(SpendObserved(0, FLEET, 0.0, 1001.0))
    submit(made, job())
    said = made.handle(RoundDue(0))
    assert orders(said) == {}
    (warning,) = of_kind(said, Warn)
    assert isinstance(warning, Warn)
    assert (warning.about, "used up" in warning.what) == ("the fleet", True)
    assert FLEET not in made.state.budgets.rows


def busy_with_urgent_work(policy: FleetPolicy) -> GlobalMachine:
    """Three jobs of two hours came in each of eleven hours, none of which could wait."""
    made = machine(cluster("east", groups=(group(devices=1, nodes=40),)), policy=policy)
    made.handle(RoundDue(0))
    for hour in range(1, 12):
        now_ns = hour * HOUR_NS
        submit(made, *(job(f"now-{hour}-{n}", hours=2.0) for n in range(3)), now_ns=now_ns)
        made.handle(RoundDue(now_ns))
    return made


def test_patient_work_is_held_back_when_the_rest_of_the_budget_is_needed_by_what_cannot_wait() -> (
    None
):
    policy = FleetPolicy(carbon_budget_g=10_000.0, period_ns=100 * HOUR_NS)
    made = busy_with_urgent_work(policy)
    submit(made, patient("patient", due_h=60.0), job("urgent"), now_ns=12 * HOUR_NS)
    said = made.handle(RoundDue(12 * HOUR_NS))
    assert "urgent" in orders(said)
    assert "patient" not in orders(said)
    assert made.why_waiting(WorkloadId("patient")) == CARBON_IS_SHORT
    assert any("held back" in str(each) for each in of_kind(said, Warn))


def test_patient_work_close_to_its_deadline_is_not_held_back() -> None:
    policy = FleetPolicy(carbon_budget_g=10_000.0, period_ns=100 * HOUR_NS)
    made = busy_with_urgent_work(policy)
    due = patient("due", due_h=14.0, hours=1.0)
    submit(made, due, patient("patient", due_h=60.0, hours=1.0), now_ns=12 * HOUR_NS)
    assert set(orders(made.handle(RoundDue(12 * HOUR_NS)))) == {"due"}


def test_work_far_ahead_of_its_end_is_not_held_back_for_what_may_come_much_later() -> None:
    policy = FleetPolicy(carbon_budget_g=60_000.0, period_ns=100 * HOUR_NS)
    made = busy_with_urgent_work(policy)
    submit(made, patient("patient", due_h=60.0), now_ns=12 * HOUR_NS)
    made.handle(RoundDue(12 * HOUR_NS))
    assert not made.state.adaptation.pacer.holding
    assert made.state.adaptation.pacer.price_per_tonne > 0.0


def test_grams_after_the_end_of_the_period_are_not_this_periods() -> None:
    policy = FleetPolicy(carbon_budget_g=1e9, period_ns=10 * HOUR_NS)
    made = machine(cluster("east", groups=(group(devices=1, nodes=8),)), policy=policy)
    submit(made, job("long", hours=40.0))
    (order,) = orders(made.handle(RoundDue(0))).values()
    expected_g = carbon_outlook(made.state).committed_g
    assert expected_g == pytest.approx(order.explanation.g_co2 * 10.0 / 40.0, rel=0.05)


def test_a_new_period_starts_with_full_budgets() -> None:
    made = limited(money=100.0)
    made.handle(SpendObserved(0, ANN, 101.0, 0.0, "red"))
    submit(made, of_team("red-1", "red"))
    assert orders(made.handle(RoundDue(0))) == {}
    assert "red-1" in orders(made.handle(RoundDue(FleetPolicy().period_ns)))
