"""`dure bench risk`: is trouble seen in time, how often in vain, and does seeing it help?"""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from dure.domain.risks import WeightsBy
from dure.sim.benches.pool import spread
from dure.sim.benches.report import BenchReport, Tell, silent
from dure.sim.kernel.ramps import Shape
from dure.sim.risk.faults import Fault
from dure.sim.risk.figures import RiskFigures
from dure.sim.risk.pages import ABOUT, grids, verdicts
from dure.sim.risk.ramp_runs import (
    THRESHOLDS,
    AdaptedRun,
    FrozenRun,
    run_adapted,
    run_frozen,
    usable_seeds,
)
from dure.sim.risk.recorded import run_recorded_load, score_forecasts
from dure.sim.risk.scoring import Score, score
from dure.sim.risk.series_bench import OWN, score_series

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_SPARE = 1.4
"""Seeds drawn for each run that is wanted: in some the load that grows breaks no promise."""
_TRAINING = 5000
"""Seeds from here on choose thresholds, and are scored nowhere."""
_RECORDED_S = 20.0
"""How long before a violation an alarm on a recorded load is no false one."""


@dataclass(frozen=True, slots=True)
class RiskPlan:
    """How much is run."""

    runs: int = 50
    steps: int = 12
    quiet: int = 30
    wandering: int = 8
    measured: int = 6
    recorded: int = 3
    training: int = 5
    series: int = 60
    data: Path | None = None
    workers: int = 1


def bench_risk(plan: RiskPlan, *, tell: Tell = silent) -> BenchReport:
    """Run all of it."""
    return report_of(_Run(plan, tell).all())


def report_of(found: RiskFigures) -> BenchReport:
    """What was found, laid out."""
    return BenchReport(
        name="risk",
        title="Risk seen before the violation, and weights that follow",
        about=ABOUT,
        grids=grids(found),
        verdicts=verdicts(found),
        figures={
            "ramps": [_plain(each) for each in found.ramps],
            "steps": [_plain(each) for each in found.steps],
            "adapted": [_plain_adapted(each) for each in found.adapted],
            "stepped": [_plain_adapted(each) for each in found.stepped],
            "alarms": found.alarms,
            "recorded_alarms": found.recorded_alarms,
            "series": dict(found.series),
            "forecasts": found.forecasts,
        },
    )


def _plain(run: FrozenRun) -> dict[str, object]:
    return {
        "seed": run.seed,
        "shape": run.shape.value,
        "reports": run.reports,
        "start_s": run.start_s,
        "violations": run.violations,
        "first_violation_s": run.first_violation_s,
        "risks_s": run.risks_s,
        "foretold_s": run.foretold_s,
    }


def _plain_adapted(run: AdaptedRun) -> dict[str, object]:
    return {**asdict(run), "weights": run.weights.value}


class _Run:
    """One bench under way."""

    def __init__(self, plan: RiskPlan, tell: Tell) -> None:
        self._plan = plan
        self._tell = tell

    def all(self) -> RiskFigures:
        plan = self._plan
        drawn = round(plan.runs * _SPARE)
        ramps = tuple(usable_seeds(self._frozen(Shape.RAMP, drawn), plan.runs))
        steps = tuple(
            usable_seeds(self._frozen(Shape.STEP, round(plan.steps * _SPARE)), plan.steps)
        )
        quiet = self._frozen(Shape.STEADY, plan.quiet)
        wandering = self._frozen(Shape.WANDERING, plan.wandering)
        recorded = self._recorded()
        seeds = [run.seed for run in ramps]
        training = [
            *self._frozen(Shape.RAMP, plan.training, _TRAINING),
            *self._frozen(Shape.STEADY, plan.training, _TRAINING),
        ]
        limits = _limits(training)
        return RiskFigures(
            drawn=drawn,
            ramps=ramps,
            steps=steps,
            quiet=tuple(quiet),
            wandering=tuple(wandering),
            recorded=tuple(recorded),
            adapted=(
                *self._adapted(Shape.RAMP, seeds, WeightsBy.FORESEEN),
                *self._adapted(Shape.RAMP, seeds[: plan.measured], WeightsBy.MEASURED),
            ),
            stepped=tuple(
                self._adapted(Shape.STEP, [run.seed for run in steps], WeightsBy.FORESEEN)
            ),
            alarms=_scored([*ramps, *quiet], limits),
            recorded_alarms=_scored_recorded(recorded, limits),
            series=self._series(),
            forecasts=score_forecasts(plan.data) if plan.data is not None else (),
        )

    def _frozen(self, shape: Shape, count: int, first: int = 1) -> list[FrozenRun]:
        items = [(seed, shape) for seed in range(first, first + count)]
        return self._spread(run_frozen, items, f"{shape.value}, frozen")

    def _adapted(self, shape: Shape, seeds: Sequence[int], weights: WeightsBy) -> list[AdaptedRun]:
        items = [(seed, shape, weights) for seed in seeds]
        return self._spread(run_adapted, items, f"{shape.value}, {weights.value}")

    def _recorded(self) -> list[FrozenRun]:
        if self._plan.data is None:
            return []
        items = [(seed, self._plan.data) for seed in range(1, self._plan.recorded + 1)]
        return self._spread(run_recorded_load, items, "recorded load")

    def _spread(
        self, work: Callable[[_Item], _Result], items: Sequence[_Item], what: str
    ) -> list[_Result]:
        return spread(
            work, items, workers=self._plan.workers, tell=self._tell, name=lambda _item: what
        )

    def _series(self) -> tuple[tuple[str, tuple[Score, ...]], ...]:
        river = importlib.util.find_spec("river") is not None
        found = []
        for number, fault in enumerate(Fault):
            self._tell(f"series: {fault.value}", number / len(Fault))
            scores = score_series(fault, range(self._plan.series), river=river)
            found.append((fault.value, scores))
        return tuple(found)


def _limits(training: Sequence[FrozenRun]) -> dict[str, float]:
    """For each threshold the limit with the best balance on training runs."""
    chosen = {}
    for name, values, limits in THRESHOLDS:
        chosen[name] = max(
            limits,
            key=lambda limit: (
                score(
                    "", [run.judged(run.seen.alarms(values(run.seen), limit)) for run in training]
                ).balance
            ),
        )
    return chosen


def _scored(runs: Sequence[FrozenRun], limits: dict[str, float]) -> tuple[Score, ...]:
    """Dure and the thresholds on the same runs."""
    return (
        score(OWN, [run.judged(run.risks_s) for run in runs]),
        *(
            score(
                f"{name} > {limits[name]:g}",
                [run.judged(run.seen.alarms(values(run.seen), limits[name])) for run in runs],
            )
            for name, values, _ in THRESHOLDS
        ),
    )


def _scored_recorded(runs: Sequence[FrozenRun], limits: dict[str, float]) -> tuple[Score, ...]:
    """The same on a recorded load, where nobody knows when trouble began."""
    if not runs:
        return ()
    return (
        score(OWN, [each for run in runs for each in run.judged_apart(run.risks_s, _RECORDED_S)]),
        *(
            score(
                f"{name} > {limits[name]:g}",
                [
                    each
                    for run in runs
                    for each in run.judged_apart(
                        run.seen.alarms(values(run.seen), limits[name]), _RECORDED_S
                    )
                ],
            )
            for name, values, _ in THRESHOLDS
        ),
    )
