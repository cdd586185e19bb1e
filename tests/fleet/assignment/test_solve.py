"""What an assignment must never do, whatever the round, and what prices and warm starts promise."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.errors import InvariantError
from dure.fleet.assignment.problem import (
    UNPLACED,
    Demand,
    PriceLimits,
    Problem,
    Sites,
    Solution,
    Tenancy,
    Warm,
)
from dure.fleet.assignment.solve import COLD, solve
from dure.sim.fleet.exact import row_limits, uses_of
from tests.fleet.assignment.problems import barred, barred_to, overuse, random_problem

problems = st.builds(
    random_problem,
    st.integers(0, 2**32 - 1),
    jobs=st.integers(1, 40),
    sites=st.integers(1, 6),
    slots=st.integers(1, 4),
    tenants=st.integers(0, 4),
)


def one_site(cost: list[float], skip: float, capacity: float) -> Problem:
    """Jobs of one unit that all want the same site."""
    count = len(cost)
    return Problem(
        np.array(cost).reshape(count, 1, 1),
        np.full(count, skip),
        Demand(np.ones((count, 1, 1)), np.ones(count, dtype=np.int64)),
        Sites(np.zeros(1, dtype=np.int64), np.full((1, 1, 1), capacity)),
    )


def warm(found: Solution) -> Warm:
    return Warm(found.prices, found.choice, found.gap, found.hints)


@given(problems)
@settings(max_examples=150)
def test_no_row_is_ever_exceeded_and_nobody_gets_a_barred_option(problem: Problem) -> None:
    found = solve(problem)
    assert overuse(problem, found.choice) <= 1e-8
    assert barred(problem, found.choice) == []
    assert ((found.site >= 0) == (found.slot >= 0)).all()


@given(problems)
def test_the_bound_is_below_the_cost_and_the_cost_is_that_of_the_choice(problem: Problem) -> None:
    found = solve(problem)
    flat = problem.cost.reshape(problem.jobs, -1)
    cost = sum(
        flat[job, option] if option >= 0 else problem.skip_cost[job]
        for job, option in enumerate(found.choice)
    )
    assert found.primal == pytest.approx(cost)
    assert found.dual <= found.primal + 1e-9 * abs(found.primal)
    assert found.primal <= problem.skip_cost.sum() + 1e-9


@given(problems)
def test_the_same_round_is_solved_the_same_way(problem: Problem) -> None:
    first, second = solve(problem), solve(problem)
    assert np.array_equal(first.choice, second.choice)
    assert np.array_equal(first.prices.rows(), second.prices.rows())


@given(problems)
def test_a_warm_round_on_an_unchanged_problem_changes_nothing(problem: Problem) -> None:
    first = solve(problem)
    again = solve(problem, warm=warm(first))
    assert again.unchanged
    assert np.array_equal(first.choice, again.choice)
    assert np.array_equal(first.prices.rows(), again.prices.rows())
    assert again.gap == pytest.approx(first.gap)


@given(problems, st.integers(0, 2**32 - 1))
def test_a_warm_round_is_feasible_wherever_it_starts(problem: Problem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    options = problem.cost.shape[1] * problem.cost.shape[2]
    first = solve(problem)
    odd = Warm(first.prices, rng.integers(UNPLACED, options, problem.jobs), 0.0, first.hints)
    found = solve(problem, warm=odd)
    assert overuse(problem, found.choice) <= 1e-8
    assert barred(problem, found.choice) == []
    assert found.dual <= found.primal + 1e-9 * abs(found.primal)


@given(problems)
def test_the_runner_up_is_the_cheapest_option_not_chosen(problem: Problem) -> None:
    found = solve(problem)
    same = found.runner_up == found.choice
    assert not (same & np.isfinite(found.runner_up_priced)).any()
    prices, limits = found.prices.rows(), row_limits(problem)
    for job in range(problem.jobs):
        priced = {UNPLACED: float(problem.skip_cost[job])}
        for option, cost in enumerate(problem.cost[job].ravel().tolist()):
            uses = list(uses_of(problem, job, option))
            if barred_to(problem, job, option) or any(n > limits[row] for row, n in uses):
                continue
            priced[option] = cost + sum(prices[row] * amount for row, amount in uses)
        others = [cost for option, cost in priced.items() if option != found.choice[job]]
        assert found.runner_up_priced[job] == pytest.approx(min(others, default=np.inf))


@given(problems)
def test_improvement_never_ends_with_a_dearer_plan_than_it_began_with(problem: Problem) -> None:
    plain, improved = (solve(problem, effort=replace(COLD, passes=passes)) for passes in (0, 6))
    assert improved.primal <= plain.primal * (1.0 + 1e-9)
    assert improved.dual == plain.dual


def test_a_job_beyond_its_tenants_budget_is_left_out_and_the_bound_knows() -> None:
    problem = replace(
        one_site([1.0, 1.0], skip=5.0, capacity=2.0),
        tenancy=Tenancy(
            tenant=np.array([0, 1]),
            share=np.full((2, 1), 0.1),
            share_cap=np.full((2, 1), np.inf),
            spend=np.full((2, 1, 1), 3.0),
            money_budget=np.array([2.9, 3.0, np.inf]),
            grams=np.zeros((2, 1, 1)),
            carbon_budget=np.full(3, np.inf),
        ),
    )
    found = solve(problem)
    assert list(found.choice) == [UNPLACED, 0]
    assert found.primal == found.dual == 6.0


def test_the_price_of_a_full_site_is_what_the_next_job_would_save() -> None:
    found = solve(one_site([1.0, 2.0, 3.0, 4.0], skip=10.0, capacity=2.0))
    assert sorted(found.choice) == [UNPLACED, UNPLACED, 0, 0]
    assert found.choice[0] == found.choice[1] == 0
    assert 6.5 <= found.prices.site[0, 0, 0] <= 8.5
    assert found.gap < 0.01


def test_a_site_with_room_costs_nothing() -> None:
    found = solve(one_site([1.0, 2.0], skip=10.0, capacity=5.0))
    assert found.prices.site[0, 0, 0] == pytest.approx(0.0, abs=0.3)
    assert (found.choice == 0).all()


def test_pinned_prices_stay_where_they_are_pinned() -> None:
    problem = one_site([1.0, 2.0, 3.0], skip=10.0, capacity=1.0)
    pinned = np.full((1, 1, 1), 3.25)
    found = solve(problem, limits=PriceLimits(pinned, pinned))
    assert found.prices.site[0, 0, 0] == 3.25
    assert found.dual <= found.primal


def test_a_job_that_fits_nowhere_is_left_out_and_has_no_runner_up() -> None:
    problem = one_site([1.0], skip=5.0, capacity=0.5)
    found = solve(problem)
    assert found.choice[0] == UNPLACED
    assert found.primal == found.dual == 5.0
    assert np.isinf(found.runner_up_cost[0])


def test_no_jobs_cost_nothing() -> None:
    problem = Problem(
        np.zeros((0, 2, 1)),
        np.zeros(0),
        Demand(np.zeros((0, 1, 1)), np.zeros(0, dtype=np.int64)),
        Sites(np.zeros(2, dtype=np.int64), np.ones((2, 1, 1))),
    )
    assert solve(problem).primal == 0.0


def test_a_gang_gets_its_place_though_small_jobs_would_fill_it() -> None:
    # One site of 8: the gang is worth more than the four small jobs that would block it.
    usage = np.array([8.0, 1.0, 1.0, 1.0, 1.0]).reshape(5, 1, 1)
    problem = Problem(
        np.ones((5, 1, 1)),
        np.array([100.0, 3.0, 3.0, 3.0, 3.0]),
        Demand(usage, np.ones(5, dtype=np.int64)),
        Sites(np.zeros(1, dtype=np.int64), np.full((1, 1, 1), 8.0)),
    )
    assert list(solve(problem).choice) == [0, *[UNPLACED] * 4]


def test_a_wrong_shape_is_refused_by_name() -> None:
    problem = one_site([1.0], skip=5.0, capacity=1.0)
    with pytest.raises(InvariantError, match="skip_cost"):
        replace(problem, skip_cost=np.zeros(3))


def test_less_effort_still_gives_a_feasible_assignment_and_a_bound() -> None:
    problem = random_problem(3, jobs=40, sites=5, slots=3, tenants=3)
    found = solve(problem, effort=replace(COLD, looks=1, levels=(), passes=0))
    assert overuse(problem, found.choice) <= 1e-8
    assert found.dual <= found.primal
