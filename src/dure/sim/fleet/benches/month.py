"""`dure bench fleet`: the month under every mode, beside what could not be done better.

Each mode is a run of one committed scenario; the offline bound knows the whole month beforehand.
The figure of merit is the part of the way from the best heuristic to that bound which Dure goes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, mean, number, percent, silent
from dure.sim.fleet.benches.month_runs import (
    BOUND,
    LEAST_CARBON,
    MonthFigures,
    MonthRun,
    kept_runs,
    run_all,
)
from dure.sim.fleet.modes import ABLATIONS, MODES
from dure.sim.fleet.month import MonthCase

HEURISTICS = tuple(mode.name for mode in MODES.values() if mode.baseline)
REFERENCES = ("cost-only", "carbon-only")
DURE = "dure"
PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)
CLOSED = 0.5
"""Part of the gap that is to be closed at each load."""
CARBON_SHARES = (0.95, 0.85)
"""Budgets, of what Dure emits without one."""
CARBON_SLACK = 0.01
_SWEPT_LOAD = 0.8
"""Load of the sweeps."""
LEADER = "cheapest-first"
"""The heuristic that every seed is run with."""


@dataclass(frozen=True, slots=True)
class MonthPlan:
    """What to run."""

    loads: Sequence[float] = (0.6, 0.8, 0.95)
    seeds: Sequence[int] = (1, 2, 3, 4, 5)
    side_seeds: int = 5
    """On how many of the seeds the heuristics that never lead, the references and the sweeps are
    run: the first ones."""
    sweeps: bool = True
    """Penalty rates, carbon budgets and ablation as well."""
    kept_only: bool = False
    """Put together what earlier calls kept, and run nothing."""

    @property
    def side(self) -> Sequence[int]:
        """Those seeds."""
        return self.seeds[: self.side_seeds]

    def seeds_of(self, mode: str) -> Sequence[int]:
        """The seeds a mode is run with in the main table."""
        return self.seeds if mode in (LEADER, DURE, BOUND) else self.side


Found = dict[MonthRun, MonthFigures]


def bench_month(
    data: Path | None, plan: MonthPlan, keep: Path | None, *, workers: int, tell: Tell = silent
) -> BenchReport:
    """Run what is missing and put it together."""
    swept = plan.side
    runs = [
        MonthRun(MonthCase(load, seed), mode)
        for load in plan.loads
        for mode in (*HEURISTICS, *REFERENCES, DURE, BOUND)
        for seed in plan.seeds_of(mode)
    ]
    if plan.sweeps:
        runs += [
            MonthRun(MonthCase(_SWEPT_LOAD, seed, penalty), mode)
            for penalty in PENALTIES
            for seed in swept
            for mode in (LEADER, DURE, BOUND)
        ]
        runs += [
            MonthRun(MonthCase(_SWEPT_LOAD, seed), mode.name)
            for seed in swept
            for mode in ABLATIONS.values()
        ]
        runs += [MonthRun(MonthCase(_SWEPT_LOAD, seed), LEAST_CARBON) for seed in swept]
    runs = list(dict.fromkeys(runs))
    if plan.kept_only:
        found = kept_runs(runs, keep)
    else:
        found = run_all(runs, data, keep, workers=workers, tell=tell)
    grids, verdicts = _main(found, plan)
    if plan.sweeps and plan.kept_only:
        for part in (_penalties(found, swept), _ablation(found, swept)):
            grids += part[0]
            verdicts += part[1]
    elif plan.sweeps:
        budgets = [
            MonthRun(replace(MonthCase(_SWEPT_LOAD, seed), carbon_budget_kg=share * free), DURE)
            for seed in swept
            for free in [found[MonthRun(MonthCase(_SWEPT_LOAD, seed), DURE)].kg_co2]
            for share in CARBON_SHARES
        ]
        found |= run_all(budgets, data, keep, workers=workers, tell=tell)
        for part in (_penalties(found, swept), _ablation(found, swept), _carbon(found, budgets)):
            grids += part[0]
            verdicts += part[1]
    return BenchReport(
        name="fleet",
        title="The month" if data is not None else "The month, with made data",
        about=(
            "Jobs of the Philly trace of October 2017 and services with the bursts of the Azure "
            "LLM trace on eight named zones with prices and carbon of October 2023 "
            "(`src/dure/sim/fleet/scenarios/month.yaml`), capacity scaled to each mean load. "
            "Total: rent of node-hours, energy of owned nodes, transfers, penalties, work left "
            "undone at the dearest price, and carbon at 50 USD a tonne. The bound knows the whole "
            "month beforehand, splits work at will and always fills nodes: no schedule reaches it."
        ),
        grids=tuple(grids),
        verdicts=tuple(verdicts),
        subject="fleet",
        figures={
            "runs": [
                {"run": run.name, **_row_data(figures)}
                for run, figures in sorted(found.items(), key=lambda item: item[0].name)
            ]
        },
    )


def _row_data(figures: MonthFigures) -> dict[str, float]:
    return {
        "total": figures.total,
        "money": figures.money,
        "kg_co2": figures.kg_co2,
        "jobs_on_time": figures.jobs_on_time,
        "service_minutes_kept": figures.service_minutes_kept,
    }


def _average(found: Found, runs: Sequence[MonthRun], of: Callable[[MonthFigures], float]) -> float:
    return mean([of(found[run]) for run in runs])


def _cells(found: Found, runs: Sequence[MonthRun]) -> tuple[str, ...]:
    """The usual columns of one mode, mean over seeds."""
    figures = [found[run] for run in runs]
    return (
        number(mean([each.total for each in figures]), 0),
        number(mean([each.money - each.penalties - each.unfinished for each in figures]), 0),
        number(mean([each.penalties for each in figures]), 0),
        number(mean([each.unfinished for each in figures]), 0),
        number(mean([each.kg_co2 for each in figures]) / 1000.0, 1),
        percent(mean([each.jobs_on_time for each in figures]), 2),
        percent(mean([each.service_minutes_kept for each in figures]), 2),
        percent(mean([each.utilisation for each in figures])),
        percent(mean([each.open_share for each in figures])),
        number(mean([each.moves for each in figures]), 0),
    )


_COLUMNS = (
    "mode", "total", "rent+energy", "penalties", "undone", "t CO2",
    "jobs on time", "service min.", "held", "open", "moves",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Gap:
    """How far Dure goes from the best heuristic to the bound, over seeds."""

    best: str
    closed: float
    least: float
    """In the worst seed."""


def _gap(found: Found, cases: Sequence[MonthCase]) -> _Gap:
    """Against the strongest heuristic of each case, of those that were run on it."""
    parts, best = [], []
    for case in cases:
        ran = {
            mode: found[run].total for mode in HEURISTICS if (run := MonthRun(case, mode)) in found
        }
        strongest = min(ran, key=lambda mode: ran[mode])
        bound, ours = (found[MonthRun(case, mode)].total for mode in (BOUND, DURE))
        way = ran[strongest] - bound
        parts.append((ran[strongest] - ours) / way if way > 0 else 0.0)
        best.append(strongest)
    return _Gap(max(best, key=best.count), mean(parts), min(parts))


def _main(found: Found, plan: MonthPlan) -> tuple[list[Grid], list[Verdict]]:
    grids, verdicts = [], []
    for load in plan.loads:
        cases = _complete(found, [MonthCase(load, seed) for seed in plan.seeds])
        if not cases:
            continue
        rows = []
        for mode in (*HEURISTICS, *REFERENCES, DURE):
            ran = [
                seed
                for seed in plan.seeds_of(mode)
                if MonthRun(MonthCase(load, seed), mode) in found
            ]
            seeds = [case.seed for case in cases] if mode in (LEADER, DURE) else ran
            if not seeds:
                continue
            name = mode if len(seeds) == len(cases) else f"{mode} ({_seeds(seeds)})"
            rows.append((name, *_cells(found, [MonthRun(MonthCase(load, s), mode) for s in seeds])))
        bound = number(_average(found, [MonthRun(case, BOUND) for case in cases], _total), 0)
        rows.append((BOUND, bound, *("",) * (len(_COLUMNS) - 2)))
        grids.append(Grid(f"Load {load:g}, mean of {len(cases)} seeds, USD", _COLUMNS, tuple(rows)))
        gap = _gap(found, cases)
        verdicts.append(
            Verdict(
                f"load {load:g}: at least half of the gap between the best heuristic and the "
                "offline bound is closed",
                f"{percent(gap.closed)} over {gap.best}, {percent(gap.least)} in the worst seed",
                gap.closed >= CLOSED,
            )
        )
        verdicts.append(_attainment(found, cases, load, gap.best))
    return grids, verdicts


def _complete(found: Found, cases: Sequence[MonthCase]) -> list[MonthCase]:
    """Cases that Dure, the leading heuristic and the bound were run on."""
    needed = (LEADER, DURE, BOUND)
    return [case for case in cases if all(MonthRun(case, mode) in found for mode in needed)]


def _seeds(seeds: Sequence[int]) -> str:
    return "seed " + ", ".join(str(seed) for seed in seeds)


def _total(figures: MonthFigures) -> float:
    return figures.total


def _attainment(found: Found, cases: Sequence[MonthCase], load: float, best: str) -> Verdict:
    """Promises kept, beside the best heuristic's."""
    ours = [MonthRun(case, DURE) for case in cases]
    theirs = [MonthRun(case, best) for case in cases]
    jobs = [_average(found, runs, lambda each: each.jobs_on_time) for runs in (ours, theirs)]
    minutes = [
        _average(found, runs, lambda each: each.service_minutes_kept) for runs in (ours, theirs)
    ]
    return Verdict(
        f"load {load:g}: promises are kept no worse than under {best}",
        f"jobs on time {percent(jobs[0], 2)} against {percent(jobs[1], 2)}, "
        f"service minutes {percent(minutes[0], 2)} against {percent(minutes[1], 2)}",
        jobs[0] >= jobs[1] and minutes[0] >= minutes[1],
    )


