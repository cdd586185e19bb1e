"""What a fleet could not do better than, knowing everything beforehand: a lower bound on cost.

The offline problem is relaxed to hours: work may be split over hours and sites at will, nodes are
always full, transfers and starts cost nothing, and the whole future is known. Capacity of each site
in each hour is priced, and the prices are moved uphill (Lagrangian dual, subgradient steps). Any
value on the way is a valid bound; the largest is kept.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.sim.fleet.offline_kernels import jobs_value, services_value

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SITE_STEP = 0.5
"""First step of the sites' constant prices for a use of twice the capacity, of a typical price."""
_SITE_FADE = 5.0
"""Steps after which the sites' step has halved."""
_HOUR_STEP = 0.02
"""The same for the price of a single hour."""
_MOST_EXCESS = 5.0
"""Use beyond capacity counts at most this often, so that one rush does not throw all prices."""
_MOMENTUM = 0.95
"""Of the direction of hourly prices: jobs rush from hour to hour, their mean does not."""
_PATIENCE = 10
"""Steps without a better bound after which the step is halved and the search goes back."""


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


def offline_bound(case: OfflineCase, site_steps: int = 60, hour_steps: int = 120) -> OfflineBound:
    """The best bound found: first with one price a site, then hour by hour."""
    climb = _Climb(case)
    climb.by_site(site_steps)
    climb.by_hour(hour_steps)
    return OfflineBound(climb.value, climb.prices)


class _Climb:
    """Moves the prices of scarcity uphill and keeps the best it has seen."""

    def __init__(self, case: OfflineCase) -> None:
        self._case = case
        self._capacity = np.repeat(case.capacity[:, None], case.price.shape[1], axis=1)
        typical = case.price.mean(axis=1)
        self._scale = float(typical[typical >= np.median(typical)].mean())
        self.prices = np.zeros_like(case.price)
        self.value = -np.inf

    def by_site(self, steps: int) -> None:
        """One price for all hours of a site."""
        level = np.zeros(len(self._case.capacity))
        for step in range(steps):
            usage, _ = self._look(np.repeat(level[:, None], self._capacity.shape[1], axis=1))
            excess = usage.sum(axis=1) / self._capacity.sum(axis=1) - 1.0
            move = _SITE_STEP * self._scale / (1.0 + step / _SITE_FADE)
            level = np.maximum(0.0, level + move * np.clip(excess, -1.0, _MOST_EXCESS))

    def by_hour(self, steps: int) -> None:
        """A price for each hour of each site, from the best so far."""
        prices, direction = self.prices, np.zeros_like(self.prices)
        move, stale = _HOUR_STEP * self._scale, 0
        for _ in range(steps):
            usage, better = self._look(prices)
            stale = 0 if better else stale + 1
            if stale >= _PATIENCE:
                prices, direction = self.prices, np.zeros_like(self.prices)
                move, stale = move / 2.0, 0
                continue
            excess = np.clip(usage / self._capacity - 1.0, -1.0, _MOST_EXCESS)
            direction = _MOMENTUM * direction + (1.0 - _MOMENTUM) * excess
            prices = np.maximum(0.0, prices + move * direction)

    def _look(self, prices: Floats) -> tuple[Floats, bool]:
        """What would be used at these prices, and whether they prove more than any before."""
        value, usage = _dual(self._case, prices, self._capacity)
        better = value > self.value
        if better:
            self.value, self.prices = value, prices
        return usage, better


def _dual(case: OfflineCase, scarcity: Floats, capacity: Floats) -> tuple[float, Floats]:
    """Value of the dual at these prices, and how much of each site-hour would be used."""
    prices = case.price + scarcity
    usage = np.zeros_like(prices)
    value = jobs_value(
        prices, case.slowness, case.job_class, case.jobs, case.unfinished_price, usage
    )
    value += services_value(prices, case.step_hour, case.step_need, case.step_penalty, usage)
    return value - float((scarcity * capacity).sum()), usage
