"""What devices cost that an attempt has used: money and grams, charged to its tenant's budgets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dure.api.money import BudgetUnit
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster, NodeGroup
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.protocol import Usage
from dure.domain.units import NS_PER_S
from dure.fleet.terms import W_PER_KW
from dure.server.records import site_of
from dure.stores.repos.jobs import Standing
from dure.stores.rows import Attempt, NewEvent, Spend
from dure.stores.transaction import Transaction

_S_PER_H = 3600.0
_KWH_PER_MWH = 1000.0
_LATE_S = 3600.0
"""What clocks may differ by, where a use is too long to be true."""


@dataclass(frozen=True)
class Meter:
    """Prices of one cluster."""

    cluster: Cluster
    rates: ExchangeRates

    def cost(self, group: NodeGroup, usage: Usage, now_ns: int) -> tuple[float, float]:
        """Money in the fleet's currency, and grams, for use that ends now."""
        cluster, hours = self.cluster, usage.device_s / _S_PER_H
        profile = device_profile(group.profile)
        used = min(1.0, usage.compute_share) if usage.compute_share > 0 else 1.0
        watts = profile.power_w(used) + group.base_power_w / max(1, group.devices)
        kwh = watts / W_PER_KW * hours * cluster.pue
        grams = kwh * cluster.carbon_g_per_kwh.at(now_ns)
        if cluster.owned(profile.name):
            price = kwh / _KWH_PER_MWH * cluster.electricity_per_mwh.at(now_ns)
        else:
            tariff = cluster.tariff
            price = hours * tariff.device_hour[profile.name] * tariff.factor(now_ns)
        return self.rates.to_base(price, cluster.tariff.currency), grams


@dataclass(frozen=True)
class Bought:
    """Lines of one report."""

    spends: tuple[Spend, ...]

    def by_team(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Money and grams by tenant and team."""
        sums: dict[tuple[str, str], tuple[float, float]] = {}
        for line in self.spends:
            money, grams = sums.get((line.tenant, line.team), (0.0, 0.0))
            sums[line.tenant, line.team] = (money + line.money, grams + line.carbon_g)
        return sums


def lines_of(
    usage: Iterable[Usage],
    meter: Meter,
    attempts: Mapping[tuple[str, int], Attempt],
    jobs: Mapping[str, Standing],
    now_ns: int,
) -> Bought:
    """What a report's usage costs; of attempts that are not known nobody pays anything."""
    groups = {group.name: group for group in meter.cluster.groups}
    spends = []
    for each in usage:
        attempt = attempts.get((each.key.job, each.key.attempt))
        group = groups.get(site_of(attempt).group) if attempt is not None else None
        if attempt is None or group is None or each.device_s <= 0:
            continue
        job = jobs[attempt.job_id]
        device_s = min(each.device_s, _most_device_s(attempt, group, now_ns))
        money, grams = meter.cost(group, replace(each, device_s=device_s), now_ns)
        spends.append(
            Spend(
                job_id=job.id,
                attempt=attempt.attempt,
                to_ns=now_ns,
                from_ns=now_ns - round(device_s * NS_PER_S),
                tenant=job.tenant,
                team=job.team,
                service=job.service,
                cluster=attempt.cluster,
                profile=group.profile,
                device_s=device_s,
                money=money,
                carbon_g=grams,
            )
        )
    return Bought(tuple(spends))


def _most_device_s(attempt: Attempt, group: NodeGroup, now_ns: int) -> float:
    """What all devices of its group could have done for an attempt since it was placed."""
    placed_s = max(0, now_ns - attempt.reserved_ns) / NS_PER_S
    return (placed_s + _LATE_S) * group.count * group.devices


async def charge(tx: Transaction, bought: Bought) -> None:
    """Store the lines and charge them to the budgets of tenants and teams, in one transaction."""
    await tx.spends.add_all(bought.spends)
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
