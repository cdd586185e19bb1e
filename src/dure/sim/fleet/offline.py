"""What a fleet could not do better than, knowing everything beforehand: a lower bound on cost.

The offline problem is relaxed to hours: work may be split over hours and sites at will, nodes are
always full, transfers and starts cost nothing, and the whole future is known. Capacity of each site
in each hour is priced, and the prices are moved until the bound grows no more (Lagrangian dual by
subgradient steps). Any value on the way is a valid bound; the largest is kept.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.sim.fleet.offline_kernels import jobs_value, services_value

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_FIRST_STEP = 1.0
"""Share of the way to the upper bound that the first step aims at (Polyak's rule)."""
_PATIENCE = 6
"""Steps without a better bound after which the aim is halved."""


@dataclass(frozen=True, slots=True)
class OfflineCase:
    """The offline problem in columns; hours count from the start of the period."""

    price: Floats
    """[site, hour]: of one device-hour, rent or energy, carbon included where it is priced."""
    capacity: Floats
    """[site]: devices."""
    slowness: Floats
    """[class, site]: device-hours a reference hour takes there; infinite where it cannot run."""
    job_class: Ints
    jobs: Floats
    """[job, 7]: release, reference hours, most of them in an hour, earliest end, deadline, penalty
    per hour late, cap of the penalty."""
    step_hour: Ints
    """[row]: hour of each step of each service."""
    step_need: Floats
    """[row, site]: device-hours that keep the service's target in that step."""
    step_penalty: Floats
    """[row]: of not keeping it."""
    unfinished_price: Floats
    """[class]: of a reference hour that is not done at the end."""


@dataclass(frozen=True, slots=True)
class OfflineBound:
    """A lower bound, and the prices that prove it."""

    value: float
    prices: Floats
    """[site, hour]: what a device-hour is worth beyond its cost."""
    steps: int


def offline_bound(case: OfflineCase, upper: float, steps: int = 120) -> OfflineBound:
    """The best bound found in so many steps; `upper` is the cost of any real schedule."""
    capacity = np.repeat(case.capacity[:, None], case.price.shape[1], axis=1)
    scarcity = np.zeros_like(case.price)
    best_value, best_prices = -np.inf, scarcity
    aim, stale = _FIRST_STEP, 0
    for _ in range(steps):
        value, usage = _dual(case, scarcity, capacity)
        if value > best_value:
            best_value, best_prices, stale = value, scarcity, 0
        else:
            stale += 1
            if stale >= _PATIENCE:
                aim, stale = aim / 2.0, 0
                scarcity = best_prices
        slack = usage - capacity
        slack[(scarcity <= 0.0) & (slack < 0.0)] = 0.0
        norm = float((slack * slack).sum())
        if norm <= 0.0 or upper - value <= 1e-9 * abs(upper):
            break
        scarcity = np.maximum(0.0, scarcity + aim * (upper - value) / norm * slack)
    return OfflineBound(best_value, best_prices, steps)


def _dual(case: OfflineCase, scarcity: Floats, capacity: Floats) -> tuple[float, Floats]:
    """Value of the dual at these prices, and how much of each site-hour would be used."""
    prices = case.price + scarcity
    usage = np.zeros_like(prices)
    value = jobs_value(
        prices, case.slowness, case.job_class, case.jobs, case.unfinished_price, usage
    )
    value += services_value(prices, case.step_hour, case.step_need, case.step_penalty, usage)
    return value - float((scarcity * capacity).sum()), usage
