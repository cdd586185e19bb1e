import math

import numpy as np
import pytest

from dure.telemetry.anomaly import AnomalyDetector
from dure.telemetry.change import ChangeDetector
from dure.telemetry.lines import fit_line
from dure.telemetry.ports import Detector
from dure.telemetry.usual import Usual


def noise(seed: int, count: int, likeness: float = 0.0) -> list[float]:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=count)
    for index in range(1, count):
        values[index] = likeness * values[index - 1] + math.sqrt(1 - likeness**2) * values[index]
    return [float(value) for value in values]


def findings(detector: Detector, values: list[float]) -> list[int]:
    return [index for index, value in enumerate(values) if detector.observe(value) is not None]


@pytest.mark.parametrize("likeness", [0.0, 0.8])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_quiet_series_of_any_scale_give_no_alarm(likeness: float, scale: float) -> None:
    values = [scale * (10.0 + value) for value in noise(1, 5000, likeness)]
    assert findings(ChangeDetector(), values) == []
    assert findings(AnomalyDetector(), values) == []


def test_a_level_that_moves_is_seen_soon_and_learned() -> None:
    values = noise(2, 600)
    values[300:] = [value + 3.0 for value in values[300:]]
    detector = ChangeDetector()
    found = findings(detector, values)
    assert 300 <= found[0] <= 312
    assert detector.usual.level == pytest.approx(3.0, abs=0.7)


def test_one_value_off_is_an_anomaly_and_no_change() -> None:
    values = noise(3, 600)
    values[400] += 12.0
    assert findings(AnomalyDetector(), values) == [400]
    assert findings(ChangeDetector(), values) == []


def test_a_series_that_often_jumps_needs_a_larger_jump() -> None:
    rng = np.random.default_rng(4)
    calm, jumpy = AnomalyDetector(), AnomalyDetector()
    for value in rng.normal(size=3000):
        calm.observe(float(value))
    for value in rng.laplace(size=3000):
        jumpy.observe(float(value))
    assert jumpy.bound() > calm.bound()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_left_out(value: float) -> None:
    change, anomaly = ChangeDetector(), AnomalyDetector()
    for each in (*noise(5, 100), value):
        assert change.observe(each) is None
        assert anomaly.observe(each) is None


def test_an_outlier_moves_what_is_usual_no_further_than_a_large_usual_value() -> None:
    usual = Usual()
    for value in noise(6, 200):
        usual.learn(value)
    before = usual.level
    usual.learn(1e12)
    assert abs(usual.level - before) < 0.05


def test_a_line_knows_its_uncertainty() -> None:
    rng = np.random.default_rng(7)
    errors = []
    for _ in range(400):
        values = 5.0 + 0.5 * np.arange(20) + rng.normal(size=20)
        line = fit_line(values, 1.0, 1.0)
        errors.append((line.at(10.0) - (5.0 + 0.5 * 29)) / line.deviation(10.0))
    assert np.std(errors) == pytest.approx(1.0, abs=0.12)
    assert abs(float(np.mean(errors))) < 0.15


def test_a_line_says_when_it_gets_to_a_limit() -> None:
    line = fit_line(np.arange(10.0), 1.0, 0.01)
    assert line.reaches_s(14.0) == pytest.approx(5.0)
    assert line.reaches_s(3.0) == 0.0
    assert fit_line(np.arange(10.0)[::-1].copy(), 1.0, 0.01).reaches_s(100.0) == math.inf
