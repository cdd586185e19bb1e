"""Made series with labelled faults: what a metric looks like when something goes wrong, and when.

Level, scatter and how alike neighbours are differ from series to series over orders of magnitude,
as they do between tenants and devices. Half of the series of each kind are quiet, and the memory
of half of those grows once, as when a model is loaded.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from dure.telemetry.lines import Floats

STEP_S = 1.0
LENGTH = 1800
"""Half an hour."""
_ONSET = (600, 1500)


class Fault(Enum):
    """What goes wrong."""

    LEVEL = "level moves"
    SPIKE = "one value off"
    LEAK = "memory leaks"
    THROTTLE = "clock falls"
    THRASH = "work gives way to copies"


@dataclass(frozen=True, slots=True)
class LabelledSeries:
    """One or two series at equal steps, and the truth about them."""

    fault: Fault
    seed: int
    values: Floats
    other: Floats
    """Of a leak the capacity, of a clock whether the device admits it, of work what is copied."""
    onset: int | None
    """The step at which it begins; None: nothing is wrong."""
    violation: int | None = None
    """The step at which harm is done, where that is later."""


def make_series(fault: Fault, seed: int) -> LabelledSeries:
    """The series of a seed; odd seeds are quiet."""
    rng = np.random.default_rng([seed, list(Fault).index(fault)])
    onset = int(rng.integers(*_ONSET)) if seed % 2 == 0 else None
    if fault is Fault.LEAK:
        return _leak(rng, seed, onset)
    if fault is Fault.THROTTLE:
        return _throttle(rng, seed, onset)
    if fault is Fault.THRASH:
        return _thrash(rng, seed, onset)
    values = _usual(rng)
    scatter = float(np.std(values[:300]))
    if onset is not None and fault is Fault.LEVEL:
        values[onset:] += float(rng.choice([-1.0, 1.0])) * float(rng.uniform(2.0, 5.0)) * scatter
    elif onset is not None:
        values[onset] += float(rng.choice([-1.0, 1.0])) * float(rng.uniform(8.0, 15.0)) * scatter
    return LabelledSeries(fault, seed, values, np.zeros(LENGTH), onset)


def _usual(rng: np.random.Generator) -> Floats:
    """A steady series of unknown level and scatter; neighbours may be alike, tails heavy."""
    level = 10.0 ** float(rng.uniform(0.0, 4.0))
    scatter = level * float(rng.uniform(0.02, 0.2))
    likeness = float(rng.choice([0.0, 0.5, 0.8]))
    noise = rng.standard_t(8, LENGTH) if rng.random() < 0.3 else rng.normal(size=LENGTH)
    for index in range(1, LENGTH):
        noise[index] = likeness * noise[index - 1] + np.sqrt(1 - likeness**2) * noise[index]
    values: Floats = level + scatter * noise
    return values


def _leak(rng: np.random.Generator, seed: int, onset: int | None) -> LabelledSeries:
    capacity = 2.0 ** float(rng.uniform(33.0, 37.0))
    used = capacity * float(rng.uniform(0.2, 0.5))
    values = used + capacity * 0.01 * np.sin(np.arange(LENGTH) / float(rng.uniform(5.0, 30.0)))
    values += capacity * 0.005 * rng.normal(size=LENGTH)
    violation = None
    if onset is not None:
        full_in = int(rng.integers(200, LENGTH - onset)) if LENGTH - onset > 200 else 200
        values[onset:] += (capacity - used) * np.arange(LENGTH - onset) / full_in
        full = np.flatnonzero(values >= capacity)
        violation = int(full[0]) if len(full) else None
    elif seed % 4 == 1:
        values[int(rng.integers(*_ONSET)) :] += capacity * float(rng.uniform(0.2, 0.4))
    onset = onset if violation is not None else None
    return LabelledSeries(
        Fault.LEAK, seed, np.minimum(values, capacity), np.full(LENGTH, capacity), onset, violation
    )


def _throttle(rng: np.random.Generator, seed: int, onset: int | None) -> LabelledSeries:
    clock = float(rng.uniform(1200.0, 2000.0))
    values = clock * (1.0 + 0.01 * rng.normal(size=LENGTH))
    admits = np.zeros(LENGTH)
    for _ in range(10):
        begin = int(rng.integers(0, LENGTH - 3))
        values[begin : begin + 2] *= 0.8
    if onset is not None:
        values[onset:] *= 1.0 - float(rng.uniform(0.08, 0.4))
        admits[onset:] = float(rng.random() < 0.7)
    return LabelledSeries(Fault.THROTTLE, seed, values, admits, onset)


def _thrash(rng: np.random.Generator, seed: int, onset: int | None) -> LabelledSeries:
    values = _usual(rng)
    copied = 10.0 ** float(rng.uniform(6.0, 9.0)) * rng.lognormal(0.0, 0.3, LENGTH)
    if onset is not None:
        values[onset:] *= float(rng.uniform(0.2, 0.6))
        copied[onset:] *= float(rng.uniform(4.0, 20.0))
    elif seed % 4 == 1:
        copied[int(rng.integers(*_ONSET)) :] *= 6.0
    return LabelledSeries(Fault.THRASH, seed, np.maximum(values, 0.0), copied, onset)
