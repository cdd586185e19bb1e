"""What use of devices costs, in whole millionths of money and micrograms of CO2, day by day.

Use between two moments counts as even. So what a member could not tell for an hour is charged at
the prices of that hour, and the part of each day goes to that day.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dure.domain.fleet.amounts import MICRO, rounded
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster, NodeGroup, Tariff
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.protocol.reports import Usage
from dure.domain.fleet.series import HOUR_NS
from dure.domain.units import NS_PER_S
from dure.fleet.terms import W_PER_KW
from dure.server.calendar import Calendar
from dure.stores.repos.billing import month_name, month_number
from dure.stores.repos.jobs import Standing
from dure.stores.rows import Attempt, Charge, Meter

_US_PER_S = 10**6
_US_PER_H = 3600.0 * _US_PER_S
_KWH_PER_MWH = 1000.0
_LATE_NS = 3600 * NS_PER_S
"""What clocks may differ by, where a use is too long to be true."""


@dataclass(frozen=True)
class Pricing:
    """Prices of one cluster, and the days and months that they are billed in."""

    cluster: Cluster
    rates: ExchangeRates
    calendar: Calendar = field(default_factory=Calendar)
    closed_through: str = ""
    """The last month that is closed: nothing is billed in it or before."""
    retired: Mapping[str, NodeGroup] = field(default_factory=dict)
    """Groups of nodes that the cluster had; what ran there may still be told."""

    def group(self, name: str) -> NodeGroup | None:
        """A group of nodes by its name."""
        here = next((group for group in self.cluster.groups if group.name == name), None)
        return here or self.retired.get(name)

    def month(self, day: str) -> str:
        """The month that use of a day is billed in: its own, or the first that is open."""
        own = day[: len("2026-11")]
        if own > self.closed_through:
            return own
        return month_name(month_number(self.closed_through) + 1)

    def charges(self, use: "Use", egress_micro: int = 0) -> Iterator[Charge]:
        """Every day of a use; what it took to bring data there is paid with the first."""
        length_ns, given_us = use.to_ns - use.from_ns, 0
        for day, from_ns, to_ns in self.calendar.days(use.from_ns, use.to_ns):
            done_ns = to_ns - use.from_ns
            until_us = rounded(use.device_us * done_ns, length_ns) if length_ns else use.device_us
            device_us, given_us = until_us - given_us, until_us
            rent, energy, grams = self._cost(use.group, device_us, from_ns, to_ns)
            yield Charge(
                job_id=use.job.id,
                attempt=use.attempt,
                day=day,
                month=self.month(day),
                currency=self.rates.base,
                tenant=use.job.tenant,
                team=use.job.team,
                service=use.job.service,
                cluster=self.cluster.id,
                profile=use.group.profile,
                from_ns=from_ns,
                to_ns=to_ns,
                device_us=device_us,
                rent_micro=self._micro(rent),
                energy_micro=self._micro(energy),
                egress_micro=egress_micro,
                carbon_ug=round(grams * MICRO),
            )
            egress_micro = 0

    def _cost(
        self, group: NodeGroup, device_us: int, from_ns: int, to_ns: int
    ) -> tuple[float, float, float]:
        """Rent and energy in the cluster's currency, and grams."""
        cluster, hours = self.cluster, device_us / _US_PER_H
        profile = device_profile(group.profile)
        watts = profile.power_w(1.0) + group.base_power_w / max(1, group.devices)
        kwh = watts / W_PER_KW * hours * cluster.pue
        grams = kwh * cluster.carbon_g_per_kwh.mean(from_ns, to_ns)
        if cluster.owned(profile.name):
            price = cluster.electricity_per_mwh.mean(from_ns, to_ns)
            return 0.0, kwh / _KWH_PER_MWH * price, grams
        tariff = cluster.tariff
        rent = hours * tariff.device_hour[profile.name] * mean_factor(tariff, from_ns, to_ns)
        return rent, 0.0, grams

    def _micro(self, amount: float) -> int:
        return round(self.rates.to_base(amount, self.cluster.tariff.currency) * MICRO)


@dataclass(frozen=True, slots=True)
class Use:
    """What an attempt used between two moments."""

    job: Standing
    attempt: int
    group: NodeGroup
    device_us: int
    from_ns: int
    to_ns: int


def mean_factor(tariff: Tariff, from_ns: int, to_ns: int) -> float:
    """The mean of what a tariff's price is multiplied with."""
    if to_ns <= from_ns or len(tariff.calendar) == 1:
        return tariff.factor(from_ns)
    total, at_ns = 0.0, from_ns
    while at_ns < to_ns:
        end_ns = min(to_ns, (at_ns // HOUR_NS + 1) * HOUR_NS)
        total += tariff.factor(at_ns) * (end_ns - at_ns)
        at_ns = end_ns
    return total / (to_ns - from_ns)


def told(meter: Meter | None, usage: Usage, attempt: Attempt, now_ns: int) -> Meter:
    """A meter after its cluster has said something of it; it never goes back."""
    if meter is None:
        start_ns = attempt.reserved_ns
        meter = Meter(attempt.job_id, attempt.attempt, attempt.cluster, 0, 0, start_ns, start_ns)
    if usage.device_us <= meter.device_us:
        return meter
    earliest_ns = attempt.reserved_ns - _LATE_NS
    until_ns = max(earliest_ns, meter.until_ns, min(usage.until_ns, now_ns))
    since_ns = meter.since_ns
    if meter.charged_us == meter.device_us:
        known_ns = meter.until_ns if meter.device_us else earliest_ns
        since_ns = min(until_ns, max(known_ns, usage.since_ns))
    return replace(meter, device_us=usage.device_us, since_ns=since_ns, until_ns=until_ns)


def plausible(meter: Meter, attempt: Attempt, group: NodeGroup, now_ns: int) -> Meter:
    """A meter with no more than all devices of its group could have done for the attempt."""
    placed_us = (max(0, now_ns - attempt.reserved_ns) + _LATE_NS) // 1000
    most_us = max(meter.charged_us, placed_us * group.count * group.devices)
    return meter if meter.device_us <= most_us else replace(meter, device_us=most_us)
