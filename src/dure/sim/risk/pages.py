"""The bench of risks laid out: tables and verdicts."""

import statistics
from collections.abc import Iterable, Sequence

from dure.domain.risks import WeightsBy
from dure.sim.benches.report import Grid, Verdict, mean, number, percent
from dure.sim.risk.figures import RiskFigures
from dure.sim.risk.ramp_runs import AdaptedRun, FrozenRun
from dure.sim.risk.recorded import GUESSES
from dure.sim.risk.scoring import Score

_LEAD_S = 3.0
_SHARE = 0.9
_MOST_FALSE_PER_HOUR = 1.0
_MOST_RATIO = 0.3

ABOUT = (
    "A service beside a job that fills the GPU, everything drawn from the seed "
    "(`dure.sim.kernel.ramps`): 2 to 4 ms a request, 17 to 20 % load alone, a p99 target of 8 to "
    "9.5 times a request; half of the services report latencies, of the others only bursts are "
    "seen. Load ramps to three times within 30 s and stays for 40 s, or steps there at once, or "
    "stays, or wanders by a quarter within 4 s. The policy is `hybrid`. A violation is a look, "
    "twice a second, at which less than 99 % of the requests that ended in the 10 s before were "
    "in time. Runs count in which the promise was kept until the load changed and broken after, "
    "with weights frozen: the first so many of the seeds drawn. Detection is judged in those "
    "runs, where nothing is done about what is seen; what it helps, in runs of the same seeds "
    "whose weights follow it.\n\n"
    "Lead is from the alarm to the first violation, delay from the onset to the alarm, both "
    "medians. An alarm is false while the load is what it was, unless the "
    "promise is broken at that load within 20 s. Thresholds, and the settings of "
    "the library river, are the best of a grid on training seeds that are scored nowhere. "
    "Forecast errors are mean absolute errors over mean values of the last quarter of recorded "
    "series (prices and carbon of 2023 by the hour), those of load root mean squares (one hour of "
    "requests in steps of 10 s, most of which have none), read by path and not part of the "
    "repository. No recording of a real GPU's memory, clocks or "
    "copies running into trouble exists in the repository: those three are shown on made series "
    "alone."
)


def grids(found: RiskFigures) -> tuple[Grid, ...]:
    """All tables."""
    listed = [_ramps(found), _alarms("Alarms on ramps and steady load", found.alarms)]
    if found.recorded_alarms:
        title = "Alarms on a recorded hour of requests, 8 times as fast"
        listed.append(_alarms(title, found.recorded_alarms))
    listed.append(_series(found))
    if found.forecasts:
        listed.append(_forecasts(found))
    listed.append(_each(found))
    return tuple(listed)


def verdicts(found: RiskFigures) -> tuple[Verdict, ...]:
    """What was to be shown."""
    leads = [_lead_s(run) for run in found.ramps]
    seen = sum(lead is not None and lead >= _LEAD_S for lead in leads)
    quiet = [*found.quiet, *found.ramps]
    false = sum(run.judged(run.risks_s).false_alarms for run in quiet)
    hours = sum(run.judged(run.risks_s).quiet_s for run in quiet) / 3600.0
    foreseen = _of(found.adapted, WeightsBy.FORESEEN)
    ratio = _ratio(found.ramps, foreseen)
    delays = [_delay_s(run) for run in found.steps]
    known = [delay for delay in delays if delay is not None]
    wandering = sum(run.judged(run.risks_s).false_alarms for run in found.wandering)
    wandered = sum(run.length_s for run in found.wandering if not run.violations) / 3600.0
    return (
        Verdict(
            f"ramp to three times in 30 s: risk seen ≥ {_LEAD_S:g} s before the first violation "
            f"in ≥ {_SHARE:.0%} of runs",
            f"{seen} of {len(leads)}; lead median {number(_median(leads))} s, "
            f"least {number(min((lead for lead in leads if lead is not None), default=None))} s",
            seen >= _SHARE * len(leads),
        ),
        Verdict(
            f"at most {_MOST_FALSE_PER_HOUR:g} false alarm per simulated hour",
            f"{false} in {hours:.2f} h of unchanged load",
            false <= _MOST_FALSE_PER_HOUR * hours,
        ),
        Verdict(
            f"violations at most {_MOST_RATIO:g} times those with weights frozen",
            f"{number(ratio, 3)}",
            ratio is not None and ratio <= _MOST_RATIO,
        ),
        Verdict(
            "step to three times: delay until the risk is seen",
            f"median {number(_median(delays))} s, longest "
            f"{number(max(known, default=None))} s, {len(known)} of {len(delays)} seen; violations "
            f"{number(_ratio(found.steps, found.stepped), 3)} times those with weights frozen",
            None,
        ),
        Verdict(
            "load that wanders by a quarter within seconds, to nowhere",
            f"{wandering} alarms in {wandered:.2f} h",
            None,
        ),
    )


