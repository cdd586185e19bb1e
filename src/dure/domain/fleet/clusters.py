"""Clusters: where work can run, what that costs in money and grams, and how far away it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from dure.domain.errors import InputError
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.series import HOUR_NS, Series
from dure.domain.fleet.slices import ShareMode
from dure.domain.ids import ClusterId

HOURS_A_WEEK = 168
_MONDAY_TO_EPOCH_H = 72
"""From a Monday 00:00 UTC to the Thursday on which 1970 began."""


class ClusterClass(Enum):
    """Kinds of clusters, which differ in what they cost and how near they are."""

    CLOUD = "cloud"
    ON_PREM = "on-prem"
    EDGE = "edge"


@dataclass(frozen=True, slots=True)
class Tariff:
    """What a device costs by the hour; a node is billed whole while any part of it is in use."""

    currency: str = "USD"
    device_hour: Mapping[str, float] = field(default_factory=dict)
    """By profile; a profile without a price is owned: only its energy is paid."""
    calendar: tuple[float, ...] = (1.0,)
    """Factors on the price by hour of the week (168, from Monday 00:00 UTC), of a day, or one."""

    def __post_init__(self) -> None:
        if len(self.calendar) not in (1, 24, HOURS_A_WEEK):
            raise InputError(
                f"a tariff calendar has {len(self.calendar)} factors",
                "give 1, 24 (a day) or 168 (a week)",
            )

    def factor(self, now_ns: int) -> float:
        """What the price is multiplied with, on a clock that counts from 1970 in UTC."""
        hour = now_ns // HOUR_NS + _MONDAY_TO_EPOCH_H
        return self.calendar[hour % len(self.calendar)]


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal nodes of a cluster."""

    name: str
    count: int
    profile: str
    devices: int
    """Accelerators of one node."""
    cpu_milli: int
    host_memory_bytes: int
    link_domain: int
    """Devices that reach one another over the fast link (NVLink and the like)."""
    numa_domains: int = 1
    base_power_w: float = 400.0
    """Of a node that is on, beside its devices."""
    mode: ShareMode = ShareMode.WHOLE
    """How its devices are divided; one mode at a time."""
    boot_s: float = 180.0
    """From powered down to ready."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A member of the fleet."""

    id: ClusterId
    region: str
    provider: str
    cluster_class: ClusterClass
    groups: tuple[NodeGroup, ...]
    tariff: Tariff = field(default_factory=Tariff)
    carbon_g_per_kwh: Series = field(default_factory=lambda: Series.constant(0.0))
    electricity_per_mwh: Series = field(default_factory=lambda: Series.constant(0.0))
    """In the tariff's currency; paid for owned devices only, rent includes it otherwise."""
    pue: float = 1.2
    """Energy of the whole site over energy of its computers."""

    def owned(self, profile: str) -> bool:
        """Whether that profile's devices cost their energy alone."""
        return profile not in self.tariff.device_hour


@dataclass(frozen=True, slots=True)
class Fleet:
    """All clusters, and what lies between them."""

    clusters: tuple[Cluster, ...]
    rates: ExchangeRates = field(default_factory=ExchangeRates)
    egress_per_gb: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Price of moving a gigabyte from one cluster to another, in the base currency."""
    egress_default_per_gb: float = 0.0
    """Between clusters that are not listed."""
    bytes_per_s: float = 1.25e9
    """Throughput of a transfer between clusters."""
    latency_ms: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Round trip from a user region to a cluster."""
    latency_default_ms: float = 50.0

    def egress(self, source: ClusterId, target: ClusterId) -> float:
        """Price per gigabyte between two clusters."""
        if source == target:
            return 0.0
        return self.egress_per_gb.get((source, target), self.egress_default_per_gb)

    def latency(self, user_region: str, cluster: ClusterId) -> float:
        """Round trip in milliseconds."""
        return self.latency_ms.get((user_region, cluster), self.latency_default_ms)
