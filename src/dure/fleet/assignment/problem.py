"""One round of the global stage as arrays: jobs, sites, start slots, and everything that is scarce.

A *site* is a cluster with one accelerator profile; an *option* is a site and a start slot, numbered
`site * slots + slot`. Sizes: J jobs, M sites, T slots, P classes of profile, D dimensions, K
tenants. Costs are in any one currency. Whatever is scarce is a *row*: a limit, and a price that
the solver finds for it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.errors import InvariantError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

UNPLACED = -1
"""Instead of an option: the job gets no place in this round."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What jobs ask for while they run."""

    usage: Floats
    """[J, P, D]: use of each dimension on a site of each class of profile."""
    span: Integers
    """[J]: slots that a job is busy from its start, at least 1; past the horizon nothing counts."""


@dataclass(frozen=True, slots=True)
class Sites:
    """What the sites have left."""

    profile: Integers
    """[M]: class of profile of each site, an index into P."""
    capacity: Floats
    """[M, T, D]: what is free in each slot. Negative counts as nothing."""
    largest: Floats | None = None
    """[M]: most of dimension 0 that one job may take (what is contiguous); None: no limit."""


@dataclass(frozen=True, slots=True)
class Tenancy:
    """What tenants may take: shares of the fleet per slot, money and grams in all."""

    tenant: Integers
    """[J]: whose job it is, an index into K."""
    share: Floats
    """[J, P]: weighted dominant share a job adds while it runs, by class of profile."""
    share_cap: Floats
    """[K, T]: most weighted dominant share in each slot; inf: no cap."""
    spend: Floats
    """[J, M, 1 or T]: money that counts against budgets."""
    money_budget: Floats
    """[K + 1]: most money per tenant, and last of all tenants together; inf: no budget."""
    grams: Floats
    """[J, M, 1 or T]: gCO2 that count against budgets."""
    carbon_budget: Floats
    """[K + 1]: most gCO2 per tenant, and last of all tenants together; inf: no budget."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A round to be solved."""

    cost: Floats
    """[J, M, T]: what it costs to place a job there, from zero; inf: not eligible."""
    skip_cost: Floats
    """[J]: what it costs to leave the job unplaced in this round, finite, from zero."""
    demand: Demand
    sites: Sites
    tenancy: Tenancy | None = None
    """None: no caps and budgets."""

    def __post_init__(self) -> None:
        jobs, sites, slots = self.cost.shape
        classes, dimensions = self.demand.usage.shape[1:]
        _expect("skip_cost", self.skip_cost, (jobs,))
        _expect("usage", self.demand.usage, (jobs, classes, dimensions))
        _expect("span", self.demand.span, (jobs,))
        _expect("profile", self.sites.profile, (sites,))
        _expect("capacity", self.sites.capacity, (sites, slots, dimensions))
        if self.sites.largest is not None:
            _expect("largest", self.sites.largest, (sites,))
        if self.tenancy is not None:
            self._check_tenancy(self.tenancy)
        if jobs and self.demand.span.min() < 1:
            raise InvariantError("a job spans less than one slot", "give every job a span from 1")
        if not np.isfinite(self.skip_cost).all() or (self.skip_cost < 0.0).any():
            raise InvariantError("a skip cost is negative or not finite", "give each job one")

    def _check_tenancy(self, tenancy: Tenancy) -> None:
        jobs, sites, slots = self.cost.shape
        tenants = tenancy.share_cap.shape[0]
        _expect("tenant", tenancy.tenant, (jobs,))
        _expect("share", tenancy.share, (jobs, self.demand.usage.shape[1]))
        _expect("share_cap", tenancy.share_cap, (tenants, slots))
        _expect("money_budget", tenancy.money_budget, (tenants + 1,))
        _expect("carbon_budget", tenancy.carbon_budget, (tenants + 1,))
        for name, array in (("spend", tenancy.spend), ("grams", tenancy.grams)):
            _expect(name, array, (jobs, sites, slots if array.shape[-1] > 1 else 1))

    @property
    def jobs(self) -> int:
        """How many jobs there are."""
        return int(self.cost.shape[0])

    @property
    def slots(self) -> int:
        """How many start slots there are."""
        return int(self.cost.shape[2])

    @property
    def tenants(self) -> int:
        """How many tenants have rows of their own."""
        return 0 if self.tenancy is None else self.tenancy.share_cap.shape[0]


@dataclass(frozen=True, slots=True)
class Prices:
    """What a unit of each scarce thing costs: the congestion prices, in currency per unit."""

    site: Floats
    """[M, T, D]: per unit of a dimension at a site in a slot."""
    share: Floats
    """[K, T]: per unit of weighted dominant share in a slot."""
    money: Floats
    """[K + 1]: on top of each unit of money spent; last: of the budget of all together."""
    carbon: Floats
    """[K + 1]: per gram; last: of the budget of all together."""

    def rows(self) -> Floats:
        """All of them in the order of the solver's rows."""
        parts = (self.site, self.share, self.money, self.carbon)
        return np.concatenate([part.ravel() for part in parts])


@dataclass(frozen=True, slots=True)
class PriceLimits:
    """How far prices at sites may go: both ends equal pin a price; a narrow band damps it."""

    low: Floats
    """[M, T, D]"""
    high: Floats
    """[M, T, D]; inf: no limit."""


@dataclass(frozen=True, slots=True)
class Warm:
    """What is known from the round before."""

    prices: Prices
    choice: Integers | None = None
    """[J]: the option each job of *this* round has had, `UNPLACED` for none."""
    gap: float = 0.0
    """The gap it came with; if prices and choice still reach it, they are returned as they are."""
    hints: Floats | None = None
    """`Solution.hints` of that round."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A feasible assignment, how far from the best it can be, and why each job is where it is."""

    choice: Integers
    """[J]: option per job, `UNPLACED` for none."""
    slots: int
    """T, to take options apart."""
    prices: Prices
    primal: float
    """What the assignment costs, skipped jobs included."""
    dual: float
    """What any assignment costs at least."""
    runner_up: Integers
    """[J]: the best option (or `UNPLACED`) not chosen, at these prices."""
    runner_up_cost: Floats
    """[J]: what the runner-up costs, without prices; inf where there is no other option."""
    runner_up_priced: Floats
    """[J]: what the runner-up costs at these prices; inf where there is no other option."""
    hints: Floats
    """Prices met on the way to the plan, one row per size of jobs: only good for a warm start."""
    rounds: int
    """Looks at all options the price loop took."""
    unchanged: bool = False
    """The assignment and prices handed in were still as good and are returned untouched."""

    @property
    def site(self) -> Integers:
        """[J]: the site of each job, `UNPLACED` for none."""
        return np.where(self.choice >= 0, self.choice // self.slots, UNPLACED)

    @property
    def slot(self) -> Integers:
        """[J]: the start slot of each job, `UNPLACED` for none."""
        return np.where(self.choice >= 0, self.choice % self.slots, UNPLACED)

    @property
    def gap(self) -> float:
        """(primal − dual) / dual; zero where nothing costs anything."""
        loss = self.primal - self.dual
        return max(0.0, loss) / self.dual if self.dual > 0.0 else (0.0 if loss <= 0.0 else np.inf)


def _expect(
    name: str, array: NDArray[np.float64] | NDArray[np.int64], shape: tuple[int, ...]
) -> None:
    if array.shape != shape:
        raise InvariantError(f"'{name}' has the shape {array.shape}", f"make it {shape}")
