"""Small bar charts for the report: one measure of one tenant, a bar a mode."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from dure.domain.units import NS_PER_MS
from dure.sim.kernel.compare import Comparison
from dure.sim.kernel.sheets import figure
from dure.sim.kernel.verdicts import figure_of, latency_headline, promise_kept

BAR_PX = 260.0
_ROOM = 1.1
"""Axis over the longest bar that is shown whole."""
_MOST_OVER_TYPICAL = 6.0
"""A bar this many times the median is cut off, so that the others can be told apart."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One mode."""

    label: str
    length: float
    """In pixels."""
    text: str
    cut: bool = False
    """Longer than drawn."""
    missed: bool = False
    growing: bool = False
    reference: bool = False
    """Not a mode: the tenant alone."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One measure over the modes."""

    title: str
    bars: tuple[Bar, ...]
    target: float | None = None
    """Pixels of the promise's line."""
    target_text: str = ""


def latency_chart(comparison: Comparison, index: int) -> Chart:
    """Latency by mode at the promised percentile, beside the tenant alone and its target."""
    load, alone = comparison.scenario.setting.loads[index], comparison.alone[index]
    measure, promise = latency_headline(load), load.tenant.slo.latency
    target_ms = promise.target_ns / NS_PER_MS if promise else None
    alone_ms = alone.p99_ms if measure.field == "p99_ms" else None
    values = [figure_of(run.result.tenants[index], measure.field) for run in comparison.runs]
    top = _axis(values, (alone_ms or 0.0, target_ms or 0.0))
    bars = []
    if alone_ms is not None:
        bars.append(Bar("alone", BAR_PX * alone_ms / top, figure(alone_ms), reference=True))
    for run, value in zip(comparison.runs, values, strict=True):
        bars.append(
            Bar(
                run.result.mode,
                BAR_PX * min(1.0, (value or 0.0) / top),
                figure(value),
                cut=value is not None and value > top,
                missed=promise_kept(load, run.result.tenants[index]) is False,
                growing=run.diverging[index],
            )
        )
    return Chart(
        f"{measure.label.split()[0]} latency, ms",
        tuple(bars),
        BAR_PX * target_ms / top if target_ms else None,
        f"target {figure(target_ms)}" if target_ms else "",
    )


def completion_chart(comparison: Comparison, index: int) -> Chart:
    """Mean completion time of jobs by mode."""
    values = [run.result.tenants[index].mean_jct_s for run in comparison.runs]
    return _plain_chart(comparison, "mean completion time of a job, s", values)


def throughput_chart(comparison: Comparison, index: int) -> Chart:
    """Iterations per second by mode."""
    values = [run.result.tenants[index].throughput_per_s for run in comparison.runs]
    return _plain_chart(comparison, "throughput, iterations per second", values)


def _plain_chart(comparison: Comparison, title: str, values: Sequence[float]) -> Chart:
    top = _ROOM * max([*values, 1e-9])
    return Chart(
        title,
        tuple(
            Bar(run.result.mode, BAR_PX * value / top, figure(value))
            for run, value in zip(comparison.runs, values, strict=True)
        ),
    )


def _axis(values: Sequence[float | None], references: tuple[float, ...]) -> float:
    """The end of the axis: references are shown whole, and so are all but outlying values."""
    known = [value for value in values if value is not None]
    typical = max(statistics.median(known or [0.0]), *references)
    whole = [value for value in known if value <= _MOST_OVER_TYPICAL * typical]
    return _ROOM * max(1e-9, *references, *whole)
