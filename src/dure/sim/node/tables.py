"""A container comparison as tables for a terminal; marks as well as colours say what is best."""

from rich.console import Group, RenderableType
from rich.text import Text

from dure.domain.units import format_bytes_like
from dure.sim.node.compare import Comparison
from dure.sim.node.results import NodeResult
from dure.sim.node.sheets import sheets
from dure.sim.sheets import BEST_MARK, wide_table

WIDTH = 110
"""Columns where the output is not a terminal; in one, tables are split to its width."""
_MOST_TOLD = 8
"""Messages of a mode that are shown; all are in the JSON."""


def comparison_tables(comparison: Comparison) -> RenderableType:
    """Everything a person wants to see at once."""
    parts: list[RenderableType] = [_heading(comparison), Text()]
    parts += [wide_table(sheet) for sheet in sheets(comparison)]
    parts.append(Text(f"{BEST_MARK} best of a column   ✗ did not do its work", "dim"))
    for result in comparison.results:
        parts += _told(result)
    return Group(*parts)


def decision_tables(comparison: Comparison) -> RenderableType:
    """Every pause and resume of every mode, with the reason."""
    parts: list[RenderableType] = []
    for result in comparison.results:
        parts.append(Text(f"Decisions under {result.mode}", "bold"))
        parts += [
            Text(f"{at_s:10.3f} s  {name:<16} {what}") for at_s, name, what in result.decisions
        ]
        if not result.decisions:
            parts.append(Text("none"))
        parts.append(Text())
    return Group(*parts)


def _heading(comparison: Comparison) -> Text:
    scenario = comparison.scenario
    setting = scenario.setting
    gpus, containers = len(setting.gpus), len(setting.containers)
    memory = format_bytes_like(setting.gpus[0].memory_bytes, setting.gpus[0].memory_bytes)
    return Text.assemble(
        (scenario.title, "bold"),
        f"   {containers} container{'s' if containers > 1 else ''}, "
        f"{gpus} GPU{'s' if gpus > 1 else ''} of {memory}, seed {scenario.seed}   ",
        ("simulated", "italic"),
    )


def _told(result: NodeResult) -> list[Text]:
    """What the machine wanted people to know."""
    lines = [
        Text(f"{result.mode}, after {at_s:.1f} s{f', {name}' if name else ''}: {text}", "yellow")
        for at_s, name, text in result.told[:_MOST_TOLD]
    ]
    if len(result.told) > _MOST_TOLD:
        more = len(result.told) - _MOST_TOLD
        lines.append(Text(f"{result.mode}: {more} more messages, see --json", "yellow"))
    return lines
