"""Figures of a set: by row and count, over the repeats."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dure.bench.common.statistics import UNKNOWN, Estimate, Values, bootstrap, mean, percentile
from dure.bench.node.cells import PHASES, Cell, Outcome, Store
from dure.bench.node.rows import PLAIN, ROWS, SERIAL
from dure.bench.node.sets import SERVER, BenchSet


@dataclass(frozen=True, slots=True)
class CountFigures:
    """One row at one count. Seconds from the release of the barrier, of all but services."""

    row: str
    count: int
    makespan_s: Estimate
    mean_s: Estimate
    p95_s: Estimate
    spread: float
    """Last completion less first, over the mean: 0 where all end together."""
    phases: dict[str, float]
    """Mean seconds of each."""
    completions_s: tuple[float, ...]
    """Of each container, the mean over the repeats."""
    names: tuple[str, ...]
    server_p95_ms: Estimate
    longest_wait_s: dict[str, float]
    """By container, as the agent reported it."""
    failed: int
    """Containers whose program failed or computed something wrong."""
    agent_share: float
    fresh: bool


@dataclass(frozen=True, slots=True)
class SetFigures:
    """All of one set."""

    set: BenchSet
    rows: dict[str, dict[int, CountFigures]]
    failed: dict[str, str]

    def at(self, row: str, count: int | None = None) -> CountFigures | None:
        """A row at a count, at the largest unless stated."""
        return self.rows.get(row, {}).get(self.set.most if count is None else count)

    @property
    def alone_s(self) -> float:
        """One container alone, the a of y = a·x: plain, or the mean of those one after another."""
        one = self.at(PLAIN, 1)
        if one is not None:
            return one.makespan_s.value
        serial = self.at(SERIAL)
        return serial.makespan_s.value / serial.count if serial is not None else math.nan

    def ratio(self, row: str, figure: "Callable[[CountFigures], Estimate]") -> float:
        """A figure of a row over that of plain sharing, at the largest count."""
        own, plain = self.at(row), self.at(PLAIN)
        if own is None or plain is None:
            return math.nan
        return figure(own).value / figure(plain).value


def figures_of(bench_set: BenchSet, store: Store) -> SetFigures | None:
    """Figures of what was kept; None where nothing was."""
    groups: dict[str, dict[int, list[Cell]]] = {}
    for measured in store.cells():
        for cell in _with_parts(measured, bench_set):
            groups.setdefault(cell.row, {}).setdefault(cell.count, []).append(cell)
    if not groups:
        return None
    rows = {
        name: {count: _count(groups[name][count]) for count in sorted(groups[name])}
        for name in ROWS
        if name in groups
    }
    return SetFigures(bench_set, rows, store.failed())


def _with_parts(cell: Cell, bench_set: BenchSet) -> list[Cell]:
    """A cell; one after another, the first few of its containers are a cell of fewer, too."""
    if cell.row != SERIAL or bench_set.fixed:
        return [cell]
    counts = range(1, cell.count + 1)
    return [replace(cell, count=count, outcomes=cell.outcomes[:count]) for count in counts]


def _count(cells: Sequence[Cell]) -> CountFigures:
    first = cells[0]
    outcomes = [outcome for cell in cells for outcome in cell.outcomes]
    jobs = [[found for found in cell.outcomes if found.p95_ms is None] for cell in cells]
    completions = [[job.completion_s for job in each] for each in jobs]
    by_member = list(zip(*jobs, strict=True))
    server = [[found.p95_ms] for found in outcomes if found.name == SERVER and found.p95_ms]
    shares = [cell.agent_share for cell in cells if cell.agent_share is not None]
    return CountFigures(
        first.row,
        first.count,
        _each(completions, max),
        _each(completions, mean),
        _each(completions, _p95),
        mean([(max(ends) - min(ends)) / mean(ends) for ends in completions]),
        {phase: mean(_of_phase(outcomes, phase)) for phase in PHASES},
        tuple(mean([outcome.completion_s for outcome in same]) for same in by_member),
        tuple(job.name for job in jobs[0]),
        bootstrap(server, mean) if server else UNKNOWN,
        _longest_waits(outcomes),
        sum(outcome.exit_code != 0 for outcome in outcomes),
        mean(shares),
        all(cell.fresh for cell in cells),
    )


def _each(completions: Sequence[Sequence[float]], figure: "Callable[..., float]") -> Estimate:
    """A figure of each repeat, and its mean over them."""
    return bootstrap([[figure(ends)] for ends in completions], mean)


def _p95(ends: "Sequence[float] | Values") -> float:
    return percentile(ends, 95.0)


def _of_phase(outcomes: Sequence[Outcome], phase: str) -> list[float]:
    return [outcome.phases[phase] for outcome in outcomes if phase in outcome.phases]


def _longest_waits(outcomes: Sequence[Outcome]) -> dict[str, float]:
    found: dict[str, float] = {}
    for outcome in outcomes:
        if outcome.waited_s is not None:
            found[outcome.name] = max(found.get(outcome.name, 0.0), outcome.waited_s)
    return found
