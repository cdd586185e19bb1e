from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dure.sim.fleet.benches import month, month_runs
from dure.sim.fleet.benches.month import HEURISTICS, MonthPlan, bench_month
from dure.sim.fleet.benches.month_runs import BOUND, MonthFigures, MonthRun
from dure.sim.fleet.month import MonthCase

TOTALS = {"dure": 60.0, BOUND: 40.0, "cheapest-first": 100.0}


def figures(money: float, on_time: float = 0.99, kg_co2: float = 0.0) -> MonthFigures:
    return MonthFigures(money, kg_co2, 0.0, 0.0, on_time, 0.9, 0.5, 0.6, 3, 2.0, 1.0, 1.0)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, MonthFigures]:
    """Figures by mode in place of runs; others cost 120."""
    known: dict[str, MonthFigures] = {name: figures(total) for name, total in TOTALS.items()}

    def run_all(runs: Sequence[MonthRun], *_: Any, **__: Any) -> dict[MonthRun, MonthFigures]:
        return {each: known.get(each.mode, figures(120.0)) for each in runs}

    monkeypatch.setattr(month, "run_all", run_all)
    return known


def verdicts(plan: MonthPlan) -> list[tuple[str, bool | None]]:
    report = bench_month(None, plan, None, workers=1)
    return [(verdict.found, verdict.passed) for verdict in report.verdicts]


PLAN = MonthPlan(loads=(0.8,), seeds=(1,), sweeps=False)


def test_the_gap_is_closed_from_the_best_heuristic_to_the_bound(
    made: dict[str, MonthFigures],
) -> None:
    found, passed = verdicts(PLAN)[0]
    assert found.startswith("66.7 % over cheapest-first")
    assert passed


def test_less_than_half_of_the_gap_fails(made: dict[str, MonthFigures]) -> None:
    made["dure"] = figures(75.0)
    assert verdicts(PLAN)[0][1] is False


def test_promises_kept_worse_than_by_the_best_heuristic_fail(made: dict[str, MonthFigures]) -> None:
    made["dure"] = figures(60.0, on_time=0.98)
    assert verdicts(PLAN)[1][1] is False


def test_carbon_at_its_price_is_part_of_the_total() -> None:
    assert figures(10.0, kg_co2=2000.0).total == pytest.approx(10.0 + 2 * 50.0)


def test_sweeps_name_every_feature_and_penalty(made: dict[str, MonthFigures]) -> None:
    made["dure"] = figures(60.0, kg_co2=1000.0)
    report = bench_month(None, MonthPlan(loads=(0.8,), seeds=(1,)), None, workers=1)
    titles = [grid.title for grid in report.grids]
    assert [len(grid.rows) for grid in report.grids] == [len(HEURISTICS) + 4, 5, 9, 2]
    assert any("One feature off" in title for title in titles)


def test_trailing_heuristics_can_be_run_on_fewer_seeds(made: dict[str, MonthFigures]) -> None:
    plan = MonthPlan(loads=(0.8,), seeds=(1, 2, 3), side_seeds=1, sweeps=False)
    report = bench_month(None, plan, None, workers=1)
    names = [row[0] for row in report.grids[0].rows]
    assert "cheapest-first" in names
    assert "first-fit (seed 1)" in names


def test_what_was_kept_can_be_shown_without_running_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(month_runs, "_run", lambda run, data: figures(TOTALS[run.mode]))
    ran = [MonthRun(MonthCase(0.8, 2), mode) for mode in TOTALS]
    month_runs.run_all(ran, None, tmp_path, workers=1, tell=lambda *_: None)
    plan = MonthPlan(loads=(0.6, 0.8), seeds=(1, 2), kept_only=True)
    report = bench_month(None, plan, tmp_path, workers=1)
    assert report.grids[0].title.startswith("Load 0.8, mean of 1 seeds")
    assert [row[0] for row in report.grids[0].rows] == ["cheapest-first", "dure", BOUND]


def test_a_kept_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = MonthRun(MonthCase(0.8, 1), "dure")
    monkeypatch.setattr(month_runs, "_run", lambda run, data: figures(7.0))
    first = month_runs.run_all([wanted], None, tmp_path, workers=1, tell=lambda *_: None)

    def never(run: MonthRun, data: Path | None) -> MonthFigures:
        raise AssertionError(run.name)

    monkeypatch.setattr(month_runs, "_run", never)
    again = month_runs.run_all([wanted], None, tmp_path, workers=1, tell=lambda *_: None)
    assert first == again == {wanted: figures(7.0)}
