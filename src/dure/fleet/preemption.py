"""Whom to displace for a workload that fits nowhere: the cheapest sufficient set at one site.

Only work of lower priority that may be displaced and has run its minimum is ever chosen. The cost
of displacing is money: work lost since the last checkpoint, lateness it causes, and bringing the
victim back.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.policy import HOUR_NS
from dure.domain.fleet.series import Floats
from dure.domain.fleet.workloads import Sla
from dure.domain.ids import WorkloadId

EXACT_UP_TO = 16
"""Candidates of one site, the most promising, among which the best set is searched for exactly."""
SEARCH_STEPS = 4000
"""Sets tried for one workload before the best one so far is taken: some 10 ms."""
_SLACK = 1e-9

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Displacement:
    """What displacing one running job costs, in the fleet's currency."""

    work_lost: float
    lateness: float
    return_cost: float
    """Restart, and the transfer of its checkpoint if it comes back elsewhere."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.work_lost + self.lateness + self.return_cost


def displacement(
    unsaved_ns: float, money_per_hour: float, sla: Sla, expected_end_ns: float, delay_ns: float
) -> Displacement:
    """The cost of displacing a job that loses `unsaved_ns` and comes back after `delay_ns`.

    `delay_ns` is the expected wait for another place and the restart. What coming back costs beside
    time (a transfer, devices held while it starts) is left to a caller who knows the place.
    """
    deadline_ns = sla.deadline_ns
    lateness = 0.0
    if deadline_ns is not None:
        before = sla.late_cost(expected_end_ns - deadline_ns)
        after = sla.late_cost(expected_end_ns + unsaved_ns + delay_ns - deadline_ns)
        lateness = after - before
    return Displacement(unsaved_ns / HOUR_NS * money_per_hour, lateness, 0.0)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Running workloads in columns; the same row is the same workload."""

    workloads: tuple[WorkloadId, ...]
    sites: NDArray[np.int64]
    priorities: NDArray[np.int64]
    preemptible: NDArray[np.bool_]
    ran_ns: NDArray[np.int64]
    minimum_ns: NDArray[np.int64]
    """What each may run before it can be displaced (`ClassPolicy.minimum_runtime_ns`)."""
    amounts: Floats
    """[workloads, dimensions] that displacing it frees at its site."""
    costs: Floats
    """Of displacing each (`Displacement.total`)."""

    def only(self, rows: Rows) -> "Candidates":
        """These of them."""
        return Candidates(
            workloads=tuple(self.workloads[row] for row in rows),
            sites=self.sites[rows],
            priorities=self.priorities[rows],
            preemptible=self.preemptible[rows],
            ran_ns=self.ran_ns[rows],
            minimum_ns=self.minimum_ns[rows],
            amounts=self.amounts[rows],
            costs=self.costs[rows],
        )


@dataclass(frozen=True, slots=True)
class Victims:
    """Whom to displace so that a workload fits at a site."""

    site: int
    rows: tuple[int, ...]
    """Of the candidates, cheapest first."""
    cost: float


def eligible(candidates: Candidates, priority: int) -> NDArray[np.bool_]:
    """Who may be displaced for a workload of that priority: never its equals or betters."""
    return np.asarray(
        candidates.preemptible
        & (candidates.priorities < priority)
        & (candidates.ran_ns >= candidates.minimum_ns)
    )


def choose_victims(
    candidates: Candidates, priority: int, needs: Floats, free: Floats, most: int
) -> Victims | None:
    """The cheapest set of at most `most` victims at one site after which the workload fits there.

    `needs` and `free` are [sites, dimensions]; needs of infinity mark sites it may not use. A site
    where it fits already needs no victims and is not this function's business: it is left out.
    """
    gaps = np.maximum(needs - free, 0.0)
    open_sites = np.isfinite(needs).all(axis=1) & (gaps > _SLACK).any(axis=1)
    allowed = eligible(candidates, priority) & np.asarray(open_sites)[candidates.sites]
    rows = np.flatnonzero(allowed)
    best: _Look | None = None
    steps = SEARCH_STEPS
    for least, group in _by_promise(candidates, rows, gaps):
        if best is not None and least >= best.cost:
            break
        look = _Look.first(group, candidates, gaps[candidates.sites[group[0]]], most)
        limit = np.inf if best is None else best.cost
        look, used = look.searched(candidates, most, limit, steps)
        steps -= used
        if look.chosen is not None and look.cost < limit - _SLACK:
            best = look
    if best is None or best.chosen is None:
        return None
    order = np.lexsort((best.chosen, candidates.costs[best.chosen]))
    return Victims(best.site, tuple(int(row) for row in best.chosen[order]), best.cost)


