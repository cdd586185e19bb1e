"""Loads that change: in made runs and in scenario files."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dure.domain.errors import InputError
from dure.domain.risks import WeightsBy
from dure.domain.units import NS_PER_S
from dure.sim.kernel.load import Arrivals, LoadChange, changing_poisson
from dure.sim.kernel.ramps import FACTOR, RAMP_NS, Shape, make_ramp
from dure.sim.kernel.scenario import read_scenario
from dure.sim.risk.ramp_runs import run_adapted, run_frozen
from tests.sim.kernel.scenarios import scenario, service, written


def rate_per_s(at_ns: NDArray[np.int64], first_s: float, last_s: float) -> float:
    inside = (at_ns >= first_s * NS_PER_S) & (at_ns < last_s * NS_PER_S)
    return float(inside.sum()) / (last_s - first_s)


def test_a_rate_ramps_steps_and_comes_back() -> None:
    at_ns = changing_poisson(
        np.random.default_rng(1),
        rate_per_s=1000.0,
        changes=(
            LoadChange(10 * NS_PER_S, 10 * NS_PER_S, 3.0),
            LoadChange(30 * NS_PER_S, 0, 0.5),
        ),
        start_ns=0,
        end_ns=40 * NS_PER_S,
    )
    assert rate_per_s(at_ns, 0, 10) == pytest.approx(1000, rel=0.05)
    assert rate_per_s(at_ns, 14, 16) == pytest.approx(2000, rel=0.08)
    assert rate_per_s(at_ns, 20, 30) == pytest.approx(3000, rel=0.05)
    assert rate_per_s(at_ns, 30, 40) == pytest.approx(500, rel=0.08)
    assert (np.diff(at_ns) >= 0).all()


def test_without_changes_a_rate_stays() -> None:
    rng = np.random.default_rng(2)
    at_ns = changing_poisson(rng, rate_per_s=500.0, changes=(), start_ns=0, end_ns=20 * NS_PER_S)
    assert rate_per_s(at_ns, 0, 20) == pytest.approx(500, rel=0.05)


def test_a_seed_makes_the_same_run_every_time() -> None:
    one, two = make_ramp(3, Shape.RAMP), make_ramp(3, Shape.RAMP)
    assert one.target_ns == two.target_ns
    first, second = one.setting.loads[0].work, two.setting.loads[0].work
    assert isinstance(first, Arrivals)
    assert isinstance(second, Arrivals)
    assert (first.at_ns == second.at_ns).all()


def test_a_made_ramp_grows_to_three_times() -> None:
    ramp = make_ramp(1, Shape.RAMP)
    work = ramp.setting.loads[0].work
    assert isinstance(work, Arrivals)
    start_s, top_s = ramp.start_ns / NS_PER_S, (ramp.start_ns + RAMP_NS) / NS_PER_S
    before = rate_per_s(work.at_ns, 0, start_s)
    assert rate_per_s(work.at_ns, top_s, top_s + 30) == pytest.approx(FACTOR * before, rel=0.15)


def test_changes_of_load_are_read_from_a_scenario(tmp_path: Path) -> None:
    changes = [{"at": "500ms", "over": "1s", "factor": 3}]
    busy = service(arrivals={"poisson": {"rate": 400, "changes": changes}})
    read = read_scenario(written(tmp_path, scenario(tenants=[busy], duration="3s")))
    work = read.setting.loads[0].work
    assert isinstance(work, Arrivals)
    assert rate_per_s(work.at_ns, 1.5, 3.0) > 2.0 * rate_per_s(work.at_ns, 0.0, 0.5)


def test_changes_that_overlap_are_refused(tmp_path: Path) -> None:
    changes = [{"at": "0s", "over": "1s", "factor": 3}, {"at": "500ms", "factor": 1}]
    busy = service(arrivals={"poisson": {"rate": 400, "changes": changes}})
    with pytest.raises(InputError, match="one change end before the next"):
        read_scenario(written(tmp_path, scenario(tenants=[busy], duration="3s")))


def test_a_mode_says_what_its_weights_follow(tmp_path: Path) -> None:
    modes = [{"mode": "hybrid", "name": "still", "weights": "frozen"}, "slo"]
    read = read_scenario(written(tmp_path, scenario(modes=modes)))
    assert [mode.weights for mode in read.modes] == [WeightsBy.FROZEN, WeightsBy.FORESEEN]
    wrong = written(tmp_path, scenario(modes=[{"mode": "hybrid", "weights": "melted"}]))
    with pytest.raises(InputError, match="weights"):
        read_scenario(wrong)


@pytest.mark.slow
def test_a_ramp_is_seen_before_it_breaks_the_promise_and_weights_that_follow_keep_it() -> None:
    frozen = run_frozen((1, Shape.RAMP))
    assert frozen.usable
    seen_s = frozen.judged(frozen.risks_s).hit_s
    assert seen_s is not None
    assert frozen.first_violation_s is not None
    assert frozen.first_violation_s - seen_s >= 3.0
    adapted = run_adapted((1, Shape.RAMP, WeightsBy.FORESEEN))
    assert adapted.adaptations > 0
    assert adapted.violations <= 0.3 * frozen.violations


@pytest.mark.slow
def test_a_steady_load_raises_nothing() -> None:
    assert run_frozen((1, Shape.STEADY)).risks_s == ()
