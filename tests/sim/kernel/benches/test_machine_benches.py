"""The benches of search, decision time, simulator speed and policy switches, on small settings."""

import os

import pytest

from dure.domain.units import NS_PER_MS
from dure.kernel.policies.registry import POLICIES
from dure.sim.kernel.benches.decide import bench_decide
from dure.sim.kernel.benches.search import bench_search
from dure.sim.kernel.benches.speed import bench_speed, speed_modes
from dure.sim.kernel.benches.switch import bench_switch


def test_search_compares_every_policy_and_is_repeatable() -> None:
    first, second = (bench_search([5], cases=2).data() for _ in range(2))
    assert first == second
    assert [row["policy"] for row in first["rows"]] == list(POLICIES)
    assert all(row["mean_loss"] <= row["worst_loss"] for row in first["rows"])
    assert any(row["leads"] > 0 for row in first["rows"])


def test_a_bounded_search_never_beats_trying_every_set() -> None:
    assert all(row["mean_loss"] >= 0.0 for row in bench_search([5], cases=2).data()["rows"])


def test_decisions_are_timed_and_judged_by_number_of_tenants() -> None:
    report = bench_decide([2, 4], events=5)
    assert all(0 < row["median_us"] <= row["p99_us"] for row in report.data()["rows"])
    two, four = report.verdicts
    assert two.passed is None
    assert four.passed is not None


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs CPU affinity")
def test_timing_gives_the_other_cores_back() -> None:
    before = os.sched_getaffinity(0)
    bench_decide([1], events=1)
    assert os.sched_getaffinity(0) == before


def test_longer_runs_simulate_more_kernels() -> None:
    report = bench_speed(base_ns=50 * NS_PER_MS, sizes=(1, 2), repeats=1)
    rows = {(row["load"], row["mode"], row["size"]): row for row in report.data()["rows"]}
    assert len(rows) == 2 * len(speed_modes()) * 2
    assert rows["pair", "mps", 2]["kernels"] > 1.5 * rows["pair", "mps", 1]["kernels"]
    assert [verdict.passed is not None for verdict in report.verdicts] == [True, True]


def test_every_switch_changes_the_very_next_squad_and_forgets_nothing() -> None:
    report = bench_switch(switches=8)
    assert all(one["next_squad"] for one in report.data()["switches"])
    assert report.data()["remembered"] == 8
    assert all(verdict.passed is not False for verdict in report.verdicts)
