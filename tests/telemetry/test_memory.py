import numpy as np
import pytest

from dure.domain.risks import RiskKind
from dure.domain.units import GIB
from dure.telemetry.lines import Floats
from dure.telemetry.memory import MemoryWatch

CAPACITY = 80.0 * GIB


def watch(values: list[float]) -> list[tuple[int, float | None]]:
    made = MemoryWatch("memory", 1.0, 300.0)
    found = [(step, made.observe(value, CAPACITY)) for step, value in enumerate(values)]
    return [
        (step, None if risk.violation_in_ns is None else risk.violation_in_ns / 1e9)
        for step, risk in found
        if risk is not None
    ]


def noisy(values: Floats) -> list[float]:
    rng = np.random.default_rng(1)
    return [float(value) for value in values + 0.1 * GIB * rng.normal(size=len(values))]


def test_a_leak_is_foretold_with_when_it_is_full() -> None:
    leak = np.asarray(20.0 * GIB + 0.1 * GIB * np.arange(600.0), np.float64)
    step, soon_s = watch(noisy(leak))[0]
    assert step < 350
    assert soon_s == pytest.approx(600 - step, rel=0.1)


def test_a_model_that_is_loaded_is_no_leak() -> None:
    values = np.full(400, 10.0 * GIB)
    values[200:] += 50.0 * GIB
    assert watch(noisy(values)) == []


def test_memory_that_goes_up_and_down_is_no_leak() -> None:
    assert watch(noisy(40.0 * GIB + 10.0 * GIB * np.sin(np.arange(600) / 10.0))) == []


def test_the_risk_says_how_much_and_how_fast() -> None:
    made = MemoryWatch("memory", 1.0, 300.0)
    found = [made.observe(60.0 * GIB + 0.1 * GIB * step, CAPACITY) for step in range(80)]
    assert found[-1] is not None
    assert found[-1].kind is RiskKind.MEMORY
    assert "a minute" in found[-1].reason
