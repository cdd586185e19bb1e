"""The meters of a simulated fleet: what everything costs, exactly, in money and in grams.

Prices and carbon are constant between two *ticks* (every edge of any series or tariff hour, and
every whole hour of the run). So every meter multiplies its rate with the time since it was last
read, is read when its rate changes and at every tick, and no interval is ever approximated.

A node's rent and idle power are shared by those on it by the devices they hold: the node counts
what one device held has cost so far, and a holder owes the difference of two readings. So joining
and leaving cost the same however many share the node. What owned nodes draw while they are powered
and empty is charged to the fleet itself. Bills are kept by `dure.fleet.bills.Ledger`.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from dure.domain.fleet.clusters import Cluster, Fleet
from dure.domain.fleet.policy import HOUR_NS
from dure.domain.fleet.series import Series
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import TenantId
from dure.fleet.bills import FLEET_ROW, BillLine, Ledger, Level, Term

W_NS_PER_KWH = 1000.0 * HOUR_NS


class ClusterMeter:
    """One cluster: prices that hold until the next tick, and what it has cost so far."""

    __slots__ = (
        "_cluster",
        "_per_kwh",
        "carbon_g_per_kwh",
        "device_h",
        "energy",
        "energy_per_kwh",
        "g_co2",
        "idle_energy",
        "idle_g_co2",
        "kwh",
        "open_device_h",
        "rent",
        "rent_factor",
    )

    def __init__(self, cluster: Cluster, fleet: Fleet, start_ns: int) -> None:
        self._cluster = cluster
        self._per_kwh = fleet.rates.to_base(1.0, cluster.tariff.currency) / 1000.0 * cluster.pue
        self.rent_factor = 1.0
        self.energy_per_kwh = 0.0
        """Of a computer's own energy, in the base currency: the site's overhead is in it."""
        self.carbon_g_per_kwh = 0.0
        """Likewise."""
        self.rent = 0.0
        self.energy = 0.0
        self.g_co2 = 0.0
        self.kwh = 0.0
        """Of computers, without the site's overhead."""
        self.device_h = 0.0
        """Held by instances; a slice counts as its share."""
        self.open_device_h = 0.0
        """On nodes in use."""
        self.idle_energy = 0.0
        """Of what was paid, for empty powered nodes; not yet in the ledger."""
        self.idle_g_co2 = 0.0
        self.set(start_ns)

    def set(self, now_ns: int) -> None:
        """Take the prices of a moment."""
        cluster = self._cluster
        self.rent_factor = cluster.tariff.factor(now_ns)
        self.energy_per_kwh = cluster.electricity_per_mwh.at(now_ns) * self._per_kwh
        self.carbon_g_per_kwh = cluster.carbon_g_per_kwh.at(now_ns) * cluster.pue


class NodeMeter:
    """One node: what a device held on it has cost so far."""

    __slots__ = (
        "_idle_w",
        "_meter",
        "_owned",
        "_rent_per_h",
        "_since_ns",
        "devices",
        "energy",
        "g_co2",
        "held",
        "powered",
        "rent",
    )

    def __init__(self, meter: ClusterMeter, rent_per_h: float | None, idle_w: float) -> None:
        self._meter = meter
        self._owned = rent_per_h is None
        self._rent_per_h = rent_per_h or 0.0
        """Of the whole node, before the calendar's factor."""
        self._idle_w = idle_w
        self._since_ns = 0
        self.devices = 0
        """It has."""
        self.held = 0.0
        """Devices that are held now."""
        self.powered = False
        self.rent = 0.0
        """Per device held, so far."""
        self.energy = 0.0
        self.g_co2 = 0.0

    def read(self, now_ns: int) -> None:
        """Count up to a moment; call it before anything about the node changes."""
        passed_ns = now_ns - self._since_ns
        if not passed_ns:
            return
        self._since_ns = now_ns
        held, meter = self.held, self._meter
        rent = 0.0
        if held > 0.0:
            hours = passed_ns / HOUR_NS
            rent = self._rent_per_h * meter.rent_factor * hours
            meter.rent += rent
            meter.device_h += held * hours
            meter.open_device_h += self.devices * hours
        elif not (self.powered and self._owned):
            return
        kwh = self._idle_w * passed_ns / W_NS_PER_KWH
        grams = kwh * meter.carbon_g_per_kwh
        energy = kwh * meter.energy_per_kwh if self._owned else 0.0
        meter.kwh += kwh
        meter.g_co2 += grams
        meter.energy += energy
        if held > 0.0:
            self.rent += rent / held
            self.energy += energy / held
            self.g_co2 += grams / held
        else:
            meter.idle_energy += energy
            meter.idle_g_co2 += grams


