"""The compiled loops of prices: all options at given prices, and steps of the price loop."""

import numpy as np

from dure.fleet.assignment.shapes import Floats, Integers, Table, View, Walk, Work
from dure.fleet.compiled import compiled, counting_nothing

_NEVER = np.inf
_WORTH = 1e-9
"""Part of a price by which options may differ from rounding alone."""
_TINY = 1e-300
_LEAST_SUPPLY = 0.02
"""Part of a limit that excess is measured in at least, where little is left."""


@counting_nothing
def spread(work: Work, view: View, prices: Floats) -> None:
    """Sum prices over the slots that a job of each span would be busy."""
    sites = work.profile.size
    slots, tenants, tenancy = work.sizes
    dimensions = work.usage.shape[2]
    at_sites, of_shares, money, carbon = view.site, view.share, view.money, view.carbon
    share_row = sites * slots * dimensions
    money_row = share_row + tenants * slots
    carbon_row = money_row + tenants + 1
    for length in range(at_sites.shape[0]):
        for option in range(sites * slots):
            last = option + length
            more = length > 0 and last // slots == option // slots
            for dimension in range(dimensions):
                price = (
                    at_sites[length - 1, option, dimension]
                    if length
                    else prices[option * dimensions + dimension]
                )
                if more:
                    price += prices[last * dimensions + dimension]
                at_sites[length, option, dimension] = price
        for tenant in range(tenants if tenancy else 0):
            for slot in range(slots):
                total = 0.0
                for busy in range(slot, min(slots, slot + length + 1)):
                    total += prices[share_row + tenant * slots + busy]
                of_shares[length, tenant, slot] = total
    for tenant in range(tenants):
        money[tenant] = prices[money_row + tenant] + prices[money_row + tenants]
        carbon[tenant] = prices[carbon_row + tenant] + prices[carbon_row + tenants]


@counting_nothing
def scan(  # noqa: PLR0912, PLR0915, the hottest loop: calls in it cost more than they tidy
    work: Work, view: View, table: Table, who: Integers
) -> float:
    """Look at every option of some jobs; keep the cheapest few and add up the very cheapest."""
    slots, _, tenancy = work.sizes
    usage, profiles, spans, cost = work.usage, work.profile, work.span, work.cost
    owner, shares, spend, grams = work.tenant, work.share, work.spend, work.grams
    options, costs, values, prices = table.option, table.cost, table.priced, view.site
    share_prices, money_prices, gram_prices = view.share, view.money, view.carbon
    kept = options.shape[1]
    dimensions = usage.shape[2]
    money_last, grams_last = spend.shape[2] - 1, grams.shape[2] - 1
    total = 0.0
    for job in who:
        length = spans[job] - 1
        tenant = owner[job]
        billed = tenancy and (money_prices[tenant] > 0.0 or gram_prices[tenant] > 0.0)
        count = 0
        bar = _NEVER
        if options[job, kept - 1] >= 0:
            # No more than the dearest of those kept last time: most options fail at once.
            bar = 0.0
            for place in range(kept):
                option = options[job, place]
                site = option // slots
                slot = option - site * slots
                profile = profiles[site]
                value = cost[job, option]
                for dimension in range(dimensions):
                    value += usage[job, profile, dimension] * prices[length, option, dimension]
                if tenancy:
                    value += shares[job, profile] * share_prices[length, tenant, slot]
                if billed:
                    value += money_prices[tenant] * spend[job, site, min(slot, money_last)]
                    value += gram_prices[tenant] * grams[job, site, min(slot, grams_last)]
                bar = max(bar, value)
            bar += _WORTH * bar + _TINY
        for site in range(profiles.size):
            profile = profiles[site]
            for slot in range(slots):
                option = site * slots + slot
                value = cost[job, option]
                if value >= bar:
                    continue
                for dimension in range(dimensions):
                    value += usage[job, profile, dimension] * prices[length, option, dimension]
                if tenancy:
                    value += shares[job, profile] * share_prices[length, tenant, slot]
                if billed:
                    value += money_prices[tenant] * spend[job, site, min(slot, money_last)]
                    value += gram_prices[tenant] * grams[job, site, min(slot, grams_last)]
                if value >= bar:
                    continue
                place = min(count, kept - 1)
                while place > 0 and values[job, place - 1] > value:
                    values[job, place] = values[job, place - 1]
                    options[job, place] = options[job, place - 1]
                    place -= 1
                values[job, place] = value
                options[job, place] = option
                count = min(count + 1, kept)
                if count == kept:
                    bar = values[job, kept - 1]
        for place in range(count):
            costs[job, place] = cost[job, options[job, place]]
        for place in range(count, kept):
            options[job, place] = -1
            values[job, place] = _NEVER
            costs[job, place] = _NEVER
        total += min(work.skip[job], values[job, 0])
    return total


