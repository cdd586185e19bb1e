"""A forecast of one series with the seasons of day and week: load, prices, carbon.

The value of a step is a level, plus what this step of the day usually adds, plus what this step
of the week adds to that. The level follows the latest deviation, whose fading is learned; a slow
trend moves the whole. That "as now" is sometimes the better guess is learned as well: both are
scored against what came, at several horizons, and weighed by their errors.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from dure.telemetry.lines import Floats

_HORIZON_PARTS = (1 / 24, 1 / 4, 1.0)
"""Of a day, where guesses are scored: an hour, six, a day."""
_DAY_STEP = 0.15
"""How fast a step of the day is learned: about a week's memory."""
_WEEK_STEP = 0.3
_LEVEL_STEP = 0.02
"""How fast the level follows while the seasons are not known."""
_TREND_STEP = 0.02
"""Per day."""
_SCORE_KEEP = 0.99
_FADE_KEEP = 0.995
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected of one step, with its error so far."""

    mean: float
    deviation: float


@dataclass(slots=True)
class SeasonalForecast:
    """Learns one series at equal steps."""

    steps_a_day: int
    _day: Floats = field(init=False)
    _day_seen: Floats = field(init=False)
    _week: Floats = field(init=False)
    _week_seen: Floats = field(init=False)
    _level: float = 0.0
    _trend: float = 0.0
    """Per step."""
    _deviation: float = 0.0
    _fade: tuple[float, float] = (0.9, 1.0)
    """Sums of products of neighbouring deviations and of their squares."""
    _last: float = math.nan
    _step: int = -1
    _values: int = 0
    _hops: tuple[int, ...] = field(init=False)
    _due: dict[int, list[tuple[int, float, float]]] = field(default_factory=dict)
    """By step: index of the horizon, and what was guessed by season and as now."""
    _squares: Floats = field(init=False)
    """By horizon: mean squared error by season, as now, and of what was answered."""

    def __post_init__(self) -> None:
        a_day = self.steps_a_day
        self._day, self._day_seen = np.zeros(a_day), np.zeros(a_day)
        self._week, self._week_seen = np.zeros(7 * a_day), np.zeros(7 * a_day)
        self._hops = tuple(sorted({max(1, round(part * a_day)) for part in _HORIZON_PARTS}))
        self._squares = np.zeros((len(self._hops), 3))

    def observe(self, step: int, value: float) -> None:
        """Take in the value of a step; steps grow, those that are left out are not known."""
        if not math.isfinite(value) or step <= self._step:
            return
        self._score(step, value)
        first = self._step < 0
        gap = max(1, step - self._step) if not first else 1
        self._step, self._last = step, value
        self._values += 1
        if first:
            self._level = value
        self._learn(step, value, gap)
        for index, hop in enumerate(self._hops):
            due = self._due.setdefault(step + hop, [])
            due.append((index, self._seasonal(hop), value))

    def ahead(self, hop: int) -> Forecast:
        """So many steps after the latest value; not a number before there is one."""
        if self._step < 0:
            return Forecast(math.nan, math.nan)
        season, lasting, answered = self._squares_at(hop)
        share = self._share(season, lasting)
        mean = share * self._seasonal(hop) + (1.0 - share) * self._last
        return Forecast(mean, math.sqrt(answered))

    def _share(self, season: float, lasting: float) -> float:
        """Weight of the seasonal guess: by how much smaller its squared errors are."""
        return (lasting**2 + _TINY) / (season**2 + lasting**2 + 2.0 * _TINY)

    def _profile(self, step: int) -> float:
        return float(self._day[step % self.steps_a_day] + self._week[step % (7 * self.steps_a_day)])

    def _seasonal(self, hop: int) -> float:
        faded = self._deviation * self._fading() ** hop
        return self._level + self._trend * hop + self._profile(self._step + hop) + faded

    def _fading(self) -> float:
        return max(0.0, min(0.995, self._fade[0] / max(self._fade[1], _TINY)))

    def _learn(self, step: int, value: float, gap: int) -> None:
        day, week = step % self.steps_a_day, step % (7 * self.steps_a_day)
        self._level += self._trend * gap
        whole = value - self._level - self._profile(step)
        part = whole - self._deviation * self._fading() ** gap if gap > 1 else whole
        products = self._fade[0] * _FADE_KEEP + self._deviation * part
        squares = self._fade[1] * _FADE_KEEP + self._deviation**2
        self._fade = (products, squares)
        self._deviation = whole
        self._day_seen[day] += 1
        self._week_seen[week] += 1
        if self._day_seen[day] == 1:  # no season is known of it: what is usual is the mean
            self._level += max(_LEVEL_STEP, 1.0 / self._values) * (value - self._level)
        day_step = max(_DAY_STEP, 1.0 / self._day_seen[day])
        self._day[day] += day_step * (value - self._level - self._day[day])
        if self._day_seen[day] > 7:
            week_step = max(_WEEK_STEP, 1.0 / self._week_seen[week])
            rest = value - self._level - self._day[day]
            self._week[week] += week_step * 0.5 * (rest - self._week[week])
        # The profile keeps no level of its own: what all steps share is the level's.
        mean = float(self._day.sum() / max((self._day_seen > 0).sum(), 1))
        pull = mean / self.steps_a_day
        self._level += pull
        self._day[self._day_seen > 0] -= pull
        self._trend += _TREND_STEP / self.steps_a_day * (pull / max(gap, 1) - self._trend)

    def _score(self, step: int, value: float) -> None:
        for missed in [due for due in self._due if due < step]:
            del self._due[missed]
        for index, seasonal, lasting in self._due.pop(step, []):
            season, last, _ = self._squares[index]
            share = self._share(float(season), float(last))
            answered = share * seasonal + (1.0 - share) * lasting
            errors = np.array([seasonal - value, lasting - value, answered - value]) ** 2
            keep = _SCORE_KEEP if self._squares[index].any() else 0.0
            self._squares[index] = keep * self._squares[index] + (1.0 - keep) * errors

    def _squares_at(self, hop: int) -> tuple[float, float, float]:
        columns = (np.interp(hop, self._hops, self._squares[:, column]) for column in range(3))
        season, lasting, answered = (float(value) for value in columns)
        return season, lasting, answered
