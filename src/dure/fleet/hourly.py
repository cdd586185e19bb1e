"""What a place is, in a few words, and what an hour of it costs: money and grams."""

from collections import Counter
from collections.abc import Iterable, Mapping

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.protocol.reports import InstanceStatus
from dure.domain.fleet.slices import WHOLE_MILLI
from dure.fleet.terms import W_PER_KW

WHOLE = "whole"
"""What a slice is called that is none."""
_KWH_PER_MWH = 1000.0


def hour_of(cluster: Cluster, group: str, devices: float, now_ns: int) -> tuple[float, float]:
    """Money in the cluster's currency and grams for so many devices of a node group, all busy;
    nothing for a group that the cluster does not have."""
    found = next((each for each in cluster.groups if each.name == group), None)
    if found is None or devices <= 0:
        return 0.0, 0.0
    profile = device_profile(found.profile)
    watts = profile.power_w(1.0) + found.base_power_w / max(1, found.devices)
    kwh = watts / W_PER_KW * devices * cluster.pue
    grams = kwh * cluster.carbon_g_per_kwh.at(now_ns)
    if cluster.owned(profile.name):
        return kwh / _KWH_PER_MWH * cluster.electricity_per_mwh.at(now_ns), grams
    tariff = cluster.tariff
    return devices * tariff.device_hour[profile.name] * tariff.factor(now_ns), grams


def slices_of(instances: Iterable[InstanceStatus]) -> Counter[str]:
    """What instances have of devices, by slice."""
    slices: Counter[str] = Counter()
    for each in instances:
        slices[each.placement.template or WHOLE] += len(each.placement.devices)
    return slices


def spoken(slices: Mapping[str, int]) -> str:
    """`1g.10gb`, `8 x whole`."""
    parts = [name if count == 1 else f"{count} x {name}" for name, count in sorted(slices.items())]
    return ", ".join(parts)


def devices_of(instances: Iterable[InstanceStatus]) -> float:
    """Whole devices that instances have, shares of them counted as such."""
    return sum(
        len(each.placement.devices) * each.placement.compute_milli / WHOLE_MILLI
        for each in instances
    )
