"""The compiled loops of assignment: cheapest options at given prices, price steps, feasible plans.

Rows are one flat vector: `[site, slot, dimension]`, then shares `[tenant, slot]`, then money
`[tenant]` and `[all]`, then grams `[tenant]` and `[all]`. All functions that call one another are
here, because compiled code is remade only when its own file changes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dure.fleet.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ROOM = 1e-9
"""Part of a limit by which sums may pass it: rounding, not capacity."""
_WORTH = 1e-9
"""Part of the cost of a move that it must save, so that rounding moves nobody."""
_NEVER = np.inf
_TINY = 1e-300
_LEAST_SUPPLY = 0.02
"""Part of a limit that excess is measured in at least, where little is left."""


class Work(NamedTuple):
    """The problem as the loops see it."""

    cost: Floats
    """[J, M * T]; inf where a job may not or cannot go."""
    skip: Floats
    usage: Floats
    profile: Integers
    span: Integers
    """At most T."""
    limit: Floats
    """Per row."""
    tenant: Integers
    share: Floats
    spend: Floats
    grams: Floats
    sizes: Integers
    """T, K, whether there are tenants' rows."""


class View(NamedTuple):
    """Prices as an option meets them: summed over the slots a job is busy."""

    site: Floats
    """[longest span, M * T, D]"""
    share: Floats
    """[longest span, K, T]"""
    money: Floats
    """[K], of all together included."""
    carbon: Floats


class Table(NamedTuple):
    """The few cheapest options of every job when all were last looked at, cheapest first."""

    option: Integers
    """[J, C]; -1 where a job has fewer."""
    cost: Floats
    """[J, C], without prices."""
    priced: Floats
    """[J, C], at the prices of that look."""
    chosen: Integers
    """[J, C + 1]: how often each was chosen in the last walk, and last how often skipping was."""


class Plan(NamedTuple):
    """An assignment under construction, always feasible."""

    choice: Integers
    left: Floats
    """Per row, with the room for rounding."""
    head: Integers
    """[M]: first job of a list per site."""
    after: Integers
    before: Integers
    tenant_head: Integers
    """[K]: first placed job of a list per tenant."""
    tenant_after: Integers
    tenant_before: Integers
    escape: Floats
    """[J]: what it would cost more to have the job elsewhere; an estimate, kept up lazily."""
    victims: Integers
    """Scratch: who was moved by the move under trial, and from where."""
    places: Integers
    lack: Floats
    """Scratch: what a job lacks, [slot, dimension], then [slot], money, grams."""


