"""Judges the figures of the made mixes by what was to be shown."""

import math
import statistics
from collections.abc import Sequence

from dure.kernel.policies.registry import POLICIES
from dure.sim.benches.report import Verdict, number, percent
from dure.sim.kernel.benches.mixes_figures import MixFigures
from dure.sim.kernel.modes import BASELINES

_JCT_OF_TIME_SLICE = 0.80
_JCT_SEEDS = 18 / 20
_LATE_SHARE = 0.01
_GOODPUT_OF_BEST = 0.99
_GOODPUT_SEEDS = 15 / 20
_BUBBLE_SHARE = 0.02


def mix_verdicts(mixes: Sequence[MixFigures]) -> tuple[Verdict, ...]:
    """Every verdict, in the order of the promises."""
    return (*_jct(mixes), *_slo(mixes), *_hybrid(mixes), _bubbles(mixes))


def _count(claim: str, kept: dict[int, bool], share: float) -> Verdict:
    """A claim that must hold for a share of the seeds."""
    needed = math.ceil(share * len(kept) - 1e-9)
    missed = [str(seed) for seed, good in kept.items() if not good]
    count = len(kept) - len(missed)
    found = f"{count} of {len(kept)}" + (f"; not in {', '.join(missed)}" if missed else "")
    return Verdict(f"{claim} (at least {needed} of {len(kept)})", found, count >= needed)


def _jct(mixes: Sequence[MixFigures]) -> tuple[Verdict, ...]:
    shorter, least = {}, {}
    for mix in mixes:
        own = mix.of("jct").mean_jct_s
        shorter[mix.seed] = own <= _JCT_OF_TIME_SLICE * mix.of("time-slice").mean_jct_s
        least[mix.seed] = own <= min(mix.of(name).mean_jct_s for name in BASELINES)
    both = {seed: shorter[seed] and least[seed] for seed in shorter}
    shorter_claim = f"jct: mean JCT ≤ {_JCT_OF_TIME_SLICE:.2f}× time-slice"
    least_claim = "jct: mean JCT ≤ every baseline"
    return (
        _count(shorter_claim, shorter, _JCT_SEEDS),
        _count(least_claim, least, _JCT_SEEDS),
        _count("jct: both in the same mix", both, _JCT_SEEDS),
    )


def _slo(mixes: Sequence[MixFigures]) -> tuple[Verdict, ...]:
    feasible = [mix for mix in mixes if mix.feasible]
    infeasible = [str(mix.seed) for mix in mixes if not mix.feasible]
    note = Verdict(
        "feasible mixes",
        f"{len(feasible)} of {len(mixes)}"
        + (f"; not {', '.join(infeasible)}" if infeasible else ""),
        None,
    )
    if not feasible:
        return (note,)
    kept = {mix.seed: mix.of("slo").worst_late_share <= _LATE_SHARE for mix in feasible}
    worst = {
        mode: max(mix.of(mode).worst_late_share for mix in feasible) for mode in ("slo", "mps")
    }
    over = sum(mix.of("mps").worst_late_share > _LATE_SHARE for mix in feasible)
    claim = f"slo: late requests ≤ {_LATE_SHARE:.0%} in every feasible mix"
    held = _count(claim, kept, 1.0)
    found = f"{held.found}; worst {percent(worst['slo'], 2)}"
    beside = f"worst {percent(worst['mps'], 2)}, over 1 % in {over} of {len(feasible)}"
    return note, Verdict(claim, found, held.passed), Verdict("mps beside it", beside, None)


def _hybrid(mixes: Sequence[MixFigures]) -> tuple[Verdict, ...]:
    near, above = {}, {}
    for mix in mixes:
        own = mix.of("hybrid").weighted_goodput
        best = max(mix.of(name).weighted_goodput for name in BASELINES)
        near[mix.seed] = own >= _GOODPUT_OF_BEST * best
        above[mix.seed] = own > best
    jain = ", ".join(
        f"{mode} {number(statistics.median(mix.of(mode).jain_index for mix in mixes), 3)}"
        for mode in (*BASELINES, *POLICIES)
    )
    near_claim = f"hybrid: weighted goodput ≥ {_GOODPUT_OF_BEST}× the best baseline"
    return (
        _count(near_claim, near, 1.0),
        _count("hybrid: weighted goodput > every baseline", above, _GOODPUT_SEEDS),
        Verdict("Jain index, median over mixes", jain, None),
    )


def _bubbles(mixes: Sequence[MixFigures]) -> Verdict:
    shares = {
        (policy, mix.seed): mix.of(policy).bubble_share for mix in mixes for policy in POLICIES
    }
    (policy, seed), worst = max(shares.items(), key=lambda item: item[1])
    found = (
        f"median {percent(statistics.median(shares.values()), 2)}, "
        f"most {percent(worst, 2)} ({policy}, mix {seed})"
    )
    claim = f"bubble share ≤ {_BUBBLE_SHARE:.0%} under every policy"
    return Verdict(claim, found, worst <= _BUBBLE_SHARE)
