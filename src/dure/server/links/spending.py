"""What attempts used becomes charges: of their tenants' bills, and of the budgets they spend.

A member says what an attempt has used in all. What of that is not charged yet is charged with the
report that brings it, in the same transaction. Where it has no price it is kept, and charged with a
later report of the cluster.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dure.api.money import BudgetUnit
from dure.domain.errors import DureError
from dure.domain.fleet.amounts import MICRO
from dure.domain.fleet.protocol.reports import Usage
from dure.server import specs
from dure.server.calendar import Calendar
from dure.server.changes import Changes, Key
from dure.server.declared import read_member
from dure.server.links.pricing import Pricing, Use, plausible, told
from dure.server.records import explanation_of, site_of
from dure.stores.rows import Charge, Meter, NewEvent
from dure.stores.transaction import Transaction

_log = logging.getLogger(__name__)

OWED_AT_ONCE = 500
"""Attempts whose old use is charged with one report."""
_TRANSFER = "transfer"
"""The term of an explanation that is paid once: bringing weights and data to a cluster."""


@dataclass(frozen=True)
class Bought:
    """Charges of one report."""

    charges: tuple[Charge, ...] = ()

    def by_team(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Money and grams by tenant and team."""
        sums: dict[tuple[str, str], tuple[int, int]] = {}
        for each in self.charges:
            money, grams = sums.get((each.tenant, each.team), (0, 0))
            sums[each.tenant, each.team] = (money + each.money_micro, grams + each.carbon_ug)
        return {who: (money / MICRO, grams / MICRO) for who, (money, grams) in sums.items()}


async def charge(
    tx: Transaction, cluster: str, changes: Changes, usage: Sequence[Usage], owed: Sequence[Meter]
) -> Bought:
    """Take in what was told, and charge what can be; of attempts not known nobody pays anything."""
    meters = await _told(tx, changes, usage, owed)
    try:
        pricing = await _pricing(tx, cluster)
        settled, charges = await _settled(tx, changes, meters, pricing)
    except DureError as error:
        _log.warning("use of cluster %s has no price yet: %s", cluster, error)
        settled, charges = meters, []
    await tx.meters.put_all(settled)
    await tx.charges.add_all(charges)
    bought = Bought(tuple(charges))
    await _spend(tx, bought)
    return bought


async def _told(
    tx: Transaction, changes: Changes, usage: Sequence[Usage], owed: Sequence[Meter]
) -> list[Meter]:
    said = {(str(each.key.job), each.key.attempt): each for each in usage}
    known = await tx.meters.many(said.keys() & changes.attempts.keys())
    meters = {_key(meter): meter for meter in owed if _key(meter) in changes.attempts}
    for key, each in said.items():
        if key in changes.attempts and each.device_us > 0:
            meters[key] = told(known.get(key), each, changes.attempts[key], tx.now_ns)
    return [meter for _, meter in sorted(meters.items()) if meter.charged_us < meter.device_us]


async def _pricing(tx: Transaction, cluster: str) -> Pricing:
    member = await read_member(tx, cluster)
    if member.cluster is None:
        raise DureError(f"it is not known what cluster {cluster} consists of")
    policies = await tx.policies.all()
    return Pricing(
        cluster=member.cluster,
        rates=specs.fleet_of(policies, ()).rates,
        calendar=Calendar(specs.fleet_spec(policies).billing.time_zone),
        closed_through=await tx.charges.closed_through(),
        retired=member.heard.retired,
    )


async def _settled(
    tx: Transaction, changes: Changes, meters: Iterable[Meter], pricing: Pricing
) -> tuple[list[Meter], list[Charge]]:
    """Meters with all charged that has a price, and the charges."""
    settled, charges = [], list[Charge]()
    egress = await _egress_micro(
        tx, changes, [_key(each) for each in meters if not each.charged_us]
    )
    for told_meter in meters:
        key = _key(told_meter)
        attempt = changes.attempts[key]
        group = pricing.group(site_of(attempt).group)
        if group is None:
            _log.warning("%s ran on nodes that nobody knows", key)
            settled.append(told_meter)
            continue
        meter = plausible(told_meter, attempt, group, tx.now_ns)
        use = Use(
            job=changes.jobs[attempt.job_id],
            attempt=attempt.attempt,
            group=group,
            device_us=meter.device_us - meter.charged_us,
            from_ns=meter.since_ns,
            to_ns=meter.until_ns,
        )
        if use.device_us:
            charges += pricing.charges(use, egress.get(key, 0))
        settled.append(replace(meter, charged_us=meter.device_us, since_ns=meter.until_ns))
    return settled, charges


async def _egress_micro(tx: Transaction, changes: Changes, new: Iterable[Key]) -> dict[Key, int]:
    """What bringing weights and data cost, of attempts that are charged for the first time."""
    weighted = {}
    for key in new:
        terms = dict(explanation_of(changes.attempts[key]).terms)
        if terms.get(_TRANSFER, 0.0) > 0:
            weighted[key] = terms[_TRANSFER]
    if not weighted:
        return {}
    policy = specs.policy_of(specs.policy_in_force(await tx.policies.all()))
    jobs = {job.id: job for job in await tx.jobs.many({job for job, _ in weighted})}
    found = {}
    for key, amount in weighted.items():
        # An explanation shows what counted: money times the weight of its class of work.
        try:
            weight = policy.of(specs.job_terms(jobs[key[0]]).workload.kind).cost_weight
        except DureError as error:
            _log.warning("what job %s carried is not charged: %s", key[0], error)
            continue
        found[key] = round(amount / weight * MICRO) if weight else 0
    return found


def _key(meter: Meter) -> Key:
    return meter.job_id, meter.attempt


async def _spend(tx: Transaction, bought: Bought) -> None:
    """Charge the budgets of tenants and teams."""
    owed: dict[str, tuple[float, float]] = {}
    for (tenant, team), (money, grams) in bought.by_team().items():
        for path in _payers(tenant, team):
            before = owed.get(path, (0.0, 0.0))
            owed[path] = (before[0] + money, before[1] + grams)
    for path in sorted(owed):
        money, grams = owed[path]
        for budget in await tx.budgets.all(tenant=path):
            if not budget.period_start_ns <= tx.now_ns < budget.period_end_ns:
                continue
            amount = money if budget.unit == BudgetUnit.MONEY.value else grams
            charged = await tx.budgets.charge(path, budget.name, amount)
            if budget.spent_amount < budget.limit_amount <= charged.spent_amount:
                tx.events.add(_used_up(path, budget.name, charged.spent_amount))


def _payers(tenant: str, team: str) -> Sequence[str]:
    return (tenant,) if not team else (tenant, f"{tenant}/{team}")


def _used_up(path: str, name: str, spent: float) -> NewEvent:
    what = f"the budget {name} is used up ({spent:.6g})"
    remedy = "raise it; nothing new is placed, services go on"
    data = {"what": what, "remedy": remedy, "kind": "general"}
    return NewEvent("warning", path, path.partition("/")[0], data)