class Account:
    """One workload in one cluster: what it draws beyond idle devices, and what it owes."""

    __slots__ = (
        "_meter",
        "_since_ns",
        "_watts",
        "device_h",
        "energy",
        "g_co2",
        "owned",
        "paid",
        "rent",
        "row",
        "tenant",
    )

    def __init__(
        self, meter: ClusterMeter, row: int, tenant: TenantId, owned: bool, now_ns: int
    ) -> None:
        self._meter = meter
        self._watts = 0.0
        self._since_ns = now_ns
        self.row = row
        """In the ledger."""
        self.tenant = tenant
        self.owned = owned
        self.paid = 0.0
        """Rent and energy that are in the ledger."""
        self.rent = 0.0
        """Not yet in the ledger; the others likewise."""
        self.energy = 0.0
        self.g_co2 = 0.0
        self.device_h = 0.0

    def read(self, now_ns: int) -> None:
        """Count what running instances drew up to a moment."""
        if self._watts:
            self.add_energy(self._watts * (now_ns - self._since_ns))
        self._since_ns = now_ns

    def draw(self, watts: float, now_ns: int) -> None:
        """Draw so much from now on."""
        self.read(now_ns)
        self._watts = watts

    def add_energy(self, watt_ns: float) -> None:
        """Energy that was drawn at the prices that hold now."""
        meter = self._meter
        kwh = watt_ns / W_NS_PER_KWH
        grams = kwh * meter.carbon_g_per_kwh
        meter.kwh += kwh
        meter.g_co2 += grams
        self.g_co2 += grams
        if self.owned:
            energy = kwh * meter.energy_per_kwh
            meter.energy += energy
            self.energy += energy


class Holding:
    """Devices of one node that an instance holds, with the readings when it was last settled."""

    __slots__ = ("_energy", "_g_co2", "_node", "_rent", "_share", "_since_ns")

    def __init__(self, node: NodeMeter, share: float, now_ns: int) -> None:
        node.read(now_ns)
        node.held += share
        self._node = node
        self._share = share
        self._since_ns = now_ns
        self._rent, self._energy, self._g_co2 = node.rent, node.energy, node.g_co2

    def settle(self, account: Account, now_ns: int) -> None:
        """Put on an account what is owed since last time."""
        node, share = self._node, self._share
        node.read(now_ns)
        account.rent += (node.rent - self._rent) * share
        account.energy += (node.energy - self._energy) * share
        account.g_co2 += (node.g_co2 - self._g_co2) * share
        account.device_h += share * (now_ns - self._since_ns) / HOUR_NS
        self._since_ns = now_ns
        self._rent, self._energy, self._g_co2 = node.rent, node.energy, node.g_co2

    def end(self, account: Account, now_ns: int) -> None:
        """Give the devices back."""
        self.settle(account, now_ns)
        node = self._node
        node.held -= self._share
        if node.held < 1e-9:  # shares are thousandths: what is left is rounding
            node.held = 0.0


@dataclass(frozen=True, slots=True)
class Totals:
    """What a whole fleet has cost up to a moment."""

    rent: float
    energy: float
    transfers: float
    penalties: float
    g_co2: float
    device_h: float
    open_device_h: float


@dataclass(frozen=True, slots=True)
class PeriodBill:
    """What was charged in one period, by tenant, team and service."""

    start_ns: int
    end_ns: int
    lines: tuple[BillLine, ...]


