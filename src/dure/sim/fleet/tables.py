"""A fleet comparison as tables for a terminal; marks as well as colours say what is best."""

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dure.domain.units import NS_PER_S
from dure.sim.fleet.compare import Comparison
from dure.sim.fleet.modes import MODES
from dure.sim.fleet.results import ExplanationSample, FleetResult, WaitSample
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
from dure.sim.sheets import BEST_MARK, wide_table

WIDTH = 110
"""Columns where the output is not a terminal; in one, tables are split to its width."""


def comparison_tables(comparison: Comparison, *, all_bills: bool = False) -> RenderableType:
    """Everything a person wants to see at once; bills of all modes, or of the last alone."""
    results = comparison.results
    parts: list[RenderableType] = [_heading(comparison), Text()]
    parts += [wide_table(sheet) for sheet in sheets(results)]
    billed = results if all_bills else results[-1:]
    for result in billed:
        parts.append(wide_table(bill_sheet(result)))
        if not all_bills:
            parts.append(wide_table(cluster_sheet(result)))
    parts.append(Text(f"{BEST_MARK} best of a column", "dim"))
    parts += [Text(f"note: {note}", "yellow") for note in comparison.scenario.notes]
    for result in billed:
        parts += [Text(f"{result.mode}: {warning}", "yellow") for warning in result.warnings]
    return Group(*parts)


def explanation_tables(
    workload: str,
    found: Sequence[tuple[FleetResult, ExplanationSample | WaitSample]],
    modes: Sequence[str] = (),
) -> RenderableType:
    """Why a workload is where it is or waits, in every mode, every time."""
    parts: list[RenderableType] = []
    for result, sample in found:
        if isinstance(sample, WaitSample):
            parts += [_waited(result, sample), Text()]
        else:
            parts += [_explained(result, sample), Text()]
    if not parts:
        explaining = [name for name in modes if not MODES[name].baseline]
        why = (
            f"{', '.join(explaining)} never had to place it"
            if explaining
            else "baselines do not explain themselves; add `dure` to the modes"
        )
        parts.append(Text(f"'{workload}' has no explanation: {why}.", "yellow"))
    return Group(*parts)


def _heading(comparison: Comparison) -> Text:
    scenario = comparison.scenario
    setting = scenario.setting
    clusters, devices = len(setting.fleet.clusters), comparison.results[0].devices
    return Text.assemble(
        (scenario.title, "bold"),
        f"   {clusters} clusters, {devices:,} devices, {len(setting.workloads):,} workloads, "
        f"{span(setting.duration_ns / 1e9)}, seed {setting.seed}   ",
        ("simulated", "italic"),
    )


def _head(result: FleetResult, sample: ExplanationSample | WaitSample, *words: str) -> Text:
    return Text.assemble(
        (sample.workload, "bold"),
        f" ({sample.kind} of {sample.tenant}) under {result.mode}: ",
        *words,
    )


def _waited(result: FleetResult, sample: WaitSample) -> RenderableType:
    return _head(result, sample, waited(sample, result.hourly.start_ns))


def _explained(result: FleetResult, sample: ExplanationSample) -> RenderableType:
    """One placement: its terms, the congestion price, and what the runner-up would have cost."""
    after = span((sample.at_ns - result.hourly.start_ns) / NS_PER_S)
    head = _head(result, sample, f"after {after} placed at {sample.site}")
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("term")
    table.add_column(result.currency, justify="right")
    for name, value in sample.terms:
        table.add_row(term_name(name), amount(value))
    table.add_row("congestion price", amount(sample.congestion), end_section=True)
    table.add_row(Text("total", "bold"), Text(amount(total_of(sample)), "bold"))
    lines = [
        f"{amount(sample.kg_co2)} kg CO2, expected penalty {amount(sample.sla_risk)} "
        f"{result.currency}",
        alternative(sample, result.currency),
        sample.note,
    ]
    return Group(head, table, *(Text(line) for line in lines if line))
