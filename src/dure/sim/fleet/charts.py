"""Line charts of a fleet comparison: one measure over time, one line a mode."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.sim.fleet.results import FleetResult, HourlySeries

WIDTH_PX = 520.0
HEIGHT_PX = 190.0
_MOST_POINTS = 260
"""Of a line; finer ones look like noise."""
_ROOM = 1.05
"""Axis over the highest value."""
_TICKS = 4

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Line:
    """One mode."""

    mode: int
    """Its place among the modes, which is its colour."""
    path: str
    last: str
    """The value at the end."""
    dashes: str
    """Pattern of the stroke; empty: solid."""


_DASHES = ("7 3", "2 3", "9 3 2 3")
"""Of baselines, in turn, so that lines can be told apart without colours."""


def dashes(mode: int, name: str) -> str:
    """Stroke pattern of a mode: solid for Dure."""
    return "" if name.startswith("dure") else _DASHES[mode % len(_DASHES)]


@dataclass(frozen=True, slots=True)
class LineChart:
    """One measure."""

    title: str
    lines: tuple[Line, ...]
    y_ticks: tuple[tuple[float, str], ...]
    x_ticks: tuple[tuple[float, str], ...]
    x_unit: str
    area: tuple[float, float] = (WIDTH_PX, HEIGHT_PX)


@dataclass(frozen=True, slots=True)
class Measure:
    """What a chart shows of the hourly figures."""

    title: str
    values: Callable[[HourlySeries], Sequence[float]]
    share: bool = False
    """Between 0 and 1, shown as a percentage."""
    add_up: bool = False
    """Shown as the sum since the start."""


def measures(currency: str) -> tuple[Measure, ...]:
    """The charts of a report, in order."""
    return (
        Measure(f"Money spent so far, {currency}", lambda hourly: hourly.money, add_up=True),
        Measure(f"Money an hour, {currency}", lambda hourly: hourly.money),
        Measure("CO2 so far, kg", lambda hourly: hourly.kg_co2, add_up=True),
        Measure("CO2 an hour, kg", lambda hourly: hourly.kg_co2),
        Measure(
            "Service minutes within target", lambda hourly: hourly.service_within_target, share=True
        ),
        Measure("Deadlines met, of those due", lambda hourly: hourly.jobs_on_time, share=True),
        Measure("Devices in use", lambda hourly: hourly.utilisation, share=True),
        Measure("Devices on open nodes", lambda hourly: hourly.open_share, share=True),
        Measure("Fragmentation of what is free", lambda hourly: hourly.fragmentation, share=True),
        Measure("Jobs waiting", lambda hourly: hourly.waiting_jobs),
        Measure(f"Congestion price, {currency} a device-hour", lambda hourly: hourly.congestion),
    )


def line_charts(results: Sequence[FleetResult]) -> list[LineChart]:
    """One chart for every measure that says something in at least one mode."""
    if not results:
        return []
    found = []
    for measure in measures(results[0].currency):
        columns = [_column(result.hourly, measure) for result in results]
        if any(len(column) and np.ptp(column) > 0 for column in columns):
            found.append(_chart(measure, columns, [result.mode for result in results]))
    return found


def _column(hourly: HourlySeries, measure: Measure) -> Floats:
    values = np.asarray(measure.values(hourly), dtype=np.float64)
    return np.cumsum(values) if measure.add_up else values


def _chart(measure: Measure, columns: Sequence[Floats], modes: Sequence[str]) -> LineChart:
    hours = max(len(column) for column in columns)
    top = max(float(column.max()) for column in columns if len(column))
    if measure.share:
        lowest = min(float(column.min()) for column in columns if len(column))
        low, high, step = _share_axis(lowest, top)
    else:
        low = 0.0
        step = _nice(top * _ROOM / _TICKS)
        high = max(top * _ROOM, step)
    lines = tuple(
        Line(
            number,
            _path(column, hours, low, high),
            _shown(float(column[-1]), measure, step),
            dashes(number, modes[number]),
        )
        for number, column in enumerate(columns)
        if len(column)
    )
    y_ticks = tuple(
        (_y(value, low, high), _shown(value, measure, step))
        for value in np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        * step
    )
    ticks, unit = _time_ticks(hours)
    return LineChart(measure.title, lines, y_ticks, ticks, unit)


def _share_axis(lowest: float, top: float) -> tuple[float, float, float]:
    """Shares are drawn from 0, except where all are so near to 1 that nothing would be seen."""
    if lowest >= 0.8 and top > 0.95:
        low = math.floor(lowest * 20.0 - 1e-9) / 20.0
        return low, 1.0, _nice((1.0 - low) / _TICKS)
    high = min(1.0, top * _ROOM) if top > 0 else 1.0
    return 0.0, high, _nice(high / _TICKS)


def _path(column: Floats, hours: int, low: float, high: float) -> str:
    """The line, as means of equal stretches where there are too many hours."""
    size = max(1, -(-len(column) // _MOST_POINTS))
    points = []
    for first in range(0, len(column), size):
        part = column[first : first + size]
        middle = first + len(part) / 2.0
        x = WIDTH_PX * middle / hours
        points.append(f"{x:.1f} {_y(float(part.mean()), low, high):.1f}")
    return "M" + "L".join(points)


def _y(value: float, low: float, high: float) -> float:
    return HEIGHT_PX * (1.0 - (value - low) / (high - low))


def _nice(step: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    if step <= 0 or not math.isfinite(step):
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= step)


def _shown(value: float, measure: Measure, step: float) -> str:
    """A value with as many digits as the steps of its axis need."""
    if measure.share:
        digits = 0 if step >= 0.01 else 1
        return f"{100 * value:.{digits}f} %"
    if abs(value) >= 10_000:
        return f"{value / 1000:,.0f}k"
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if step < 1 else 0
    return f"{value:,.{min(digits, 4)}f}"


def _time_ticks(hours: int) -> tuple[tuple[tuple[float, str], ...], str]:
    """Hours, or days where a run is long."""
    scale, unit = (24, "days") if hours > 72 else (1, "hours")
    length = hours / scale
    step = max(1, math.ceil(length / 8))
    ticks = tuple(
        (WIDTH_PX * number * scale / hours, str(number))
        for number in range(0, math.floor(length) + 1, step)
    )
    return ticks, unit
