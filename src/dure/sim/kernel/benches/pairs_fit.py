"""`dure bench pairs --fit`: searches the fitted parameters of the physics on pair (a) alone.

One parameter at a time is moved up and down by a step, better values are kept, and the step
shrinks from round to round. The search prints what it found and changes no code.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from dure.kit.docstrings import attribute_docs
from dure.sim.benches.pool import spread
from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, mean, number, silent
from dure.sim.kernel.benches import pairs_measured as measured
from dure.sim.kernel.benches.pairs import FITTED_PAIR
from dure.sim.kernel.benches.pairs_run import Case, Figures, run_case
from dure.sim.kernel.physics import Physics

FIT_SEEDS = (1, 2, 3, 4)
STEPS = (0.3, 0.15, 0.07)
"""Relative steps, one round of all parameters each."""
_MARK = "Fitted."
"""How the physics marks a parameter that this search sets."""

# How far off, as a logarithm, counts as one unit of error.
_RATE_UNIT = 0.05
_GATED_UNIT = 0.1
"""Gated tails, over the tail alone: what Dure is about."""
_QUEUE_UNIT = 0.7
"""Tails near saturation swing widely with the draw of arrivals."""
_GROWTH_UNIT = 0.2
"""Tails of diverging queues, which say by how much demand exceeds service."""

Objective = Callable[[Physics], float]


def fitted_names() -> tuple[str, ...]:
    """The parameters the physics says were fitted."""
    docs = attribute_docs(Physics)
    return tuple(
        field.name for field in fields(Physics) if docs.get(field.name, "").endswith(_MARK)
    )


def fit_pairs(
    *,
    seeds: Sequence[int] = FIT_SEEDS,
    run_s: float = measured.RUN_S,
    steps: Sequence[float] = STEPS,
    workers: int = 1,
    tell: Tell = silent,
) -> BenchReport:
    """Search from the present values."""

    def objective(physics: Physics) -> float:
        return fit_error(physics, seeds=seeds, run_s=run_s, workers=workers)

    names = fitted_names()
    start = Physics()
    best, before, after, tried = descend(objective, start, names, steps, tell)
    return BenchReport(
        name="pairs-fit",
        title="Fit of the physics on pair (a)",
        about=(
            f"Error: squared misses of best-effort rates and tails of pair ({FITTED_PAIR}), in "
            f"units of what each is trusted to; seeds {', '.join(map(str, seeds))}. Pair (b) is "
            "not looked at. To use the values, write them into src/dure/sim/kernel/physics.py."
        ),
        grids=(
            Grid(
                "Parameters",
                ("parameter", "present", "found"),
                tuple(
                    (name, number(getattr(start, name), 3), number(getattr(best, name), 3))
                    for name in names
                ),
            ),
        ),
        verdicts=(
            Verdict("error", f"{before:.1f} before, {after:.1f} after {tried} trials", None),
        ),
        figures={
            "present": {name: getattr(start, name) for name in names},
            "found": {name: getattr(best, name) for name in names},
            "error_before": before,
            "error_after": after,
            "trials": tried,
        },
    )


def descend(
    objective: Objective, start: Physics, names: Sequence[str], steps: Sequence[float], tell: Tell
) -> tuple[Physics, float, float, int]:
    """Coordinate search; gives the best values, the error before and after, and the trials."""
    best = start
    first = error = objective(start)
    tried = 1
    moves = [(step, name) for step in steps for name in names]
    for done, (step, name) in enumerate(moves):
        tell(f"{name}, error {error:.1f}", done / len(moves))
        for factor in (1.0 + step, 1.0 / (1.0 + step)):
            trial = _moved(best, name, factor)
            if trial == best:
                continue
            tried += 1
            found = objective(trial)
            if found < error:
                best, error = trial, found
                break
    return best, first, error, tried


def _moved(physics: Physics, name: str, factor: float) -> Physics:
    """One parameter moved by a factor: times stay whole, shares stay at or below 1."""
    value = getattr(physics, name)
    moved: Any = round(value * factor) if isinstance(value, int) else min(1.0, value * factor)
    return replace(physics, **{name: moved})


def fit_error(physics: Physics, *, seeds: Sequence[int], run_s: float, workers: int = 1) -> float:
    """How far the simulation of pair (a) is from what was measured."""
    rows = [row for row in measured.ROWS if row.pair == FITTED_PAIR]
    cases = [
        Case(row.pair, row.row, seed, run_s=run_s, physics=physics)
        for row in rows
        for seed in seeds
    ]
    figures = spread(run_case, cases, workers=workers, tell=silent)
    count = len(seeds)
    found = {
        row.row: _mean(figures[index * count : (index + 1) * count])
        for index, row in enumerate(rows)
    }
    alone = next(row for row in rows if row.row == measured.SOLO)
    over_alone = found[measured.SOLO][0] / alone.p99_ms
    error = 0.0
    for row in rows:
        p99_ms, be_per_s = found[row.row]
        if row.be_per_s is not None:
            error += _squares(be_per_s / row.be_per_s, _RATE_UNIT)
        if row.diverges:
            error += _squares(p99_ms / row.p99_ms, _GROWTH_UNIT)
        elif row is not alone:
            unit = _GATED_UNIT if row.row in measured.GATED else _QUEUE_UNIT
            error += _squares(p99_ms / row.p99_ms / over_alone, unit)
    return error


def _mean(figures: Sequence[Figures]) -> tuple[float, float]:
    return mean([one.p99_ms for one in figures]), mean([one.be_per_s for one in figures])


def _squares(ratio: float, unit: float) -> float:
    return (math.log(max(ratio, 1e-6)) / unit) ** 2