@compiled
def mask(work: Work, largest: Floats) -> None:  # noqa: PLR0912, one loop over all options
    """Take out options that a job can never have: too large for a site, a cap or a budget."""
    jobs, sites = work.skip.size, work.profile.size
    slots, tenants, tenancy = work.sizes
    dimensions = work.usage.shape[2]
    shares = sites * slots * dimensions
    money = shares + tenants * slots
    carbon = money + tenants + 1
    longest = 1
    for job in range(jobs):
        longest = max(longest, work.span[job])
    floor = np.empty((longest, sites * slots, dimensions))
    for span in range(1, longest + 1):
        for option in range(sites * slots):
            end = min(slots, option % slots + span)
            for dimension in range(dimensions):
                least = _NEVER
                for slot in range(option % slots, end):
                    row = (option // slots * slots + slot) * dimensions + dimension
                    least = min(least, work.limit[row])
                floor[span - 1, option, dimension] = least * (1.0 + ROOM)
    for job in range(jobs):
        span = work.span[job]
        for site in range(sites):
            usage = work.usage[job, work.profile[site]]
            fits = usage[0] <= largest[site]
            for slot in range(slots):
                option = site * slots + slot
                possible = fits
                for dimension in range(dimensions):
                    if usage[dimension] > floor[span - 1, option, dimension]:
                        possible = False
                if possible and tenancy:
                    tenant = work.tenant[job]
                    spend = work.spend[job, site, slot if work.spend.shape[2] > 1 else 0]
                    grams = work.grams[job, site, slot if work.grams.shape[2] > 1 else 0]
                    share = work.share[job, work.profile[site]]
                    possible = spend <= min(
                        work.limit[money + tenant], work.limit[money + tenants]
                    ) and grams <= min(work.limit[carbon + tenant], work.limit[carbon + tenants])
                    for busy in range(slot, min(slots, slot + span)):
                        if share > work.limit[shares + tenant * slots + busy]:
                            possible = False
                if not possible:
                    work.cost[job, option] = _NEVER


@compiled
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


@compiled
def priced(work: Work, view: View, job: int, option: int) -> float:
    """What an option costs at the prices of a view."""
    slots = work.sizes[0]
    site, slot = option // slots, option % slots
    length = work.span[job] - 1
    usage = work.usage[job, work.profile[site]]
    value: float = work.cost[job, option]
    for dimension in range(usage.size):
        value += usage[dimension] * view.site[length, option, dimension]
    if work.sizes[2]:
        tenant = work.tenant[job]
        value += work.share[job, work.profile[site]] * view.share[length, tenant, slot]
        spend = work.spend[job, site, slot if work.spend.shape[2] > 1 else 0]
        grams = work.grams[job, site, slot if work.grams.shape[2] > 1 else 0]
        value += view.money[tenant] * spend + view.carbon[tenant] * grams
    return value


@compiled
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


@compiled
def take(work: Work, left: Floats, job: int, option: int, sign: float) -> None:
    """Take what a job uses from every row (sign 1), or give it back (sign -1)."""
    slots, tenants, tenancy = work.sizes
    site, slot = option // slots, option % slots
    profile = work.profile[site]
    dimensions = work.usage.shape[2]
    end = min(slots, slot + work.span[job])
    for row in range(slot, end):
        base = (site * slots + row) * dimensions
        for dimension in range(dimensions):
            left[base + dimension] -= sign * work.usage[job, profile, dimension]
    if tenancy:
        shares = work.profile.size * slots * dimensions
        money = shares + tenants * slots
        carbon = money + tenants + 1
        tenant = work.tenant[job]
        for row in range(slot, end):
            left[shares + tenant * slots + row] -= sign * work.share[job, profile]
        spend = sign * work.spend[job, site, min(slot, work.spend.shape[2] - 1)]
        grams = sign * work.grams[job, site, min(slot, work.grams.shape[2] - 1)]
        left[money + tenant] -= spend
        left[money + tenants] -= spend
        left[carbon + tenant] -= grams
        left[carbon + tenants] -= grams


@compiled
def fits(work: Work, left: Floats, job: int, option: int) -> bool:
    """Whether every row has enough left for a job at an option."""
    slots, tenants, tenancy = work.sizes
    site, slot = option // slots, option % slots
    profile = work.profile[site]
    dimensions = work.usage.shape[2]
    end = min(slots, slot + work.span[job])
    for row in range(slot, end):
        base = (site * slots + row) * dimensions
        for dimension in range(dimensions):
            if work.usage[job, profile, dimension] > left[base + dimension]:
                return False
    if tenancy:
        shares = work.profile.size * slots * dimensions
        money = shares + tenants * slots
        carbon = money + tenants + 1
        tenant = work.tenant[job]
        for row in range(slot, end):
            if work.share[job, profile] > left[shares + tenant * slots + row]:
                return False
        spend = work.spend[job, site, min(slot, work.spend.shape[2] - 1)]
        grams = work.grams[job, site, min(slot, work.grams.shape[2] - 1)]
        if spend > min(left[money + tenant], left[money + tenants]):
            return False
        if grams > min(left[carbon + tenant], left[carbon + tenants]):
            return False
    return True


@compiled
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
        best = skip[job]
        chosen = -1
        chosen_place = kept
        for place in range(kept):
            value = costs[job, place]
            if value >= best:
                continue
            option = options[job, place]
            site = option // slots
            profile = profiles[site]
            for dimension in range(dimensions):
                value += usage[job, profile, dimension] * prices[length, option, dimension]
            if tenancy:
                slot = option - site * slots
                value += shares[job, profile] * share_prices[length, tenant, slot]
                value += money_prices[tenant] * spend[job, site, min(slot, money_last)]
                value += gram_prices[tenant] * grams[job, site, min(slot, grams_last)]
            if value < best:
                best = value
                chosen = option
                chosen_place = place
        counts[job, chosen_place] += 1
        if chosen < 0:
            continue
        site = chosen // slots
        slot = chosen - site * slots
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


class Walk(NamedTuple):
    """Where the price loop is."""

    prices: Floats
    low: Floats
    high: Floats
    scale: Floats
    """What a unit of each row may be worth: steps are parts of it."""
    average: Floats
    """Smoothed relative excess of each row."""
    supply: Floats
    """Per row, what there is for those who choose."""
    left: Floats
    """Scratch."""


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


@compiled
def put(work: Work, plan: Plan, job: int, option: int) -> None:
    """Place a job."""
    take(work, plan.left, job, option, 1.0)
    plan.choice[job] = option
    site = option // work.sizes[0]
    _link(plan.head, plan.after, plan.before, site, job)
    _link(plan.tenant_head, plan.tenant_after, plan.tenant_before, work.tenant[job], job)


@compiled
def lift(work: Work, plan: Plan, job: int) -> None:
    """Take a placed job from its place."""
    option = plan.choice[job]
    take(work, plan.left, job, option, -1.0)
    plan.choice[job] = -1
    site = option // work.sizes[0]
    _unlink(plan.head, plan.after, plan.before, site, job)
    _unlink(plan.tenant_head, plan.tenant_after, plan.tenant_before, work.tenant[job], job)


@compiled
def _link(head: Integers, after: Integers, before: Integers, key: int, job: int) -> None:
    first = head[key]
    after[job] = first
    before[job] = -1
    if first >= 0:
        before[first] = job
    head[key] = job


@compiled
def _unlink(head: Integers, after: Integers, before: Integers, key: int, job: int) -> None:
    previous, following = before[job], after[job]
    if previous >= 0:
        after[previous] = following
    else:
        head[key] = following
    if following >= 0:
        before[following] = previous


@compiled
def value_of(work: Work, job: int, option: int) -> float:
    """What a job costs at an option or unplaced, without prices."""
    value: float = work.cost[job, option] if option >= 0 else work.skip[job]
    return value


@compiled
def keep_choice(work: Work, plan: Plan, order: Integers, wanted: Integers) -> None:
    """Place jobs in an order at the option each wants, where it still fits."""
    for job in order:
        option = wanted[job]
        if option >= 0 and work.cost[job, option] < _NEVER and fits(work, plan.left, job, option):
            put(work, plan, job, option)


@compiled
def repair(
    work: Work, view: View, table: Table, plan: Plan, order: Integers, patience: Floats
) -> None:
    """Place unplaced jobs at the cheapest option, at the prices, that has room.

    Jobs come in an order, several times: first only for an option (nearly) as cheap as their
    cheapest, then for dearer ones, as far as `patience` says in parts of that cheapest price. So
    a large job does not take a bad place that small ones make more of.
    """
    options, values, skip, left = table.option, table.priced, work.skip, plan.left
    kept = options.shape[1]
    for more in patience:
        for job in order:
            if plan.choice[job] >= 0:
                continue
            first = min(values[job, 0], skip[job])
            bar = min(skip[job], first * (1.0 + more))
            chosen = -1
            beyond = True
            for place in range(kept):
                if values[job, place] > bar or values[job, place] >= skip[job]:
                    beyond = False
                    break
                if fits(work, left, job, options[job, place]):
                    chosen = options[job, place]
                    beyond = False
                    break
            if beyond:
                chosen = _cheapest_priced(work, view, left, job, bar)
            if chosen >= 0:
                put(work, plan, job, chosen)


@compiled
def _cheapest_priced(work: Work, view: View, left: Floats, job: int, bar: float) -> int:
    """The option with room that is cheapest at the prices, up to a bar; -1 where there is none."""
    slots = work.sizes[0]
    cost, usage, profiles = work.cost, work.usage, work.profile
    dimensions = usage.shape[2]
    chosen = -1
    for site in range(profiles.size):
        profile = profiles[site]
        for option in range(site * slots, (site + 1) * slots):
            if cost[job, option] >= bar:
                continue
            room = True
            for dimension in range(dimensions):
                if usage[job, profile, dimension] > left[option * dimensions + dimension]:
                    room = False
                    break
            if not room:
                continue
            value = priced(work, view, job, option)
            if value < bar and fits(work, left, job, option):
                bar = value
                chosen = option
    return chosen


@compiled
def _cheapest(work: Work, left: Floats, job: int, bar: float, but: int) -> int:
    """The cheapest option with room below a bar, without prices, but one; -1: there is none."""
    slots = work.sizes[0]
    cost, usage, profiles = work.cost, work.usage, work.profile
    dimensions = usage.shape[2]
    chosen = -1
    for site in range(profiles.size):
        profile = profiles[site]
        for option in range(site * slots, (site + 1) * slots):
            value = cost[job, option]
            if value >= bar or option == but:
                continue
            room = True
            for dimension in range(dimensions):
                if usage[job, profile, dimension] > left[option * dimensions + dimension]:
                    room = False
                    break
            if room and fits(work, left, job, option):
                bar = value
                chosen = option
    return chosen


@compiled
def _elsewhere(work: Work, plan: Plan, job: int) -> int:
    """The cheapest other option with room for a job, or -1; and note what it would cost more."""
    option = plan.choice[job]
    if option < 0:
        return _cheapest(work, plan.left, job, work.skip[job], -1)
    take(work, plan.left, job, option, -1.0)
    other = _cheapest(work, plan.left, job, work.skip[job], option)
    take(work, plan.left, job, option, 1.0)
    plan.escape[job] = value_of(work, job, other) - work.cost[job, option]
    return other


@compiled
def shift(work: Work, plan: Plan, order: Integers) -> float:
    """Move each job to the cheapest option with room, where that saves; the saving."""
    saved = 0.0
    for job in order:
        option = plan.choice[job]
        other = _elsewhere(work, plan, job)
        gain = value_of(work, job, option) - value_of(work, job, other)
        if other != option and gain > _WORTH * work.skip[job]:
            if option >= 0:
                lift(work, plan, job)
            if other >= 0:
                put(work, plan, job, other)
                plan.escape[job] = gain
            saved += gain
    return saved


@compiled
def _lack(work: Work, plan: Plan, job: int, option: int) -> bool:
    """Note what a job lacks at an option, in rows of its own; whether it lacks anything."""
    slots, tenants, tenancy = work.sizes
    dimensions = work.usage.shape[2]
    usage, left, lack = work.usage, plan.left, plan.lack
    site, slot = option // slots, option % slots
    profile = work.profile[site]
    end = min(slots, slot + work.span[job])
    lacking = False
    for busy in range(slot, end):
        for dimension in range(dimensions):
            row = (site * slots + busy) * dimensions + dimension
            short = max(0.0, usage[job, profile, dimension] - left[row])
            lack[busy * dimensions + dimension] = short
            lacking = lacking or short > 0.0
    if tenancy:
        tenant = work.tenant[job]
        shares = work.profile.size * slots * dimensions
        money = shares + tenants * slots
        carbon = money + tenants + 1
        base = slots * dimensions
        for busy in range(slot, end):
            short = max(0.0, work.share[job, profile] - left[shares + tenant * slots + busy])
            lack[base + busy] = short
            lacking = lacking or short > 0.0
        spend = work.spend[job, site, min(slot, work.spend.shape[2] - 1)]
        grams = work.grams[job, site, min(slot, work.grams.shape[2] - 1)]
        lack[base + slots] = max(0.0, spend - min(left[money + tenant], left[money + tenants]))
        lack[base + slots + 1] = max(
            0.0, grams - min(left[carbon + tenant], left[carbon + tenants])
        )
        lacking = lacking or lack[base + slots] > 0.0 or lack[base + slots + 1] > 0.0
    return lacking


@compiled
def _pick_at_site(work: Work, plan: Plan, job: int, option: int, budget: float) -> int:
    """Whose going gives most of what is lacking at the site for what it costs; -1: nobody's."""
    slots = work.sizes[0]
    usage, spans, choice, after = work.usage, work.span, plan.choice, plan.after
    escape, lack = plan.escape, plan.lack
    dimensions = usage.shape[2]
    site, slot = option // slots, option % slots
    profile = work.profile[site]
    end = min(slots, slot + spans[job])
    best = -1
    best_score = _NEVER
    victim = plan.head[site]
    while victim >= 0:
        if escape[victim] < budget:
            start = choice[victim] - site * slots
            gained = 0.0
            for busy in range(max(slot, start), min(end, start + spans[victim])):
                for dimension in range(dimensions):
                    short = lack[busy * dimensions + dimension]
                    if short > 0.0:
                        freed = min(short, usage[victim, profile, dimension])
                        gained += freed / usage[job, profile, dimension]
            if gained > 0.0:
                score = (max(escape[victim], 0.0) + _WORTH * budget) / gained
                if score < best_score:
                    best_score = score
                    best = victim
        victim = after[victim]
    return best


@compiled
def _pick_of_tenant(work: Work, plan: Plan, job: int, option: int, budget: float) -> int:
    """Whose going gives most of what the tenant lacks for what it costs; -1: nobody's."""
    slots = work.sizes[0]
    spans, choice, after, shares = work.span, plan.choice, plan.tenant_after, work.share
    spend, grams, profiles = work.spend, work.grams, work.profile
    escape, lack = plan.escape, plan.lack
    money_last, grams_last = spend.shape[2] - 1, grams.shape[2] - 1
    base = slots * work.usage.shape[2]
    site, slot = option // slots, option % slots
    end = min(slots, slot + spans[job])
    money, carbon = lack[base + slots], lack[base + slots + 1]
    best = -1
    best_score = _NEVER
    victim = plan.tenant_head[work.tenant[job]]
    while victim >= 0:
        if escape[victim] < budget:
            there, start = choice[victim] // slots, choice[victim] % slots
            gained = 0.0
            for busy in range(max(slot, start), min(end, start + spans[victim])):
                short = lack[base + busy]
                if short > 0.0:
                    freed = min(short, shares[victim, profiles[there]])
                    gained += freed / shares[job, profiles[site]]
            if money > 0.0:
                freed = min(money, spend[victim, there, min(start, money_last)])
                gained += freed / spend[job, site, min(slot, money_last)]
            if carbon > 0.0:
                freed = min(carbon, grams[victim, there, min(start, grams_last)])
                gained += freed / grams[job, site, min(slot, grams_last)]
            if gained > 0.0:
                score = (max(escape[victim], 0.0) + _WORTH * budget) / gained
                if score < best_score:
                    best_score = score
                    best = victim
        victim = after[victim]
    return best


@compiled
def _try_room(work: Work, plan: Plan, job: int, option: int) -> float:
    """Place a job where there is no room by moving others away, where that saves; the saving."""
    old = plan.choice[job]
    gain: float = value_of(work, job, old) - work.cost[job, option]
    if old >= 0:
        lift(work, plan, job)
    count = 0
    budget = gain
    victims, places = plan.victims, plan.places
    while _lack(work, plan, job, option):
        victim = -1
        if count < victims.size:
            victim = _pick_at_site(work, plan, job, option, budget)
            if victim < 0 and work.sizes[2]:
                victim = _pick_of_tenant(work, plan, job, option, budget)
        if victim < 0:
            _undo(work, plan, job, old, count)
            return 0.0
        budget -= max(plan.escape[victim], 0.0)
        victims[count] = victim
        places[count] = plan.choice[victim]
        lift(work, plan, victim)
        count += 1
    put(work, plan, job, option)
    saved = gain
    for index in range(count):
        victim = victims[index]
        other = _cheapest(work, plan.left, victim, work.skip[victim], -1)
        saved -= value_of(work, victim, other) - work.cost[victim, places[index]]
        if other >= 0:
            put(work, plan, victim, other)
    if saved <= _WORTH * gain:
        _undo(work, plan, job, old, count)
        return 0.0
    _elsewhere(work, plan, job)
    for index in range(count):
        _elsewhere(work, plan, victims[index])
    return saved


@compiled
def _undo(work: Work, plan: Plan, job: int, old: int, count: int) -> None:
    """Put a job and those moved for it back where they were."""
    if plan.choice[job] >= 0:
        lift(work, plan, job)
    for index in range(count):
        if plan.choice[plan.victims[index]] >= 0:
            lift(work, plan, plan.victims[index])
    for index in range(count):
        put(work, plan, plan.victims[index], plan.places[index])
    if old >= 0:
        put(work, plan, job, old)


@compiled
def make_room(work: Work, table: Table, plan: Plan, order: Integers, tries: int) -> float:
    """Try for each job, in an order, to get one of its cheapest options by moving others away."""
    saved = 0.0
    for job in order:
        tried = 0
        for place in range(table.option.shape[1]):
            option = table.option[job, place]
            if option < 0 or tried >= tries or option == plan.choice[job]:
                break
            if table.cost[job, place] < value_of(work, job, plan.choice[job]) * (1.0 - _WORTH):
                tried += 1
                got = _try_room(work, plan, job, option)
                saved += got
                if got > 0.0:
                    break
    return saved


@compiled
def total(work: Work, choice: Integers) -> float:
    """What an assignment costs."""
    cost = 0.0
    for job in range(choice.size):
        cost += value_of(work, job, choice[job])
    return cost


@compiled
def priced_choice(work: Work, view: View, choice: Integers) -> Floats:
    """What each job's option, or leaving it out, costs at the prices of a view."""
    values = work.skip.copy()
    for job in range(choice.size):
        if choice[job] >= 0:
            values[job] = priced(work, view, job, choice[job])
    return values


@compiled
def runners_up(work: Work, table: Table, choice: Integers) -> tuple[Integers, Floats, Floats]:
    """The best option or skip that each job did not get: which, at the prices, and without."""
    jobs, kept = table.option.shape
    option = np.full(jobs, -1, dtype=np.int64)
    at_prices = np.full(jobs, _NEVER)
    plain = np.full(jobs, _NEVER)
    for job in range(jobs):
        if choice[job] >= 0:
            at_prices[job] = plain[job] = work.skip[job]
        for place in range(kept):
            other = table.option[job, place]
            if other >= 0 and other != choice[job]:
                if table.priced[job, place] < at_prices[job]:
                    option[job] = other
                    at_prices[job] = table.priced[job, place]
                    plain[job] = table.cost[job, place]
                break
    return option, at_prices, plain
