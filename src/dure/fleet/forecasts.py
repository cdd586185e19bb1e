"""Forecasts of prices, carbon and load: what this hour usually brings, and how today differs.

For many series at once. Each is predicted twice: *persistence* says that the present lasts;
*seasonal* says what this hour of the day (and of the week, once it is known) usually brings, plus
today's deviation, which fades as fast as it was seen to. Both are scored against what really came,
at three horizons; the answer weighs them by these scores. So on a series without seasons it does
no worse than persistence in the long run, and its own error is always known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from dure.domain.errors import InputError
from dure.domain.fleet.series import DAY_NS, HOUR_NS, Floats, Series

HORIZONS_H = (1, 6, 24)
"""Hours ahead at which forecasts are scored: the next decision, a deferral, a day."""

_DAY_STEP = 0.25
"""How fast the profile of a day follows: about four days' memory."""
_WEEK_STEP = 0.35
"""How fast the week's deviations from it follow: about three weeks' memory."""
_LEVEL_STEP = 0.8
"""How fast today's deviation follows the latest value."""
_FADE_KEEP = 0.98
"""Memory of the sums that tell how fast deviations fade: about two days of hours."""
_ERROR_KEEP = 0.98
"""Memory of the scores that weigh the two predictions, likewise."""
_TINY = 1e-12
_SLOWEST_FADE = 0.98
"""A deviation always fades a little: what stays for ever is the profile's to learn."""

Steps = NDArray[np.int64]

_BACK_NS = 28 * DAY_NS
"""How far `follow` looks back when it meets series for the first time."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected, [series, steps]; the first step is the one that it is now."""

    mean: Floats
    spread: Floats
    """Root mean square of past errors so far ahead."""


@dataclass(frozen=True, slots=True)
class ForecastError:
    """How far forecasts were off, over everything that was predicted and has come."""

    horizon_h: int
    count: int
    share: float
    """Sum of errors over sum of values: unlike a mean of ratios it survives prices near zero."""
    persistence: float
    """The same of saying that the present lasts."""


