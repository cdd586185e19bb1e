"""The compiled loops of feasible plans: what fits, placing by price, and moves that save.

Long for a module: all of it hangs together by calls of `fits`, `priced` and `take`.
"""

import numpy as np

from dure.fleet.assignment.shapes import Floats, Integers, Plan, Table, View, Work
from dure.fleet.compiled import compiled, counting_nothing

ROOM = 1e-9
"""Part of a limit by which sums may pass it: rounding, not capacity."""
_WORTH = 1e-9
"""Part of the cost of a move that it must save, so that rounding moves nobody."""
_NEVER = np.inf
_SITE, _TENANT = 1, 2
"""Where a job lacks something."""


@counting_nothing
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


@counting_nothing
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


@counting_nothing
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
def _tenant_floors(work: Work) -> Floats:
    """[K, 3]: least share cap of any slot, and the smaller of own and common money and grams."""
    slots, tenants, _ = work.sizes
    shares = work.profile.size * slots * work.usage.shape[2]
    money = shares + tenants * slots
    carbon = money + tenants + 1
    floors = np.empty((tenants, 3))
    for tenant in range(tenants):
        floors[tenant, 0] = _NEVER
        for slot in range(slots):
            floors[tenant, 0] = min(floors[tenant, 0], work.limit[shares + tenant * slots + slot])
        floors[tenant, 1] = min(work.limit[money + tenant], work.limit[money + tenants])
        floors[tenant, 2] = min(work.limit[carbon + tenant], work.limit[carbon + tenants])
    return floors


@compiled
def _least_room(work: Work, room: Floats) -> Floats:
    """[M, D]: what is there in every slot."""
    slots, sites, dimensions = work.sizes[0], work.profile.size, work.usage.shape[2]
    least = np.full((sites, dimensions), _NEVER)
    for site in range(sites):
        for slot in range(slots):
            for dimension in range(dimensions):
                row = (site * slots + slot) * dimensions + dimension
                least[site, dimension] = min(least[site, dimension], room[row])
    return least


@compiled
def _within(amounts: Floats, most: float) -> bool:
    """Whether no amount is more than that."""
    return bool(most == _NEVER or amounts.max() <= most)


@compiled
def mask(work: Work, largest: Floats) -> None:
    """Take out options that a job can never have: too large for a site, a cap or a budget."""
    slots, _, tenancy = work.sizes
    usage, spend, grams, cost = work.usage, work.spend, work.grams, work.cost
    room = work.limit * (1.0 + ROOM)
    least = _least_room(work, room)
    floors = _tenant_floors(work)
    for job in range(work.skip.size):
        tenant = work.tenant[job]
        for site in range(work.profile.size):
            profile = work.profile[site]
            if usage[job, profile, 0] > largest[site]:
                cost[job, site * slots : (site + 1) * slots] = _NEVER
                continue
            # Most jobs fit in every slot: nothing more to look at.
            free = True
            for dimension in range(usage.shape[2]):
                if usage[job, profile, dimension] > least[site, dimension]:
                    free = False
                    break
            if free and tenancy:
                free = (
                    work.share[job, profile] <= floors[tenant, 0]
                    and _within(spend[job, site], floors[tenant, 1])
                    and _within(grams[job, site], floors[tenant, 2])
                )
            if not free:
                for option in range(site * slots, (site + 1) * slots):
                    if cost[job, option] < _NEVER and not fits(work, room, job, option):
                        cost[job, option] = _NEVER


@counting_nothing
def put(work: Work, plan: Plan, job: int, option: int) -> None:
    """Place a job."""
    take(work, plan.left, job, option, 1.0)
    plan.choice[job] = option
    site = option // work.sizes[0]
    _link(plan.head, plan.after, plan.before, site, job)
    _link(plan.tenant_head, plan.tenant_after, plan.tenant_before, work.tenant[job], job)


@counting_nothing
def lift(work: Work, plan: Plan, job: int) -> None:
    """Take a placed job from its place."""
    option = plan.choice[job]
    take(work, plan.left, job, option, -1.0)
    plan.choice[job] = -1
    site = option // work.sizes[0]
    _unlink(plan.head, plan.after, plan.before, site, job)
    _unlink(plan.tenant_head, plan.tenant_after, plan.tenant_before, work.tenant[job], job)


