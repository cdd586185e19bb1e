"""A fleet comparison as one self-contained HTML file: figures, bills, and charts over time."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from dure.domain.units import NS_PER_S
from dure.sim.fleet.charts import dashes, line_charts
from dure.sim.fleet.compare import Comparison
from dure.sim.fleet.results import ExplanationSample, FleetResult
from dure.sim.fleet.sheets import (
    alternative,
    amount,
    bill_sheet,
    cluster_sheet,
    sheets,
    span,
    term_name,
    total_of,
    waited,
)

_TEMPLATE = "report.html.j2"
_NAMED_HUES = 8
"""Colours in the template's palette; further modes get evenly turned hues."""
_GOLDEN_ANGLE = 137.5
_MOST_EXPLAINED = 12
"""Placements of a mode that are shown with their reasons."""


@dataclass(frozen=True, slots=True)
class _Reasons:
    """A placement in words."""

    workload: str
    about: str
    site: str
    terms: tuple[tuple[str, str], ...]
    total: str
    lines: tuple[str, ...]


def html_report(comparison: Comparison) -> str:
    """The whole file."""
    environment = Environment(
        loader=PackageLoader("dure.sim.fleet", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scenario, results = comparison.scenario, comparison.results
    setting = scenario.setting
    start = datetime.datetime.fromtimestamp(setting.start_ns / NS_PER_S, datetime.UTC)
    explained = [(result.mode, _reasons(result)) for result in results if result.explanations]
    return environment.get_template(_TEMPLATE).render(
        scenario=scenario,
        file=scenario.file.name,
        start=f"{start:%Y-%m-%d %H:%M} UTC",
        duration=span(setting.duration_ns / NS_PER_S),
        round=span(setting.round_ns / NS_PER_S),
        clusters=len(setting.fleet.clusters),
        devices=results[0].devices,
        workloads=len(setting.workloads),
        modes=[(result.mode, dashes(number, result.mode)) for number, result in enumerate(results)],
        sheets=sheets(results),
        charts=line_charts(results),
        bills=[bill_sheet(result) for result in results if result.tenants],
        members=[cluster_sheet(result) for result in results if result.clusters],
        explained=explained,
        currency=setting.fleet.rates.base,
        waits=[(result.mode, _waits(result)) for result in results if result.waits],
        forecasts=_forecasts(results),
        warnings=[(result.mode, result.warnings) for result in results if result.warnings],
        extra_hues=[
            (index, round(index * _GOLDEN_ANGLE % 360))
            for index in range(_NAMED_HUES, len(results))
        ],
    )


def _forecasts(results: Sequence[FleetResult]) -> list[tuple[str, str]]:
    """How far forecasts were off, by mode, beside expecting that all stays as it is."""
    found = []
    for result in results:
        figures = result.forecasts
        judged = (
            ("price", figures.price, figures.price_as_now),
            ("carbon", figures.carbon, figures.carbon_as_now),
            ("load", figures.load, figures.load_as_now),
        )
        errors = [
            f"{name} {100 * error:.1f} % ({100 * as_now:.1f} %)"
            for name, error, as_now in judged
            if error is not None and as_now is not None
        ]
        if errors:
            found.append((result.mode, ", ".join(errors)))
    return found


def _reasons(result: FleetResult) -> list[_Reasons]:
    """A part of the placements that were kept, spread over the run."""
    step = -(-len(result.explanations) // _MOST_EXPLAINED)
    return [_in_words(sample, result) for sample in result.explanations[::step]]


def _waits(result: FleetResult) -> list[tuple[str, str]]:
    """Workloads that had no place, and why."""
    start_ns = result.hourly.start_ns
    return [
        (f"{wait.workload} ({wait.kind} of {wait.tenant})", waited(wait, start_ns))
        for wait in result.waits
    ]


def _in_words(sample: ExplanationSample, result: FleetResult) -> _Reasons:
    after = span((sample.at_ns - result.hourly.start_ns) / NS_PER_S)
    terms = [(term_name(name), amount(value)) for name, value in sample.terms]
    terms.append(("congestion price", amount(sample.congestion)))
    lines = (f"{amount(sample.kg_co2)} kg CO2", alternative(sample, result.currency), sample.note)
    return _Reasons(
        workload=sample.workload,
        about=f"{sample.kind} of {sample.tenant}, after {after}",
        site=sample.site,
        terms=tuple(terms),
        total=amount(total_of(sample)),
        lines=tuple(line for line in lines if line),
    )
