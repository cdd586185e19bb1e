"""The bench of the global stage, on small settings, and the rounds it makes."""

import numpy as np
import pytest

from dure.domain.errors import InputError
from dure.sim.fleet.benches.global_instances import INSTANCES, LOADS, make_problem, next_round
from dure.sim.fleet.benches.global_stage import bench_global


def test_the_bench_reports_what_was_asked_for() -> None:
    report = bench_global((30, 4), ["full"], [1, 2], exact=True)
    data = report.data()
    assert data["seconds"] > 0.0
    assert data["warm_seconds"] > 0.0
    assert data["cpu_seconds"] > 0.0
    assert data["warm_cpu_seconds"] > 0.0
    assert data["gap_pct"] == pytest.approx(np.mean([row["gap_pct"] for row in data["rows"]]))
    assert all(row["unchanged_same"] for row in data["rows"])
    assert all(row["linear_gap_pct"] >= -1e-4 for row in data["rows"])
    assert all(row["greedy_pct"] >= row["gap_pct"] for row in data["rows"])


def test_a_round_that_no_memory_holds_is_refused() -> None:
    with pytest.raises(InputError, match=r"99,999,999,999 jobs.* stay within 200,000,000"):
        bench_global((99_999_999_999, 100), ["plain"], [1])


def test_bars_are_judged_only_at_the_size_they_were_promised_for() -> None:
    cold, warm, *_ = bench_global((30, 4), ["plain"], [1]).verdicts
    assert cold.passed is None
    assert warm.passed is None


@pytest.mark.parametrize("instance", INSTANCES)
def test_made_rounds_come_from_the_seed(instance: str) -> None:
    first, second = (make_problem(instance, 50, 5, 7) for _ in range(2))
    assert np.array_equal(first.cost, second.cost)
    assert not np.array_equal(first.skip_cost, make_problem(instance, 50, 5, 8).skip_cost)


def test_plain_asks_for_the_stated_load_in_both_dimensions() -> None:
    problem = make_problem("plain", 2_000, 20, 1)
    asked = problem.demand.usage[:, problem.sites.profile, :].mean(axis=1).sum(axis=0)
    load = asked / problem.sites.capacity[:, 0, :].sum(axis=0)
    assert load == pytest.approx(LOADS["plain"], rel=0.01)


def test_full_has_every_feature() -> None:
    problem = make_problem("full", 3_000, 20, 1)
    assert problem.sites.capacity.shape[1:] == (6, 4)
    assert problem.demand.usage[:, 0, 0].max() >= 64
    assert problem.tenants == 40
    tenancy = problem.tenancy
    assert tenancy is not None
    assert 5 <= np.isfinite(tenancy.money_budget).sum() <= 35
    assert 5 <= np.isfinite(tenancy.carbon_budget).sum() <= 35
    costs = problem.cost[:, :, 0]
    spread = costs.std(axis=1) / costs.mean(axis=1)
    assert 0.1 < float(np.median(spread)) < 1.0


def test_the_round_after_replaces_five_per_cent_and_moves_prices_by_three() -> None:
    problem = make_problem("full", 400, 5, 1)
    after, new = next_round(problem, "full", 1)
    assert new.sum() == 20
    kept = np.isfinite(problem.cost) & ~new[:, None, None]
    moved = after.cost[kept] / problem.cost[kept] - 1.0
    assert np.abs(moved) == pytest.approx(np.full(moved.size, 0.03))
