"""What is usual in a series: level, scale, how alike neighbours are; outliers count for little."""

import math
from dataclasses import dataclass, field

import numpy as np

_FIRST = 24
"""Values before anything is said: their median and spread start the estimates."""
_CLIP = 3.0
"""Deviations are taken in up to so many scales: an outlier moves the estimates like a large
usual value, no further."""
_SCALE_OF_MEAN_DEVIATION = 1.2533
"""Standard deviation over mean absolute deviation, of a normal distribution."""
_SCALE_OF_MEDIAN_DEVIATION = 1.4826
_LEAST_SCALE = 1e-3
"""As a part of the level: a constant series still has a scale."""


@dataclass(slots=True)
class Usual:
    """Learns one series value by value."""

    memory: int = 300
    """About how many values back it remembers."""
    level: float = 0.0
    scale: float = 0.0
    likeness: float = 0.0
    """Correlation of neighbouring deviations."""
    seen: int = 0
    _first: list[float] = field(default_factory=list)
    _before: float = 0.0

    @property
    def known(self) -> bool:
        """Whether enough was seen."""
        return self.scale > 0.0

    def score(self, value: float) -> float:
        """A value's distance from what is usual, in scales; 0 while nothing is known."""
        return (value - self.level) / self.scale if self.known else 0.0

    def learn(self, value: float) -> None:
        """Take in a value."""
        self.seen += 1
        if not self.known:
            self._first.append(value)
            if len(self._first) >= _FIRST:
                self._start()
            return
        step = max(1.0 / self.memory, 1.0 / self.seen)
        score = self.score(value)
        clipped = max(-_CLIP, min(_CLIP, score))
        self.level += step * clipped * self.scale
        deviation = abs(clipped) * self.scale * _SCALE_OF_MEAN_DEVIATION
        self.scale = max(self.scale + step * (deviation - self.scale), self._least())
        self.likeness += step * (clipped * self._before - self.likeness)
        self._before = clipped

    def begin_anew(self, values: list[float]) -> None:
        """The series moved: learn its level from these, keep its scale."""
        self.level = float(np.median(values))

    def _start(self) -> None:
        values = np.array(self._first)
        self.level = float(np.median(values))
        deviation = float(np.median(np.abs(values - self.level)))
        self.scale = max(_SCALE_OF_MEDIAN_DEVIATION * deviation, float(values.std()) * 0.5)
        self.scale = max(self.scale, self._least())
        scores = np.clip((values - self.level) / self.scale, -_CLIP, _CLIP)
        self.likeness = float((scores[1:] * scores[:-1]).mean())
        self._first.clear()

    def _least(self) -> float:
        return max(abs(self.level) * _LEAST_SCALE, 1e-12)


def independent_every(likeness: float) -> float:
    """How many neighbouring values say as much as one independent value."""
    bounded = max(0.0, min(0.95, likeness))
    return (1.0 + bounded) / (1.0 - bounded)


def finite(value: float) -> bool:
    """Whether a value can be learned from; what cannot is left out by every detector."""
    return math.isfinite(value)
