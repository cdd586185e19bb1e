"""Hypothesis strategies for every value that crosses the line, made from their own types."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dure.domain.fleet.clusters import NodeGroup, Tariff
from dure.domain.fleet.decisions import Alternative, Explanation, Order, Placement, SiteSummary
from dure.domain.fleet.policy import ClassPolicy, FleetPolicy
from dure.domain.fleet.programs import Program, Thing, ThingKind
from dure.domain.fleet.protocol.desired import Partition
from dure.domain.fleet.protocol.link import AccessRequest, LogChunk, Welcome
from dure.domain.fleet.protocol.reports import AttemptStatus, PartitionStatus, Report, ServiceLoad
from dure.domain.fleet.protocol.services import LoadSignal
from dure.domain.fleet.protocol.wishes import Standing, Wish, WishRefusal
from dure.domain.fleet.series import Series
from dure.domain.fleet.tenancy import FleetTenant
from dure.domain.fleet.virtual import SpaceStatus, VirtualCluster
from dure.domain.fleet.workloads import Demand, Gang, Service, Sla, Work, Workload

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
texts = st.just("") | names
counts = st.integers(0, 2**63 - 1)
small = st.integers(0, 1000)
moments = st.integers(-(2**63), 2**63 - 1)
amounts = st.floats(0, allow_nan=False, allow_infinity=False)
signed = st.floats(allow_nan=False, allow_infinity=False)
shares = st.floats(0, 1)
priorities = st.integers(-(2**31), 2**31)
some = st.floats(5e-324, allow_nan=False, allow_infinity=False)
series = st.builds(
    lambda values, start_ns, step_ns: Series(np.array(values, np.float64), start_ns, step_ns),
    st.lists(signed.filter(lambda each: abs(each) < 1e300), min_size=1, max_size=5),
    moments,
    st.integers(1, 2**60),
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | signed | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)

_MOMENTS = {"now_ns", "at_ns", "start_ns", "submitted_ns", "deadline_ns", "until_ns"} | {
    "started_ns",
    "ended_ns",
}
_NAMES = {"id", "tenant", "cluster", "group", "job", "reference", "profile", "workload"} | {
    *("kind", "incarnation", "version", "currency", "pool", "path", "name", "weights"),
}
_SPECIAL: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    (Series, ""): series,
    (Thing, "kind"): st.sampled_from([each.value for each in ThingKind]),
    (Program, "pod"): st.dictionaries(texts, _json, max_size=3),
    (Program, "port"): st.none() | st.integers(1, 65535),
    (Demand, "devices"): small,
    (Gang, "workers"): st.integers(1, 2**40),
    (Gang, "most_workers"): st.none() | st.integers(1, 2**40),
    (Sla, "penalty_cap"): amounts | st.just(float("inf")),
    (Work, "compute_bound"): shares,
    (Service, "replica_requests_per_s"): some,
    (Service, "users"): st.lists(st.tuples(texts, amounts), max_size=3).map(tuple),
    (Workload, "priority"): priorities,
    (Workload, "data"): st.lists(names, max_size=3).map(tuple),
    (Workload, "service_name"): texts,
    (FleetTenant, "priority"): priorities,
    (FleetTenant, "weight"): some,
    (FleetPolicy, "period_ns"): st.integers(1, 2**62),
    (ClassPolicy, "migration_threshold"): signed,
    (ClassPolicy, "migration_share"): signed,
    (Alternative, "total"): signed,
    (Explanation, "terms"): st.lists(st.tuples(texts, signed), max_size=3).map(tuple),
    **{(Explanation, name): signed for name in ("g_co2", "sla_risk", "congestion")},
    (Order, "instances"): st.integers(0, 2**31),
    (Order, "resume_share"): shares,
    (Placement, "compute_milli"): small,
    (SiteSummary, "free_slices"): st.lists(st.tuples(names, counts), max_size=3).map(tuple),
    (Tariff, "calendar"): st.sampled_from([1, 24, 168]).flatmap(
        lambda size: st.lists(amounts, min_size=size, max_size=size).map(tuple)
    ),
    (NodeGroup, "count"): small,
    (NodeGroup, "devices"): small,
    (AttemptStatus, "done_share"): shares,
    (AttemptStatus, "saved_share"): shares,
    (AttemptStatus, "exit_code"): st.none() | st.integers(-(2**31), 2**32),
    (ServiceLoad, "violated_share"): shares,
    (Partition, "node"): names,
    (Partition, "layout"): names,
    (PartitionStatus, "node"): names,
    (Report, "seq"): st.integers(1, 2**63 - 1),
    (Welcome, "silence_s"): some,
    (LogChunk, "data"): st.binary(max_size=20),
    (Wish, "document"): st.dictionaries(texts, _json, max_size=3),
    **{(Wish, name): names for name in ("uid", "namespace", "name")},
    (WishRefusal, "reason"): names,
    (LoadSignal, "source"): names,
    (Standing, "uid"): names,
    (VirtualCluster, "pools"): st.lists(names, max_size=3).map(tuple),
    **{(VirtualCluster, name): names for name in ("name", "tenant")},
    **{(kind, "name"): names for kind in (SpaceStatus, AccessRequest)},
    **{(Standing, name): texts for name in ("job", "cluster", "currency")},
    **{(Standing, name): signed for name in ("cost_per_hour", "g_co2_per_hour")},
}


@cache
def values(kind: type) -> st.SearchStrategy[Any]:
    """Values of a dataclass of the protocol."""
    special = _SPECIAL.get((kind, ""))
    if special is not None:
        return special
    hints = typing.get_type_hints(kind)
    return st.builds(
        kind,
        **{
            each.name: _SPECIAL.get((kind, each.name), _of(hints[each.name], each.name))
            for each in dataclasses.fields(kind)
            if each.init
        },
    )


def _of(hint: Any, name: str) -> st.SearchStrategy[Any]:
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        (inner,) = [each for each in args if each is not type(None)]
        return st.none() | _of(inner, name)
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(_of(args[0], name), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(_of(each, name) for each in args))
    if origin is frozenset:
        return st.frozensets(_named(args[0]), max_size=3)
    if origin is Mapping:
        return st.dictionaries(texts, _of(args[1], ""), max_size=3)
    return _plain(hint, name)


def _named(hint: Any) -> st.SearchStrategy[Any]:
    """Of a set: names, or pairs with a name first."""
    args = typing.get_args(hint)
    return st.tuples(names, values(args[1])) if args else names


def _plain(hint: Any, name: str) -> st.SearchStrategy[Any]:
    if dataclasses.is_dataclass(hint):
        return values(typing.cast(type, hint))
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    if hint is int:
        return moments if name in _MOMENTS else counts
    by_type = {bool: st.booleans(), float: amounts, bytes: st.binary(max_size=9)}
    if hint in by_type:
        return by_type[hint]
    return names if name in _NAMES else texts
