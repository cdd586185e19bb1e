"""Assigns the jobs of a round: a price loop for the bound, then a feasible plan made better.

Every job takes its cheapest option at the present prices; what is asked for too much gets dearer.
The value of that relaxed problem bounds the cost of every assignment from below. A feasible plan
is then made, large jobs first, with prices found anew for those that remain, and improved by moving
jobs, also several at once. Early moves count part of the prices, so that room is left to whom it is
worth most.
"""

from dataclasses import dataclass

import numpy as np

from dure.fleet.assignment import outcome_loops, plan_loops, price_loops
from dure.fleet.assignment.problem import (
    UNPLACED,
    Floats,
    Integers,
    PriceLimits,
    Problem,
    Solution,
    Warm,
)
from dure.fleet.assignment.rows import as_prices, as_rows, as_work, bounds, worth
from dure.fleet.assignment.shapes import Plan, Table, View, Walk


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to look. Defaults were set on made instances, see docs/results/global.md."""

    kept: int = 24
    """Options per job that prices are walked on between two looks at all."""
    looks: int = 11
    """Most looks at all options while prices are found."""
    steps: int = 16
    """Most price steps between two looks."""
    first_steps: int = 8
    """Price steps after the first look; two more after each further one."""
    first_step: float = 0.6
    """Length of the first price steps, in parts of what a row may be worth."""
    shrink: float = 0.72
    """What steps shrink by from one look to the next."""
    momentum: float = 0.7
    """Part of the earlier excess that stays in the smoothed one."""
    common: float = 4.0
    """How much longer the common step of all sites is than that of each."""
    levels: tuple[float, ...] = (0.5, 0.2, 0.05, 0.02, 0.0)
    """Sizes of jobs, in parts of a mean site, placed together before prices are found anew."""
    dive_looks: int = 3
    """Looks at all options for each of them."""
    dive_steps: int = 24
    """Price steps after each of those looks."""
    dive_length: tuple[float, float] = (0.1, 0.01)
    """Length of the first and the last of the price steps of a level."""
    passes: int = 6
    """Most passes of improvement over all jobs."""
    paid: tuple[float, ...] = (0.8, 0.5, 0.2, 0.0)
    """Part of the prices that passes count, from one to the next; fewer passes have the last of
    these, more go on with none. A pass that counts some leaves room behind that is worth its price
    to others; one that counts none uses up what is left."""
    tries: int = 12
    """Options per job and pass for which others are moved away."""
    cared_for: float = 0.8
    """Part of what all jobs pay too much that those tried for make up, the dearest first: the many
    others have little to gain."""
    content: float = 0.1
    """How much dearer than its cheapest option, in parts, a large job's old place may be."""
    gap_goal: float = 0.0
    """Stop when the plan is known to be this near the best."""


COLD = Effort()
WARM = Effort(
    looks=2,
    steps=28,
    first_steps=28,
    first_step=0.08,
    shrink=0.1,
    levels=(0.0,),
    dive_looks=1,
    dive_steps=24,
    dive_length=(0.06, 0.01),
    passes=4,
    cared_for=0.7,
)
"""Enough where prices of a similar round are known."""
SMALL = Effort(passes=10, paid=(0.0,), cared_for=1.0)
"""For few jobs: there are too few others to leave room to, and a long look costs nothing."""
FEW = 150
"""Jobs up to which a problem counts as small."""
LARGE = 0.05
"""Part of a mean site from which a job counts as large."""
PATIENCE = np.array([0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, np.inf])
"""How much dearer than its cheapest option a job's place may be, from one turn to the next."""
_MOST_MOVED = 256
"""Jobs moved away at most for one other: a gang of 64 devices takes the room of that many."""
_WORTH_A_TRY = 0.002
"""Part of its price that a job must pay too much for others to be moved for it."""
_WORTH_A_PASS = 1e-4
"""Part of the cost that a pass of improvement must have saved for another to follow."""


def solve(
    problem: Problem,
    *,
    warm: Warm | None = None,
    limits: PriceLimits | None = None,
    effort: Effort | None = None,
) -> Solution:
    """Assign every job or leave it out; the same for the same arguments."""
    search = _Search(problem, effort or _effort(problem, warm), limits)
    if warm is not None:
        search.start_from(warm)
    else:
        search.start()
    if warm is not None and warm.choice is not None and search.as_good_as(warm):
        return search.solution(unchanged=True)
    search.find_prices()
    search.find_plan(None if warm is None else warm.choice)
    return search.solution()


