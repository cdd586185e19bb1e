import numpy as np
import pytest

from dure.domain.units import NS_PER_S
from dure.sim.fleet.generators import (
    CURVES,
    Curve,
    LoadShape,
    azure_like,
    curve,
    openb_like,
    philly_like,
)

DAY_S = 86400.0
MONDAY_NS = 1_696_204_800 * NS_PER_S  # 2023-10-02 00:00 UTC


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_same_seed_makes_the_same_jobs() -> None:
    first, again, other = (
        philly_like(rng(seed), jobs_per_day=200, length_s=3 * DAY_S) for seed in (1, 1, 2)
    )
    assert first.submitted_s.tolist() == again.submitted_s.tolist()
    assert first.groups == again.groups
    assert first.submitted_s.tolist() != other.submitted_s.tolist()


def test_jobs_have_the_shape_of_philly() -> None:
    jobs = philly_like(rng(), jobs_per_day=1522, length_s=31 * DAY_S)
    assert len(jobs) == pytest.approx(31 * 1522, rel=0.05)
    assert np.all(np.diff(jobs.submitted_s) >= 0)
    assert jobs.submitted_s[-1] < 31 * DAY_S
    assert np.mean(jobs.devices == 1) == pytest.approx(0.953, abs=0.01)
    assert set(jobs.devices.tolist()) == {1, 2, 4, 8, 16, 32}
    single = jobs.duration_s[jobs.devices == 1]
    assert np.median(single) == pytest.approx(1661, rel=0.1)
    assert np.percentile(single, 99) == pytest.approx(104649, rel=0.25)
    hourly = np.histogram(jobs.submitted_s, np.arange(0, 31 * DAY_S + 1, 3600.0))[0]
    assert hourly.std() / hourly.mean() > 1.2  # Poisson arrivals at this rate would have 0.13
    device_h = float((jobs.duration_s * jobs.devices).sum()) / 3600 / (31 * 24)
    assert device_h == pytest.approx(589, rel=0.25)  # busy devices of the real October


def test_shapes_are_mostly_one_device_or_a_part_of_one() -> None:
    shapes = openb_like(rng(), 5000)
    assert np.mean([shape.devices == 1 for shape in shapes]) > 0.98
    assert np.mean([shape.device_milli < 1000 for shape in shapes]) == pytest.approx(
        0.436, abs=0.03
    )
    assert {shape.devices for shape in shapes} == {1, 2, 4, 8}


def test_requests_follow_the_day_and_keep_their_mean() -> None:
    shape = LoadShape(swing=0.5, peak_hour=12.0, bursts=0.0)
    load = azure_like(rng(), mean_per_s=10.0, length_s=7 * DAY_S, shape=shape, start_ns=MONDAY_NS)
    assert load.values.mean() == pytest.approx(10.0, rel=0.01)
    assert load.at(MONDAY_NS + 12 * 3600 * NS_PER_S) == pytest.approx(15.0)
    assert load.at(MONDAY_NS) == pytest.approx(5.0)


def test_weekends_can_be_quieter() -> None:
    shape = LoadShape(swing=0.0, weekend=0.5, bursts=0.0)
    load = azure_like(rng(), mean_per_s=8.0, length_s=7 * DAY_S, shape=shape, start_ns=MONDAY_NS)
    day_ns = round(DAY_S) * NS_PER_S
    assert [load.at(MONDAY_NS + day * day_ns) for day in range(7)] == [8.0] * 5 + [4.0] * 2


def test_bursts_have_the_spread_of_the_trace_or_of_a_given_profile() -> None:
    flat = LoadShape(swing=0.0)
    drawn = azure_like(rng(), mean_per_s=1.0, length_s=60 * DAY_S, shape=flat)
    assert drawn.values.std() / drawn.values.mean() == pytest.approx(0.43, abs=0.05)
    given = azure_like(
        rng(), mean_per_s=1.0, length_s=DAY_S, shape=flat, burst_profile=np.array([0.0, 2.0])
    )
    assert set(np.round(given.values, 9).tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("kind", CURVES)
def test_a_curve_keeps_its_mean_and_is_never_below_zero(kind: str) -> None:
    made = curve(rng(), Curve(300.0, kind, swing=0.5), hours=240, start_ns=MONDAY_NS)
    assert made.values.mean() == pytest.approx(300.0, rel=0.05)
    assert made.values.min() >= 0.0


def test_the_sun_makes_noon_cheap_where_the_grid_is() -> None:
    what = Curve(300.0, "solar", swing=0.5, noise=0.0, utc_offset_h=9.0)
    made = curve(rng(), what, hours=48, start_ns=MONDAY_NS)
    lowest = int(np.argmin(made.values[:24]))
    assert (lowest + 9) % 24 in (12, 13)
