"""The paper's figures 2, 3, 4, 7, 8 and 9 with what was measured here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from dure.bench.common import svg
from dure.bench.node.figures import SetFigures
from dure.bench.node.rows import (
    DURE_AUTO,
    DURE_DOCKER,
    DURE_LOCK,
    PAPER,
    PAPER_WINDOW,
    PLAIN,
    ROWS,
    SERIAL,
)
from dure.bench.node.sets import LARGE, MEDIUM, SMALL

_COLOURS = {
    PLAIN: "#9a4a1c",
    DURE_LOCK: "#1f6fb2",
    DURE_DOCKER: "#58a6d8",
    DURE_AUTO: "#5b3fa8",
    PAPER_WINDOW: "#3a8a3a",
    PAPER: "#8fc48f",
    SERIAL: "#888888",
}
_LINE = "#444444"
_COLUMNS = 2
_MOST_TICKS = 6
_LEGEND_STEP = 13

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Series:
    """One line or cloud of a panel."""

    name: str
    colour: str
    points: Points
    dashed: bool = False
    joined: bool = True


def plot(sets: Mapping[str, SetFigures]) -> str:
    """One SVG picture of all panels for which there is something."""
    panels: list[list[str]] = []
    if MEDIUM in sets:
        medium = sets[MEDIUM]
        panels.append(
            _panel("Fig. 2: plain sharing of 13,312²", "makespan s", [_by_count(medium, PLAIN)])
        )
        panels.append(
            _panel(
                "Fig. 3: plain sharing against y = a·x",
                "makespan s",
                [_by_count(medium, PLAIN), _line(medium)],
            )
        )
        panels.append(_each_container(medium))
    for number, name in ((7, LARGE), (8, MEDIUM), (9, SMALL)):
        if name in sets:
            panels += _managed(number, sets[name])
    return svg.picture(panels, _COLUMNS)


def _by_count(figures: SetFigures, row: str) -> Series:
    counts = figures.rows.get(row, {})
    points = [(float(count), found.makespan_s.value) for count, found in counts.items()]
    return Series(ROWS[row].title, _COLOURS[row], points)


def _line(figures: SetFigures) -> Series:
    most = float(figures.set.most)
    return Series("y = a·x", _LINE, [(1.0, figures.alone_s), (most, most * figures.alone_s)], True)


def _each_container(figures: SetFigures) -> list[str]:
    """Figure 4, for every row: the completion of each container."""
    series = [
        Series(
            ROWS[row].title,
            _COLOURS[row],
            [(index + 1.0, end_s) for index, end_s in enumerate(sorted(found.completions_s))],
            joined=False,
        )
        for row in figures.rows
        if row in _COLOURS and (found := figures.at(row))
    ]
    title = f"Fig. 4: each of {figures.set.most} containers, {figures.set.title}"
    return _panel(title, "completion s", series, "container, by completion")


def _managed(number: int, figures: SetFigures) -> list[list[str]]:
    """(a) makespans by count; (b) how far each row ends before y = a·x."""
    rows = [row for row in figures.rows if row in _COLOURS and row != SERIAL]
    ends = [_by_count(figures, row) for row in rows]
    gains = [
        Series(
            ROWS[row].title,
            _COLOURS[row],
            [
                (float(count), count * figures.alone_s - found.makespan_s.value)
                for count, found in figures.rows[row].items()
            ],
        )
        for row in rows
    ]
    return [
        _panel(f"Fig. {number} (a): {figures.set.title}", "makespan s", [*ends, _line(figures)]),
        _panel(f"Fig. {number} (b): seconds before y = a·x", "a·x less makespan, s", gains),
    ]


def _panel(title: str, up: str, series: Sequence[Series], across: str = "containers") -> list[str]:
    points = [point for each in series for point in each.points if all(map(math.isfinite, point))]
    right = max((x for x, _ in points), default=1.0)
    low = min(0.0, *(y for _, y in points)) if points else 0.0
    high = max([*(y for _, y in points), 0.0, low + 1e-3])

    room = 1.05 + _LEGEND_STEP * len(series) / svg.UP  # above everything, for the legend

    def x_of(value: float) -> float:
        return svg.LEFT + svg.ACROSS * (value - 0.5) / right

    def y_of(value: float) -> float:
        return svg.TOP + svg.UP * (1.0 - (value - low) / (room * (high - low)))

    step = max(1, math.ceil(right / 10))
    counts = [(float(count), str(count)) for count in range(1, int(right) + 1, step)]
    parts = svg.axes(title, svg.Axis(across, x_of, counts), svg.Axis(up, y_of, _ticks(low, high)))
    for index, each in enumerate(series):
        parts += _marks(each, x_of, y_of)
        y = svg.TOP + 12 + index * _LEGEND_STEP
        parts.append(
            f'<text x="{svg.LEFT + 8}" y="{y}" fill="{each.colour}">{escape(each.name)}</text>'
        )
    return parts


def _marks(series: Series, x_of: svg.Place, y_of: svg.Place) -> list[str]:
    points = [(x_of(x), y_of(y)) for x, y in series.points if math.isfinite(y)]
    parts = []
    if series.joined and len(points) > 1:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if series.dashed else ""
        parts.append(
            f'<path d="M{path}" fill="none" stroke="{series.colour}" stroke-width="1.5"{dashes}/>'
        )
    if not series.dashed:
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{series.colour}"/>' for x, y in points
        ]
    return parts


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Round values between two others."""
    rough = (high - low) / _MOST_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.ceil(low / step)
    last = math.floor(high / step)
    return [(index * step, f"{index * step:g}") for index in range(first, last + 1)]
