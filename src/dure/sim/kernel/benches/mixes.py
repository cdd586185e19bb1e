"""`dure bench mixes`: every baseline and every policy on the made mixes, seed by seed."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from dure.domain.units import NS_PER_S
from dure.kernel.policies.registry import POLICIES
from dure.sim.benches.pool import spread
from dure.sim.benches.report import BenchReport, Grid, Tell, number, percent, silent
from dure.sim.kernel.benches.mixes_figures import MixFigures, ModeFigures
from dure.sim.kernel.benches.mixes_verdicts import mix_verdicts
from dure.sim.kernel.mixes import make_mix
from dure.sim.kernel.modes import BASELINES, Mode, baseline, managed
from dure.sim.kernel.results import ModeResult, measure_alone, summarise
from dure.sim.kernel.run import Setting, run

FEASIBLE_LATE_SHARE = 0.005
"""A mix is feasible when the promises can be kept with nobody else around: half of the 1 % that
a 99th percentile allows, so that luck of arrivals does not decide."""


def all_modes() -> tuple[Mode, ...]:
    """What is compared: baselines first."""
    policies = (managed(policy, side_by_side=True) for policy in POLICIES)
    return (*map(baseline, BASELINES), *policies)


def bench_mixes(
    seeds: Sequence[int],
    *,
    duration_ns: int = 20 * NS_PER_S,
    workers: int = 1,
    tell: Tell = silent,
) -> BenchReport:
    """Run every mode on the mix of every seed."""
    mixes = spread(
        partial(run_mix, duration_ns=duration_ns),
        list(seeds),
        workers=workers,
        tell=tell,
        name=lambda seed: f"mix {seed}",
    )
    return BenchReport(
        name="mixes",
        title="Made mixes: policies beside baselines",
        about=(
            "Mixes of 2 to 8 tenants made by `dure.sim.kernel.mixes`, "
            f"{duration_ns / NS_PER_S:g} s of arrivals each, then drained; all modes side by side "
            "under the same load, time-slice in turns. Mean JCT is over all jobs and requests. "
            "Goodput is relative to being alone, weighted: on-time requests of services, for jobs "
            "iterations per second with work to do. Late is the worst share of late requests of "
            "any tenant with a target. "
            "Bubble is SM-time idle while an admissible launch waits, protected is idle kept for a "
            "promise, both over busy time.\n\n"
            "A mix counts as feasible when its SLO tenants among themselves, best-effort tenants "
            "removed, have a worst late share of at most "
            f"{percent(FEASIBLE_LATE_SHARE)} in the mode that serves them best."
        ),
        grids=(_mode_grid(mixes), _seed_grid(mixes)),
        verdicts=mix_verdicts(mixes),
        figures={"seeds": list(seeds), "duration_s": duration_ns / NS_PER_S, "mixes": mixes},
    )


def run_mix(seed: int, *, duration_ns: int) -> MixFigures:
    """One mix under all modes, and whether its promises can be kept at all."""
    mix = make_mix(seed, duration_ns=duration_ns)
    late_share, served_by = _promised_alone(mix.setting)
    alone = measure_alone(mix.setting)
    return MixFigures(
        seed=seed,
        tenants=len(mix.setting.loads),
        demand=mix.demand,
        feasible=late_share <= FEASIBLE_LATE_SHARE,
        promised_late_share=late_share,
        promised_mode=served_by,
        modes=tuple(_figures(summarise(run(mode, mix.setting), alone)) for mode in all_modes()),
    )


def _promised_alone(setting: Setting) -> tuple[float, str]:
    """Worst late share of the SLO tenants among themselves, in the mode that serves them best."""
    promised = tuple(load for load in setting.loads if load.tenant.protected)
    among = replace(setting, loads=promised)
    best = (1.0, "")
    for mode in reversed(all_modes()):
        late = _worst_late(summarise(run(mode, among)))
        if not best[1] or late < best[0]:
            best = (late, mode.name)
        if late == 0.0:
            break
    return best


def _worst_late(result: ModeResult) -> float:
    return max((t.late_share for t in result.tenants if t.late_share is not None), default=0.0)


def _figures(result: ModeResult) -> ModeFigures:
    return ModeFigures(
        mode=result.mode,
        mean_jct_s=result.mean_jct_s,
        weighted_goodput=result.weighted_goodput or 0.0,
        jain_index=result.jain_index or 0.0,
        worst_late_share=_worst_late(result),
        bubble_share=result.bubble_share,
        protected_idle_share=result.protected_idle_share,
        decision_us_median=result.decision_us_median,
    )


def _mode_grid(mixes: list[MixFigures]) -> Grid:
    """Medians over mixes, JCT and goodput relative to time-slice and to the best baseline."""
    rows = []
    for mode in all_modes():
        own = [mix.of(mode.name) for mix in mixes]
        decisions = [f.decision_us_median for f in own if f.decision_us_median is not None]
        over_slice = [
            f.mean_jct_s / mix.of("time-slice").mean_jct_s
            for f, mix in zip(own, mixes, strict=True)
        ]
        rows.append(
            (
                mode.name,
                number(statistics.median(over_slice), 3),
                number(statistics.median(f.weighted_goodput for f in own), 3),
                number(statistics.median(f.jain_index for f in own), 3),
                percent(statistics.median(f.worst_late_share for f in own), 2),
                percent(max(f.worst_late_share for f in own), 2),
                percent(statistics.median(f.bubble_share for f in own), 2),
                percent(statistics.median(f.protected_idle_share for f in own), 2),
                number(statistics.median(decisions) if decisions else None, 0),
            )
        )
    columns = (
        "mode", "JCT / time-slice", "goodput", "Jain", "late", "late, worst mix", "bubble",
        "protected", "decision µs",
    )  # fmt: skip
    return Grid("Modes, medians over mixes", columns, tuple(rows))


def _seed_grid(mixes: list[MixFigures]) -> Grid:
    rows = tuple(_seed_row(mix, figures) for mix in mixes for figures in mix.modes)
    columns = (
        "seed and mode", "tenants", "demand", "feasible", "JCT ms", "goodput", "Jain", "late",
        "bubble", "protected", "decision µs",
    )  # fmt: skip
    return Grid("Every mix", columns, rows)


def _seed_row(mix: MixFigures, figures: ModeFigures) -> tuple[str, ...]:
    return (
        f"{mix.seed} {figures.mode}",
        f"{mix.tenants}",
        number(mix.demand, 2),
        "yes" if mix.feasible else f"no ({percent(mix.promised_late_share, 2)} late)",
        number(1e3 * figures.mean_jct_s, 2),
        number(figures.weighted_goodput, 4),
        number(figures.jain_index, 3),
        percent(figures.worst_late_share, 2),
        percent(figures.bubble_share, 2),
        percent(figures.protected_idle_share, 2),
        number(figures.decision_us_median, 0),
    )
