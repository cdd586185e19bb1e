"""One round of the global stage: costs and room in, a choice per job and prices out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.slices import ShareMode
from dure.fleet.assignment.problem import (
    UNPLACED,
    Demand,
    Prices,
    Problem,
    Sites,
    Tenancy,
    Warm,
)
from dure.fleet.assignment.solve import Effort, solve
from dure.fleet.costs import CostTable, Surroundings, slot_lengths_h, spans
from dure.fleet.round_loops import (
    Crowd,
    Crowded,
    Free,
    Missed,
    Needed,
    Wants,
    add_scarcity,
    by_site,
    close_full,
    count_rooms,
    crowding,
    look_again,
    missed_gains,
    price,
    take_turns,
)
from dure.fleet.sites import BANDWIDTH, DEVICES, DIMENSIONS, MEMORY, Floats, SiteBook
from dure.fleet.tracks import HOUR_NS, Needs

Integers = NDArray[np.int64]

QUICK = Effort(
    looks=4, steps=8, levels=(0.2, 0.0), dive_looks=1, dive_steps=8, passes=3, gap_goal=0.002
)
"""Effort of a round: it is repeated every few minutes with only a few jobs, prices known."""

MISSED_SHARE = 0.01
"""Gains below this part of what a job pays say nothing about scarcity."""
CERTAIN_GAP = 0.001
"""A choice known to be this near the best is taken as it is."""
_LOOKS_AGAIN = 3
"""How often jobs look at what the others have left, at most."""
_SITES_KEPT = 16
"""Cheapest sites per job that prices are found for; a round's few jobs rarely fill more."""
_SKIP_FACTOR = 1.5
"""A job that may not wait is left out only where nothing fits: this much over its dearest place."""
_PRIORITY_VALUE = 0.5
"""What a step of priority adds to that, as a part."""


@dataclass(frozen=True, slots=True)
class Room:
    """What is free, in which slot, and what tenants may take of it."""

    capacity: Floats
    """[M, T, D]"""
    fits_now: NDArray[np.bool_]
    """[J, M]: whether a gang's instances fit as whole shapes at once, as far as summaries tell."""
    tenancy: Tenancy | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """What a round decided for its candidates."""

    site: NDArray[np.int64]
    """[J]; -1: no place."""
    slot: NDArray[np.int64]
    priced: Floats
    """[J, M, T]: cost with congestion."""
    crowding: Floats
    """[J, M, T]: congestion alone."""
    missed: Missed
    """[M]: what jobs that found no room there would still gain by it, and how much they want."""
    duals: Prices | None
    skip: Floats
    """[J]"""


def capacity(around: Surroundings, slots_h: tuple[int, ...]) -> Floats:
    """[M, T, D]: free now, and later what running work is expected to give back."""
    columns = around.sites.columns
    free = np.maximum(columns.free + columns.surplus, 0.0)
    count, starts_ns = len(around.sites), np.array(slots_h, dtype=np.int64) * HOUR_NS
    starts_ns += around.now_ns
    released = around.running.released(starts_ns, count)
    planned = around.plans.reserved(starts_ns, count)
    total = np.minimum(free[:, None, :] + released, columns.total[:, None, :]) - planned
    total[~columns.up] = 0.0
    np.maximum(total, 0.0, out=total)
    # Whole devices bring their memory and bandwidth along: counting them again would only spread
    # one price over three names.
    whole = np.array([mode is ShareMode.WHOLE for _, mode in around.sites.kinds])[columns.kind]
    total[whole, :, MEMORY] = total[whole, :, BANDWIDTH] = np.inf
    return total


def urgent(table: CostTable, around: Surroundings) -> NDArray[np.bool_]:
    """[J]: who has waited long and can wait no longer without being late."""
    now_ns, hold_ns = around.now_ns, around.settings.hold_ns
    result = np.zeros(len(table.tracks), dtype=np.bool_)
    for number, track in enumerate(table.tracks):
        if now_ns - track.pending_ns >= hold_ns:
            due_ns = track.workload.sla.deadline_ns
            run_ns = float(table.shortest_h[number]) * HOUR_NS
            late = due_ns is not None and due_ns - now_ns - run_ns < 2 * hold_ns
            result[number] = late or not table.may_wait[number]
    return result


def fits_now(table: CostTable, sites: SiteBook) -> NDArray[np.bool_]:
    """[J, M]: whether all instances of each candidate fit now; one look per distinct shape."""
    shapes: dict[int, int] = {}
    needs: list[Needs] = []
    row = []
    for track in table.tracks:
        number = shapes.setdefault(id(track.needs), len(needs))
        if number == len(needs):
            needs.append(track.needs)
        row.append(number)
    instances = np.array([track.instances for track in table.tracks])
    return np.asarray(all_rooms(needs, sites)[row] >= instances[:, None])


