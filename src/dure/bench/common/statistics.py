"""Figures of measurements: percentiles, attainment, intervals from resampled repeats."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 1000
CONFIDENCE = 0.95

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure over all repeats, and the interval in which it lay when repeats were redrawn."""

    value: float
    low: float
    high: float
    repeats: int

    @property
    def known(self) -> bool:
        return math.isfinite(self.value)


UNKNOWN = Estimate(math.nan, math.nan, math.nan, 0)


def percentile(values: "Sequence[float] | Values", percent: float) -> float:
    """Nearest rank; not a number where there is nothing."""
    count = len(values)
    if not count:
        return math.nan
    rank = max(0, math.ceil(percent / 100.0 * count) - 1)
    return float(np.partition(np.asarray(values, dtype=np.float64), rank)[rank])


def on_time_share(
    latencies_ms: Sequence[float], unserved_ms: Sequence[float], target_ms: float
) -> float:
    """Share of the requests that arrived in the window and were answered within the target."""
    arrived = len(latencies_ms) + len(unserved_ms)
    if not arrived:
        return math.nan
    return sum(value <= target_ms for value in latencies_ms) / arrived


def mean(values: "Sequence[float] | Values") -> float:
    """The mean; not a number where there is nothing."""
    return float(np.mean(np.asarray(values, dtype=np.float64))) if len(values) else math.nan


def bootstrap(
    repeats: Sequence[Sequence[float]],
    figure: "Callable[[Values], float]",
    *,
    seed: int = 1,
    resamples: int = RESAMPLES,
) -> Estimate:
    """A figure of the values of all repeats together, with the interval over whole repeats.

    Repeats are drawn again with replacement, since values within one are not independent.
    """
    if not repeats:
        return UNKNOWN
    parts = [np.asarray(repeat, dtype=np.float64) for repeat in repeats]
    whole = figure(np.concatenate(parts))
    if len(parts) == 1:
        return Estimate(whole, math.nan, math.nan, 1)
    rng = np.random.default_rng(seed)
    draws = rng.integers(len(parts), size=(resamples, len(parts)))
    if figure is mean and all(len(part) == 1 for part in parts):
        drawn = sorted(np.concatenate(parts)[draws].mean(axis=1).tolist())
    else:
        drawn = sorted(figure(np.concatenate([parts[at] for at in draw])) for draw in draws)
    tail = (1.0 - CONFIDENCE) / 2.0
    return Estimate(
        whole,
        drawn[math.floor(tail * (resamples - 1))],
        drawn[math.ceil((1.0 - tail) * (resamples - 1))],
        len(parts),
    )


def efficiency(best_effort_share: float, busy_share: float) -> float:
    """Best effort over what would be left for it if the service's time were simply taken away."""
    return best_effort_share / (1.0 - busy_share) if busy_share < 1.0 else math.nan
