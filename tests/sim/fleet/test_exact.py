"""The price loop beside a general solver on small made rounds."""

import pytest

from dure.fleet.assignment.solve import solve
from dure.sim.fleet.benches.global_instances import make_problem
from dure.sim.fleet.exact import best_assignment, linear_bound
from tests.fleet.assignment.problems import barred, overuse


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("instance", ["plain", "full"])
def test_the_linear_bound_lies_between_the_bound_and_the_cost(instance: str, seed: int) -> None:
    problem = make_problem(instance, 80, 6, seed)
    found = solve(problem)
    linear = linear_bound(problem).cost
    assert found.dual <= linear * (1.0 + 1e-7)
    assert found.primal >= linear * (1.0 - 1e-7)
    assert found.dual >= 0.99 * linear


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_cost_is_within_three_per_cent_of_the_best_assignment(seed: int) -> None:
    problem = make_problem("plain", 40, 4, seed)
    best = best_assignment(problem, time_limit_s=20.0)
    assert overuse(problem, best.choice) <= 1e-6
    assert barred(problem, best.choice) == []
    found = solve(problem)
    assert best.bound <= found.primal * (1.0 + 1e-6)
    assert found.primal <= 1.03 * best.cost
