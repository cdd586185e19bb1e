"""Detectors on made series with labelled faults, beside fixed thresholds and the library river.

Thresholds and river get their best chance: of a grid of settings the one with the best balance
of precision and recall on training seeds. All are scored on other seeds.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from dure.learners.river import river_detector
from dure.sim.risk.faults import LENGTH, STEP_S, Fault, LabelledSeries, make_series
from dure.sim.risk.scoring import Judged, Score, episodes, score
from dure.telemetry.anomaly import AnomalyDetector
from dure.telemetry.change import ChangeDetector
from dure.telemetry.memory import MemoryWatch
from dure.telemetry.ports import Detector
from dure.telemetry.signs import DeviceReading, ThrashWatch, ThrottleWatch

OWN = "Dure"
TRAINING_SEEDS = range(1000, 1040)
_FIRST_STEPS = 300
"""What a threshold is set from: the mean of so many first values."""
_HOLD_S = 60.0
_LATE_S = 60.0
_HORIZON_S = 300.0

Alarms = Callable[[LabelledSeries], Iterator[bool]]
"""For each step, whether an alarm is on."""


def _by_detector(make: Callable[[], Detector], series: LabelledSeries) -> Iterator[bool]:
    detector = make()
    for value in series.values:
        yield detector.observe(float(value)) is not None


def _memory(series: LabelledSeries) -> Iterator[bool]:
    watch = MemoryWatch("memory", STEP_S, _HORIZON_S)
    for used, capacity in zip(series.values, series.other, strict=True):
        yield watch.observe(float(used), float(capacity)) is not None


def _clock(series: LabelledSeries) -> Iterator[bool]:
    watch = ThrottleWatch("clock")
    for clock, admits in zip(series.values, series.other, strict=True):
        yield watch.observe(DeviceReading(1.0, float(clock), bool(admits))) is not None


def _work(series: LabelledSeries) -> Iterator[bool]:
    watch = ThrashWatch("work")
    for speed, copied in zip(series.values, series.other, strict=True):
        yield watch.observe(float(speed), float(copied)) is not None


def _apart(limit: float, series: LabelledSeries) -> Iterator[bool]:
    """A value further from the first mean than a part of it."""
    mean = float(series.values[:_FIRST_STEPS].mean())
    for index, value in enumerate(series.values):
        yield index >= _FIRST_STEPS and abs(float(value) - mean) > limit * mean


def _filled(limit: float, series: LabelledSeries) -> Iterator[bool]:
    for used, capacity in zip(series.values, series.other, strict=True):
        yield float(used) > limit * float(capacity)


def _below(limit: float, series: LabelledSeries) -> Iterator[bool]:
    mean = float(series.values[:_FIRST_STEPS].mean())
    for index, value in enumerate(series.values):
        yield index >= _FIRST_STEPS and float(value) < limit * mean


_OWN: dict[Fault, Alarms] = {
    Fault.LEVEL: partial(_by_detector, ChangeDetector),
    Fault.SPIKE: partial(_by_detector, AnomalyDetector),
    Fault.LEAK: _memory,
    Fault.THROTTLE: _clock,
    Fault.THRASH: _work,
}
_THRESHOLDS: dict[Fault, tuple[Callable[[float, LabelledSeries], Iterator[bool]], Sequence[float]]]
_THRESHOLDS = {
    Fault.LEVEL: (_apart, np.geomspace(0.05, 2.0, 16).tolist()),
    Fault.SPIKE: (_apart, np.geomspace(0.05, 4.0, 16).tolist()),
    Fault.LEAK: (_filled, np.linspace(0.5, 0.98, 13).tolist()),
    Fault.THROTTLE: (_below, np.linspace(0.5, 0.98, 13).tolist()),
    Fault.THRASH: (_below, np.linspace(0.1, 0.95, 18).tolist()),
}
_CHANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
_RIVER = {
    Fault.LEVEL: "river-adwin",
    Fault.SPIKE: "river-trees",
    Fault.THROTTLE: "river-adwin",
    Fault.THRASH: "river-adwin",
}


def score_series(fault: Fault, seeds: Sequence[int], *, river: bool) -> tuple[Score, ...]:
    """Every detector for one kind of fault, on these seeds."""
    held_out = [make_series(fault, seed) for seed in seeds]
    found = [_scored(OWN, _OWN[fault], held_out)]
    alarms, grid = _THRESHOLDS[fault]
    training = [make_series(fault, seed) for seed in TRAINING_SEEDS]
    best = max(grid, key=lambda limit: _scored("", partial(alarms, limit), training).balance)
    found.append(_scored(f"threshold {best:.2g}", partial(alarms, best), held_out))
    if river and fault in _RIVER:
        name = _RIVER[fault]

        def by_river(chance: float) -> Alarms:
            return partial(_by_detector, partial(river_detector, name, chance))

        best = max(_CHANCES, key=lambda chance: _scored("", by_river(chance), training).balance)
        found.append(_scored(f"{name} {best:g}", by_river(best), held_out))
    return tuple(found)


def _scored(name: str, alarms: Alarms, series: Sequence[LabelledSeries]) -> Score:
    return score(name, [_judged(alarms, each) for each in series])


def _judged(alarms: Alarms, series: LabelledSeries) -> Judged:
    flags = ((step * STEP_S, on) for step, on in enumerate(alarms(series)))
    return Judged(
        alarms_s=episodes(flags, _HOLD_S),
        onset_s=None if series.onset is None else series.onset * STEP_S,
        violation_s=None if series.violation is None else series.violation * STEP_S,
        length_s=LENGTH * STEP_S,
        late_s=0.0 if series.violation is not None else _LATE_S,
    )
