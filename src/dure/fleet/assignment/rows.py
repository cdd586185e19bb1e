"""From a problem to the flat rows that the compiled loops work on, and back."""

import numpy as np

from dure.fleet.assignment import plan_loops
from dure.fleet.assignment.problem import Floats, Integers, PriceLimits, Prices, Problem
from dure.fleet.assignment.shapes import Table, Work


def as_work(problem: Problem) -> Work:
    """The problem as the loops see it; options that nobody can ever have are taken out."""
    jobs, sites, slots = problem.cost.shape
    tenancy = problem.tenancy
    nothing = np.zeros((1, 1, 1))
    work = Work(
        cost=np.array(problem.cost, dtype=np.float64, order="C").reshape(jobs, sites * slots),
        skip=_floats(problem.skip_cost),
        usage=_floats(problem.demand.usage),
        profile=_integers(problem.sites.profile),
        span=np.minimum(_integers(problem.demand.span), slots),
        limit=_limits(problem),
        tenant=np.zeros(jobs, dtype=np.int64) if tenancy is None else _integers(tenancy.tenant),
        share=nothing[0] if tenancy is None else _floats(tenancy.share),
        spend=nothing if tenancy is None else _floats(tenancy.spend),
        grams=nothing if tenancy is None else _floats(tenancy.grams),
        sizes=np.array([slots, max(1, problem.tenants), tenancy is not None], dtype=np.int64),
    )
    largest = problem.sites.largest
    plan_loops.mask(work, np.full(sites, np.inf) if largest is None else _floats(largest))
    return work


def worth(work: Work, table: Table) -> Floats:
    """What a unit of each row may be worth: money at stake over units asked, the scale of steps."""
    slots, tenants, tenancy = (int(size) for size in work.sizes)
    sites, dimensions = work.profile.size, work.usage.shape[2]
    cheapest = np.minimum(table.cost[:, 0], work.skip)
    stake = 0.5 * float((cheapest + work.skip).sum())
    asked = np.einsum("jd,j->d", work.usage.mean(axis=1), work.span.astype(np.float64))
    at_sites = np.tile(_over(stake / dimensions, asked), sites * slots)
    if not tenancy:
        return np.concatenate([at_sites, np.zeros(tenants * slots + 2 * (tenants + 1))])
    shares = _over(stake, np.array([(work.share.mean(axis=1) * work.span).sum()]))
    money = _over(stake, np.array([work.spend.mean(axis=(1, 2)).sum()]))
    carbon = _over(stake, np.array([work.grams.mean(axis=(1, 2)).sum()]))
    parts = (np.repeat(shares, tenants * slots), np.repeat(money, tenants + 1))
    return np.concatenate([at_sites, *parts, np.repeat(carbon, tenants + 1)])


def as_prices(problem: Problem, rows: Floats) -> Prices:
    """Rows taken apart by what they are the price of."""
    shape = problem.sites.capacity.shape
    slots, tenants = problem.slots, problem.tenants
    at_sites = int(np.prod(shape))
    if problem.tenancy is None:
        none = np.zeros(1)
        return Prices(rows[:at_sites].reshape(shape).copy(), np.zeros((0, slots)), none, none)
    shares = at_sites + tenants * slots
    money = shares + tenants + 1
    return Prices(
        site=rows[:at_sites].reshape(shape).copy(),
        share=rows[at_sites:shares].reshape(tenants, slots).copy(),
        money=rows[shares:money].copy(),
        carbon=rows[money:].copy(),
    )


def as_rows(problem: Problem, prices: Prices) -> Floats:
    """Prices in the order of the rows; none is negative."""
    rows = prices.rows()
    if problem.tenancy is None:
        slots = problem.slots
        rows = np.concatenate([prices.site.ravel(), np.zeros(slots + 4)])
    return np.maximum(rows, 0.0)


def bounds(limits: PriceLimits | None, rows: int) -> tuple[Floats, Floats]:
    """The lowest and highest price of every row."""
    low, high = np.zeros(rows), np.full(rows, np.inf)
    if limits is not None:
        low[: limits.low.size] = np.maximum(limits.low.ravel(), 0.0)
        high[: limits.high.size] = np.maximum(limits.high.ravel(), low[: limits.low.size])
    return low, high


def _limits(problem: Problem) -> Floats:
    at_sites = np.maximum(problem.sites.capacity, 0.0).ravel()
    tenancy = problem.tenancy
    if tenancy is None:
        return np.concatenate([at_sites, np.full(problem.slots + 4, np.inf)])
    tenants_rows = (tenancy.share_cap.ravel(), tenancy.money_budget, tenancy.carbon_budget)
    return np.concatenate([at_sites, *(np.maximum(rows, 0.0) for rows in tenants_rows)])


def _over(stake: float, asked: Floats) -> Floats:
    return np.divide(stake, asked, out=np.zeros_like(asked), where=asked > 0.0)


def _floats(array: Floats) -> Floats:
    return np.ascontiguousarray(array, dtype=np.float64)


def _integers(array: Integers) -> Integers:
    return np.ascontiguousarray(array, dtype=np.int64)
