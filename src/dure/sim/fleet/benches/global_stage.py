"""`dure bench global`: time of a round of the global stage and its gap to the bound."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dure.domain.errors import InputError
from dure.fleet.assignment.problem import Problem, Solution, Warm
from dure.fleet.assignment.solve import COLD, solve
from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, mean, number, silent
from dure.sim.benches.timing import one_core
from dure.sim.fleet.benches.global_instances import (
    INSTANCES,
    START_SLOTS,
    make_problem,
    next_round,
)
from dure.sim.fleet.exact import best_assignment, linear_bound

SECONDS_BARS = {"plain": 1.5, "full": 5.0}
"""Most seconds of a cold round of 10,000 jobs and 100 clusters, as promised."""
GAP_BARS_PCT = {"plain": 1.5, "full": 4.0}
WARM_PART_BAR = 0.3
"""Most time of a warm round, in parts of a cold one."""
LINEAR_BAR = 1.5
"""Most time per job of the longest list, in parts of that of the shortest."""
BAR_JOBS, BAR_CLUSTERS = 10_000, 100
SWEEP = (10_000, 20_000, 50_000, 100_000)
TUNED_ON = "1 to 3"
"""Seeds that the defaults of `Effort` were set on: figures of others say more."""
MOST_OPTIONS = 200_000_000
"""Jobs times clusters times starts of one round."""
_BYTES_AN_OPTION = 40
"""Costs, prices and the tables they are made from."""
MOST_EXACT_OPTIONS = 20_000
"""Options up to which the general solver is asked."""
_EXACT_S = 60.0
_WARM_UP = (60, 6)
"""Jobs and sites of the problem that compiles the code before anything is timed."""
_GREEDY = replace(COLD, looks=1, levels=(), passes=0)


@dataclass(frozen=True, slots=True)
class Round:
    """One made round, solved cold, and the round after it, solved warm."""

    instance: str
    jobs: int
    clusters: int
    seed: int
    seconds: float
    gap_pct: float
    cpu_seconds: float
    """Of the processor, which other work on the machine disturbs less."""
    warm_seconds: float
    warm_cpu_seconds: float
    warm_gap_pct: float
    unchanged_seconds: float
    """To find that nothing has changed."""
    unchanged_same: bool
    """And that the assignment was then returned as it was."""
    skipped_pct: float
    greedy_pct: float
    """How far the cheapest option with room, without prices, is above the bound."""
    binding: tuple[int, int, int]
    """Tenants with a price on their share, their money, their carbon."""
    linear_gap_pct: float | None = None
    """How far the bound is below that of linear programming."""
    exact_gap_pct: float | None = None
    """How far the assignment is above the best that integer programming found in a minute."""


def bench_global(
    sizes: tuple[int, int],
    instances: Sequence[str],
    seeds: Sequence[int],
    *,
    exact: bool = False,
    sweep: bool = False,
    tell: Tell = silent,
) -> BenchReport:
    """Solve made rounds of this many jobs and clusters, cold and warm."""
    jobs, clusters = sizes
    _check_size(jobs, clusters, instances)
    plan = [(instance, jobs, seed) for instance in instances for seed in seeds]
    if sweep:
        plan += [(instance, more, seeds[0]) for instance in instances for more in SWEEP]
    rows = []
    with one_core():
        for instance in instances:
            _warm_up(instance)
        for index, (instance, count, seed) in enumerate(plan):
            tell(f"{instance}, {count:,} jobs, seed {seed}", index / len(plan))
            rows.append(_round(instance, (count, clusters), seed, exact=exact))
    own, swept = rows[: len(instances) * len(seeds)], rows[len(instances) * len(seeds) :]
    return BenchReport(
        name="global",
        title="Rounds of the global stage",
        about=_ABOUT,
        grids=tuple(_grids(own, swept)),
        verdicts=tuple(_verdicts(own, swept)),
        simulated=False,
        subject="fleet",
        figures=_figures(own, swept, instances),
    )


def _check_size(jobs: int, clusters: int, instances: Sequence[str]) -> None:
    slots = max(START_SLOTS[instance] for instance in instances)
    options = jobs * clusters * slots
    if options > MOST_OPTIONS:
        raise InputError(
            f"{jobs:,} jobs × {clusters:,} clusters × {slots} start slots are {options:,} options, "
            f"which take {options * _BYTES_AN_OPTION / 1e9:,.0f} GB",
            f"stay within {MOST_OPTIONS:,} options",
            field="--jobs",
        )


_ABOUT = (
    "Wall time of `dure.fleet.assignment.solve` on one core, compiled beforehand. The gap is "
    "(cost − bound) / bound, with the bound of the price loop itself. `plain` has one start slot "
    "and two capacities, each asked for 1.1 times. `full` has six start slots of an hour, devices "
    "asked for 1.1 times, device memory 1.0, cores 0.9 and host memory 0.8 times (sites differ, so "
    "that each binds somewhere), gangs of up to 64 devices, a limit on the contiguous part of each "
    "site, and 40 tenants with caps on their dominant share, half of them with a money and half "
    "with a carbon budget. A warm round has 5 % of the jobs replaced and the prices of every site "
    "moved by 3 % up or down; it is given prices and assignment of the round before. The effort "
    f"was set on seeds {TUNED_ON}; the longer lists use the first seed shown. Verdicts are on wall "
    "time; seconds of the processor are beside it."
)


def _warm_up(instance: str) -> None:
    problem = make_problem(instance, *_WARM_UP, seed=0)
    found = solve(problem)
    after, new = next_round(problem, instance, 0)
    solve(after, warm=_warm(found, new))


def _warm(found: Solution, new: np.ndarray[tuple[int], np.dtype[np.bool_]] | None) -> Warm:
    choice = found.choice if new is None else np.where(new, -1, found.choice)
    return Warm(found.prices, choice, found.gap, found.hints)


def _round(instance: str, sizes: tuple[int, int], seed: int, *, exact: bool) -> Round:
    problem = make_problem(instance, *sizes, seed)
    found, seconds, cpu_seconds = _timed(problem, None)
    again, unchanged_seconds, _ = _timed(problem, _warm(found, None))
    greedy = solve(problem, effort=_GREEDY).primal
    after, new = next_round(problem, instance, seed)
    warm, warm_seconds, warm_cpu_seconds = _timed(after, _warm(found, new))
    linear_gap_pct = exact_gap_pct = None
    if exact and problem.cost.size <= MOST_EXACT_OPTIONS:
        linear = linear_bound(problem).cost
        linear_gap_pct = 100.0 * (linear - found.dual) / linear
        best = best_assignment(problem, time_limit_s=_EXACT_S).cost
        exact_gap_pct = 100.0 * (found.primal - best) / best
    return Round(
        instance=instance,
        jobs=sizes[0],
        clusters=sizes[1],
        seed=seed,
        seconds=seconds,
        gap_pct=100.0 * found.gap,
        cpu_seconds=cpu_seconds,
        warm_seconds=warm_seconds,
        warm_cpu_seconds=warm_cpu_seconds,
        warm_gap_pct=100.0 * warm.gap,
        unchanged_seconds=unchanged_seconds,
        unchanged_same=again.unchanged and bool(np.array_equal(again.choice, found.choice)),
        skipped_pct=100.0 * float((found.choice < 0).mean()),
        greedy_pct=100.0 * (greedy / found.dual - 1.0),
        binding=_binding(found),
        linear_gap_pct=linear_gap_pct,
        exact_gap_pct=exact_gap_pct,
    )


def _timed(problem: Problem, warm: Warm | None) -> tuple[Solution, float, float]:
    """The solution, wall seconds and seconds of the processor."""
    started, busy = time.perf_counter(), time.process_time()
    found = solve(problem, warm=warm)
    return found, time.perf_counter() - started, time.process_time() - busy


def _binding(found: Solution) -> tuple[int, int, int]:
    prices = found.prices
    shares = (prices.share > 0.0).any(axis=1)
    return tuple(int((part > 0.0).sum()) for part in (shares, prices.money, prices.carbon))  # type: ignore[return-value]


_MEANS = (
    "seconds",
    "cpu_seconds",
    "warm_seconds",
    "warm_cpu_seconds",
    "gap_pct",
    "warm_gap_pct",
)


def _figures(own: list[Round], swept: list[Round], instances: Sequence[str]) -> dict[str, object]:
    means = {
        instance: {
            name: mean([getattr(row, name) for row in own if row.instance == instance])
            for name in _MEANS
        }
        for instance in instances
    }
    top = means[instances[0]] if len(instances) == 1 else {"instances": means}
    return {**top, "rows": own, "sweep": swept}


def _grids(own: list[Round], swept: list[Round]) -> list[Grid]:
    columns = (
        "instance, jobs × clusters, seed",
        "cold s",
        "of the processor",
        "gap %",
        "warm s",
        "of the processor",
        "warm gap %",
        "unchanged s",
        "left out %",
        "greedy %",
        "capped: share, money, carbon",
    )
    grids = [Grid("Rounds", columns, tuple(_cells(row) for row in own))]
    judged = [row for row in own if row.linear_gap_pct is not None]
    if judged:
        grids.append(
            Grid(
                "Beside a general solver",
                ("instance, seed", "bound below that of the LP, %", "cost above the MILP's, %"),
                tuple(
                    (
                        f"{row.instance}, {row.seed}",
                        number(row.linear_gap_pct, 3),
                        number(row.exact_gap_pct, 2),
                    )
                    for row in judged
                ),
            )
        )
    if swept:
        grids.append(Grid("Longer lists", columns, tuple(_cells(row) for row in swept)))
    return grids


def _cells(row: Round) -> tuple[str, ...]:
    return (
        f"{row.instance}, {row.jobs:,} × {row.clusters}, {row.seed}",
        number(row.seconds, 2),
        number(row.cpu_seconds, 2),
        number(row.gap_pct, 2),
        number(row.warm_seconds, 2),
        number(row.warm_cpu_seconds, 2),
        number(row.warm_gap_pct, 2),
        number(row.unchanged_seconds, 3),
        number(row.skipped_pct, 1),
        number(row.greedy_pct, 0),
        ", ".join(str(count) for count in row.binding) if row.instance == "full" else "–",
    )


def _verdicts(own: list[Round], swept: list[Round]) -> list[Verdict]:
    found = []
    for instance in INSTANCES:
        rows = [row for row in own if row.instance == instance]
        if rows:
            found += _instance_verdicts(instance, rows)
        longer = [row for row in swept if row.instance == instance]
        if longer:
            found.append(_linear(instance, longer))
    return found


def _instance_verdicts(instance: str, rows: list[Round]) -> list[Verdict]:
    judged = (rows[0].jobs, rows[0].clusters) == (BAR_JOBS, BAR_CLUSTERS)
    seconds, gap = mean([row.seconds for row in rows]), mean([row.gap_pct for row in rows])
    warm = mean([row.warm_seconds for row in rows])
    warm_gap = mean([row.warm_gap_pct for row in rows])
    seconds_bar, gap_bar = SECONDS_BARS[instance], GAP_BARS_PCT[instance]
    size = f"{instance} {rows[0].jobs:,} × {rows[0].clusters}"
    found = [
        Verdict(
            f"{size}: cold round ≤ {seconds_bar} s at ≤ {gap_bar} % gap",
            f"{seconds:.2f} s, {gap:.2f} %",
            (seconds <= seconds_bar and gap <= gap_bar) if judged else None,
        ),
        Verdict(
            f"{size}: warm round ≤ {WARM_PART_BAR} × cold at ≤ {gap_bar} % gap",
            f"{warm / seconds:.2f} × ({warm:.2f} s), {warm_gap:.2f} %",
            (warm <= WARM_PART_BAR * seconds and warm_gap <= gap_bar) if judged else None,
        ),
        Verdict(
            f"{size}: a warm round on an unchanged problem changes nothing",
            f"{sum(row.unchanged_same for row in rows)} of {len(rows)}, in "
            f"{mean([row.unchanged_seconds for row in rows]):.3f} s",
            all(row.unchanged_same for row in rows),
        ),
    ]
    if instance == "full":
        found.append(_capped(size, rows))
    return found


def _capped(size: str, rows: list[Round]) -> Verdict:
    kinds = ("dominant share", "money", "carbon")
    means = [mean([float(row.binding[kind]) for row in rows]) for kind in range(3)]
    said = ", ".join(f"{kind} {count:.1f}" for kind, count in zip(kinds, means, strict=True))
    bound = all(count > 0 for row in rows for count in row.binding)
    return Verdict(f"{size}: caps and budgets bind for some tenants", f"tenants: {said}", bound)


def _linear(instance: str, rows: list[Round]) -> Verdict:
    first, last = rows[0], rows[-1]
    part = (last.seconds / last.jobs) / (first.seconds / first.jobs)
    return Verdict(
        f"{instance}: time per job at {last.jobs:,} jobs ≤ {LINEAR_BAR} × that at {first.jobs:,}",
        f"{part:.2f} × ({last.seconds:.1f} s; gap {last.gap_pct:.2f} %)",
        part <= LINEAR_BAR,
    )