@counting_nothing
def _link(head: Integers, after: Integers, before: Integers, key: int, job: int) -> None:
    first = head[key]
    after[job] = first
    before[job] = -1
    if first >= 0:
        before[first] = job
    head[key] = job


@counting_nothing
def _unlink(head: Integers, after: Integers, before: Integers, key: int, job: int) -> None:
    previous, following = before[job], after[job]
    if previous >= 0:
        after[previous] = following
    else:
        head[key] = following
    if following >= 0:
        before[following] = previous


@counting_nothing
def value_of(work: Work, view: View, job: int, option: int) -> float:
    """What a job costs at an option or unplaced, at the prices of a view."""
    value: float = priced(work, view, job, option) if option >= 0 else work.skip[job]
    return value


@counting_nothing
def keep_choice(work: Work, plan: Plan, order: Integers, wanted: Integers) -> None:
    """Place jobs in an order at the option each wants, where it still fits."""
    for job in order:
        option = wanted[job]
        if option >= 0 and work.cost[job, option] < _NEVER and fits(work, plan.left, job, option):
            put(work, plan, job, option)


@counting_nothing
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
                chosen = _cheapest(work, view, left, job, bar, -1)
            if chosen >= 0:
                put(work, plan, job, chosen)


@counting_nothing
def _cheapest(work: Work, view: View, left: Floats, job: int, bar: float, but: int) -> int:
    """The option with room that is cheapest at the prices, below a bar, but one; -1: none."""
    slots, _, tenancy = work.sizes
    cost, usage, profiles, prices = work.cost, work.usage, work.profile, view.site
    dimensions = usage.shape[2]
    length = work.span[job] - 1
    chosen = -1
    for site in range(profiles.size):
        profile = profiles[site]
        for option in range(site * slots, (site + 1) * slots):
            value = cost[job, option]
            if value >= bar or option == but:
                continue
            room = True
            for dimension in range(dimensions):
                use = usage[job, profile, dimension]
                if use > left[option * dimensions + dimension]:
                    room = False
                    break
                value += use * prices[length, option, dimension]
            if not room or value >= bar:
                continue
            if tenancy:
                value = priced(work, view, job, option)
            if value < bar and fits(work, left, job, option):
                bar = value
                chosen = option
    return chosen


@counting_nothing
def _elsewhere(work: Work, view: View, plan: Plan, job: int) -> int:
    """The cheapest other option with room for a job, or -1; and note what it would cost more."""
    option = plan.choice[job]
    if option < 0:
        return _cheapest(work, view, plan.left, job, work.skip[job], -1)
    take(work, plan.left, job, option, -1.0)
    other = _cheapest(work, view, plan.left, job, work.skip[job], option)
    take(work, plan.left, job, option, 1.0)
    plan.escape[job] = value_of(work, view, job, other) - priced(work, view, job, option)
    return other


@counting_nothing
def shift(work: Work, view: View, plan: Plan, order: Integers) -> float:
    """Move each job to the cheapest option with room, where that saves; the saving."""
    saved = 0.0
    for job in order:
        option = plan.choice[job]
        other = _elsewhere(work, view, plan, job)
        gain = value_of(work, view, job, option) - value_of(work, view, job, other)
        if other != option and gain > _WORTH * work.skip[job]:
            if option >= 0:
                lift(work, plan, job)
            if other >= 0:
                put(work, plan, job, other)
                plan.escape[job] = gain
            saved += gain
    return saved


