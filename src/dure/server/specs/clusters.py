"""Stored clusters, feeds and fleet settings as the fleet they describe."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np

from dure.api.base import duration_ns
from dure.api.clusters import ClusterSpec, Hourly
from dure.api.money import FeedSpec
from dure.api.policies import FleetSpec
from dure.domain.errors import DureError
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster, Fleet, NodeGroup, Tariff
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.series import Series
from dure.domain.fleet.windows import Window, windows_of
from dure.domain.fleet.workloads import (
    Artefact,
)
from dure.domain.ids import ArtefactId, ClusterId
from dure.domain.units import parse_bytes
from dure.server.specs.reading import read_spec
from dure.stores import rows

FLEET_POLICY = "fleet"
"""Reserved name among the stored policies: what holds for the fleet as a whole is kept there."""


def cluster_of(
    row: rows.Cluster, groups: Sequence[NodeGroup], feeds: Mapping[str, Series]
) -> Cluster:
    """A cluster with the node groups its member reported; a feed that is silent counts as 0."""
    spec = cluster_spec(row)
    return Cluster(
        id=ClusterId(row.name),
        region=spec.region,
        provider=spec.provider,
        cluster_class=spec.cluster_class,
        groups=tuple(groups),
        tariff=Tariff(
            spec.tariff.currency,
            {device_profile(name).name: price for name, price in spec.tariff.device_hour.items()},
            tuple(spec.tariff.calendar),
        ),
        carbon_g_per_kwh=_hourly(spec.carbon, feeds),
        electricity_per_mwh=_hourly(spec.electricity, feeds),
        pue=spec.pue,
    )


def cluster_spec(row: rows.Cluster) -> ClusterSpec:
    """What an operator said of a cluster."""
    return read_spec(ClusterSpec, row.spec, f"cluster {row.name}")


def namespace_of(spec: ClusterSpec, tenant: str) -> str:
    """Where a tenant's objects belong in a cluster."""
    return spec.namespaces.get(tenant, f"dure-{tenant}")


def cluster_windows(clusters: Iterable[rows.Cluster]) -> dict[str, tuple[Window, ...]]:
    """When jobs may be moved there or away by themselves, of clusters that say so."""
    found = {}
    for row in clusters:
        with suppress(DureError):  # told where the cluster itself is read
            windows = windows_of(cluster_spec(row).windows)
            if windows:
                found[row.name] = windows
    return found


def feeds_named(spec: ClusterSpec) -> frozenset[str]:
    """Feeds that a cluster's prices and carbon come from."""
    named = (spec.carbon.feed, spec.electricity.feed)
    return frozenset(name for name in named if name is not None)


def _hourly(value: Hourly, feeds: Mapping[str, Series]) -> Series:
    if value.feed is not None:
        return feeds.get(value.feed, Series.constant(0.0))
    return Series.constant(value.constant or 0.0)


def feed_spec(row: rows.Feed) -> FeedSpec:
    """What an operator said of a feed."""
    plain = {"kind": row.kind.value, "unit": row.unit}
    return read_spec(FeedSpec, plain | dict(row.spec), f"feed {row.name}")


def series_of(feed: rows.Feed, points: Sequence[rows.FeedPoint]) -> Series | None:
    """Points, in order, as equal steps from the first on; None where there are none.

    A value holds until the next point.
    """
    if not points:
        return None
    step_ns = max(1, duration_ns(feed_spec(feed).step))
    start_ns = points[0].at_ns // step_ns * step_ns
    count = (points[-1].at_ns - start_ns) // step_ns + 1
    edges_ns = start_ns + step_ns * np.arange(count, dtype=np.int64)
    moments_ns = np.array([point.at_ns for point in points], dtype=np.int64)
    values = np.array([point.value for point in points], dtype=np.float64)
    # What holds at a step's end, so that a point inside a step is not lost to it.
    found = np.searchsorted(moments_ns, edges_ns + step_ns - 1, side="right") - 1
    return Series(values[np.maximum(found, 0)], start_ns, step_ns)


def artefacts_of(clusters: Iterable[rows.Cluster]) -> tuple[Artefact, ...]:
    """Weights and data that operators told of, and where they lie."""
    sizes: dict[str, int] = {}
    places: dict[str, set[ClusterId]] = {}
    for row in clusters:
        for name, size in cluster_spec(row).artefacts.items():
            sizes[name] = max(sizes.get(name, 0), parse_bytes(size))
            places.setdefault(name, set()).add(ClusterId(row.name))
    return tuple(
        Artefact(ArtefactId(name), size, frozenset(places[name])) for name, size in sizes.items()
    )


def fleet_of(policies: Iterable[rows.Policy], clusters: Sequence[Cluster]) -> Fleet:
    """Clusters, rates and what lies between them."""
    spec = fleet_spec(policies)
    network = spec.network
    return Fleet(
        clusters=tuple(clusters),
        rates=ExchangeRates(spec.currency, spec.rates),
        egress_per_gb={
            (pair.source, pair.target): pair.per_gb
            for pair in network.egress.pairs
            if pair.source != pair.target
        },
        egress_default_per_gb=network.egress.default,
        bytes_per_s=float(max(1, parse_bytes(network.bandwidth))),
        latency_ms={
            (user, cluster): ms
            for user, row in network.latency.users.items()
            for cluster, ms in row.items()
        },
        latency_default_ms=network.latency.default,
    )


def fleet_spec(policies: Iterable[rows.Policy]) -> FleetSpec:
    """What holds for the fleet as a whole, from among the stored policies."""
    for row in policies:
        if row.name == FLEET_POLICY:
            return read_spec(FleetSpec, row.spec, "the fleet's settings")
    return FleetSpec()
