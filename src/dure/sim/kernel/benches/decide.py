"""`dure bench decide`: how long a machine takes to decide after a reading, on one core."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dure.domain.catalogue import accelerator
from dure.kernel.policies.registry import POLICIES
from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, number, silent
from dure.sim.benches.timing import one_core
from dure.sim.kernel.benches.made import MadeTenants

LIMITS_US = {4: 300.0, 16: 2_000.0}
"""What was promised for the median, by number of tenants."""
MOST_TENANTS = 64
"""As many tenants as a plan has bits for."""
_WARM_UP = 50
_SEED = 1


@dataclass(frozen=True, slots=True)
class DecisionTime:
    """Time from a reading to the instructions that answer it."""

    tenants: int
    policy: str
    events: int
    plans: int
    """Of the decisions, how many published a plan."""
    median_us: float
    p99_us: float


def bench_decide(tenants: Sequence[int], *, events: int = 500, tell: Tell = silent) -> BenchReport:
    """Time the decisions of every policy for made tenants that are all busy."""
    plan = [(count, policy) for count in tenants for policy in POLICIES]
    rows = []
    with one_core():
        for index, (count, policy) in enumerate(plan):
            tell(f"{count} tenants, {policy}", index / len(plan))
            rows.append(_time(policy, count, events))
    return BenchReport(
        name="decide",
        title="Time of a decision",
        about=(
            "Wall time of `KernelMachine.handle(ReadingsTaken)`, learning, judging and planning "
            "together, on one core. All tenants are busy; every tick brings eight timed launches "
            "of each, taken in two different companies of up to four others: more than the worst "
            "tick of the made mixes. "
            f"{events} decisions a row after {_WARM_UP} to warm up."
        ),
        grids=(_grid(rows),),
        verdicts=tuple(_verdicts(rows)),
        simulated=False,
        figures={"rows": rows},
    )


def _time(policy: str, count: int, events: int) -> DecisionTime:
    made = MadeTenants(np.random.default_rng([_SEED, count]), accelerator("h200"), count)
    machine = made.machine(policy)
    times_us = []
    plans = 0
    for event in made.ticks(_WARM_UP + events):
        before = machine.plan
        started = time.perf_counter()
        machine.handle(event)
        times_us.append(1e6 * (time.perf_counter() - started))
        plans += machine.plan is not before
    timed = times_us[_WARM_UP:]
    return DecisionTime(
        count,
        policy,
        events,
        plans,
        median_us=float(np.median(timed)),
        p99_us=float(np.percentile(timed, 99)),
    )


def _grid(rows: list[DecisionTime]) -> Grid:
    return Grid(
        "Decisions",
        ("tenants and policy", "median µs", "p99 µs", "plans published"),
        tuple(
            (
                f"{row.tenants} {row.policy}",
                number(row.median_us, 0),
                number(row.p99_us, 0),
                f"{row.plans}",
            )
            for row in rows
        ),
    )


def _verdicts(rows: list[DecisionTime]) -> list[Verdict]:
    found = []
    for count in sorted({row.tenants for row in rows}):
        slowest = max((row for row in rows if row.tenants == count), key=lambda row: row.median_us)
        limit_us = LIMITS_US.get(count)
        said = f"{slowest.median_us:,.0f} µs under {slowest.policy}, the slowest"
        claim = f"median decision for {count} tenants"
        if limit_us is None:
            found.append(Verdict(claim, said, None))
        else:
            claim = f"{claim} ≤ {limit_us:,.0f} µs"
            found.append(Verdict(claim, said, slowest.median_us <= limit_us))
    return found