@dataclass(slots=True)
class Books:
    """All meters of a run, and the ledger they are entered in."""

    fleet: Fleet
    start_ns: int
    ledger: Ledger = field(default_factory=Ledger)
    clusters: list[ClusterMeter] = field(default_factory=list)
    transfers: float = 0.0
    late_jobs: defaultdict[TenantId, float] = field(default_factory=lambda: defaultdict(float))
    slow_services: defaultdict[TenantId, float] = field(default_factory=lambda: defaultdict(float))
    unfinished: defaultdict[TenantId, float] = field(default_factory=lambda: defaultdict(float))
    device_h: defaultdict[TenantId, float] = field(default_factory=lambda: defaultdict(float))
    closed: list[PeriodBill] = field(default_factory=list)
    """Periods that are over."""
    _entries: list[tuple[int, float, float, float]] = field(default_factory=list)
    """Row, rent, energy and grams that are not in the ledger yet."""

    def __post_init__(self) -> None:
        for cluster in self.fleet.clusters:
            self.clusters.append(ClusterMeter(cluster, self.fleet, self.start_ns))

    def open(self, workload: Workload, cluster: int, owned: bool, now_ns: int) -> Account:
        """An account of a workload in a cluster."""
        row = self.ledger.account(workload)
        return Account(self.clusters[cluster], row, workload.tenant, owned, now_ns)

    def enter(self, account: Account) -> None:
        """Have what an account owes put into the ledger, with all others (`enter_all`)."""
        self._entries.append((account.row, account.rent, account.energy, account.g_co2))
        self._clear(account)

    def _clear(self, account: Account) -> None:
        self.device_h[account.tenant] += account.device_h
        account.paid += account.rent + account.energy
        account.rent = account.energy = account.g_co2 = account.device_h = 0.0

    def enter_all(self, accounts: list[Account]) -> None:
        """Put all that is owed into the ledger, and what nobody uses."""
        for account in accounts:
            self.enter(account)
        if self._entries:
            rows, rent, energy, grams = (
                np.array(each) for each in zip(*self._entries, strict=True)
            )
            self.ledger.charge_many(rows, Term.RENT, rent)
            self.ledger.charge_many(rows, Term.ENERGY, energy, grams)
            self._entries.clear()
        for meter in self.clusters:
            if meter.idle_energy or meter.idle_g_co2:
                self.ledger.charge(FLEET_ROW, Term.ENERGY, meter.idle_energy, meter.idle_g_co2)
                meter.idle_energy = meter.idle_g_co2 = 0.0

    def pay_transfer(self, workload: Workload, cost: float) -> None:
        """Somebody's data was moved."""
        self.transfers += cost
        self.ledger.charge(self.ledger.account(workload), Term.TRANSFER, cost)

    def punish(self, kind: defaultdict[TenantId, float], workload: Workload, amount: float) -> None:
        """A promise to a workload was broken: `late_jobs`, `slow_services` or `unfinished`."""
        kind[workload.tenant] += amount
        self.ledger.charge(self.ledger.account(workload), Term.PENALTY, amount)

    @property
    def period_ns(self) -> int:
        """When the present period began."""
        return self.closed[-1].end_ns if self.closed else self.start_ns

    def close_period(self, now_ns: int) -> None:
        """A period is over; all that is owed must have been entered (`enter_all`)."""
        lines = tuple(self.ledger.close_period())
        self.closed.append(PeriodBill(self.period_ns, now_ns, lines))

    def periods(self, now_ns: int) -> list[PeriodBill]:
        """The bills of all periods, with that of the present one up to a moment."""
        present = PeriodBill(self.period_ns, now_ns, tuple(self.ledger.bill(Level.SERVICE)))
        return self.closed + ([present] if present.end_ns > present.start_ns else [])

    def set_prices(self, now_ns: int) -> None:
        """Go by the prices of a moment; every meter must have been read up to it."""
        for meter in self.clusters:
            meter.set(now_ns)

    def totals(self) -> Totals:
        """Sums of what has been read."""
        meters = self.clusters
        return Totals(
            rent=sum(meter.rent for meter in meters),
            energy=sum(meter.energy for meter in meters),
            transfers=self.transfers,
            penalties=sum(self.late_jobs.values()) + sum(self.slow_services.values()),
            g_co2=sum(meter.g_co2 for meter in meters),
            device_h=sum(meter.device_h for meter in meters),
            open_device_h=sum(meter.open_device_h for meter in meters),
        )


def tick_times(fleet: Fleet, start_ns: int, end_ns: int) -> list[int]:
    """Every moment of a run at which a price may change or an hour is full, without the start."""
    times = set(range(start_ns + HOUR_NS, end_ns + 1, HOUR_NS))
    for cluster in fleet.clusters:
        for series in (cluster.carbon_g_per_kwh, cluster.electricity_per_mwh):
            times.update(_edges(series, start_ns, end_ns))
        if len(cluster.tariff.calendar) > 1:
            first = (start_ns // HOUR_NS + 1) * HOUR_NS
            times.update(range(first, end_ns + 1, HOUR_NS))
    return sorted(times)


def _edges(series: Series, start_ns: int, end_ns: int) -> Iterable[int]:
    """Moments within a run at which a series may take another value."""
    if len(series.values) == 1:
        return ()
    steps = max(0, (start_ns - series.start_ns) // series.step_ns + 1)
    return range(series.start_ns + steps * series.step_ns, end_ns + 1, series.step_ns)