def _ramps(found: RiskFigures) -> Grid:
    rows = []
    for title, frozen, adapted in (
        ("ramp", found.ramps, found.adapted),
        ("step", found.steps, found.stepped),
    ):
        count = len(frozen)
        rows.append(
            (f"{title}, frozen", f"{count}", number(mean([r.violations for r in frozen])), "1", "1")
        )
        for weights in (WeightsBy.MEASURED, WeightsBy.FORESEEN):
            own = _of(adapted, weights)
            if own:
                rows.append(
                    (
                        f"{title}, {weights.value}",
                        f"{len(own)}",
                        number(mean([run.violations for run in own])),
                        number(_ratio(frozen, own), 3),
                        number(_work_ratio(frozen, own), 3),
                    )
                )
    columns = ("load, weights", "runs", "violations a run", "over frozen", "job's work over frozen")
    return Grid("What seeing it helps: violations with and without", columns, tuple(rows))


def _alarms(title: str, scores: Iterable[Score]) -> Grid:
    rows = tuple(
        (
            each.detector,
            f"{each.hits} of {each.troubles}",
            percent(each.precision, 0),
            percent(each.recall, 0),
            number(each.lead_s),
            number(each.false_per_hour, 2),
        )
        for each in scores
    )
    columns = ("detector", "seen in time", "precision", "recall", "lead s", "false an hour")
    return Grid(title, columns, rows)


def _series(found: RiskFigures) -> Grid:
    rows = tuple(
        (
            fault,
            each.detector,
            percent(each.precision, 0),
            percent(each.recall, 0),
            number(each.delay_s, 0),
            number(each.lead_s, 0),
            number(each.false_per_hour, 2),
        )
        for fault, scores in found.series
        for each in scores
    )
    columns = ("fault", "detector", "precision", "recall", "delay s", "lead s", "false an hour")
    return Grid("Made series with labelled faults, held-out seeds", columns, rows)


def _forecasts(found: RiskFigures) -> Grid:
    rows = tuple(
        (
            f"{each.kind}, {each.horizon} ahead",
            f"{each.series}",
            *(percent(each.errors.get(name), 1) for name in GUESSES),
        )
        for each in found.forecasts
    )
    return Grid(
        "Forecasts of recorded series, held-out quarter", ("what", "series", *GUESSES), rows
    )


def _each(found: RiskFigures) -> Grid:
    adapted = {run.seed: run for run in _of(found.adapted, WeightsBy.FORESEEN)}
    rows = tuple(
        (
            f"{run.seed}",
            "latencies" if run.reports else "bursts",
            number((run.first_violation_s or 0.0) - run.start_s),
            number(_lead_s(run)),
            number(run.foretold_s),
            f"{run.violations}",
            f"{adapted[run.seed].violations}" if run.seed in adapted else "–",
            number(adapted[run.seed].most_weight) if run.seed in adapted else "–",
        )
        for run in found.ramps
    )
    columns = (
        "seed",
        "seen are",
        "violation s after the ramp begins",
        "lead s",
        "foretold s",
        "violations frozen",
        "foreseen",
        "largest weight",
    )
    title = f"Every ramp: the first {len(rows)} usable of {found.drawn} seeds"
    return Grid(title, columns, rows)


def _lead_s(run: FrozenRun) -> float | None:
    judged = run.judged(run.risks_s)
    if judged.hit_s is None or run.first_violation_s is None:
        return None
    return run.first_violation_s - judged.hit_s


def _delay_s(run: FrozenRun) -> float | None:
    after = [at for at in run.risks_s if at >= run.start_s]
    return after[0] - run.start_s if after else None


def _of(runs: Iterable[AdaptedRun], weights: WeightsBy) -> list[AdaptedRun]:
    return [run for run in runs if run.weights is weights]


def _ratio(frozen: Sequence[FrozenRun], adapted: Sequence[AdaptedRun]) -> float | None:
    """Violations of all adapted runs over those of the same seeds frozen."""
    seeds = {run.seed for run in adapted}
    before = sum(run.violations for run in frozen if run.seed in seeds)
    return sum(run.violations for run in adapted) / before if before else None


def _work_ratio(frozen: Sequence[FrozenRun], adapted: Sequence[AdaptedRun]) -> float | None:
    seeds = {run.seed for run in adapted}
    before = sum(run.job_iterations for run in frozen if run.seed in seeds)
    return sum(run.job_iterations for run in adapted) / before if before else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
