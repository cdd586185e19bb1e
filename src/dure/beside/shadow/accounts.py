"""What holding devices costs and wastes, counted alike for what was and for what would have been.

A node is billed whole while any part of it is in use, as tariffs do; an owned one costs its energy.
Power follows the catalogue: of a node in use its base and idle draw, of busy devices their peak.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dure.beside.shadow.case import Case, Hold
from dure.beside.shadow.records import NodeRecord
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster, NodeGroup
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.series import HOUR_NS

_W_PER_KW = 1000.0
_KWH_PER_MWH = 1000.0


@dataclass(frozen=True, slots=True)
class Account:
    """One side of a comparison."""

    money: float = 0.0
    """Rent and energy, in the report's currency."""
    g_co2: float = 0.0
    node_hours: float = 0.0
    """Nodes with anything on them."""
    device_hours: float = 0.0
    """Devices in use."""
    fragmentation: float = 0.0
    """Share of free devices that were on nodes in use, mean over time."""

    def plus(self, other: "Account") -> "Account":
        """Sums of two nodes; fragmentation is not a sum."""
        return Account(
            self.money + other.money,
            self.g_co2 + other.g_co2,
            self.node_hours + other.node_hours,
            self.device_hours + other.device_hours,
        )


def account(case: Case, holds: Iterable[Hold]) -> Account:
    """What these, together with what stood there before, come to."""
    by_node: dict[tuple[str, str], list[Hold]] = {}
    for hold in (*case.standing, *holds):
        by_node.setdefault((hold.cluster, hold.node), []).append(hold)
    clusters = {str(cluster.id): cluster for cluster in case.fleet.clusters}
    nodes = {(cluster, node.name): node for cluster, each in case.nodes.items() for node in each}
    total = Account()
    for (name, node), each in by_node.items():
        total = total.plus(_node(clusters[name], nodes[name, node], each, case.fleet.rates))
    return Account(
        total.money,
        total.g_co2,
        total.node_hours,
        total.device_hours,
        _fragmentation(case, nodes, by_node),
    )


def _node(cluster: Cluster, node: NodeRecord, holds: list[Hold], rates: ExchangeRates) -> Account:
    profile = device_profile(node.profile)
    group = _group_of(cluster, node)
    money = kwh = open_h = busy_h = 0.0
    for start_ns, end_ns, used in _steps(holds):
        hours = (end_ns - start_ns) / HOUR_NS
        if used <= 0:
            continue
        busy = min(float(node.devices), used)
        open_h += hours
        busy_h += busy * hours
        watts = group.base_power_w + node.devices * profile.power_w(0.0)
        watts += busy * (profile.power_w(1.0) - profile.power_w(0.0))
        energy_kwh = watts / _W_PER_KW * cluster.pue * hours
        kwh += energy_kwh
        price = cluster.tariff.device_hour.get(node.profile)
        if price is None:
            per_mwh = float(cluster.electricity_per_mwh.values[0])
            cost = energy_kwh * per_mwh / _KWH_PER_MWH
        else:
            cost = price * cluster.tariff.factor(start_ns) * node.devices * hours
        money += rates.to_base(cost, cluster.tariff.currency)
    return Account(money, kwh * float(cluster.carbon_g_per_kwh.values[0]), open_h, busy_h)


def _group_of(cluster: Cluster, node: NodeRecord) -> NodeGroup:
    return next(
        group
        for group in cluster.groups
        if group.profile == node.profile and group.devices == node.devices
    )


def _steps(holds: Iterable[Hold]) -> Iterable[tuple[int, int, float]]:
    """Spans with the devices in use in each, none longer than an hour: tariffs are by the hour."""
    changes: dict[int, float] = {}
    for hold in holds:
        changes[hold.start_ns] = changes.get(hold.start_ns, 0.0) + hold.devices
        changes[hold.end_ns] = changes.get(hold.end_ns, 0.0) - hold.devices
    if not changes:
        return
    first, last = min(changes), max(changes)
    for edge in range(first // HOUR_NS * HOUR_NS + HOUR_NS, last, HOUR_NS):
        changes.setdefault(edge, 0.0)
    used, before = 0.0, first
    for moment in sorted(changes):
        if moment > before:
            yield before, moment, used if used > 1e-9 else 0.0
        used += changes[moment]
        before = moment


def _fragmentation(
    case: Case,
    nodes: Mapping[tuple[str, str], NodeRecord],
    by_node: Mapping[tuple[str, str], list[Hold]],
) -> float:
    """Mean over time of the share of free devices that lie on nodes in use."""
    whole = sum(node.devices for node in nodes.values())
    changes: dict[int, tuple[float, float]] = {}

    def change(moment: int, free: float, beside: float) -> None:
        before = changes.get(moment, (0.0, 0.0))
        changes[moment] = (before[0] + free, before[1] + beside)

    for key, holds in by_node.items():
        size = float(nodes[key].devices)
        for start_ns, end_ns, used in _steps(holds):
            if used <= 0:
                continue
            busy = min(size, used)
            change(start_ns, -busy, size - busy)
            change(end_ns, busy, busy - size)
    free, beside, before, lost = float(whole), 0.0, case.since_ns, 0.0
    for moment in sorted({*changes, case.until_ns}):
        if free > 1e-9:
            lost += beside / free * (moment - before)
        added = changes.get(moment, (0.0, 0.0))
        free, beside, before = free + added[0], beside + added[1], moment
    return lost / (case.until_ns - case.since_ns)
