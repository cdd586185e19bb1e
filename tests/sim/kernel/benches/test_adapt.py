"""`dure bench adapt` on a short run: everything is judged, and what was kept is not run again."""

import json
from pathlib import Path

import pytest

from dure.domain.units import NS_PER_S
from dure.sim.kernel.benches.adapt import AdaptPlan, bench_adapt
from dure.sim.kernel.benches.adapt_runs import Ran, Shelf, Suite


def test_every_mode_is_judged_beside_the_best_fixed_policy_of_its_run(tmp_path: Path) -> None:
    plan = AdaptPlan(1, tuned=1, training=0, shards=tmp_path, duration_ns=6 * NS_PER_S)
    report = bench_adapt(plan)
    modes = report.grids[0]
    assert [row[0] for row in modes.rows] == ["jct", "slo", "hybrid", "auto", "tuner"]
    judged = report.figures["judged"][0]
    assert min(judged.behind(policy) for policy in ("jct", "slo", "hybrid")) == 0.0
    assert judged.behind(judged.best) == 0.0
    again = bench_adapt(plan)
    assert again.grids == report.grids
    kept = {path.stem for path in tmp_path.glob("*.json")}
    assert {"0001-jct", "0001-slo", "0001-hybrid", "0001-auto", "0001-tuner"} <= kept


def test_a_run_that_was_kept_is_taken_from_the_shelf(tmp_path: Path) -> None:
    found = {"scores": [0.5, 0.7], "switches": 1, "rollbacks": 0, "dry_runs": 3, "advice": []}
    (tmp_path / "0003-auto.json").write_text(json.dumps(found), encoding="utf-8")
    ran = Suite(Shelf(tmp_path)).ran(3, "auto")
    assert ran == Ran(3, "auto", (0.5, 0.7), 1, 0, 3)
    assert ran.score == pytest.approx(0.6)


@pytest.mark.slow
def test_over_a_part_of_the_suite_switching_stays_close_to_the_best_fixed_policy() -> None:
    report = bench_adapt(AdaptPlan(12, tuned=0))
    behind = [each.behind("auto") for each in report.figures["judged"]]
    assert sum(behind) / len(behind) <= 0.03
