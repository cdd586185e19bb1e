"""Loads and series with published shapes, for runs without data.

The figures below are summaries (shares, quantiles, spreads) of public traces, not their rows:
jobs of the Philly trace (Jeon et al., ATC'19), pods of openb (Weng et al., ATC'23), requests of
the Azure LLM trace (Patel et al., ISCA'24), hourly carbon and price curves of power grids.
Everything is drawn from the generator that is handed in, so a seed repeats a load exactly.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.series import HOUR_NS, Series
from dure.domain.units import NS_PER_S
from dure.sim.fleet.philly import JobTrace

Floats = NDArray[np.float64]
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
_EPOCH_WEEKDAY = 3
"""The Unix epoch began on a Thursday; Monday is 0."""

# --- jobs, as in Philly in October 2017 ----------------------------------------------------

_QUANTILES = np.array([0.0, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 1.0])
"""At which the durations below are given; between them durations are drawn evenly by logarithm."""


@dataclass(frozen=True, slots=True)
class _SizeClass:
    """Jobs that ask for the same number of devices."""

    devices: int
    share: float
    durations_s: tuple[float, ...]
    """At `_QUANTILES`."""


_PHILLY_SIZES = (
    _SizeClass(1, 0.9530, (5, 68, 563, 1661, 2933, 8368, 15202, 104649, 1.2e6)),
    _SizeClass(2, 0.0166, (3, 11, 14, 20, 20523, 196512, 308701, 869169, 1.5e6)),
    _SizeClass(4, 0.0168, (10, 145, 656, 26234, 96246, 192545, 303193, 1194458, 1.6e6)),
    _SizeClass(8, 0.0121, (10, 411, 4363, 76362, 197721, 379799, 591675, 1108249, 1.6e6)),
    _SizeClass(16, 0.0009, (10, 124, 290, 43810, 157653, 263387, 1112301, 1570929, 1.6e6)),
    _SizeClass(32, 0.0006, (60, 413, 47105, 50800, 55072, 60381, 64697, 70151, 1e5)),
)
_PHILLY_DAY = np.array(
    (
        *(1.46, 1.24, 1.45, 0.96, 0.46, 1.27, 1.83, 2.61, 1.10, 0.96, 0.78, 0.57),
        *(0.69, 0.50, 0.40, 0.39, 1.03, 0.68, 0.56, 0.47, 1.24, 0.90, 1.32, 1.12),
    )
)
"""Submissions by hour of the day (UTC) over their mean."""
_BURST_SIGMA = 1.15
"""Of the logarithm of an hour's submissions: their spread over the mean is 1.7."""
_BURST_MEMORY = 0.4
"""Correlation of one hour's submissions with the last one's."""
_GROUP_SHARES = (0.49, 0.17, 0.15, 0.13, 0.06)
"""Of the virtual clusters that submit most; the rest is counted to the last."""


def philly_like(
    rng: np.random.Generator, *, jobs_per_day: float, length_s: float, first_hour: int = 0
) -> JobTrace:
    """Jobs with a day's rhythm, bursts, heavy-tailed durations and mostly one device.

    `first_hour` is the hour of the day the load begins in.
    """
    hours = max(1, int(np.ceil(length_s / HOUR_S)))
    weights = _PHILLY_DAY[(first_hour + np.arange(hours)) % 24] * _bursts(
        rng, hours, _BURST_SIGMA, _BURST_MEMORY
    )
    weights /= weights.mean()
    counts = rng.poisson(jobs_per_day / 24.0 * weights)
    submitted = np.repeat(np.arange(hours), counts) * HOUR_S + rng.random(counts.sum()) * HOUR_S
    submitted = np.sort(submitted[submitted < length_s])
    count = len(submitted)
    shares = np.array([each.share for each in _PHILLY_SIZES])
    kinds = rng.choice(len(_PHILLY_SIZES), size=count, p=shares / shares.sum())
    ranks = rng.random(count)
    durations = np.empty(count)
    for number, size in enumerate(_PHILLY_SIZES):
        chosen = kinds == number
        logs = np.log(np.array(size.durations_s))
        durations[chosen] = np.exp(np.interp(ranks[chosen], _QUANTILES, logs))
    groups = rng.choice(len(_GROUP_SHARES), size=count, p=np.array(_GROUP_SHARES))
    return JobTrace(
        submitted,
        np.maximum(1.0, np.round(durations)),
        np.array([each.devices for each in _PHILLY_SIZES], dtype=np.int64)[kinds],
        tuple(f"vc-{group}" for group in groups),
    )


def _bursts(rng: np.random.Generator, steps: int, sigma: float, memory: float) -> Floats:
    """Log-normal factors with mean 1 that remember the last step."""
    noise = rng.standard_normal(steps) * np.sqrt(1.0 - memory**2)
    level = np.empty(steps)
    level[0] = rng.standard_normal()
    for step in range(1, steps):
        level[step] = memory * level[step - 1] + noise[step]
    return np.asarray(np.exp(sigma * level - sigma**2 / 2))


# --- shapes, as in openb -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shape:
    """What an instance asks for, beside its device memory."""

    devices: int
    device_milli: int
    """Of each device; 1000 is all of it."""
    cpu_milli: int
    host_memory_mib: int


