"""A value far outside what is usual, by the series' own tail.

How often values lie beyond two scales, and by how much, is learned per series; beyond that tails
fall off about exponentially. So a series that often jumps needs a larger jump for an alarm than
one that never does, and the rate of false alarms is the same for both.
"""

import math
from dataclasses import dataclass, field

from dure.telemetry.ports import Finding
from dure.telemetry.usual import Usual, finite

_TAIL_FROM = 2.0
_TAIL_STEP = 0.02
_CHANCE = 1e-5
"""How rarely a usual value may be called an anomaly."""
_LEAST_SCORE = 4.5
_CLIP = 12.0


@dataclass(slots=True)
class AnomalyDetector:
    """Sees single values that do not belong to one series."""

    usual: Usual = field(default_factory=Usual)
    chance: float = _CHANCE
    _beyond_share: float = 0.0455
    """Of values beyond two scales; at first that of a normal distribution."""
    _excess: float = 0.37
    """Mean distance beyond them, likewise."""

    def observe(self, value: float) -> Finding | None:
        """Take in a value; a finding if it is an anomaly."""
        if not finite(value):
            return None
        if not self.usual.known:
            self.usual.learn(value)
            return None
        size = abs(self.usual.score(value))
        bound = self.bound()
        level = self.usual.level
        self.usual.learn(value)
        self._learn_tail(min(size, bound * 1.5, _CLIP))
        if size <= bound:
            return None
        chance = self._beyond_share * math.exp(-(size - _TAIL_FROM) / self._excess)
        return Finding(1.0 - min(1.0, chance), size / bound, level, value)

    def bound(self) -> float:
        """How many scales from usual a value must be."""
        beyond = max(self._beyond_share / self.chance, 1.0)
        return max(_LEAST_SCORE, _TAIL_FROM + self._excess * math.log(beyond))

    def _learn_tail(self, size: float) -> None:
        beyond = size > _TAIL_FROM
        self._beyond_share += (float(beyond) - self._beyond_share) / self.usual.memory
        if beyond:
            self._excess += _TAIL_STEP * (size - _TAIL_FROM - self._excess)