@counting_nothing
def _lack(work: Work, plan: Plan, job: int, option: int) -> int:
    """Note what a job lacks at an option: 0 nothing, 1 room at the site, 2 only its tenant's."""
    slots, tenants, tenancy = work.sizes
    dimensions = work.usage.shape[2]
    usage, left, lack = work.usage, plan.left, plan.lack
    site, slot = option // slots, option % slots
    profile = work.profile[site]
    end = min(slots, slot + work.span[job])
    short_of = 0
    for busy in range(slot, end):
        for dimension in range(dimensions):
            row = (site * slots + busy) * dimensions + dimension
            short = max(0.0, usage[job, profile, dimension] - left[row])
            lack[busy * dimensions + dimension] = short
            if short > 0.0:
                short_of = _SITE
    if tenancy and short_of == 0:
        tenant = work.tenant[job]
        shares = work.profile.size * slots * dimensions
        money = shares + tenants * slots
        carbon = money + tenants + 1
        base = slots * dimensions
        lacking = False
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
        if lacking or lack[base + slots] > 0.0 or lack[base + slots + 1] > 0.0:
            short_of = _TENANT
    return short_of


@counting_nothing
def _pick_at_site(work: Work, plan: Plan, job: int, option: int, budget: float) -> int:
    """Whose going gives most of what is lacking at the site for what it costs; -1: nobody's."""
    slots = work.sizes[0]
    usage, spans, choice, after = work.usage, work.span, plan.choice, plan.after
    escape, lack = plan.escape, plan.lack
    dimensions = usage.shape[2]
    site, slot = option // slots, option % slots
    profile = work.profile[site]
    end = min(slots, slot + spans[job])
    needed = 0.0
    for busy in range(slot, end):
        for dimension in range(dimensions):
            short = lack[busy * dimensions + dimension]
            if short > 0.0:
                needed += short / usage[job, profile, dimension]
    best = -1
    # Nobody gives it for less than the best: dearer than the budget is no use.
    best_score = budget / needed
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


@counting_nothing
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
    needed = 0.0
    for busy in range(slot, end):
        if lack[base + busy] > 0.0:
            needed += lack[base + busy] / shares[job, profiles[site]]
    if money > 0.0:
        needed += money / spend[job, site, min(slot, money_last)]
    if carbon > 0.0:
        needed += carbon / grams[job, site, min(slot, grams_last)]
    best = -1
    best_score = budget / needed
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


@counting_nothing
def _try_room(work: Work, view: View, plan: Plan, job: int, option: int) -> float:
    """Place a job where there is no room by moving others away, where that saves; the saving."""
    old = plan.choice[job]
    gain: float = value_of(work, view, job, old) - priced(work, view, job, option)
    if old >= 0:
        lift(work, plan, job)
    count = 0
    budget = gain
    victims, places = plan.victims, plan.places
    while True:
        short_of = _lack(work, plan, job, option)
        if short_of == 0:
            break
        victim = -1
        if count < victims.size:
            if short_of == _SITE:
                victim = _pick_at_site(work, plan, job, option, budget)
            else:
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
        other = _cheapest(work, view, plan.left, victim, work.skip[victim], -1)
        dearer = value_of(work, view, victim, other) - priced(work, view, victim, places[index])
        plan.escape[victim] = dearer
        saved -= dearer
        if other >= 0:
            put(work, plan, victim, other)
    if saved <= _WORTH * gain:
        _undo(work, plan, job, old, count)
        return 0.0
    _elsewhere(work, view, plan, job)
    for index in range(count):
        _elsewhere(work, view, plan, victims[index])
    return saved


@counting_nothing
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


@counting_nothing
def make_room(
    work: Work, view: View, table: Table, plan: Plan, order: Integers, tries: int
) -> float:
    """Try for each job, in an order, to get one of its cheapest options by moving others away."""
    saved = 0.0
    for job in order:
        tried = 0
        for place in range(table.option.shape[1]):
            option = table.option[job, place]
            if option < 0 or tried >= tries or option == plan.choice[job]:
                break
            now = value_of(work, view, job, plan.choice[job])
            if priced(work, view, job, option) < now * (1.0 - _WORTH):
                tried += 1
                got = _try_room(work, view, plan, job, option)
                saved += got
                if got > 0.0:
                    break
    return saved


@compiled
def priced_choice(work: Work, view: View, choice: Integers) -> Floats:
    """What each job's option, or leaving it out, costs at the prices of a view."""
    values = work.skip.copy()
    for job in range(choice.size):
        if choice[job] >= 0:
            values[job] = priced(work, view, job, choice[job])
    return values
