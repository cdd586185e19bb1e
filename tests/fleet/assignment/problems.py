"""Small random rounds for tests, and an independent check of what an assignment may not do."""

import numpy as np

from dure.fleet.assignment.problem import Demand, Integers, Problem, Sites, Tenancy
from dure.sim.fleet.exact import row_limits, uses_of


def random_problem(seed: int, *, jobs: int, sites: int, slots: int, tenants: int) -> Problem:
    """Jobs of very different size; some options barred, some sites tight, caps that may bind."""
    rng = np.random.default_rng(seed)
    classes, dimensions = 2, int(rng.integers(1, 5))
    usage = rng.choice([0.0, 1.0, 2.0, 8.0, 30.0], (jobs, classes, dimensions))
    cost = rng.uniform(1.0, 10.0, (jobs, sites, slots)) * (1.0 + usage[:, :1, :1])
    cost[rng.random(cost.shape) < 0.2] = np.inf
    tenancy = None
    if tenants:
        many = int(rng.choice([1, slots]))
        spend = rng.uniform(0.0, 5.0, (jobs, sites, many))
        grams = rng.uniform(0.0, 5.0, (jobs, sites, 1))
        tenancy = Tenancy(
            tenant=rng.integers(0, tenants, jobs),
            share=rng.uniform(0.0, 0.2, (jobs, classes)),
            share_cap=rng.choice([0.1, 0.5, np.inf], (tenants, slots)),
            spend=spend,
            money_budget=rng.choice([1.0, 10.0, np.inf], tenants + 1),
            grams=grams,
            carbon_budget=rng.choice([1.0, 10.0, np.inf], tenants + 1),
        )
    return Problem(
        cost,
        rng.uniform(0.0, 60.0, jobs),
        Demand(usage, rng.integers(1, slots + 2, jobs)),
        Sites(
            rng.integers(0, classes, sites),
            rng.uniform(-2.0, 40.0, (sites, slots, dimensions)),
            rng.choice([2.0, 10.0, np.inf], sites),
        ),
        tenancy,
    )


def overuse(problem: Problem, choice: Integers) -> float:
    """How far the worst row is above its limit, in parts of the limit; at most 0 if feasible."""
    limits = row_limits(problem)
    used = np.zeros_like(limits)
    for job, option in enumerate(choice):
        if option >= 0:
            for row, amount in uses_of(problem, job, int(option)):
                used[row] += amount
    bounded = np.isfinite(limits)
    used, limits = used[bounded], limits[bounded]
    return float(((used - limits) / np.maximum(limits, 1e-9)).max())


def barred(problem: Problem, choice: Integers) -> list[int]:
    """Jobs at options that are not theirs to have."""
    options = enumerate(choice.tolist())
    return [job for job, option in options if option >= 0 and barred_to(problem, job, option)]


def barred_to(problem: Problem, job: int, option: int) -> bool:
    """Whether an option is not a job's to have."""
    site, slot = divmod(option, problem.slots)
    asked = problem.demand.usage[job, problem.sites.profile[site], 0]
    largest = problem.sites.largest
    too_large = largest is not None and bool(asked > largest[site])
    return too_large or not np.isfinite(problem.cost[job, site, slot])
