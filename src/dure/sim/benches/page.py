"""A bench report as a Markdown page that says what it is, when, where and how it was made."""

from collections.abc import Sequence
from dataclasses import dataclass

from dure.sim.benches.report import BenchReport, Grid, Verdict


@dataclass(frozen=True, slots=True)
class Made:
    """The circumstances of a page."""

    date: str
    machine: str
    command: str


def markdown(report: BenchReport, made: Made) -> str:
    """The whole page."""
    parts = [
        f"# {report.title}",
        _kind(report),
        f"- date: {made.date}\n- machine: {made.machine}\n- command: `{made.command}`",
        report.about,
        _verdicts(report.verdicts),
        *(_grid(grid) for grid in report.grids),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _kind(report: BenchReport) -> str:
    if report.measured_on:
        return f"**Measured** on {report.measured_on}."
    if report.simulated:
        return (
            f"**Simulated**: figures of a modelled {report.subject} in virtual time, "
            "not of a real one."
        )
    return f"Wall time of the machine below; the {report.subject} is **simulated**."


def _verdicts(verdicts: tuple[Verdict, ...]) -> str:
    rows = [(verdict.word, verdict.claim, verdict.found) for verdict in verdicts]
    return "## Verdicts\n\n" + _lines(("", "to be shown", "found"), rows, left=3) if rows else ""


def _grid(grid: Grid) -> str:
    return f"## {grid.title}\n\n" + _lines(grid.columns, grid.rows, left=1)


def _lines(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, left: int) -> str:
    rule = ["---" if index < left else "---:" for index in range(len(columns))]
    lines = [columns, tuple(rule), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
