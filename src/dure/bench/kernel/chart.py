"""The plot of the pairs: how much a service's tail grew, against what best effort kept."""

import math
from collections.abc import Sequence
from html import escape

from dure.bench.common import svg
from dure.bench.kernel.figures import ScenarioFigures

_TICKS = (1.0, 2.0, 5.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
_MANAGED, _OTHER = "#1f6fb2", "#9a4a1c"


def plot(scenarios: Sequence[ScenarioFigures]) -> str:
    """An SVG picture with one panel per scenario that has a service and best effort."""
    panels = [figures for figures in scenarios if figures.scenario.promises and figures.rows]
    return svg.picture([_panel(figures) for figures in panels])


def _panel(figures: ScenarioFigures) -> list[str]:
    points = [
        (row.row, _tail(figures, index), row.best_effort.value)
        for index, row in enumerate(figures.rows)
        if row.best_effort.known
    ]
    top = max([2.0, *(tail for _, tail, _ in points if math.isfinite(tail))])

    def x_of(tail: float) -> float:
        return svg.LEFT + svg.ACROSS * math.log(max(tail, 0.9) / 0.9) / math.log(1.3 * top / 0.9)

    def y_of(share: float) -> float:
        return svg.TOP + svg.UP * (1.0 - min(share, 1.05) / 1.05)

    tails = [(tick, f"{tick:g}×") for tick in _TICKS if tick <= 1.3 * top]
    shares = [(share, f"{share:g}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    parts = svg.axes(
        figures.scenario.name,
        svg.Axis("p99 of the service over p99 alone (log)", x_of, tails),
        svg.Axis("best effort over that alone", y_of, shares),
    )
    for name, tail, share in points:
        if math.isfinite(tail) and math.isfinite(share):
            colour = _MANAGED if name.startswith(("slo", "hybrid", "jct")) else _OTHER
            x, y = x_of(tail), y_of(share)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
            anchor = "end" if x > svg.WIDTH - 110 else "start"
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
