import pytest

from dure.domain.units import NS_PER_S
from dure.kernel.policies.registry import POLICIES
from dure.sim.benches.report import BenchReport, Verdict
from dure.sim.kernel.benches.mixes import bench_mixes
from dure.sim.kernel.benches.mixes_figures import MixFigures, ModeFigures
from dure.sim.kernel.benches.mixes_verdicts import mix_verdicts
from dure.sim.kernel.modes import BASELINES


@pytest.fixture(scope="module")
def report() -> BenchReport:
    return bench_mixes([11], duration_ns=NS_PER_S // 2)


def mode(name: str, **changes: float) -> ModeFigures:
    usual = {
        "mean_jct_s": 1.0,
        "weighted_goodput": 0.5,
        "jain_index": 0.9,
        "worst_late_share": 0.2,
        "bubble_share": 0.01,
        "protected_idle_share": 0.0,
    }
    return ModeFigures(mode=name, decision_us_median=None, **(usual | changes))


def mix(
    seed: int, *, feasible: bool = True, jct_s: float = 0.7, late: float = 0.0, good: float = 0.6
) -> MixFigures:
    modes = (
        *(mode(name) for name in BASELINES),
        mode("jct", mean_jct_s=jct_s),
        mode("slo", worst_late_share=late),
        mode("hybrid", weighted_goodput=good),
    )
    return MixFigures(seed, 3, 1.0, feasible, 0.0, "slo", modes)


def verdict(mixes: list[MixFigures], part: str) -> Verdict:
    return next(verdict for verdict in mix_verdicts(mixes) if part in verdict.claim)


def test_every_mode_is_run_on_every_mix(report: BenchReport) -> None:
    (found,) = report.data()["mixes"]
    assert [figures["mode"] for figures in found["modes"]] == [*BASELINES, *POLICIES]
    assert found["seed"] == 11
    assert 0.0 <= found["promised_late_share"] <= 1.0
    assert found["feasible"] == (found["promised_late_share"] <= 0.005)


def test_jct_needs_nine_in_ten_seeds() -> None:
    good = [mix(seed) for seed in range(1, 19)]
    bad = [mix(seed, jct_s=0.9) for seed in (19, 20)]
    assert verdict([*good, *bad], "0.80").passed
    claim = verdict([*good[1:], mix(1, jct_s=0.9), *bad], "0.80")
    assert not claim.passed
    assert "17 of 20; not in 1, 19, 20" in claim.found


def test_slo_is_judged_on_feasible_mixes_alone() -> None:
    assert verdict([mix(1), mix(2, feasible=False, late=0.5)], "slo:").passed
    assert not verdict([mix(1), mix(2, late=0.011)], "slo:").passed
    assert verdict([mix(1), mix(2, feasible=False)], "feasible mixes").found == "1 of 2; not 2"
    assert verdict([mix(1)], "mps beside").found == "worst 20.00 %, over 1 % in 1 of 1"


def test_no_feasible_mix_is_no_pass() -> None:
    assert not any("slo:" in one.claim for one in mix_verdicts([mix(1, feasible=False)]))


def test_hybrid_must_be_near_the_best_everywhere_and_above_in_three_of_four() -> None:
    assert verdict([mix(1), mix(2, good=0.496)], "≥ 0.99").passed
    assert not verdict([mix(1), mix(2, good=0.49)], "≥ 0.99").passed
    mixes = [mix(1), mix(2), mix(3), mix(4, good=0.5)]
    assert verdict(mixes, "> every baseline").passed
    assert not verdict([*mixes, mix(5, good=0.5)], "> every baseline").passed


def test_the_worst_bubble_share_decides() -> None:
    assert verdict([mix(1)], "bubble").passed
    worse = MixFigures(
        2, 3, 1.0, True, 0.0, "slo", (*mix(2).modes[:-1], mode("hybrid", bubble_share=0.03))
    )
    claim = verdict([mix(1), worse], "bubble")
    assert not claim.passed
    assert "most 3.00 % (hybrid, mix 2)" in claim.found