class Forecaster:
    """Learns many series from their values as they come."""

    def __init__(self, series: int, step_ns: int = HOUR_NS, *, seasonal: bool = True) -> None:
        if DAY_NS % step_ns:
            raise InputError(f"a day has no whole number of steps of {step_ns} ns", "use 1 h")
        self._step_ns = step_ns
        self._seasonal = seasonal
        """Off: the present is expected to last (`FleetPolicy.forecast`)."""
        self._a_day = DAY_NS // step_ns
        self._a_week = 7 * self._a_day
        self._hops: Steps = np.array([max(1, h * HOUR_NS // step_ns) for h in HORIZONS_H])
        self._now: int | None = None
        """The step that it is; None: nothing was seen."""
        self._state = _State.empty(series, self._a_day, self._hops)

    def __len__(self) -> int:
        return len(self._state.level)

    def grow(self, series: int) -> None:
        """Make room for so many series; new ones start knowing nothing."""
        more = _State.empty(series - len(self), self._a_day, self._hops)
        self._state = self._state.with_rows(more)

    def adopt(self, other: "Forecaster") -> None:
        """Take over the series of another one that has seen as far as this one."""
        if len(self) and (other._now, other._step_ns) != (self._now, self._step_ns):
            raise InputError("two forecasters are not at the same step", "let both see the present")
        self._now, self._step_ns = other._now, other._step_ns
        self._state = self._state.with_rows(other._state)

    # --- learning --------------------------------------------------------------------------

    def observe(self, now_ns: int, values: Floats) -> None:
        """Take in the present value of every series; NaN where one is not known.

        Several values within a step are averaged. Steps in which nothing came are left out.
        """
        step = now_ns // self._step_ns
        if self._now is not None and step < self._now:
            raise InputError("a value is older than those before it", "give values in time order")
        if self._now is not None and step > self._now:
            self._close(step)
        self._now = step
        state = self._state
        known = np.isfinite(values)
        state.total[known] += values[known]
        state.seen[known] += 1

    def follow(self, series: Sequence[Series], now_ns: int) -> None:
        """Observe what series held at every step since last time; at first four weeks back."""
        step = now_ns // self._step_ns
        if self._now is None:
            start_ns = min(each.start_ns for each in series)
            first = max(start_ns, now_ns - _BACK_NS) // self._step_ns
        else:
            first = self._now + 1
        for each_step in range(min(first, step), step + 1):
            at_ns = each_step * self._step_ns
            if self._now is None or each_step > self._now:
                self.observe(at_ns, np.array([each.at(at_ns) for each in series]))

    def _close(self, next_step: int) -> None:
        """Score and learn the step that is over."""
        state, now = self._state, self._now
        assert now is not None
        value = state.present()
        # Predicted before this step is scored: exactly what `ahead` said during it.
        seasonal, lasting = self._predict(self._hops)
        mixed = self._mix(seasonal, lasting, self._hops)
        self._score(now, value)
        ring = state.due.shape[2]
        for index, hop in enumerate(self._hops):
            made = (mixed[:, index], seasonal[:, index], lasting[:, index])
            state.due[:, index, (now + hop) % ring] = np.stack(made, axis=1)
        state.learn(now % self._a_day, now % self._a_week, value)
        for skipped in range(now + 1, min(next_step, now + ring)):
            state.due[:, :, skipped % ring] = np.nan
        gap = next_step - now - 1
        if gap:
            state.level *= state.fade() ** gap
        known = np.isfinite(value)
        state.last[known] = value[known]
        state.total[:] = 0.0
        state.seen[:] = 0

    def _score(self, step: int, value: Floats) -> None:
        """Compare what was predicted for a step with what came."""
        state = self._state
        slot = step % state.due.shape[2]
        error = np.abs(state.due[:, :, slot, :] - value[:, None, None])
        scored = np.isfinite(error)
        error = np.where(scored, error, 0.0)
        counted = scored[:, :, 0]
        state.count += counted
        state.absolute += error[:, :, 0]
        state.lasting += error[:, :, 2]
        state.size += np.where(counted, np.abs(np.nan_to_num(value))[:, None], 0.0)
        fresh = state.count == 1
        keep = np.where(counted, np.where(fresh, 0.0, _ERROR_KEEP), 1.0)[:, :, None]
        state.square = keep * state.square + (1.0 - keep) * error**2
        state.due[:, :, slot] = np.nan

    # --- predicting ------------------------------------------------------------------------

    def ahead(self, now_ns: int, steps: int) -> Expected:
        """The step that `now_ns` is in and those that follow, of all series.

        A series of which nothing was ever seen is NaN.
        """
        hops = np.arange(steps)
        if self._now is None:
            nothing = np.full((len(self), steps), np.nan)
            return Expected(nothing, nothing.copy())
        late = max(0, now_ns // self._step_ns - self._now)
        mean = self._mix(*self._predict(hops + late), hops + late)
        spread = np.sqrt(self._between(self._state.square[:, :, 0], hops + late))
        return Expected(mean, spread)

    def errors(self) -> tuple[ForecastError, ...]:
        """How far off the forecasts were, over all series, by horizon."""
        state = self._state
        found = []
        for index, horizon in enumerate(HORIZONS_H):
            count = int(state.count[:, index].sum())
            whole = float(state.absolute[:, index].sum())
            size = max(float(state.size[:, index].sum()), _TINY)
            found.append(
                ForecastError(
                    horizon_h=horizon,
                    count=count,
                    share=whole / size if count else 0.0,
                    persistence=float(state.lasting[:, index].sum()) / size if count else 0.0,
                )
            )
        return tuple(found)

    def _predict(self, hops: Steps) -> tuple[Floats, Floats]:
        """[series, hops] of both predictions, from all that was seen until now."""
        state, now = self._state, self._now
        assert now is not None
        value = state.present()
        lasting = np.repeat(np.where(np.isfinite(value), value, state.last)[:, None], len(hops), 1)
        if not self._seasonal:
            return lasting, lasting
        steps = now + np.asarray(hops, dtype=np.int64)
        usual = state.usual(steps % self._a_day, steps % self._a_week)
        here = state.usual(np.array([now % self._a_day]), np.array([now % self._a_week]))[:, 0]
        level = state.next_level(value - here)
        fade = state.fade()[:, None] ** np.asarray(hops)[None, :]
        seasonal = usual + level[:, None] * fade
        seasonal = np.where(np.isfinite(seasonal), seasonal, lasting)
        present = np.asarray(hops)[None, :] == 0
        return np.where(present, lasting, seasonal), lasting

    def _mix(self, seasonal: Floats, lasting: Floats, hops: Steps) -> Floats:
        """Both predictions, weighed by how well they did so far ahead.

        Weights go with the square of the mean squared error, so that the better one dominates.
        """
        square = self._state.square
        bad, good = square[:, :, 1] ** 2, square[:, :, 2] ** 2
        weight = np.where(bad + good > 0, good / np.maximum(bad + good, _TINY), 0.5)
        part = self._between(weight, hops)
        return np.asarray(part * seasonal + (1.0 - part) * lasting)

    def _between(self, at_horizons: Floats, hops: Steps) -> Floats:
        """Values known at the horizons for any number of steps ahead, by straight lines."""
        low = np.clip(np.searchsorted(self._hops, hops, side="right") - 1, 0, len(self._hops) - 2)
        span = self._hops[low + 1] - self._hops[low]
        part = np.clip((hops - self._hops[low]) / span, 0.0, 1.0)
        return np.asarray(at_horizons[:, low] * (1.0 - part) + at_horizons[:, low + 1] * part)


@dataclass(slots=True)
class _State:
    """What was learned, one row per series."""

    day: Floats
    """[n, steps of a day] what each hour of the day usually brings; NaN: not seen yet."""
    week: Floats
    """[n, steps of a week] how an hour of the week usually differs from that."""
    level: Floats
    """How the last values differed from what is usual."""
    before: Floats
    """The deviation of the step before; NaN: unknown."""
    cross: Floats
    """Sum of products of neighbouring deviations, and of their squares: their ratio is the fade."""
    square_sum: Floats
    last: Floats
    """Latest known value."""
    total: Floats
    """Sum and number of values in the step that it is."""
    seen: Steps
    due: Floats
    """[n, horizons, ring of steps, 3] predictions not yet scored: mixed, seasonal, persistent."""
    count: Steps
    """[n, horizons] predictions scored, their absolute errors, those of persistence, the values."""
    absolute: Floats
    lasting: Floats
    size: Floats
    square: Floats
    """[n, horizons, 3] smoothed squared errors."""

    @classmethod
    def empty(cls, series: int, a_day: int, hops: Steps) -> "_State":
        horizons, ring = len(hops), int(hops[-1]) + 1
        return cls(
            day=np.full((series, a_day), np.nan),
            week=np.zeros((series, 7 * a_day)),
            level=np.zeros(series),
            before=np.full(series, np.nan),
            cross=np.zeros(series),
            square_sum=np.zeros(series),
            last=np.full(series, np.nan),
            total=np.zeros(series),
            seen=np.zeros(series, dtype=np.int64),
            due=np.full((series, horizons, ring, 3), np.nan),
            count=np.zeros((series, horizons), dtype=np.int64),
            absolute=np.zeros((series, horizons)),
            lasting=np.zeros((series, horizons)),
            size=np.zeros((series, horizons)),
            square=np.zeros((series, horizons, 3)),
        )

    def with_rows(self, other: "_State") -> "_State":
        """This state and another's rows below."""
        names = [each.name for each in fields(self)]
        joined = [np.concatenate([getattr(self, name), getattr(other, name)]) for name in names]
        return _State(*joined)

    def present(self) -> Floats:
        """Mean of the values of the step that it is; NaN where there are none."""
        return np.where(self.seen > 0, self.total / np.maximum(self.seen, 1), np.nan)

    def usual(self, day_slots: Steps, week_slots: Steps) -> Floats:
        """[n, slots] what these hours usually bring; NaN where that is not known."""
        return np.asarray(self.day[:, day_slots] + self.week[:, week_slots])

    def fade(self) -> Floats:
        """What is left of a deviation after a step."""
        return np.clip(self.cross / np.maximum(self.square_sum, _TINY), 0.0, _SLOWEST_FADE)

    def next_level(self, deviation: Floats) -> Floats:
        """The level with one more deviation; NaN says nothing."""
        return np.where(
            np.isfinite(deviation), self.level + _LEVEL_STEP * (deviation - self.level), self.level
        )

    def learn(self, day_slot: int, week_slot: int, value: Floats) -> None:
        """Take in the value of a step that is over."""
        day, week = self.day[:, day_slot], self.week[:, week_slot]
        deviation = value - day - week
        self.level = self.next_level(deviation)
        pair = np.isfinite(deviation) & np.isfinite(self.before)
        keep = np.where(pair, _FADE_KEEP, 1.0)
        product = np.where(pair, deviation * self.before, 0.0)
        self.cross = keep * self.cross + product
        self.square_sum = keep * self.square_sum + np.where(pair, self.before**2, 0.0)
        self.before = deviation
        known = np.isfinite(value)
        new = known & ~np.isfinite(day)
        old = known & ~new
        day[new] = value[new]
        day[old] += _DAY_STEP * deviation[old]
        week[old] += _WEEK_STEP * (value - day - week)[old]


class SeriesForecasts:
    """Expected values of published series: known as far as they are published, then predicted.

    Callable as `(series, now_ns, hours)`. Set all series under their names first: new ones then
    learn their past together, and one that is replaced by a longer one keeps what was learned.
    """

    def __init__(self, published_ns: int = 0, *, seasonal: bool = True) -> None:
        self._published_h = published_ns // HOUR_NS
        """Hours after the present one whose values are known."""
        self._seasonal = seasonal
        self._all = Forecaster(0, seasonal=seasonal)
        self._series: list[Series] = []
        """By row; those beyond the forecaster's rows have yet to learn their past."""
        self._names: dict[str, int] = {}
        self._rows: dict[int, int] = {}
        """By identity of the series; the list above keeps them alive."""
        self._known_h = -1
        self._expected: Expected | None = None

    def set(self, name: str, series: Series) -> None:
        """Make a series known, or replace it by one that is known for longer."""
        row = self._names.setdefault(name, len(self._series))
        if row == len(self._series):
            self._series.append(series)
        else:
            self._rows.pop(id(self._series[row]), None)
            self._series[row] = series
        self._rows[id(series)] = row
        self._expected = None

    def __call__(self, series: Series, now_ns: int, hours: int) -> Floats:
        """The hour that it is and those that follow."""
        if len(series.values) == 1:
            return np.full(hours, series.values[0])
        if id(series) not in self._rows:
            self.set(f"series {len(self._series)}", series)
        self._learn(now_ns)
        if self._expected is None or self._expected.mean.shape[1] < hours:
            self._expected = self._all.ahead(self._known_h * HOUR_NS, hours)
        known = series.ahead(now_ns, min(hours, self._published_h + 1))
        later = self._expected.mean[self._rows[id(series)], 1 : hours - len(known) + 1]
        return np.concatenate([known, later])

    def errors(self) -> tuple[ForecastError, ...]:
        """How far off predictions were, hours ahead of what was published."""
        return self._all.errors()

    def _learn(self, now_ns: int) -> None:
        """Take in what was published since last time, and the past of new series."""
        known_h = now_ns // HOUR_NS + self._published_h
        old = len(self._all)
        if known_h > self._known_h:
            self._known_h = known_h
            self._expected = None
            if old:
                self._all.follow(self._series[:old], known_h * HOUR_NS)
        if old < len(self._series):
            new = Forecaster(len(self._series) - old, seasonal=self._seasonal)
            new.follow(self._series[old:], self._known_h * HOUR_NS)
            self._all.adopt(new)
            self._expected = None
