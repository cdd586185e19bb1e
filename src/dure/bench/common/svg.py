"""Pictures for pages of results: panels side by side, axes with ticks, marks on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 520, 340
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 34, 44
ACROSS = WIDTH - LEFT - RIGHT
UP = HEIGHT - TOP - BOTTOM

Place = Callable[[float], float]
"""From a value to where it lies on the picture."""


def picture(panels: Sequence[Sequence[str]], columns: int = 0) -> str:
    """An SVG picture of panels; all in one line unless so many columns are asked for."""
    columns = min(columns or len(panels), len(panels)) or 1
    width = columns * WIDTH
    height = max(1, -(-len(panels) // columns)) * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for index, panel in enumerate(panels):
        x, y = index % columns * WIDTH, index // columns * HEIGHT
        parts += [f'<g transform="translate({x},{y})">', *panel, "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: what it shows, where values lie, and the values that are labelled."""

    label: str
    place: Place
    ticks: Sequence[tuple[float, str]]


def axes(title: str, across: Axis, up: Axis) -> list[str]:
    """A panel's title, grid and labels."""
    parts = [f'<text x="{LEFT}" y="18" font-weight="bold">{escape(title)}</text>']
    for value, word in across.ticks:
        x = across.place(value)
        parts.append(f'<path d="M{x:.1f} {TOP}V{TOP + UP}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 26}" text-anchor="middle">{word}</text>')
    for value, word in up.ticks:
        y = up.place(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{word}</text>')
    parts.append(
        f'<text x="{LEFT + ACROSS / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{escape(across.label)}</text>"
    )
    parts.append(
        f'<text transform="translate(14,{TOP + UP / 2:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(up.label)}</text>"
    )
    return parts
