import json
from pathlib import Path

import pytest

from dure.bench.kernel.merge import merged
from dure.bench.kernel.store import Store
from dure.domain.errors import InputError
from dure.sim.benches.report import BenchReport, Verdict
from tests.bench.kernel.canned import keep_pair

GOOD = {
    "time-slice": (2000.0, 18.0),
    "mps": (2500.0, 25.0),
    "mps-priority": (139.0, 19.0),
    "mps-half": (101.0, 18.0),
    "slo": (12.0, 14.0),
    "slo5x-mps": (40.0, 18.0),
    "hybrid": (30.0, 16.0),
    "hybrid-mps": (40.0, 18.0),
}


def report_of(folder: Path, rows: dict[str, tuple[float, float]], **more: int) -> BenchReport:
    late = {"mps-priority": 100}
    keep_pair(Store(folder / "a"), rows, repeats=more.get("repeats", 5), late=late)
    return merged(folder)


def verdict(report: BenchReport, *words: str) -> Verdict:
    found = [item for item in report.verdicts if all(word in item.claim for word in words)]
    assert len(found) == 1, [item.claim for item in report.verdicts]
    return found[0]


def test_a_pair_that_shows_what_it_should_passes_every_verdict(tmp_path: Path) -> None:
    report = report_of(tmp_path, GOOD)
    assert [item.claim for item in report.verdicts if item.passed is False] == []
    assert sum(item.passed is True for item in report.verdicts) >= 7


@pytest.mark.parametrize(
    ("row", "figures", "words"),
    [
        ("slo", (12.6, 14.0), ("Dure slo, isolated", "p99 of encoder within 1.25×")),
        ("slo", (12.0, 13.4), ("Dure slo, isolated", "best effort ≥ 0.45×")),
        ("slo", (12.0, 13.4), ("Dure slo, isolated", "efficiency ≥ 0.9")),
        ("slo5x-mps", (40.0, 17.0), ("slo on mps, target 5×", "best effort ≥ 0.58×")),
        ("slo5x-mps", (51.0, 18.0), ("slo on mps, target 5×", "attainment")),
        ("hybrid", (60.0, 2.0), ("Dure hybrid, isolated", "weighted goodput above")),
    ],
)
def test_what_misses_its_figure_fails_that_verdict(
    tmp_path: Path, row: str, figures: tuple[float, float], words: tuple[str, ...]
) -> None:
    report = report_of(tmp_path, {**GOOD, row: figures})
    assert verdict(report, *words).passed is False


def test_a_row_that_was_not_measured_fails_what_rests_on_it(tmp_path: Path) -> None:
    report = report_of(tmp_path, {name: row for name, row in GOOD.items() if name != "slo"})
    assert verdict(report, "(a) row slo was measured").passed is False


def test_a_row_that_failed_is_named_with_its_reason(tmp_path: Path) -> None:
    store = Store(tmp_path / "a")
    keep_pair(store, GOOD)
    store.fail("jct", "the agent is gone")
    assert verdict(merged(tmp_path), "jct can be measured").found == "the agent is gone"


def test_a_growing_queue_is_marked(tmp_path: Path) -> None:
    keep_pair(Store(tmp_path / "a"), {"mps": (100.0, 20.0)}, late={"mps": 20})
    (row,) = [row for row in merged(tmp_path).grids[0].rows if row[0] == "MPS"]
    assert "(grows)" in row[1]


def test_goodput_is_the_on_time_share_plus_the_speed_of_training(tmp_path: Path) -> None:
    report = report_of(tmp_path, GOOD)
    rows = {row["row"]: row for row in report.data()["scenarios"][0]["rows"]}
    assert rows["hybrid"]["goodput"]["value"] == pytest.approx(1.0 + 16.0 / 30.0)
    assert rows["mps"]["goodput"]["value"] == pytest.approx(197 / 200 + 25.0 / 30.0)


def test_efficiency_takes_the_services_time_away(tmp_path: Path) -> None:
    report = report_of(tmp_path, GOOD)
    (scenario,) = report.data()["scenarios"]
    assert scenario["busy_share"] == pytest.approx(0.5)
    slo = next(row for row in scenario["rows"] if row["row"] == "slo")
    assert slo["efficiency"]["value"] == pytest.approx((14.0 / 30.0) / 0.5)


def test_a_page_of_short_runs_says_so(tmp_path: Path) -> None:
    keep_pair(Store(tmp_path / "a"), GOOD, seconds=5.0, repeats=2)
    assert "**Short**: windows of 5 s and 2 repeats" in merged(tmp_path).about
    full = report_of(tmp_path / "full", GOOD)
    assert "**Short**" not in full.about


def test_a_folder_without_shards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished shard"):
        merged(tmp_path)


def test_a_torn_cell_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path / "a")
    keep_pair(store, GOOD)
    torn = next((tmp_path / "a" / "cells").glob("slo-*.json"))
    torn.write_text('{"row": "slo", ')
    with pytest.raises(Exception, match=f"{torn.name}.*delete it"):
        merged(tmp_path)


def test_everything_is_json(tmp_path: Path) -> None:
    report = report_of(tmp_path, GOOD, repeats=1)
    assert json.loads(json.dumps(report.data(), allow_nan=False))["simulated"] is False