def _penalties(found: Found, seeds: Sequence[int]) -> tuple[list[Grid], list[Verdict]]:
    rows = []
    for penalty in PENALTIES:
        cases = _complete(found, [MonthCase(_SWEPT_LOAD, seed, penalty) for seed in seeds])
        if not cases:
            continue
        gap = _gap(found, cases)
        best = [MonthRun(case, gap.best) for case in cases]
        ours = [MonthRun(case, DURE) for case in cases]
        rows.append(
            (
                f"× {penalty:g}",
                gap.best,
                number(_average(found, best, _total), 0),
                number(_average(found, ours, _total), 0),
                number(_average(found, [MonthRun(case, BOUND) for case in cases], _total), 0),
                percent(gap.closed),
                percent(_average(found, best, lambda each: each.jobs_on_time), 2),
                percent(_average(found, ours, lambda each: each.jobs_on_time), 2),
            )
        )
    columns = (
        "penalties", "heuristic", "its total", "dure", "bound", "gap closed",
        "its jobs on time", "dure's",
    )  # fmt: skip
    title = f"Penalty rates, load {_SWEPT_LOAD:g}, {_seeds(seeds)}"
    return [Grid(title, columns, tuple(rows))], []


def _ablation(found: Found, seeds: Sequence[int]) -> tuple[list[Grid], list[Verdict]]:
    cases = _complete(found, [MonthCase(_SWEPT_LOAD, seed) for seed in seeds])
    if not cases:
        return [], []
    whole = _average(found, [MonthRun(case, DURE) for case in cases], _total)
    rows = [(DURE, *_cells(found, [MonthRun(case, DURE) for case in cases]), "")]
    for feature, mode in ABLATIONS.items():
        runs = [MonthRun(case, mode.name) for case in cases]
        if any(run not in found for run in runs):
            continue
        more = _average(found, runs, _total) / whole - 1.0
        rows.append((f"without {feature}", *_cells(found, runs), f"{100 * more:+.2f} %"))
    title = f"One feature off, load {_SWEPT_LOAD:g}, {_seeds(seeds)}"
    return [Grid(title, (*_COLUMNS, "total"), tuple(rows))], []