def _by_promise(candidates: Candidates, rows: Rows, gaps: Floats) -> Iterator[tuple[float, Rows]]:
    """Candidates by site, with the least that making room there can cost, cheapest site first.

    The least is the cost of a fraction of candidates that gives the relief needed, all dimensions
    added up; sites where all together do not free enough are left out.
    """
    sites = candidates.sites[rows]
    gap = gaps[sites]
    scale = np.where(gap > 0, gap, 1.0)
    relief = (np.minimum(candidates.amounts[rows], gap) / scale).sum(axis=1)
    rows, sites, relief = (each[relief > 0] for each in (rows, sites, relief))
    if not len(rows):
        return
    order = np.lexsort((rows, candidates.costs[rows] / relief, sites))
    rows, sites, relief = rows[order], sites[order], relief[order]
    where, starts, sizes = np.unique(sites, return_index=True, return_counts=True)
    before = np.cumsum(relief) - relief
    before -= np.repeat(before[starts], sizes)
    asked = (gaps[sites] > 0).sum(axis=1)
    part = np.clip((asked - before) / relief, 0.0, 1.0)
    least = np.add.reduceat(candidates.costs[rows] * part, starts)
    freed = np.add.reduceat(candidates.amounts[rows], starts, axis=0)
    enough = np.all(freed >= gaps[where] - _SLACK, axis=1)
    for number in np.lexsort((where, least)):
        if enough[number]:
            first = starts[number]
            yield float(least[number]), rows[first : first + sizes[number]]


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found at one site so far."""

    site: int
    rows: Rows
    """Who could be displaced there and would help, most relief for the money first."""
    gap: Floats
    chosen: Rows | None
    cost: float

    @classmethod
    def first(cls, rows: Rows, candidates: Candidates, gap: Floats, most: int) -> "_Look":
        """A quick look: greedy, then pruned."""
        useful = np.minimum(candidates.amounts[rows], gap)
        found = _greedy_cover(useful, candidates.costs[rows], gap)
        site = int(candidates.sites[rows[0]])
        if found is None or len(found) > most:
            return cls(site, rows, gap, None, np.inf)
        chosen = rows[found]
        return cls(site, rows, gap, chosen, float(candidates.costs[chosen].sum()))

    def searched(
        self, candidates: Candidates, most: int, limit: float, steps: int
    ) -> tuple["_Look", int]:
        """The best set below the limit among the most promising, and the steps that took."""
        rows = self.rows[:EXACT_UP_TO]
        search = _Search(candidates.amounts[rows], candidates.costs[rows], most, steps)
        search.bound = min(limit, self.cost)
        search.visit(0, [float(value) for value in self.gap], 0.0)
        if search.best is None:
            return self, search.used
        chosen = rows[search.order[search.best]]
        return replace(self, chosen=chosen, cost=float(candidates.costs[chosen].sum())), search.used


def _greedy_cover(useful: Floats, costs: Floats, gap: Floats) -> Rows | None:
    """Most relief for the money, one at a time; then who turned out needless is left alone."""
    left = gap.copy()
    scale = np.where(gap > 0, gap, 1.0)
    open_rows = np.ones(len(costs), dtype=bool)
    chosen: list[int] = []
    while np.any(left > _SLACK):
        relief = (np.minimum(useful, np.maximum(left, 0.0)) / scale).sum(axis=1)
        worth = np.where(open_rows & (relief > 0), relief / (costs + _SLACK), -1.0)
        pick = int(np.argmax(worth)) if len(worth) else -1
        if pick < 0 or worth[pick] < 0:
            return None
        open_rows[pick] = False
        chosen.append(pick)
        left = left - useful[pick]
    freed = useful[chosen].sum(axis=0)
    for row in sorted(chosen, key=lambda each: (-costs[each], each)):
        if np.all(freed - useful[row] >= gap - _SLACK):
            chosen.remove(row)
            freed = freed - useful[row]
    return np.array(sorted(chosen), dtype=np.int64)


class _Search:
    """Branch and bound over sets of candidates, the cheapest first."""

    def __init__(self, amounts: Floats, costs: Floats, most: int, steps: int) -> None:
        self.order = np.lexsort((np.arange(len(costs)), costs))
        self.bound = np.inf
        self.best: list[int] | None = None
        """Positions in `order` of the best set below the bound."""
        self.used = 0
        self._steps = steps
        self._most = most
        self._costs: list[float] = costs[self.order].tolist()
        self._amounts: list[list[float]] = amounts[self.order].tolist()
        tail = np.cumsum(amounts[self.order][::-1], axis=0)[::-1]
        self._tail: list[list[float]] = tail.tolist()
        self._chosen: list[int] = []

    def visit(self, index: int, left: list[float], cost: float) -> None:
        """Try all sets that go on from here, until steps run out."""
        self.used += 1
        if all(value <= _SLACK for value in left):
            self.bound, self.best = cost, list(self._chosen)
            return
        if index == len(self._costs) or len(self._chosen) == self._most:
            return
        if self.used >= self._steps or cost + self._costs[index] >= self.bound - _SLACK:
            return
        if any(have < need - _SLACK for have, need in zip(self._tail[index], left, strict=True)):
            return
        amounts = self._amounts[index]
        self._chosen.append(index)
        rest = [need - have for need, have in zip(left, amounts, strict=True)]
        self.visit(index + 1, rest, cost + self._costs[index])
        self._chosen.pop()
        self.visit(index + 1, left, cost)
