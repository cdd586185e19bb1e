"""Stored documents as the fleet's values: jobs, clusters, tenants, pools, policies, feeds.

What is stored was checked when it came in; a document of a newer version may say what this one does
not know, and is then refused as `InputError`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from dure.api.base import Document, DocumentT, deadline_ns, duration_ns, moment_text
from dure.api.clusters import ClusterSpec, Hourly
from dure.api.jobs import CutOff, JobSpec
from dure.api.money import BudgetSpec, BudgetUnit, FeedSpec
from dure.api.policies import ClassPolicy as ClassPolicySpec
from dure.api.policies import FleetSpec, PolicySpec
from dure.api.tenancy import PoolSpec, TenantSpec
from dure.domain.errors import InputError
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster, Fleet, NodeGroup, Tariff
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.policy import ClassPolicy, FleetPolicy
from dure.domain.fleet.programs import Mount, Program, Thing, ThingKind
from dure.domain.fleet.series import Series
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import Budget, FleetTenant, Team, VNodePool
from dure.domain.fleet.workloads import (
    Artefact,
    Demand,
    Gang,
    Service,
    Sla,
    WhenCutOff,
    Work,
    Workload,
    WorkloadKind,
)
from dure.domain.ids import ArtefactId, ClusterId, PoolId, TenantId, WorkloadId
from dure.domain.units import NS_PER_MS, NS_PER_S, parse_bytes
from dure.stores import rows

FLEET_POLICY = "fleet"
"""Reserved name among the stored policies: what holds for the fleet as a whole is kept there."""
UNSAID_WORK = Work(reference_s=3600.0)
"""Of a job whose owner does not say how long it takes: an hour, to be corrected by its progress."""
ARRAY_INDEX = "DURE_ARRAY_INDEX"
_G_PER_KG = 1000.0


@dataclass(frozen=True, slots=True)
class JobTerms:
    """Everything a stored job says to the planner and to the cluster that runs it."""

    workload: Workload
    program: Program
    retries: int
    """How often it is started anew after its program failed."""
    fence_after_s: float | None
    """Its member stops it after so long without contact; None: never."""
    artefacts: tuple[Artefact, ...] = ()
    """Weights and data whose size its owner tells."""


def job_terms(row: rows.Job) -> JobTerms:
    """What a stored job means."""
    spec = job_spec(row)
    fence = spec.on_cluster_lost.fence_after
    uses = [*([spec.weights] if spec.weights else []), *spec.data]
    return JobTerms(
        workload=_workload(spec, row),
        program=program_of(spec, row.array_index),
        retries=spec.retries,
        fence_after_s=None if fence is None else duration_ns(fence) / NS_PER_S,
        artefacts=tuple(
            Artefact(ArtefactId(use.name), parse_bytes(use.size)) for use in uses if use.size
        ),
    )


def job_spec(row: rows.Job) -> JobSpec:
    """A job as its owner wrote it."""
    return _read(JobSpec, row.spec, f"job {row.id}")


def _workload(spec: JobSpec, row: rows.Job) -> Workload:
    resources = spec.resources
    return Workload(
        id=WorkloadId(row.id),
        tenant=TenantId(row.tenant),
        kind=spec.kind,
        demand=Demand(
            memory_bytes=parse_bytes(resources.memory),
            compute_tops=resources.tops,
            bandwidth_bytes_per_s=float(parse_bytes(resources.bandwidth)),
            cpu_milli=round(resources.cpu * 1000),
            host_memory_bytes=parse_bytes(resources.host_memory),
            data_type=resources.data_type,
            devices=resources.devices,
            whole=resources.whole,
        ),
        submitted_ns=row.submitted_ns,
        team=row.team,
        service_name=row.service or (row.name if spec.kind is WorkloadKind.SERVING else ""),
        priority=row.priority,
        pool=None if spec.pool is None else PoolId(spec.pool),
        work=_work(spec),
        gang=_gang(spec),
        service=_service(spec),
        sla=Sla(
            deadline_ns=None
            if spec.sla.deadline is None
            else deadline_ns(spec.sla.deadline, row.submitted_ns),
            penalty_per_hour_late=spec.sla.penalty_per_hour,
            penalty_per_violated_minute=spec.sla.penalty_per_minute,
            penalty_cap=float("inf") if spec.sla.cap is None else spec.sla.cap,
        ),
        weights=None if spec.weights is None else ArtefactId(spec.weights.name),
        data=tuple(ArtefactId(use.name) for use in spec.data),
        clusters=_clusters(spec.clusters),
        profiles=frozenset(name.lower() for name in resources.profiles)
        if resources.profiles
        else None,
        delay_tolerant=spec.delay_tolerant,
        preemptible=spec.preemptible,
        when_cut_off=_when_cut_off(spec),
    )


def _work(spec: JobSpec) -> Work | None:
    if spec.kind is WorkloadKind.SERVING:
        return None
    if spec.work is None:
        return UNSAID_WORK
    return Work(
        duration_ns(spec.work.time) / NS_PER_S,
        spec.work.reference.lower(),
        spec.work.compute_bound,
    )


def _gang(spec: JobSpec) -> Gang:
    gang = spec.gang
    every = gang.checkpoint_every
    return Gang(
        workers=gang.workers,
        most_workers=gang.most_workers,
        growth=gang.growth,
        checkpoint_s=None if every is None else duration_ns(every) / NS_PER_S,
        checkpoint_bytes=parse_bytes(gang.checkpoint_size),
    )


def _service(spec: JobSpec) -> Service | None:
    service = spec.service
    if service is None:
        return None
    total = sum(service.users.values())
    return Service(
        requests_per_s=service.requests_per_second,
        replica_requests_per_s=service.replica_requests_per_second,
        target_latency_ms=duration_ns(service.latency) / NS_PER_MS,
        service_time_ms=duration_ns(service.service_time) / NS_PER_MS,
        warm_minimum=service.warm,
        most_replicas=service.most,
        spread=service.spread,
        users=tuple((region, part / total) for region, part in service.users.items()),
        reference=service.reference.lower(),
        load_s=duration_ns(service.load_time) / NS_PER_S,
    )


def _when_cut_off(spec: JobSpec) -> WhenCutOff:
    if spec.on_cluster_lost.fence_after is not None:
        return WhenCutOff.FENCE_AFTER
    replaces = spec.on_cluster_lost.then is CutOff.REPLACE
    return WhenCutOff.REPLACE if replaces else WhenCutOff.WAIT


def program_of(spec: JobSpec, array_index: int | None = None) -> Program:
    """What a job runs; a job of an array finds its number in a variable."""
    env = dict(spec.env)
    if array_index is not None:
        env[ARRAY_INDEX] = str(array_index)
    return Program(
        image=spec.image,
        command=tuple(spec.command),
        args=tuple(spec.args),
        env=env,
        env_from=tuple(_thing(part) for part in spec.env_from),
        mounts=tuple(Mount(_thing(part), part.path, part.read_only) for part in spec.mounts),
        working_dir=spec.working_dir,
        service_account=spec.service_account,
        grace_s=duration_ns(spec.grace) / NS_PER_S,
        port=spec.port,
        labels=spec.labels,
        annotations=spec.annotations,
        pod=spec.pod,
    )


_THINGS = {
    "secret": ThingKind.SECRET,
    "config_map": ThingKind.CONFIG_MAP,
    "volume": ThingKind.VOLUME,
}


def _thing(part: Document) -> Thing:
    for name, kind in _THINGS.items():
        value = getattr(part, name, None)
        if value is not None:
            return Thing(kind.value, value)
    raise AssertionError("a document that names nothing is refused when it comes in")


# Clusters


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
    return _read(ClusterSpec, row.spec, f"cluster {row.name}")


def namespace_of(spec: ClusterSpec, tenant: str) -> str:
    """Where a tenant's objects belong in a cluster."""
    return spec.namespaces.get(tenant, f"dure-{tenant}")


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
    return _read(FeedSpec, plain | dict(row.spec), f"feed {row.name}")


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
            return _read(FleetSpec, row.spec, "the fleet's settings")
    return FleetSpec()


