"""`dure bench adapt`: policies that are switched while the mix changes, beside each that stays."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dure.domain.units import NS_PER_S
from dure.kernel.objective import WINDOW_NS
from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, mean, number, percent, silent
from dure.sim.kernel.benches.adapt_runs import FIXED, RIVER, RULES, TUNER, Ran, Shelf, Suite
from dure.sim.kernel.changing import DURATION_NS

_MEAN_BEHIND = 0.03
_MOST_BEHIND = 0.10


@dataclass(frozen=True, slots=True)
class AdaptPlan:
    """How much is run."""

    runs: int = 100
    tuned: int = 100
    """Of those, with the tuner, too."""
    river: int = 0
    """Of those, with the bandit of river, too."""
    training: int = 8
    shards: Path | None = None
    duration_ns: int = DURATION_NS


@dataclass(frozen=True, slots=True)
class Judged:
    """All modes in one run."""

    seed: int
    ran: dict[str, Ran]

    @property
    def best(self) -> str:
        """The fixed policy that did best, known with hindsight."""
        return max(FIXED, key=lambda policy: self.ran[policy].score)

    def behind(self, mode: str) -> float:
        """How far a mode stayed behind it, as a part of it; below 0: it did better."""
        best = self.ran[self.best].score
        return 1.0 - self.ran[mode].score / best if best > 0.0 else 0.0


def bench_adapt(plan: AdaptPlan, *, tell: Tell = silent) -> BenchReport:
    """Run every mode on every changing mix."""
    suite = Suite(Shelf(plan.shards), plan.training, plan.duration_ns)
    judged = []
    for seed in range(1, plan.runs + 1):
        modes = [*FIXED, RULES]
        modes += [TUNER] if seed <= plan.tuned else []
        modes += [RIVER] if seed <= plan.river else []
        ran = {}
        for index, mode in enumerate(modes):
            tell(f"run {seed}, {mode}", (seed - 1 + index / len(modes)) / plan.runs)
            ran[mode] = suite.ran(seed, mode)
        judged.append(Judged(seed, ran))
    return BenchReport(
        name="adapt",
        title="Changing mixes: policies that are switched beside each that stays",
        about=_about(plan),
        grids=(_mode_grid(judged), _run_grid(judged)),
        verdicts=_verdicts(judged),
        figures={"runs": plan.runs, "training": plan.training, "judged": judged},
    )


def _about(plan: AdaptPlan) -> str:
    return (
        f"{plan.runs} runs of {plan.duration_ns / NS_PER_S:g} s made by "
        "`dure.sim.kernel.changing`, all drawn from the seed: tenants come and go, loads move, "
        "kernels overlap or not. Each is run under every policy as it is, and with the advisor "
        "(`--adapt auto`), which begins with slo like an agent. *auto* tries every policy in its "
        f"dry runs; *tuner*, in the first {plan.tuned} runs, has a bandit choose what to try among "
        f"policies and settings, after {plan.training} other runs to "
        "learn from.\n\n"
        f"The objective (`dure.kernel.objective`) is taken over windows of {WINDOW_NS / NS_PER_S:g}"
        " s from what really happened, latencies from arrival and work done among it, and averaged "
        "over the windows in which somebody wanted something. The advisor sees only what a shim "
        "counts; half of the services do not report their latencies. *Behind* is by how much a "
        "mode stayed below the best fixed policy of that very run, chosen with hindsight; below 0 "
        "it did better than any of them."
    )


def _with(judged: Sequence[Judged], mode: str) -> list[Judged]:
    return [each for each in judged if mode in each.ran]


def _modes(judged: Sequence[Judged]) -> list[str]:
    return [mode for mode in (*FIXED, RULES, TUNER, RIVER) if _with(judged, mode)]


def _verdicts(judged: Sequence[Judged]) -> tuple[Verdict, ...]:
    found = []
    for mode in (RULES, TUNER, RIVER):
        runs = _with(judged, mode)
        if not runs:
            continue
        behind = {each.seed: each.behind(mode) for each in runs}
        average, (worst, most) = (
            mean(list(behind.values())),
            max(behind.items(), key=lambda item: item[1]),
        )
        over = [str(seed) for seed, share in behind.items() if share > _MOST_BEHIND]
        judge = mode == RULES
        claim = f"{mode}: at most {percent(_MEAN_BEHIND, 0)} behind the best fixed, on average"
        found.append(
            Verdict(
                claim,
                f"{percent(average, 2)} over {len(runs)} runs",
                average <= _MEAN_BEHIND if judge else None,
            )
        )
        said = f"most {percent(most, 2)} (run {worst})"
        if over:
            said += f"; more in {', '.join(over)}"
        claim = f"{mode}: never more than {percent(_MOST_BEHIND, 0)} behind it"
        found.append(Verdict(claim, said, most <= _MOST_BEHIND if judge else None))
    best = ", ".join(f"{policy} {sum(each.best == policy for each in judged)}" for policy in FIXED)
    found.append(Verdict("runs in which each policy was the best fixed one", best, None))
    return tuple(found)


def _mode_grid(judged: Sequence[Judged]) -> Grid:
    rows = []
    for mode in _modes(judged):
        runs = _with(judged, mode)
        behind = [each.behind(mode) for each in runs]
        rows.append(
            (
                mode,
                f"{len(runs)}",
                number(mean([each.ran[mode].score for each in runs]), 3),
                percent(mean(behind), 2),
                percent(max(behind), 2),
                f"{sum(share > _MOST_BEHIND for share in behind)}",
                f"{sum(share < 0.0 for share in behind)}",
                number(mean([each.ran[mode].switches for each in runs]), 1),
                number(mean([each.ran[mode].rollbacks for each in runs]), 2),
                number(mean([each.ran[mode].dry_runs for each in runs]), 1),
            )
        )
    columns = (
        "mode", "runs", "objective", "behind, mean", "behind, most", "over 10 %",
        "better than all fixed", "switches", "rollbacks", "dry runs",
    )  # fmt: skip
    return Grid("Modes", columns, tuple(rows))


def _run_grid(judged: Sequence[Judged]) -> Grid:
    modes = _modes(judged)
    rows = []
    for each in judged:
        cells = [number(each.ran[mode].score, 3) if mode in each.ran else "–" for mode in modes]
        rules = each.ran[RULES]
        rows.append(
            (
                f"{each.seed}",
                *cells,
                each.best,
                percent(each.behind(RULES), 1),
                f"{rules.switches}",
                f"{rules.rollbacks}",
            )
        )
    columns = ("run", *modes, "best fixed", "auto behind", "switches", "rollbacks")
    return Grid("Every run", columns, tuple(rows))
