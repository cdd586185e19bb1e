"""The benches of series and of measuring run, and their verdicts follow from their figures."""

import pytest

from dure.bench.series import bench_series
from dure.bench.telemetry import MOST_SHARE, bench_telemetry


def test_the_bench_of_series_counts_what_it_wrote() -> None:
    report = bench_series(minutes=2, series=20)
    few, many = report.figures["shapes"]
    assert (few.samples, many.samples) == (20 * 120, 200 * 12)
    assert few.per_s > 0
    assert set(few.query_ms) == {1_000, 10_000, 60_000}
    assert all(len(took) == 200 for took in many.query_ms.values())
    assert len(report.verdicts) == 4


@pytest.mark.slow
def test_the_bench_of_measuring_runs_agents_of_both_kinds() -> None:
    report = bench_telemetry(seconds=3.0, repeats=1)
    kinds = report.figures["kinds"]
    assert kinds["measures"].series > 20
    assert kinds["does not"].series == 0
    assert report.verdicts[0].passed == (report.figures["core_share"] <= MOST_SHARE)
