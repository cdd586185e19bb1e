"""A straight line through recent values, with how uncertain it is: where a series will be soon."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Line:
    """Value and slope at the end of the window it was fitted to."""

    level: float
    slope_per_s: float
    level_variance: float
    slope_variance: float
    covariance: float

    def at(self, ahead_s: float) -> float:
        """The value expected so far ahead."""
        return self.level + self.slope_per_s * ahead_s

    def deviation(self, ahead_s: float) -> float:
        """Standard error of that expectation."""
        variance = (
            self.level_variance
            + 2.0 * ahead_s * self.covariance
            + ahead_s * ahead_s * self.slope_variance
        )
        return math.sqrt(max(variance, 0.0))

    @property
    def slope_score(self) -> float:
        """The slope in its own standard errors."""
        return self.slope_per_s / math.sqrt(max(self.slope_variance, 1e-30))

    def above(self, limit: float, ahead_s: float, limit_deviation: float = 0.0) -> float:
        """How likely the value is above a limit so far ahead; the limit may be uncertain too."""
        spread = math.hypot(self.deviation(ahead_s), limit_deviation)
        return normal_share((self.at(ahead_s) - limit) / max(spread, 1e-12))

    def reaches_s(self, limit: float) -> float:
        """When the expected value gets to a limit: 0 if it is there, infinite if it never does."""
        if self.level >= limit:
            return 0.0
        return (limit - self.level) / self.slope_per_s if self.slope_per_s > 0.0 else math.inf


def fit_line(values: Floats, step_s: float, variance: float) -> Line:
    """Least squares over values `step_s` apart, each with this variance; two at least."""
    count = len(values)
    mean = float(values.mean())
    offsets = (np.arange(count) - (count - 1) / 2.0) * step_s
    spread = float(offsets @ offsets)
    slope = float(offsets @ values) / spread
    end = (count - 1) / 2.0 * step_s
    slope_variance = variance / spread
    return Line(
        level=mean + slope * end,
        slope_per_s=slope,
        level_variance=variance / count + end * end * slope_variance,
        slope_variance=slope_variance,
        covariance=end * slope_variance,
    )


def since_step(values: Floats, variance: float, surely: float) -> int:
    """How many values there are since a step that explains them better than a line does.

    Better by at least so many variances of a value in the sum of squares; 0 where none does.
    """
    count = len(values)
    centred = values - values.mean()
    offsets = np.arange(count) - (count - 1) / 2.0
    by_line = float(offsets @ centred) ** 2 / float(offsets @ offsets)
    after = np.arange(count - 1, 0, -1)
    sums = np.cumsum(centred[::-1])[::-1][1:]
    by_step = sums**2 * count / (after * (count - after))
    best = int(np.argmax(by_step))
    return int(after[best]) if by_step[best] - by_line > surely * variance else 0


def normal_share(score: float) -> float:
    """Share of a normal distribution below so many standard deviations."""
    return 0.5 * math.erfc(-score / math.sqrt(2.0))