# Tenants and pools


def tenant_of(
    tree: Sequence[rows.Tenant], budgets: Iterable[rows.Budget] = (), now_ns: int = 0
) -> FleetTenant:
    """A tenant, given with its teams and services, and the budgets whose period it is now."""
    root = next(row for row in tree if row.kind is rows.TenantKind.TENANT)
    spec = tenant_spec(root)
    present = [row for row in budgets if row.period_start_ns <= now_ns < row.period_end_ns]
    return FleetTenant(
        id=TenantId(root.path),
        weight=spec.weight,
        priority=spec.priority,
        budget=_budget(root.path, present),
        teams=tuple(
            Team(row.path.removeprefix(f"{root.path}/"), _budget(row.path, present))
            for row in tree
            if row.kind is rows.TenantKind.TEAM and row.parent == root.path
        ),
    )


def tenants_of(
    tree: Iterable[rows.Tenant], budgets: Sequence[rows.Budget] = (), now_ns: int = 0
) -> tuple[FleetTenant, ...]:
    """All tenants."""
    by_root: dict[str, list[rows.Tenant]] = {}
    for row in tree:
        by_root.setdefault(row.path.partition("/")[0], []).append(row)
    return tuple(tenant_of(branch, budgets, now_ns) for branch in by_root.values())


