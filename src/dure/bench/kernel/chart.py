"""The plot of the pairs: how much a service's tail grew, against what best effort kept."""

import math
from collections.abc import Sequence
from html import escape

from dure.bench.kernel.figures import ScenarioFigures

_WIDTH, _HEIGHT = 520, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 34, 44
_TICKS = (1.0, 2.0, 5.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
_MANAGED, _OTHER = "#1f6fb2", "#9a4a1c"


def plot(scenarios: Sequence[ScenarioFigures]) -> str:
    """An SVG picture with one panel per scenario that has a service and best effort."""
    panels = [figures for figures in scenarios if figures.scenario.promises and figures.rows]
    width = max(1, len(panels)) * _WIDTH
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" '
        f'viewBox="0 0 {width} {_HEIGHT}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for index, figures in enumerate(panels):
        parts += [f'<g transform="translate({index * _WIDTH},0)">', *_panel(figures), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(figures: ScenarioFigures) -> list[str]:
    points = [
        (row.row, _tail(figures, index), row.best_effort.value)
        for index, row in enumerate(figures.rows)
        if row.best_effort.known
    ]
    top = max([2.0, *(tail for _, tail, _ in points if math.isfinite(tail))])
    across = _WIDTH - _LEFT - _RIGHT
    up = _HEIGHT - _TOP - _BOTTOM

    def x_of(tail: float) -> float:
        return _LEFT + across * math.log(max(tail, 0.9) / 0.9) / math.log(1.3 * top / 0.9)

    def y_of(share: float) -> float:
        return _TOP + up * (1.0 - min(share, 1.05) / 1.05)

    parts = [f'<text x="{_LEFT}" y="18" font-weight="bold">{escape(figures.scenario.name)}</text>']
    for tick in _TICKS:
        if tick <= 1.3 * top:
            x = x_of(tick)
            parts.append(f'<path d="M{x:.1f} {_TOP}V{_TOP + up}" stroke="#ddd"/>')
            parts.append(
                f'<text x="{x:.1f}" y="{_HEIGHT - 26}" text-anchor="middle">{tick:g}×</text>'
            )
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = y_of(share)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share:g}</text>')
    parts.append(
        f'<text x="{_LEFT + across / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">'
        "p99 of the service over p99 alone (log)</text>"
    )
    parts.append(
        f'<text transform="translate(14,{_TOP + up / 2:.0f}) rotate(-90)" text-anchor="middle">'
        "best effort over that alone</text>"
    )
    for name, tail, share in points:
        if math.isfinite(tail) and math.isfinite(share):
            colour = _MANAGED if name.startswith(("slo", "hybrid", "jct")) else _OTHER
            x, y = x_of(tail), y_of(share)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
            anchor = "end" if x > _WIDTH - 110 else "start"
            shift = -7 if anchor == "end" else 7
            parts.append(
                f'<text x="{x + shift:.1f}" y="{y - 5:.1f}" text-anchor="{anchor}" '
                f'fill="{colour}">{escape(name)}</text>'
            )
    return parts


def _tail(figures: ScenarioFigures, index: int) -> float:
    """The worst tail of the services over theirs alone."""
    row = figures.rows[index]
    ratios = [
        found.p99_ms.value / figures.alone[tenant.name].p99_ms.value
        for tenant, found in zip(figures.scenario.tenants, row.tenants, strict=True)
        if tenant.serves and figures.alone[tenant.name].p99_ms.known
    ]
    return max(ratios, default=math.nan)