def _effort(problem: Problem, warm: Warm | None) -> Effort:
    if problem.skip_cost.size <= FEW:
        return SMALL
    return COLD if warm is None else WARM


class _Search:
    """The state of one solve."""

    def __init__(self, problem: Problem, effort: Effort, limits: PriceLimits | None) -> None:
        self.problem = problem
        self.effort = effort
        self.work = as_work(problem)
        jobs, options = self.work.cost.shape
        kept = max(1, min(effort.kept, options))
        self.table = Table(
            np.full((jobs, kept), UNPLACED, dtype=np.int64),
            np.full((jobs, kept), np.inf),
            np.full((jobs, kept), np.inf),
            np.zeros((jobs, kept + 1), dtype=np.int64),
        )
        self.view = self._empty_view()
        self.part_view = self._empty_view()
        rows = self.work.limit.size
        low, high = bounds(limits, rows)
        self.path = Walk(
            prices=low.copy(),
            low=low,
            high=high,
            scale=np.zeros(rows),
            average=np.zeros(rows),
            supply=self.work.limit.copy(),
            left=np.zeros(rows),
        )
        self.everybody = np.arange(jobs)
        self.bounded = np.isfinite(self.work.limit)
        self.best = self.path.prices.copy()
        self.dual = -np.inf
        self.looks = 0
        self.looked = np.full(rows, np.nan)
        self.plan = self._empty_plan()
        self.primal = np.inf
        self.size = self._size()
        self.hints: Floats | None = None
        self.reached = np.zeros((len(effort.levels), rows))

    def _size(self) -> Floats:
        """Part of a mean site that each job takes, in the dimension where that is most."""
        capacity = np.maximum(self.problem.sites.capacity, 0.0).mean(axis=(0, 1))
        use = self.work.usage.mean(axis=1)
        part = np.divide(use, capacity, out=np.zeros_like(use), where=capacity > 0.0)
        largest: Floats = part.max(axis=1)
        return largest

    def _empty_view(self) -> View:
        slots, tenants, _ = (int(size) for size in self.work.sizes)
        longest = int(self.work.span.max(initial=1))
        options, dimensions = self.work.cost.shape[1], self.work.usage.shape[2]
        return View(
            np.zeros((longest, options, dimensions)),
            np.zeros((longest, tenants, slots)),
            np.zeros(tenants),
            np.zeros(tenants),
        )

    def _empty_plan(self) -> Plan:
        jobs, sites = self.work.skip.size, self.work.profile.size
        slots, tenants, _ = (int(size) for size in self.work.sizes)
        nobody = [np.full(size, UNPLACED, dtype=np.int64) for size in (jobs, sites, tenants)]
        links = [np.full(jobs, UNPLACED, dtype=np.int64) for _ in range(4)]
        return Plan(
            choice=nobody[0],
            left=self.work.limit * (1.0 + plan_loops.ROOM),
            head=nobody[1],
            after=links[0],
            before=links[1],
            tenant_head=nobody[2],
            tenant_after=links[2],
            tenant_before=links[3],
            escape=np.zeros(jobs),
            victims=np.zeros(_MOST_MOVED, dtype=np.int64),
            places=np.zeros(_MOST_MOVED, dtype=np.int64),
            lack=np.zeros(slots * (self.work.usage.shape[2] + 1) + 2),
        )

    def look(self, prices: Floats) -> float:
        """Look at all options at these prices: the bound they give."""
        price_loops.spread(self.work, self.view, prices)
        total = price_loops.scan(self.work, self.view, self.table, self.everybody)
        self.looked[:] = prices
        self.looks += 1
        rent = prices[self.bounded] @ self.work.limit[self.bounded]
        return float(total - rent)

    def note(self) -> None:
        """Look at the present prices and keep them where they give the best bound so far."""
        found = self.look(self.path.prices)
        if found > self.dual:
            self.dual = found
            self.best[:] = self.path.prices

    def start(self) -> None:
        self.note()
        self.path.scale[:] = worth(self.work, self.table)

    def start_from(self, warm: Warm) -> None:
        rows = as_rows(self.problem, warm.prices)
        self.path.prices[:] = np.clip(rows, self.path.low, self.path.high)
        if warm.hints is not None and len(warm.hints) >= len(self.reached):
            self.hints = warm.hints[len(warm.hints) - len(self.reached) :]
        self.start()

    def as_good_as(self, warm: Warm) -> bool:
        """Whether the old assignment is still feasible and, at the old prices, as near the best."""
        if warm.choice is None:
            return False
        everybody = np.arange(self.work.skip.size)
        plan_loops.keep_choice(self.work, self.plan, everybody, warm.choice)
        self.primal = self._cost()
        if not np.array_equal(self.plan.choice, warm.choice):
            return False
        return self.primal - self.dual <= max(warm.gap, self.effort.gap_goal) * self.dual * (
            1.0 + 1e-9
        ) + 1e-9 * abs(self.primal)

    def find_prices(self) -> None:
        """Walk the prices, with shorter and shorter steps, to the best bound."""
        effort = self.effort
        length = effort.first_step
        for look in range(effort.looks - 1):
            steps = min(effort.steps, effort.first_steps + 2 * look)
            self._walk(self.everybody, steps, length, effort.shrink ** (1.0 / steps))
            self.note()
            length *= effort.shrink

    def _walk(self, who: Integers, steps: int, length: float, shrink: float = 1.0) -> None:
        pace = np.array([steps, length, shrink, self.effort.momentum, self.effort.common])
        price_loops.walk(self.work, self.view, self.table, self.path, who, pace)

    def find_plan(self, earlier: Integers | None) -> None:
        """A feasible plan, improved while that pays.

        It is judged, improved and explained at the prices of the bound; the dive has its own.
        """
        self.plan = self._empty_plan()
        self.path.prices[:] = self.best
        self.path.average[:] = 0.0
        if not np.array_equal(self.looked, self.best):
            self.look(self.best)
        seen = [array.copy() for array in self.table]
        self._dive(self.everybody if earlier is None else self._stay(earlier))
        for array, before in zip(self.table, seen, strict=True):
            array[:] = before
        price_loops.spread(self.work, self.view, self.best)
        order = self._urgent(self.everybody)
        self._fill(order)
        if earlier is not None:
            self._prefer(earlier, order)
        self._improve(order)

    def _fill(self, order: Integers) -> None:
        plan_loops.repair(self.work, self.view, self.table, self.plan, order, PATIENCE)
        self.primal = self._cost()

    def _prefer(self, earlier: Integers, order: Integers) -> None:
        """Go on from the earlier assignment instead where it is no worse, so that nobody moves."""
        other, primal = self.plan, self.primal
        self.plan = self._empty_plan()
        plan_loops.keep_choice(self.work, self.plan, order, earlier)
        self._fill(order)
        if primal < self.primal:
            self.plan, self.primal = other, primal

    def _look_again(self, who: Integers) -> None:
        price_loops.spread(self.work, self.view, self.path.prices)
        price_loops.scan(self.work, self.view, self.table, who)

    def _stay(self, earlier: Integers) -> Integers:
        """Leave large jobs where they were, if that is about their cheapest option; who is left.

        Prices for the rest follow from where the large ones are.
        """
        first = np.minimum(self.table.priced[:, 0], self.work.skip)
        now = plan_loops.priced_choice(self.work, self.view, earlier)
        near = now - first <= self.effort.content * first
        stays = (earlier >= 0) & (self.size >= LARGE) & near
        order = self._urgent(self.everybody[stays])
        plan_loops.keep_choice(self.work, self.plan, order, earlier)
        self.path.supply[:] = self.plan.left
        return self.everybody[self.plan.choice < 0]

    def _dive(self, who: Integers) -> None:
        """Place the largest jobs as they choose most, then find prices for the rest, and so on."""
        effort = self.effort
        for index, level in enumerate(effort.levels):
            if self.hints is not None:
                self.path.prices[:] = np.clip(self.hints[index], self.path.low, self.path.high)
            if level > 0.0 and not (self.size[who] >= level).any():
                continue
            length, last = effort.dive_length
            shrink = (last / length) ** (1.0 / (effort.dive_looks * effort.dive_steps))
            for _ in range(effort.dive_looks):
                self._look_again(who)
                self._walk(who, effort.dive_steps, length, shrink)
                length *= shrink**effort.dive_steps
            self.reached[index] = self.path.prices
            large = who[self.size[who] >= level]
            wanted = self._most_chosen(large)
            order = self._urgent(large)
            plan_loops.keep_choice(self.work, self.plan, order, wanted)
            lost = order[(self.plan.choice[order] < 0) & (wanted[order] >= 0)]
            patience = PATIENCE if level >= LARGE else PATIENCE[:-3]
            plan_loops.repair(self.work, self.view, self.table, self.plan, lost, patience)
            self.path.supply[:] = self.plan.left
            who = who[self.size[who] < level]
        self.path.supply[:] = self.work.limit

    def _most_chosen(self, who: Integers) -> Integers:
        """What each of some jobs chose most on the last walk: about the best fractional plan."""
        place = self.table.chosen[who].argmax(axis=1)
        kept = self.table.option.shape[1]
        option = self.table.option[who, np.minimum(place, kept - 1)]
        wanted = np.full(self.everybody.size, UNPLACED, dtype=np.int64)
        wanted[who] = np.where(place < kept, option, UNPLACED)
        return wanted

    def _improve(self, order: Integers) -> None:
        """Move jobs, alone and in chains, while that saves enough; the best plan met is kept."""
        effort, work, view = self.effort, self.work, self.part_view
        best, best_cost = _copy(self.plan), self.primal
        unpaid = max(0, effort.passes - len(effort.paid))
        parts = (*effort.paid[max(0, len(effort.paid) - effort.passes) :], *[0.0] * unpaid)
        movers = order
        for part in parts:
            if best_cost - self.dual <= effort.gap_goal * self.dual:
                break
            before = self.primal
            price_loops.spread(work, view, part * self.best)
            plan_loops.shift(work, view, self.plan, movers)
            worst = self._worst()
            plan_loops.make_room(work, view, self.table, self.plan, worst, effort.tries)
            if part > 0.0:
                self._fill(order)
            self.primal = self._cost()
            if self.primal < best_cost:
                best, best_cost = _copy(self.plan), self.primal
            if part == 0.0 and before - self.primal <= _WORTH_A_PASS * self.primal:
                break
            movers = worst
        self.plan, self.primal = best, best_cost

    def _urgent(self, who: Integers) -> Integers:
        """Jobs in order of what is lost without a place, per part of a site and slot."""
        loss = self.work.skip - np.minimum(self.table.priced[:, 0], self.work.skip)
        density = loss / np.maximum(self.size * self.work.span, 1e-12)
        return who[np.argsort(-density[who], kind="stable")]

    def _regret(self) -> Floats:
        """How much dearer than its cheapest option each job is, at the prices."""
        now = plan_loops.priced_choice(self.work, self.view, self.plan.choice)
        return now - np.minimum(self.table.priced[:, 0], self.work.skip)

    def _worst(self) -> Integers:
        """Jobs that are not where they want to be, the dearest first, as far as they matter."""
        regret = self._regret()
        order = np.argsort(-regret, kind="stable")
        wanting = regret > _WORTH_A_TRY * np.minimum(self.table.priced[:, 0], self.work.skip)
        order = order[wanting[order]]
        if not order.size:
            return order
        total = np.cumsum(regret[order])
        return order[: 1 + int(np.searchsorted(total, self.effort.cared_for * total[-1]))]

    def _cost(self) -> float:
        return float(outcome_loops.total(self.work, self.plan.choice))

    def solution(self, *, unchanged: bool = False) -> Solution:
        choice = self.plan.choice.copy()
        runner_up, runner_up_priced, runner_up_cost = outcome_loops.runners_up(
            self.work, self.table, choice
        )
        return Solution(
            choice=choice,
            slots=self.problem.slots,
            prices=as_prices(self.problem, self.best),
            primal=self.primal,
            dual=self.dual,
            runner_up=runner_up,
            runner_up_cost=runner_up_cost,
            runner_up_priced=runner_up_priced,
            hints=self.reached if not unchanged or self.hints is None else self.hints,
            rounds=self.looks,
            unchanged=unchanged,
        )


def _copy(plan: Plan) -> Plan:
    return Plan._make(array.copy() for array in plan)