def rooms(needs: Needs, sites: SiteBook) -> Floats:
    """[M]: how many instances of a shape fit at each site now."""
    return np.asarray(all_rooms((needs,), sites)[0])


def all_rooms(needs: Sequence[Needs], sites: SiteBook) -> Floats:
    """[N, M]: how many instances of each shape fit at each site now."""
    columns = sites.columns
    templates = list(sites.slices)
    rows = {template: row for row, template in enumerate(templates)}
    needed = Needed(
        devices=np.array([each.devices for each in needs]),
        share=np.array([each.share for each in needs]),
        counted=np.array([[rows.get(name, -1) for name in each.templates] for each in needs]),
    )
    slices = [sites.slices[template] for template in templates]
    free = Free(
        kind=columns.kind,
        devices=columns.free[:, DEVICES].copy(),
        surplus=columns.surplus[:, DEVICES].copy(),
        by_free=columns.by_free,
        largest=columns.largest_free,
        slices=np.array(slices) if slices else np.zeros((0, len(sites)), dtype=np.int64),
    )
    return count_rooms(needed, free)


def decide(
    table: CostTable, room: Room, around: Surroundings, warm: Prices | None = None
) -> Choice:
    """Choose a site and a start for every candidate, or none."""
    crowded, full = _crowding(table, around)
    offers = price(table.total, crowded, room.fits_now, _skip_factors(table))
    priced, cost, skip = offers.priced, offers.cost, offers.skip
    busy = spans(table)
    kind = around.sites.columns.kind
    jobs, slots = len(table.tracks), len(table.slots_h)
    wants = Wants(cost.reshape(jobs, -1), skip, table.usage, busy)
    least = close_full(wants, kind, room.capacity)
    option, certain = _one_by_one(wants, room, least, kind)
    site, slot = _apart(option, slots)
    at_prices = wants._replace(cost=priced.reshape(jobs, -1))
    now = table.total[:, :, 0] + full
    if certain:
        missed = missed_gains(at_prices, now, kind, table.run_h, option, MISSED_SHARE)
        return Choice(site, slot, priced, crowded, missed, warm, skip)
    kept = _worth_keeping(cost, site)
    shift = np.minimum(np.where(np.isfinite(least), least, 0.0), 0.0)
    problem = Problem(
        cost=cost[:, kept] - shift[:, None, None],
        skip_cost=skip - shift,
        demand=Demand(table.usage, busy),
        sites=Sites(kind[kept], room.capacity[kept]),
        tenancy=_kept_tenancy(room.tenancy, kept),
    )
    solution = solve(problem, warm=_warm(warm, problem, kept), effort=QUICK)
    duals = np.zeros(room.capacity.shape)
    duals[kept] = solution.prices.site
    site, slot = _apart(solution.choice, slots)
    option = np.where(site >= 0, kept[site] * slots + slot, UNPLACED)
    option = _looked_again(wants, room, kind, option)
    site, slot = _apart(option, slots)
    missed = missed_gains(at_prices, now, kind, table.run_h, option, MISSED_SHARE)
    add_scarcity(table.usage, kind, duals, busy, (priced, crowded))
    return Choice(site, slot, priced, crowded, missed, replace(solution.prices, site=duals), skip)


