import json
from dataclasses import replace

import pytest

from dure.domain.catalogue import accelerator
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_S
from dure.sim.benches.report import BenchReport, silent
from dure.sim.kernel.benches import pairs_measured as measured
from dure.sim.kernel.benches.pairs import bench_pairs
from dure.sim.kernel.benches.pairs_bound import most_beside
from dure.sim.kernel.benches.pairs_fit import descend, fit_error, fitted_names
from dure.sim.kernel.benches.pairs_run import BE, Case, run_case, training
from dure.sim.kernel.load import ClosedLoop, TenantLoad
from dure.sim.kernel.modes import Mode
from dure.sim.kernel.physics import Physics
from dure.sim.kernel.run import Setting, run


@pytest.fixture(scope="module")
def report() -> BenchReport:
    return bench_pairs([1], run_s=0.5)


def test_every_measured_row_is_simulated(report: BenchReport) -> None:
    rows = report.data()["rows"]
    assert [(row["pair"], row["row"]) for row in rows] == [
        (row.pair, row.row) for row in measured.ROWS
    ]
    assert all(row["simulated"]["p99_ms"] > 0 for row in rows)
    assert len(report.grids) == 3


def test_verdicts_name_what_was_promised(report: BenchReport) -> None:
    claims = [verdict.claim for verdict in report.verdicts if verdict.passed is not None]
    for part in ("(a) in the measured order", "unstable rows of (b)", "within 15%", "within 30%"):
        assert any(part in claim for claim in claims)


def test_data_is_plain_json_without_nan(report: BenchReport) -> None:
    assert json.loads(json.dumps(report.data(), allow_nan=False))["bench"] == "pairs"


@pytest.mark.parametrize("pair", ["a", "b"])
def test_a_request_alone_takes_as_long_as_measured(pair: str) -> None:
    found = run_case(Case(pair, measured.SOLO, closed=True, run_s=0.5))
    assert found.hp_per_s == pytest.approx(1e3 / measured.HP_REQUEST_MS[pair], rel=0.01)


def test_training_alone_is_as_fast_as_measured() -> None:
    load = TenantLoad(Tenant(BE), training(), ClosedLoop(0, measured.BE_SYNC_EVERY))
    outcome = run(
        Mode("alone", side_by_side=False), Setting(accelerator("h200"), (load,), NS_PER_S)
    )
    steps, last_ns = outcome.finished["iterations"].sum(), outcome.finished["finish"].max()
    assert steps * NS_PER_S / last_ns == pytest.approx(measured.BE_ALONE_PER_S, rel=0.01)


def test_recorded_closed_loop_rates_cover_both_pairs() -> None:
    rates = measured.closed_loop_rates()
    assert {rate.pair for rate in rates} == {"a", "b"}
    assert all(rate.hp_per_s > 0 for rate in rates)


def test_the_fit_moves_only_what_the_physics_marks_as_fitted() -> None:
    names = fitted_names()
    assert "context_switch_ns" in names
    assert "time_slice_ns" not in names


def test_the_search_finds_a_better_value_of_each_parameter() -> None:
    wanted = {"context_switch_ns": 90_000, "cache_penalty": 0.6}

    def distance(physics: Physics) -> float:
        switch = physics.context_switch_ns / wanted["context_switch_ns"]
        cache = physics.cache_penalty / wanted["cache_penalty"]
        return (switch - 1.0) ** 2 + (cache - 1.0) ** 2

    start = replace(Physics(), context_switch_ns=150_000, cache_penalty=0.3)
    best, before, after, tried = descend(distance, start, list(wanted), [0.3] * 4, silent)
    assert after < 0.05 * before
    assert best.context_switch_ns == pytest.approx(90_000, rel=0.2)
    assert isinstance(best.context_switch_ns, int)
    assert tried > len(wanted)


def test_a_share_is_never_searched_above_one() -> None:
    start = replace(Physics(), wave_stagger=0.95)
    best, *_ = descend(
        lambda physics: -physics.wave_stagger, start, ["wave_stagger"], [0.3], silent
    )
    assert best.wave_stagger == 1.0


def test_the_error_of_a_fit_grows_with_wrong_physics() -> None:
    right = fit_error(Physics(), seeds=[1], run_s=0.5)
    slow = replace(Physics(), context_switch_ns=3_000_000)
    assert fit_error(slow, seeds=[1], run_s=0.5) > right


def test_what_best_effort_can_reach_is_the_best_mix_that_serves_all_requests() -> None:
    alone = measured.MeasuredRates("a", measured.SOLO, 100.0, None)
    shared = measured.MeasuredRates("a", measured.MPS, 25.0, 0.8 * measured.BE_ALONE_PER_S)
    in_turns = most_beside([alone])
    assert in_turns.speed == pytest.approx(0.5)
    beside = most_beside([alone, shared])
    assert beside.speed == pytest.approx(0.8 * 2 / 3)
    assert dict(beside.mix) == pytest.approx({measured.SOLO: 1 / 3, measured.MPS: 2 / 3})
