"""The exact cost of a small round, and its linear bound, from a general solver.

Written without the code it judges: columns are options of jobs, rows are capacities per site and
slot, shares, budgets, and at most one option for each job.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import highspy
import numpy as np

from dure.domain.errors import DureError
from dure.fleet.assignment.problem import UNPLACED, Floats, Integers, Problem

_ROOM = 1e-9
"""Part of a limit by which a single job may pass it: rounding."""


@dataclass(frozen=True, slots=True)
class Exact:
    """What a general solver found."""

    cost: float
    """Of the best assignment, or of the best fractional one; skipped jobs included."""
    choice: Integers
    """[J]: the option that most of a job gets, `UNPLACED` where that is none."""
    bound: float
    """No assignment costs less."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """The options that jobs may have, and what each takes of every row."""

    job: list[int]
    option: list[int]
    saving: list[float]
    """Cost of the option less that of skipping the job."""
    uses: list[list[tuple[int, float]]]


def linear_bound(problem: Problem) -> Exact:
    """The least cost when jobs could be split: a bound from below."""
    return _solve(problem, whole=False, time_limit_s=600.0)


def best_assignment(problem: Problem, *, time_limit_s: float = 60.0) -> Exact:
    """The least cost of all assignments, or the best found in the time with its bound."""
    return _solve(problem, whole=True, time_limit_s=time_limit_s)


def row_limits(problem: Problem) -> Floats:
    """The limits of all rows: [M, T, D], then [K, T], [K + 1], [K + 1] where there are tenants."""
    parts = [np.maximum(problem.sites.capacity, 0.0).ravel()]
    if problem.tenancy is not None:
        tenancy = problem.tenancy
        parts += [tenancy.share_cap.ravel(), tenancy.money_budget, tenancy.carbon_budget]
    return np.concatenate(parts)


def uses_of(problem: Problem, job: int, option: int) -> Iterator[tuple[int, float]]:
    """What a job at an option takes, row by row."""
    slots, dimensions = problem.sites.capacity.shape[1:]
    site, start = divmod(option, slots)
    profile = int(problem.sites.profile[site])
    busy = range(start, min(slots, start + int(problem.demand.span[job])))
    for slot in busy:
        for dimension in range(dimensions):
            row = (site * slots + slot) * dimensions + dimension
            yield row, float(problem.demand.usage[job, profile, dimension])
    tenancy = problem.tenancy
    if tenancy is None:
        return
    base, tenants = problem.sites.capacity.size, problem.tenants
    tenant = int(tenancy.tenant[job])
    for slot in busy:
        yield base + tenant * slots + slot, float(tenancy.share[job, profile])
    base += tenants * slots
    for array in (tenancy.spend, tenancy.grams):
        amount = float(array[job, site, min(start, array.shape[2] - 1)])
        yield base + tenant, amount
        yield base + tenants, amount
        base += tenants + 1


def _columns(problem: Problem) -> _Columns:
    limits = row_limits(problem)
    columns = _Columns([], [], [], [])
    largest = problem.sites.largest
    for job in range(problem.jobs):
        cost = problem.cost[job].ravel()
        for option in np.flatnonzero(np.isfinite(cost)):
            site = int(option) // problem.slots
            asked = problem.demand.usage[job, problem.sites.profile[site], 0]
            if largest is not None and asked > largest[site]:
                continue
            uses = list(uses_of(problem, job, int(option)))
            if all(amount <= limits[row] * (1.0 + _ROOM) for row, amount in uses):
                columns.job.append(job)
                columns.option.append(int(option))
                columns.saving.append(float(cost[option] - problem.skip_cost[job]))
                columns.uses.append([use for use in uses if np.isfinite(limits[use[0]])])
    return columns


def _solve(problem: Problem, *, whole: bool, time_limit_s: float) -> Exact:
    columns = _columns(problem)
    count = len(columns.job)
    choice = np.full(problem.jobs, UNPLACED, dtype=np.int64)
    skipping = float(problem.skip_cost.sum())
    if not count:
        return Exact(skipping, choice, skipping)
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("time_limit", time_limit_s)
    solver.setOptionValue("mip_rel_gap", 1e-6)
    solver.passModel(_model(problem, columns, whole=whole))
    solver.run()
    status = solver.getModelStatus()
    if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kTimeLimit):
        raise DureError(f"the exact solver ended with {status}", "try a smaller instance")
    info = solver.getInfo()
    values = np.array(solver.getSolution().col_value)
    most = np.full(problem.jobs, 0.5 - 1e-6)
    for column in np.flatnonzero(values > 1e-6):
        job = columns.job[column]
        if values[column] > most[job]:
            most[job] = values[column]
            choice[job] = columns.option[column]
    cost = skipping + float(info.objective_function_value)
    bound = skipping + float(info.mip_dual_bound) if whole else cost
    return Exact(cost, choice, bound)


def _model(problem: Problem, columns: _Columns, *, whole: bool) -> highspy.HighsLp:
    limits = row_limits(problem)
    count = len(columns.job)
    starts, rows, amounts = [0], [], []
    for job, uses in zip(columns.job, columns.uses, strict=True):
        rows += [limits.size + job, *(row for row, _ in uses)]
        amounts += [1.0, *(amount for _, amount in uses)]
        starts.append(len(rows))
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = count, limits.size + problem.jobs
    model.col_cost_ = np.array(columns.saving)
    model.col_lower_, model.col_upper_ = np.zeros(count), np.ones(count)
    model.row_lower_ = np.full(model.num_row_, -highspy.kHighsInf)
    free = np.where(np.isfinite(limits), limits, highspy.kHighsInf)
    model.row_upper_ = np.concatenate([free, np.ones(problem.jobs)])
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.array(starts)
    model.a_matrix_.index_ = np.array(rows)
    model.a_matrix_.value_ = np.array(amounts)
    if whole:
        model.integrality_ = [highspy.HighsVarType.kInteger] * count
    return model