@counting_nothing
def choose(work: Work, view: View, table: Table, who: Integers, left: Floats) -> None:
    """Let jobs take the cheapest of their kept options; `left` falls below zero where many do."""
    slots, tenants, tenancy = work.sizes
    usage, profiles, spans, skip = work.usage, work.profile, work.span, work.skip
    owner, shares, spend, grams = work.tenant, work.share, work.spend, work.grams
    options, costs, counts, prices = table.option, table.cost, table.chosen, view.site
    share_prices, money_prices, gram_prices = view.share, view.money, view.carbon
    kept = options.shape[1]
    dimensions = usage.shape[2]
    money_last, grams_last = spend.shape[2] - 1, grams.shape[2] - 1
    share_row = profiles.size * slots * dimensions
    money_row = share_row + tenants * slots
    grams_row = money_row + tenants + 1
    for job in who:
        length = spans[job] - 1
        tenant = owner[job]
        billed = tenancy and (money_prices[tenant] > 0.0 or gram_prices[tenant] > 0.0)
        best = skip[job]
        chosen = -1
        chosen_place = kept
        for place in range(kept):
            value = costs[job, place]
            if value >= best:
                continue
            option = options[job, place]
            site, slot = option // slots, option % slots
            profile = profiles[site]
            for dimension in range(dimensions):
                value += usage[job, profile, dimension] * prices[length, option, dimension]
            if tenancy:
                value += shares[job, profile] * share_prices[length, tenant, slot]
            if billed:
                value += money_prices[tenant] * spend[job, site, min(slot, money_last)]
                value += gram_prices[tenant] * grams[job, site, min(slot, grams_last)]
            if value < best:
                best = value
                chosen = option
                chosen_place = place
        counts[job, chosen_place] += 1
        if chosen < 0:
            continue
        site, slot = chosen // slots, chosen % slots
        profile = profiles[site]
        end = min(slots, slot + length + 1)
        for busy in range(slot, end):
            for dimension in range(dimensions):
                left[(site * slots + busy) * dimensions + dimension] -= usage[
                    job, profile, dimension
                ]
        if tenancy:
            for busy in range(slot, end):
                left[share_row + tenant * slots + busy] -= shares[job, profile]
            money = spend[job, site, min(slot, money_last)]
            left[money_row + tenant] -= money
            left[money_row + tenants] -= money
            carbon = grams[job, site, min(slot, grams_last)]
            left[grams_row + tenant] -= carbon
            left[grams_row + tenants] -= carbon


@compiled
def walk(work: Work, view: View, table: Table, path: Walk, who: Integers, pace: Floats) -> None:
    """Move prices by what some jobs ask beyond what there is, choosing among kept options only.

    `pace` is steps, length of the first one, what a step shrinks by, the part of the earlier
    excess that stays, and how much longer the common step of all sites is: needed because jobs
    easily change the site when one gets dearer, but few go without a place when all do.
    """
    limits, averages, prices, scale = work.limit, path.average, path.prices, path.scale
    low, high, left, supply = path.low, path.high, path.left, path.supply
    steps, length, shrink, keep, common = int(pace[0]), pace[1], pace[2], pace[3], pace[4]
    groups = work.sizes[0] * work.usage.shape[2]
    site_rows = work.profile.size * groups
    shared = np.zeros(groups)
    weight = np.zeros(groups)
    table.chosen[:] = 0
    for _ in range(steps):
        spread(work, view, prices)
        left[:] = supply
        choose(work, view, table, who, left)
        shared[:] = 0.0
        weight[:] = 0.0
        for row in range(prices.size):
            limit = max(supply[row], _LEAST_SUPPLY * limits[row])
            if limit == _NEVER or limit <= 0.0:
                continue
            excess = min(1.0, max(-1.0, -left[row] / limit))
            averages[row] = keep * averages[row] + (1.0 - keep) * excess
            if row < site_rows and (prices[row] > low[row] or averages[row] > 0.0):
                shared[row % groups] += averages[row] * limit
                weight[row % groups] += limit
        for row in range(prices.size):
            if limits[row] == _NEVER:
                continue
            move = averages[row]
            if row < site_rows and (prices[row] > low[row] or move > 0.0):
                move += common * shared[row % groups] / weight[row % groups]
            price = prices[row] + length * scale[row] * move
            prices[row] = min(high[row], max(low[row], price))
        length *= shrink