def _carbon(found: Found, budgets: Sequence[MonthRun]) -> tuple[list[Grid], list[Verdict]]:
    rows, verdicts = [], []
    for run in budgets:
        budget = run.case.carbon_budget_kg or 0.0
        least = found[MonthRun(replace(run.case, carbon_budget_kg=None), LEAST_CARBON)].kg_co2
        free = found[MonthRun(replace(run.case, carbon_budget_kg=None), DURE)]
        held = found[run]
        feasible = least <= budget
        rows.append(
            (
                f"seed {run.case.seed}, {percent(budget / free.kg_co2, 0)}",
                number(budget / 1000.0, 1),
                number(held.kg_co2 / 1000.0, 1),
                number(least / 1000.0, 1),
                "yes" if feasible else "no",
                f"{100 * (held.total / free.total - 1.0):+.1f} %",
            )
        )
        verdicts.append(
            Verdict(
                f"seed {run.case.seed}: a carbon budget of {percent(budget / free.kg_co2, 0)} of "
                "the free run is held within 1 % where it is feasible",
                f"{percent(held.kg_co2 / budget - 1.0, 2)} over",
                held.kg_co2 <= (1.0 + CARBON_SLACK) * budget if feasible else None,
            )
        )
    columns = ("budget", "t CO2 allowed", "emitted", "least by the bound", "feasible", "total")
    return [Grid(f"Carbon budgets, load {_SWEPT_LOAD:g}", columns, tuple(rows))], verdicts
