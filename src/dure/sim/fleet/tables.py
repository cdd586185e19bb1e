"""A fleet comparison as tables for a terminal; marks as well as colours say what is best."""

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dure.sim.figures import titled_table
from dure.sim.fleet.compare import Comparison
from dure.sim.fleet.results import ExplanationSample, FleetResult
from dure.sim.fleet.sheets import Sheet, amount, bill_sheet, cluster_sheet, sheets, span

WIDTH = 110
"""Columns the tables are made for."""
_MARK = "*"


def comparison_tables(comparison: Comparison, *, all_bills: bool = False) -> RenderableType:
    """Everything a person wants to see at once; bills of all modes, or of the last alone."""
    results = comparison.results
    parts: list[RenderableType] = [_heading(comparison), Text()]
    parts += [_table(sheet) for sheet in sheets(results)]
    billed = results if all_bills else results[-1:]
    for result in billed:
        parts.append(_table(bill_sheet(result)))
        if not all_bills:
            parts.append(_table(cluster_sheet(result)))
    parts.append(Text(f"{_MARK} best of a column", "dim"))
    parts += [Text(f"note: {note}", "yellow") for note in comparison.scenario.notes]
    for result in billed:
        parts += [Text(f"{result.mode}: {warning}", "yellow") for warning in result.warnings]
    return Group(*parts)


def explanation_tables(
    workload: str, found: Sequence[tuple[FleetResult, ExplanationSample]]
) -> RenderableType:
    """Why a workload was placed where it was, in every mode, every time."""
    parts: list[RenderableType] = []
    for result, sample in found:
        parts += [_explained(result, sample), Text()]
    if not parts:
        parts.append(Text(f"'{workload}' was placed by no mode that explains itself.", "yellow"))
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


def _table(sheet: Sheet) -> Table:
    table = titled_table(sheet.title)
    table.add_column(sheet.corner, no_wrap=True)
    rows = [[Text(name)] for name in sheet.rows]
    for column in sheet.columns:
        room = 1 if any(cell.best for cell in column.cells) else 0
        title = "\n".join(f"{line}{'':{room}}" for line in column.title.split("\n"))
        table.add_column(title, justify="right", no_wrap=True)
        for row, cell in zip(rows, column.cells, strict=True):
            mark = _MARK if cell.best else ""
            row.append(Text(f"{cell.text}{mark:<{room}}", "bold green" if cell.best else ""))
    for row in rows:
        table.add_row(*row)
    return table


def _explained(result: FleetResult, sample: ExplanationSample) -> RenderableType:
    """One placement: its terms, the congestion price, and what the runner-up would have cost."""
    hours = (sample.at_ns - result.hourly.start_ns) / 3.6e12
    head = Text.assemble(
        (sample.workload, "bold"),
        f" ({sample.kind} of {sample.tenant}) under {result.mode}: after {hours:.1f} h placed at ",
        (sample.site, "bold"),
    )
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("term")
    table.add_column(result.currency, justify="right")
    for name, value in sample.terms:
        table.add_row(name.replace("_", " "), amount(value))
    table.add_row("congestion price", amount(sample.congestion), end_section=True)
    total = sample.money + sample.congestion
    table.add_row(Text("total", "bold"), Text(amount(total), "bold"))
    lines = [f"{amount(sample.kg_co2)} kg CO2, expected penalty {amount(sample.sla_risk)}"]
    if sample.runner_up:
        more = sample.runner_up_total - total
        lines.append(
            f"best alternative: {sample.runner_up} at {amount(sample.runner_up_total)}, "
            f"{amount(abs(more))} {'more' if more >= 0 else 'less'}"
        )
    else:
        lines.append("there was no alternative")
    if sample.note:
        lines.append(sample.note)
    return Group(head, table, *(Text(line) for line in lines))