def _apart(option: Integers, slots: int) -> tuple[Integers, Integers]:
    """Options as sites and slots."""
    placed = option >= 0
    return (
        np.where(placed, option // slots, UNPLACED),
        np.where(placed, option % slots, UNPLACED),
    )


def _looked_again(wants: Wants, room: Room, kind: Integers, option: Integers) -> Integers:
    """[J]: each job's option once it has seen what the others leave.

    The assignment is good as a whole: beside one job that costs thousands, what a small one pays
    too much is lost in its gap.
    """
    better = look_again(wants, kind, room.capacity.copy(), option, _LOOKS_AGAIN)
    site, slot = _apart(better, room.capacity.shape[1])
    return better if _within(room.tenancy, wants, site, slot, kind) else option


def _worth_keeping(cost: Floats, site: Integers) -> Integers:
    """Sites that matter to anybody in this round: each job's cheapest, and those already chosen."""
    count = cost.shape[1]
    if count <= _SITES_KEPT:
        return np.arange(count)
    least = by_site(cost)
    cheapest = np.argpartition(least, _SITES_KEPT - 1, axis=1)[:, :_SITES_KEPT]
    wanted = np.zeros(count, dtype=np.bool_)
    wanted[cheapest.ravel()] = True
    wanted[site[site >= 0]] = True
    wanted &= np.isfinite(least).any(axis=0)
    return np.flatnonzero(wanted)


def _kept_tenancy(tenancy: Tenancy | None, kept: Integers) -> Tenancy | None:
    if tenancy is None:
        return None
    return replace(tenancy, spend=tenancy.spend[:, kept], grams=tenancy.grams[:, kept])


def _crowding(table: CostTable, around: Surroundings) -> Crowded:
    """What known congestion prices add over the hours a job would hold devices.

    A job that may wait is charged only what an hour costs beyond the cheapest hour that it could
    wait for at that site: the rest says that the site is always wanted, and to that its plan, which
    takes room that is not taken yet, has already given way. Charged in full, nobody would wait for
    a place that is wanted at every hour, and all who could have would rent at once.
    """
    book, shape = around.adaptation.congestion, table.total.shape
    if not around.policy.congestion.enabled or not len(book.now):
        return Crowded(np.zeros(shape), np.zeros(shape[:2]))
    prices = book.ahead(around.now_ns, table.slots_h, forecast=around.policy.forecast)
    if not prices.any():
        return Crowded(np.zeros(shape), np.zeros(shape[:2]))
    starts = np.array(table.slots_h, dtype=np.float64)
    edges = np.append(starts, starts[-1] + slot_lengths_h(table.slots_h)[-1])
    kind, devices = around.sites.columns.kind, table.usage[:, :, DEVICES].copy()
    crowd = Crowd(prices, prices - prices.min(axis=1, keepdims=True), edges)
    return crowding(devices, kind, crowd, table.run_h, table.may_wait)


def _skip_factors(table: CostTable) -> Floats:
    """[J]: how many times its dearest place it costs to give a job neither a place nor a plan."""
    priority = np.array([max(0, track.priority) for track in table.tracks])
    return np.asarray(_SKIP_FACTOR * (1.0 + _PRIORITY_VALUE * priority))


def _one_by_one(
    wants: Wants, room: Room, cheapest: Floats, kind: Integers
) -> tuple[Integers, bool]:
    """Everybody's cheapest option with room, in turn; whether that is surely good enough.

    No assignment costs less than everybody's cheapest option without regard to others. Where the
    first come, first served one is as cheap, there is nothing for prices to find out.
    """
    skip = wants.skip
    order = np.argsort(cheapest - skip, kind="stable")
    option = take_turns(wants, kind, room.capacity.copy(), order)
    value = np.where(option >= 0, wants.cost[np.arange(len(skip)), np.maximum(option, 0)], skip)
    least = np.minimum(cheapest, skip)
    certain = bool((value - least).sum() <= CERTAIN_GAP * np.abs(least).sum())
    if certain:
        site, slot = _apart(option, room.capacity.shape[1])
        certain = _within(room.tenancy, wants, site, slot, kind)
    return option, certain


def _within(
    tenancy: Tenancy | None, wants: Wants, site: Integers, slot: Integers, kind: Integers
) -> bool:
    """Whether a choice keeps all caps and budgets."""
    if tenancy is None:
        return True
    jobs = np.flatnonzero(site >= 0)
    site, slot, tenant = site[jobs], slot[jobs], tenancy.tenant[jobs]
    tenants, slots = tenancy.share_cap.shape
    share = np.zeros((tenants, slots + 1))
    held = tenancy.share[jobs, kind[site]]
    np.add.at(share, (tenant, slot), held)
    np.add.at(share, (tenant, np.minimum(slot + wants.span[jobs], slots)), -held)
    spend = np.bincount(tenant, _at(tenancy.spend, jobs, site, slot), tenants)
    grams = np.bincount(tenant, _at(tenancy.grams, jobs, site, slot), tenants)
    return bool(
        (np.cumsum(share, axis=1)[:, :-1] <= tenancy.share_cap + 1e-12).all()
        and (np.append(spend, spend.sum()) <= tenancy.money_budget).all()
        and (np.append(grams, grams.sum()) <= tenancy.carbon_budget).all()
    )


def _at(values: Floats, jobs: Integers, site: Integers, slot: Integers) -> Floats:
    """Entries of an array with start slots, or with one for all of them."""
    return np.asarray(values[jobs, site, np.minimum(slot, values.shape[2] - 1)])


def _warm(prices: Prices | None, problem: Problem, kept: Integers) -> Warm | None:
    """The prices of the round before, where that round had the same rows."""
    capacity = problem.sites.capacity
    if prices is None or prices.site.shape[1:] != capacity.shape[1:]:
        return None
    if problem.tenancy is not None and prices.share.shape != problem.tenancy.share_cap.shape:
        return None
    return Warm(replace(prices, site=prices.site[kept]))


__all__ = ["DIMENSIONS", "UNPLACED", "Choice", "Room", "capacity", "decide", "fits_now", "rooms"]
