"""`dure bench search`: what the bounded search for squads loses against trying every set."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dure.domain.catalogue import accelerator
from dure.kernel.policies.registry import POLICIES
from dure.kernel.squads import EXHAUSTIVE_TENANTS, Evaluation
from dure.sim.benches.report import (
    BenchReport,
    Grid,
    Tell,
    Verdict,
    mean,
    percent,
    silent,
)
from dure.sim.kernel.benches.made import MadeTenants
from dure.sim.kernel.world import TICK_NS

MOST_TENANTS = 12
"""Beyond, trying every set takes too long to wait for."""
_LEARNING_TICKS = 20
_LEAST_GAIN = 0.01
"""Company that adds less, in parts of the most valuable tenant's worth, is not used anyway."""


@dataclass(frozen=True, slots=True)
class SearchLoss:
    """Loss over many leads of one policy and number of tenants."""

    policy: str
    tenants: int
    cases: int
    leads: int
    """Leads whose best company adds something: those that are compared."""
    same: int
    """Of them, how many get the same company from both searches."""
    mean_loss: float
    worst_loss: float
    """Worth gained over the lead alone that was missed, over what every set would gain."""


def bench_search(tenants: Sequence[int], *, cases: int = 50, tell: Tell = silent) -> BenchReport:
    """Both searches on the same made states, for every policy."""
    plan = [(count, policy) for count in tenants for policy in POLICIES]
    rows = []
    for index, (count, policy) in enumerate(plan):
        tell(f"{count} tenants, {policy}", index / len(plan))
        rows.append(_compare(policy, count, cases))
    worst = max(row.worst_loss for row in rows)
    weighted = sum(row.mean_loss * row.leads for row in rows) / max(1, sum(r.leads for r in rows))
    return BenchReport(
        name="search",
        title="Squads: loss of the bounded search against trying every set",
        about=(
            f"Up to {EXHAUSTIVE_TENANTS} tenants every set is tried; beyond, sets grow one member "
            "at a time, and the set of everybody is tried. Both searches are run on made states (a "
            f"machine that learned from {_LEARNING_TICKS} ticks of made readings, a seed a case), "
            "with no earlier company to start from, company being sought for everybody as if all "
            "were jobs. Compared is the worth that the found company "
            "adds over the lead alone, for every lead to which company can add at least "
            f"{percent(_LEAST_GAIN, 0)} of the most valuable tenant's worth."
        ),
        grids=(_grid(rows),),
        verdicts=(
            Verdict("loss of the bounded search", f"mean {percent(weighted, 3)}", None),
            Verdict("worst loss of any lead", percent(worst, 2), None),
        ),
        figures={"rows": rows},
    )


def _compare(policy: str, count: int, cases: int) -> SearchLoss:
    losses: list[float] = []
    same = 0
    for case in range(cases):
        evaluation = _made_state(policy, count, seed=1 + case)
        nothing_kept = np.zeros((count, count), np.bool_)
        every = evaluation.best(nothing_kept, exhaustive=True)
        bounded = evaluation.best(nothing_kept, exhaustive=False)
        gains = every.scores - evaluation.alone
        least = _LEAST_GAIN * float(evaluation.value.max())
        for lead in np.flatnonzero(gains > least):
            losses.append(float((every.scores[lead] - bounded.scores[lead]) / gains[lead]))
            same += bool(
                (every.sets[lead] == bounded.sets[lead]).all()
                and every.layouts[lead] == bounded.layouts[lead]
            )
    return SearchLoss(
        policy,
        count,
        cases,
        len(losses),
        same,
        mean_loss=mean(losses) if losses else 0.0,
        worst_loss=max(losses, default=0.0),
    )


def _made_state(policy: str, count: int, *, seed: int) -> Evaluation:
    """What a machine would judge by after some made ticks."""
    profile = accelerator("h200")
    made = MadeTenants(np.random.default_rng([seed, count]), profile, count)
    machine = made.machine(policy)
    for event in made.ticks(_LEARNING_TICKS):
        machine.handle(event)
    now_ns = (_LEARNING_TICKS + 1) * TICK_NS
    appraisal = machine.policy.appraise(tuple(machine.tracks.values()), now_ns)
    present = [machine.tracks[tenant] for tenant in appraisal.order]
    return Evaluation(profile, machine.interference, present, appraisal)


def _grid(rows: list[SearchLoss]) -> Grid:
    columns = ("tenants and policy", "cases", "leads", "same company", "mean loss", "worst loss")
    return Grid(
        "Loss of worth gained over alone",
        columns,
        tuple(
            (
                f"{row.tenants} {row.policy}",
                f"{row.cases}",
                f"{row.leads}",
                percent(row.same / row.leads if row.leads else None),
                percent(row.mean_loss, 3),
                percent(row.worst_loss, 2),
            )
            for row in rows
        ),
    )
