from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from dure.domain.fleet.policy import HOUR_NS
from dure.domain.fleet.workloads import Sla
from dure.domain.ids import WorkloadId
from dure.fleet.preemption import Candidates, choose_victims, displacement

MANY = 50


def candidates(
    sites: list[int],
    devices: list[float],
    costs: list[float],
    priorities: list[int] | None = None,
) -> Candidates:
    count = len(sites)
    return Candidates(
        workloads=tuple(WorkloadId(f"w{number}") for number in range(count)),
        sites=np.array(sites, dtype=np.int64),
        priorities=np.array(priorities or [0] * count, dtype=np.int64),
        preemptible=np.ones(count, dtype=bool),
        ran_ns=np.full(count, 10 * HOUR_NS, dtype=np.int64),
        minimum_ns=np.full(count, HOUR_NS, dtype=np.int64),
        amounts=np.array(devices, dtype=float)[:, None],
        costs=np.array(costs, dtype=float),
    )


def test_the_cheapest_sufficient_set_is_taken() -> None:
    running = candidates([0, 0, 0], [4, 4, 8], [1, 2, 2.5])
    found = choose_victims(running, 5, np.array([[8.0]]), np.array([[0.0]]), MANY)
    assert found is not None
    assert (found.rows, found.cost) == ((2,), 2.5)


def test_nobody_is_displaced_in_vain() -> None:
    running = candidates([0, 0, 0], [1, 1, 8], [0.01, 0.01, 9])
    found = choose_victims(running, 5, np.array([[8.0]]), np.array([[0.0]]), MANY)
    assert found is not None
    assert found.rows == (2,)


def test_the_site_where_it_costs_least_is_taken() -> None:
    running = candidates([0, 1], [8, 8], [5, 3])
    found = choose_victims(running, 5, np.full((2, 1), 8.0), np.zeros((2, 1)), MANY)
    assert found is not None
    assert (found.site, found.rows) == (1, (1,))


def test_what_is_free_already_counts() -> None:
    running = candidates([0, 0], [2, 8], [1, 3])
    found = choose_victims(running, 5, np.array([[8.0]]), np.array([[6.0]]), MANY)
    assert found is not None
    assert found.rows == (0,)


@pytest.mark.parametrize("priority", [0, 3])
def test_equal_or_higher_priority_is_never_displaced(priority: int) -> None:
    running = candidates([0], [8], [1], priorities=[3])
    assert choose_victims(running, priority, np.array([[8.0]]), np.zeros((1, 1)), MANY) is None
    assert choose_victims(running, 4, np.array([[8.0]]), np.zeros((1, 1)), MANY) is not None


def test_neither_the_unwilling_nor_the_newly_started_are_displaced() -> None:
    running = candidates([0, 0], [8, 8], [1, 1])
    running.preemptible[0] = False
    running.ran_ns[1] = HOUR_NS - 1
    assert choose_victims(running, 5, np.array([[8.0]]), np.zeros((1, 1)), MANY) is None


def test_no_more_than_the_bound_are_displaced() -> None:
    running = candidates([0] * 8, [1] * 8, [1] * 8)
    assert choose_victims(running, 5, np.array([[8.0]]), np.zeros((1, 1)), 7) is None
    found = choose_victims(running, 5, np.array([[8.0]]), np.zeros((1, 1)), 8)
    assert found is not None
    assert len(found.rows) == 8


def test_sites_it_may_not_use_are_left_alone() -> None:
    running = candidates([0], [8], [1])
    assert choose_victims(running, 5, np.array([[np.inf]]), np.zeros((1, 1)), MANY) is None


def test_small_cases_are_solved_exactly() -> None:
    rng = np.random.default_rng(7)
    for _ in range(60):
        count = int(rng.integers(1, 9))
        sites = rng.integers(0, 2, count)
        amounts = rng.integers(0, 5, (count, 2)).astype(float)
        costs = rng.integers(1, 20, count).astype(float)
        needs = rng.integers(1, 8, (2, 2)).astype(float)
        running = replace(candidates(list(sites), [0.0] * count, list(costs)), amounts=amounts)
        most = int(rng.integers(1, count + 1))
        sets = [
            list(rows)
            for size in range(1, most + 1)
            for rows in combinations(range(count), size)
            if len({int(sites[row]) for row in rows}) == 1
            and np.all(amounts[list(rows)].sum(axis=0) >= needs[sites[rows[0]]])
        ]
        best = min((float(costs[rows].sum()) for rows in sets), default=None)
        found = choose_victims(running, 5, needs, np.zeros((2, 2)), most)
        assert (None if found is None else found.cost) == best


def test_many_candidates_still_give_a_minimal_set() -> None:
    rng = np.random.default_rng(11)
    devices = list(rng.integers(1, 5, 200).astype(float))
    running = candidates([0] * 200, devices, list(rng.uniform(1, 9, 200)))
    found = choose_victims(running, 5, np.array([[40.0]]), np.zeros((1, 1)), MANY)
    assert found is not None
    freed = running.amounts[list(found.rows), 0]
    assert freed.sum() >= 40
    assert freed.sum() - freed.min() < 40 + freed.max(), "close to what is needed"
    assert all(freed.sum() - each < 40 for each in freed)


def test_displacing_costs_lost_work_and_lateness_up_to_its_cap() -> None:
    sla = Sla(deadline_ns=10 * HOUR_NS, penalty_per_hour_late=6.0, penalty_cap=9.0)
    cost = displacement(HOUR_NS / 2, 8.0, sla, 9 * HOUR_NS, HOUR_NS)
    assert (cost.work_lost, cost.lateness) == (4.0, 3.0)
    assert cost.total == 7.0
    assert displacement(HOUR_NS / 2, 8.0, sla, 9 * HOUR_NS, 99 * HOUR_NS).lateness == 9.0
    late = displacement(HOUR_NS / 2, 8.0, sla, 40 * HOUR_NS, HOUR_NS)
    assert late.lateness == 0.0, "it pays the cap already"
