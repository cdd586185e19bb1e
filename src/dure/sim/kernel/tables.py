"""A comparison as tables for a terminal of 100 columns.

Marks as well as colours say what is good, so that nothing is lost in a file or to a reader who
does not see colours.
"""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dure.domain.units import format_duration
from dure.sim.figures import titled_table
from dure.sim.kernel.compare import Comparison
from dure.sim.kernel.sheets import LEGEND, Sheet, Tone, sheets

_MOST_ADAPTATIONS = 6
"""Of a mode that are listed."""
WIDTH = 100
"""Columns the tables are made for."""

_STYLES = {
    Tone.PLAIN: "",
    Tone.BEST: "bold green",
    Tone.GROWING: "yellow",
    Tone.MISSED: "red",
    Tone.MISSED_AND_GROWING: "red",
}


def comparison_tables(comparison: Comparison) -> RenderableType:
    """Everything a person wants to see at once."""
    parts: list[RenderableType] = [_heading(comparison), Text()]
    parts += [_table(sheet) for sheet in sheets(comparison)]
    parts.append(Text("   ".join(f"{tone.value} {meaning}" for tone, meaning in LEGEND), "dim"))
    parts += [Text(f"note: {note}", "yellow") for note in comparison.notes]
    parts += [Text(line) for line in _adaptations(comparison)]
    return Group(*parts)


def _adaptations(comparison: Comparison) -> list[str]:
    """For each mode the risks foreseen and the weights that followed, the first few."""
    lines = []
    for run in comparison.runs:
        outcome = run.outcome
        told = [(at, f"foreseen, {risk.tenant}: {risk.reason}") for at, risk in outcome.risks]
        told += [(at, f"adapted, {adapted}") for at, adapted in outcome.adaptations]
        told += [(advice.at_ns, f"advisor {advice}") for advice in outcome.advice]
        told.sort(key=lambda each: each[0])
        lines += [
            f"{run.result.mode} at {format_duration(at_ns)}: {what}"
            for at_ns, what in told[:_MOST_ADAPTATIONS]
        ]
        if len(told) > _MOST_ADAPTATIONS:
            left = len(told) - _MOST_ADAPTATIONS
            lines.append(f"{run.result.mode}: {left} more; --json lists them")
    return lines


def _heading(comparison: Comparison) -> Text:
    scenario = comparison.scenario
    setting = scenario.setting
    count = len(setting.loads)
    return Text.assemble(
        (scenario.title, "bold"),
        f"   {setting.accelerator.name}, {format_duration(setting.duration_ns)}, "
        f"{count} tenant{'s' if count > 1 else ''}, seed {scenario.seed}   ",
        ("simulated", "italic"),
    )


def _table(sheet: Sheet) -> Table:
    table = titled_table(sheet.title)
    table.add_column("mode", no_wrap=True)
    rows = [[Text(mode)] for mode in sheet.modes]
    for column in sheet.columns:
        room = max(len(cell.tone.value) for cell in column.cells)
        title = "\n".join(f"{line}{'':{room}}" for line in column.title.split("\n"))
        table.add_column(title, justify="right", no_wrap=True)
        for row, cell in zip(rows, column.cells, strict=True):
            row.append(Text(f"{cell.text}{cell.tone.value:<{room}}", _STYLES[cell.tone]))
    for number, row in enumerate(rows, start=1):
        table.add_row(*row, end_section=number == sheet.baselines)
    return table
