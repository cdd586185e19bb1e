"""The usual value of a series moved: a two-sided cumulative sum over learned level and scale.

Deviations beyond half a scale add up until they are too many to be chance; so do those beyond a
whole one, which sees large changes sooner. Where neighbouring values are alike, chance brings
longer runs, so the bounds are raised by as much. While a sum is well on its way nothing is
learned, and after an alarm the new level is learned from the values since it began to grow.
"""

import math
from dataclasses import dataclass, field

from dure.telemetry.ports import Finding
from dure.telemetry.usual import Usual, finite, independent_every

_CLIP = 4.0
_SLACK_TIMES_BOUND = 7.5
"""Independent normal values exceed a bound about once in e to the twice of this, times the bound;
heavier tails more often, which the clip bounds."""
_SLACKS = (0.5, 1.0)
_ON_ITS_WAY = 0.4
"""Part of its bound from which on a sum stops learning."""
_MOST_KEPT = 64
_FIRST = 100
"""Values before anything is said: how alike neighbours are is not known from fewer."""


@dataclass(slots=True)
class _Side:
    """One direction at one slack."""

    sign: float
    slack: float
    sum: float = 0.0
    values: list[float] = field(default_factory=list)
    """Since the sum last was zero, the newest few."""

    def add(self, score: float, value: float) -> None:
        self.sum = max(0.0, self.sum + self.sign * score - self.slack)
        if self.sum == 0.0:
            self.values.clear()
        else:
            self.values.append(value)
            del self.values[:-_MOST_KEPT]

    def done(self, alike: float) -> float:
        """The sum as a part of its bound."""
        return self.sum * self.slack / (_SLACK_TIMES_BOUND * alike)


def _sides() -> tuple[_Side, ...]:
    return tuple(_Side(sign, slack) for slack in _SLACKS for sign in (1.0, -1.0))


@dataclass(slots=True)
class ChangeDetector:
    """Sees a lasting change of one series."""

    usual: Usual = field(default_factory=Usual)
    _sums: tuple[_Side, ...] = field(default_factory=_sides)

    def observe(self, value: float) -> Finding | None:
        """Take in a value; a finding when the level has moved."""
        if not finite(value):
            return None
        if self.usual.seen < _FIRST:
            self.usual.learn(value)
            return None
        score = max(-_CLIP, min(_CLIP, self.usual.score(value)))
        alike = independent_every(self.usual.likeness)
        for side in self._sums:
            side.add(score, value)
        furthest = max(self._sums, key=lambda side: side.done(alike))
        done = furthest.done(alike)
        if done < _ON_ITS_WAY:
            self.usual.learn(value)
        if done < 1.0:
            return None
        before = self.usual.level
        self.usual.begin_anew(furthest.values)
        self._sums = _sides()
        chance = math.exp(-2.0 * _SLACK_TIMES_BOUND * done)
        return Finding(1.0 - chance, done, before, self.usual.level)