def tenant_spec(row: rows.Tenant) -> TenantSpec:
    """What an operator said of a tenant."""
    return _read(TenantSpec, row.spec, f"tenant {row.path}")


def budget_spec(row: rows.Budget) -> BudgetSpec:
    """What an operator said of a budget."""
    plain = {
        "unit": row.unit,
        "limit": row.limit_amount,
        "periodStart": moment_text(row.period_start_ns),
        "periodEnd": moment_text(row.period_end_ns),
    }
    return _read(BudgetSpec, plain | dict(row.spec), f"budget {row.tenant}/{row.name}")


def _budget(path: str, budgets: Iterable[rows.Budget]) -> Budget:
    """The tightest limits among the budgets of a node."""
    limits: dict[str, float] = {}
    for row in budgets:
        if row.tenant == path:
            limits[row.unit] = min(row.limit_amount, limits.get(row.unit, float("inf")))
    return Budget(limits.get(BudgetUnit.MONEY.value), limits.get(BudgetUnit.CARBON.value))


def pool_spec(row: rows.Pool) -> PoolSpec:
    """What an operator said of a pool."""
    return _read(PoolSpec, dict(row.spec) | {"tenant": row.tenant}, f"pool {row.name}")


def pool_of(row: rows.Pool) -> VNodePool:
    """A pool."""
    spec = pool_spec(row)
    profile = device_profile(spec.profile)
    template = profile.slice(spec.slice or "whole")
    return VNodePool(
        id=PoolId(row.name),
        tenant=TenantId(spec.tenant),
        profile=profile.name,
        template="" if template.mode is ShareMode.WHOLE else template.name,
        mode=template.mode,
        clusters=_clusters(spec.clusters),
        guaranteed=spec.guaranteed,
        lendable=spec.lendable,
        maximum=spec.maximum,
        dedicated=spec.dedicated,
    )


# Policies


def policy_in_force(policies: Sequence[rows.Policy]) -> rows.Policy | None:
    """The stored policy that the planner is to follow; None: the defaults."""
    name = fleet_spec(policies).policy
    return next((row for row in policies if row.name == name and name != FLEET_POLICY), None)


def policy_spec(row: rows.Policy) -> PolicySpec:
    """What an operator said in a policy."""
    return _read(PolicySpec, row.spec, f"policy {row.name}")


def policy_of(row: rows.Policy | None) -> FleetPolicy:
    """A policy; what it does not say keeps its default."""
    if row is None:
        return FleetPolicy()
    spec = policy_spec(row)
    default = FleetPolicy()
    changes: dict[str, Any] = {
        name: value for name, value in _given(spec).items() if name in _PLAIN_RULES
    }
    for kind in WorkloadKind:
        own: ClassPolicySpec = getattr(spec, kind.value)
        changes[kind.value] = _class_policy(default.of(kind), spec.all_classes, own)
    if spec.carbon_budget_kg is not None:
        changes["carbon_budget_g"] = spec.carbon_budget_kg * _G_PER_KG
    if spec.period is not None:
        changes["period_ns"] = duration_ns(spec.period)
    if spec.reclaim_after is not None:
        never = spec.reclaim_after == "never"
        changes["reclaim_after_ns"] = None if never else duration_ns(spec.reclaim_after)
    congestion = replace(default.congestion, **_given(spec.congestion))
    return replace(default, congestion=congestion, **changes)


_PLAIN_RULES = (
    "adapt_latency",
    "adapt_locality",
    "locality",
    "defer",
    "migrate",
    "forecast",
    "most_moves",
    "most_preemptions",
    "dry_run",
)


def _class_policy(default: ClassPolicy, *parts: ClassPolicySpec) -> ClassPolicy:
    """The default with what the parts say, later ones last."""
    changes: dict[str, Any] = {}
    for part in parts:
        changes |= _given(part)
    for name in ("cool_down", "minimum_runtime"):
        if name in changes:
            changes[f"{name}_ns"] = duration_ns(changes.pop(name))
    return replace(default, **changes)


def _given(part: Document) -> dict[str, Any]:
    """Fields that say something, by name."""
    values = {name: getattr(part, name) for name in type(part).model_fields}
    return {name: value for name, value in values.items() if value is not None}


def _clusters(names: Sequence[str] | None) -> frozenset[ClusterId] | None:
    return None if names is None else frozenset(ClusterId(name) for name in names)


def _read(model: type[DocumentT], spec: Mapping[str, Any], about: str) -> DocumentT:
    try:
        return _validated(model, spec)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise InputError(
            f"{about} is stored in words this version does not know: {first['msg']}",
            "upgrade this server, or correct the document",
            field=where,
        ) from error


def _validated(model: type[DocumentT], spec: Mapping[str, Any]) -> DocumentT:
    # Strict as JSON is: enumerations are words there.
    return model.model_validate(dict(spec), strict=False)
