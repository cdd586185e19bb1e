"""Four trainings of known length that arrive one after another: mean completion time."""

from typing import Any

from dure.bench.common.statistics import mean
from dure.bench.kernel.bed import Bed, Surroundings, worker_name
from dure.bench.kernel.budget import Budget
from dure.bench.kernel.orders import FINITE, TRAIN, Order
from dure.bench.kernel.rows import MPS, ROWS, Row
from dure.bench.kernel.scenarios import BenchScenario, BenchTenant, Role
from dure.bench.kernel.shard import Settings, Tell
from dure.bench.kernel.store import PARTS, Store
from dure.sim.benches.report import Grid, Verdict, number

MOST_OF_MPS = 0.85
ALONE_S = (10.0, 20.0, 30.0, 60.0)
ARRIVALS_S = (0.0, 2.0, 4.0, 6.0)
WORKLOADS = ("resnet50-train", "bert-train", "gpt-train", "resnet50-train")
JOBS = tuple(
    BenchTenant(f"job{length:.0f}", workload, TRAIN, Role.PEER)
    for length, workload in zip(ALONE_S, WORKLOADS, strict=True)
)
RATE_S = 3.0
START_S = 60.0
"""To start and warm up four trainings."""
_ROWS = (MPS, "jct", "jct-mps")
_SCENARIO = BenchScenario("jct", "four finite trainings", JOBS)


def run(store: Store, settings: Settings, surroundings: Surroundings, tell: Tell) -> dict[str, Any]:
    """Each way of sharing once; a way that was measured with jobs of this length is kept."""
    kept = store.noted(PARTS)
    if kept is not None and kept.get("scale") != settings.scale:
        tell("what was measured before was measured with jobs of another length: begun anew")
        kept = None
    if kept is None:
        kept = {"scale": settings.scale, "rates": {}, "jct_s": {}}
    wanted = [ROWS[name] for name in _ROWS if not settings.rows or name in settings.rows]
    budget = Budget.of(settings.limit_s)
    for row in (row for row in wanted if row.name not in kept["jct_s"]):
        if not budget.holds(START_S + settings.scale * sum(ALONE_S)):
            tell(f"no time for {row.name}: run the same command again")
            break
        with Bed(_SCENARIO, surroundings, shares_daemon=False) as bed:
            bed.start(row, {})
            bed.warm(row)
            if row.substrate.managed:
                bed.agent(row.substrate).set_policy(row.policy)
            if not kept["rates"]:
                kept["rates"] = _rates(bed, row)
                store.note(PARTS, kept)
            orders = _orders(row, kept["rates"], settings.scale)
            answers = bed.workers.measure(orders, {"report": row.substrate.managed})
            kept["jct_s"][row.name] = {
                job.name: (answer := answers[worker_name(row, job)]).last_s - answer.first_s
                for job in JOBS
            }
        store.note(PARTS, kept)
        tell(f"{row.name}: mean {mean(list(kept['jct_s'][row.name].values())):.1f} s")
    return kept


def complete(found: dict[str, Any], settings: Settings) -> bool:
    """Whether every way was measured."""
    return all(
        name in found["jct_s"] for name in _ROWS if not settings.rows or name in settings.rows
    )


def _rates(bed: Bed, row: Row) -> dict[str, float]:
    """Steps a second of each alone."""
    found = {}
    for job in JOBS:
        name = worker_name(row, job)
        found[job.name] = bed.workers.measure({name: Order(TRAIN, 0.0, RATE_S, 0.5)})[name].per_s
    return found


def _orders(row: Row, rates: dict[str, float], scale: float) -> dict[str, Order]:
    longest_s = 3.0 * scale * sum(ALONE_S)
    return {
        worker_name(row, job): Order(
            FINITE,
            scale * arrival_s,
            longest_s,
            steps=max(1, round(scale * alone_s * rates[job.name])),
        )
        for job, alone_s, arrival_s in zip(JOBS, ALONE_S, ARRIVALS_S, strict=True)
    }


def verdicts(found: dict[str, Any]) -> list[Verdict]:
    """Beside MPS."""
    means = {row: mean(list(jobs.values())) for row, jobs in found["jct_s"].items()}
    result = []
    for row in _ROWS[1:]:
        if row in means and MPS in means:
            ratio = means[row] / means[MPS]
            judged = row == "jct"  # on the substrate that is the default
            result.append(
                Verdict(
                    f"{ROWS[row].title}: mean completion time of four trainings"
                    + (f" ≤ {MOST_OF_MPS:g}× MPS" if judged else ""),
                    f"{ratio:.3f}× ({means[row]:.1f} s beside {means[MPS]:.1f} s), jobs at "
                    f"{found['scale']:g}× their length",
                    ratio <= MOST_OF_MPS if judged else None,
                )
            )
    return result


def grids(found: dict[str, Any]) -> list[Grid]:
    """Every job under every way."""
    rows = tuple(
        (
            ROWS[row].title,
            *(number(jobs[job.name], 1) for job in JOBS),
            number(mean(list(jobs.values())), 1),
        )
        for row, jobs in found["jct_s"].items()
    )
    return [
        Grid(
            "Four finite trainings: completion time, s",
            ("sharing", *(job.name for job in JOBS), "mean"),
            rows,
        )
    ]