_OPENB_SHAPES = (
    (0.5537, Shape(1, 1000, 11400, 48128)),
    (0.1526, Shape(1, 810, 8000, 30517)),
    (0.1243, Shape(1, 470, 4000, 15258)),
    (0.0531, Shape(1, 320, 4000, 15258)),
    (0.0564, Shape(1, 600, 6000, 20480)),
    (0.0391, Shape(1, 220, 3152, 5600)),
    (0.0102, Shape(1, 110, 2000, 4096)),
    (0.0062, Shape(8, 1000, 88000, 327680)),
    (0.0023, Shape(2, 1000, 16200, 66560)),
    (0.0021, Shape(4, 1000, 32200, 132096)),
)
"""Shares of shapes among pods with a GPU in the default list, near shapes taken together."""


def openb_like(rng: np.random.Generator, count: int) -> list[Shape]:
    """Shapes of so many pods: mostly one device or a part of one."""
    shares = np.array([share for share, _ in _OPENB_SHAPES])
    kinds = rng.choice(len(_OPENB_SHAPES), size=count, p=shares / shares.sum())
    return [_OPENB_SHAPES[kind][1] for kind in kinds]


# --- requests, as in the Azure LLM trace ---------------------------------------------------

LOAD_STEP_S = 300.0
"""Step of request rates: what an autoscaler can follow."""
_AZURE_SIGMA = 0.41
_AZURE_MEMORY = 0.59
"""Spread and memory of the trace's requests in steps of five minutes."""


@dataclass(frozen=True, slots=True)
class LoadShape:
    """How a service's requests vary around their mean."""

    swing: float = 0.5
    """Of the day's wave, as a share of the mean: 0.5 is from half to one and a half times it."""
    peak_hour: float = 13.0
    """When the wave is highest, UTC."""
    weekend: float = 1.0
    """Load on Saturdays and Sundays, over that of other days."""
    bursts: float = 1.0
    """Strength of short bursts: 1 is that of the Azure trace, 0 none."""


def azure_like(
    rng: np.random.Generator,
    *,
    mean_per_s: float,
    length_s: float,
    shape: LoadShape,
    start_ns: int = 0,
    burst_profile: Floats | None = None,
) -> Series:
    """Requests per second in steps of five minutes; their mean is about `mean_per_s`.

    `start_ns` is when the series begins, on the fleet's clock. `burst_profile` are factors (mean
    1) taken from a trace, of which random stretches are strung together; without it bursts are
    drawn with the trace's spread and memory.
    """
    steps = max(1, int(np.ceil(length_s / LOAD_STEP_S)))
    if burst_profile is None:
        factors = _bursts(rng, steps, _AZURE_SIGMA * shape.bursts, _AZURE_MEMORY)
    else:
        factors = np.maximum(0.0, 1.0 + shape.bursts * (_strung(rng, burst_profile, steps) - 1.0))
    seconds = start_ns / NS_PER_S + np.arange(steps) * LOAD_STEP_S
    wave = 1.0 + shape.swing * np.cos(2 * np.pi * (seconds / DAY_S - shape.peak_hour / 24.0))
    weekday = (seconds // DAY_S + _EPOCH_WEEKDAY).astype(np.int64) % 7
    wave *= np.where(weekday >= 5, shape.weekend, 1.0)
    return Series(mean_per_s * wave * factors, start_ns, round(LOAD_STEP_S * NS_PER_S))


def _strung(rng: np.random.Generator, profile: Floats, steps: int) -> Floats:
    """Stretches of an hour, or of the whole profile if that is shorter, from random starts."""
    stretch = min(len(profile), int(HOUR_S / LOAD_STEP_S))
    starts = rng.integers(0, len(profile), size=-(-steps // stretch))
    index = (starts[:, None] + np.arange(stretch)[None, :]) % len(profile)
    return np.asarray(profile[index.ravel()[:steps]])


# --- hourly curves of power grids ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Curve:
    """A grid's hourly carbon intensity or price around its mean."""

    mean: float
    kind: str = "flat"
    """`solar`: low at noon; `evening`: high when people come home; `wind`: slow drift; `flat`."""
    swing: float = 0.2
    """Of the regular part, as a share of the mean."""
    noise: float = 0.05
    """Of the irregular part, as a share of the mean."""
    utc_offset_h: float = 0.0
    """Of local time: the sun is high at noon where the grid is."""


CURVES = ("flat", "solar", "evening", "wind")
_DRIFT_MEMORY = 0.97
"""Of an hour for the last one where wind sets the level: it changes over about a day."""


def curve(rng: np.random.Generator, what: Curve, *, hours: int, start_ns: int = 0) -> Series:
    """An hourly series that begins at the full hour before `start_ns`, never below zero."""
    first = start_ns // HOUR_NS
    local = (first + np.arange(hours) + what.utc_offset_h) % 24.0
    match what.kind:
        case "solar":
            regular = 0.6 - 1.6 * np.exp(-(((local - 12.5) / 3.5) ** 2))
        case "evening":
            regular = -0.4 + 1.4 * np.exp(-(((local - 19.0) / 2.5) ** 2))
        case "wind":
            regular = np.clip(np.log(_bursts(rng, hours, 1.0, _DRIFT_MEMORY)) + 0.5, -2, 2) / 2
        case _:
            regular = np.zeros(hours)
    noise = rng.standard_normal(hours) * what.noise
    values = what.mean * (1.0 + what.swing * (regular - regular.mean()) + noise)
    return Series(np.maximum(0.0, values), first * HOUR_NS, HOUR_NS)
