"""Pictures of the story for its report: lines over time as SVG, marks where something happened."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 960, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 26, 26
_TICKS = 4
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Line:
    """One quantity over time; gaps where it was not known."""

    name: str
    colour: int
    """Number in the page's palette."""
    points: tuple[tuple[float, float | None], ...]
    stepped: bool = False
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment at which something happened."""

    at_s: float
    name: str


@dataclass(frozen=True, slots=True)
class Picture:
    """One chart."""

    title: str
    unit: str
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()

    def svg(self) -> str:
        """The chart, with its words for whoever cannot see it."""
        times = [at_s for line in self.lines for at_s, _ in line.points] or [0.0, 1.0]
        axes = _Axes(_round_up(max(self._values(), default=1.0)), min(times), max(times))
        names = ", ".join(line.name for line in self.lines)
        said = f"{self.title}: {names}, from {min(times):.0f} to {max(times):.0f} s"
        parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(said)}">']
        parts += axes.grid(self.unit)
        parts += [part for line in self.lines for part in axes.line(line)]
        parts += axes.marks(self.marks)
        return "".join((*parts, "</svg>"))

    def _values(self) -> Iterable[float]:
        return (value for line in self.lines for _, value in line.points if value is not None)


@dataclass(frozen=True, slots=True)
class _Axes:
    top: float
    begin_s: float
    end_s: float

    def _x(self, at_s: float) -> float:
        part = (at_s - self.begin_s) / max(self.end_s - self.begin_s, 1e-9)
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * part

    def _y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / max(self.top, 1e-9)

    def grid(self, unit: str) -> list[str]:
        parts = [f'<text x="{_LEFT}" y="14">{escape(unit)}</text>']
        for number in range(_TICKS + 1):
            value = self.top * number / _TICKS
            y = self._y(value)
            parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>')
            at = f'x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end"'
            parts.append(f"<text {at}>{value:g}</text>")
        every_s = _round_up((self.end_s - self.begin_s) / 8)
        for number in range(math.ceil(self.begin_s / every_s), int(self.end_s / every_s) + 1):
            x = self._x(number * every_s)
            at = f'x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="middle"'
            parts.append(f"<text {at}>{number * every_s:g} s</text>")
        return parts

    def line(self, line: Line) -> list[str]:
        parts = [self._path(run, line.stepped) for run in _runs(line.points)]
        style = f'class="line c{line.colour}{" dashed" if line.dashed else ""}"'
        return [f'<path {style} d="{path}"/>' for path in parts]

    def _path(self, run: Sequence[tuple[float, float]], stepped: bool) -> str:
        (at_s, value), *others = run
        path = f"M{self._x(at_s):.1f} {self._y(value):.1f}"
        for at_s, value in others:
            x, y = self._x(at_s), self._y(value)
            path += f"H{x:.1f}V{y:.1f}" if stepped else f"L{x:.1f} {y:.1f}"
        return path

    def marks(self, marks: Iterable[Mark]) -> list[str]:
        parts = []
        for number, mark in enumerate(marks):
            x, y = self._x(mark.at_s), _TOP + 10 + 13 * (number % 3)
            parts.append(f'<path class="mark" d="M{x:.1f} {_TOP}V{HEIGHT - _BOTTOM}"/>')
            near_end = x > WIDTH * 0.8
            side = f'x="{x - 5:.1f}" text-anchor="end"' if near_end else f'x="{x + 5:.1f}"'
            parts.append(f'<text class="mark" {side} y="{y}">{escape(mark.name)}</text>')
        return parts


def _runs(points: Iterable[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    """The points without gaps, in as many parts as there are."""
    found: list[list[tuple[float, float]]] = [[]]
    for at_s, value in points:
        if value is not None:
            found[-1].append((at_s, value))
        elif found[-1]:
            found.append([])
    return [run for run in found if run]


def _round_up(value: float) -> float:
    """The next number that reads well on an axis."""
    size = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(size * step for step in _STEPS if size * step >= value * (1 - 1e-9))
