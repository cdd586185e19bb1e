"""Work of a scenario that is written out: jobs and services with their load over time."""

import zlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.clusters import Fleet, NodeGroup
from dure.domain.fleet.profiles import DataType
from dure.domain.fleet.workloads import (
    Demand,
    Gang,
    Service,
    Sla,
    WhenCutOff,
    Work,
    Workload,
    WorkloadKind,
)
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.fleet.fit import never_fits
from dure.kit.files import FieldPath
from dure.kit.words import nearest
from dure.sim.documents import Source
from dure.sim.fleet.azure import read_azure
from dure.sim.fleet.generators import LOAD_STEP_S, LoadShape, azure_like
from dure.sim.fleet.scenario_file import ScenarioFile
from dure.sim.fleet.scenario_fleet import DataFolder, FleetBuilder, known_profile
from dure.sim.fleet.scenario_tenants import TenancyBuilder
from dure.sim.fleet.scenario_work_file import DemandPart, ServicePart, SlaPart, WorkloadPart
from dure.sim.fleet.setting import LoadCurves

_MOST_LOAD_VALUES = 200_000_000
"""Rates of services by step, all together: 1.6 GB."""


@dataclass(frozen=True, slots=True)
class Around:
    """What work refers to."""

    source: Source
    file: ScenarioFile
    data: DataFolder
    fleets: FleetBuilder
    tenancy: TenancyBuilder
    fleet: Fleet

    @property
    def groups(self) -> list[tuple[ClusterId, NodeGroup]]:
        """Every node group with its cluster."""
        return [(cluster.id, group) for cluster in self.fleet.clusters for group in cluster.groups]

    def rng(self, name: str) -> np.random.Generator:
        """Its own for every name: what one workload draws does not depend on the others."""
        return np.random.default_rng([self.file.seed, zlib.crc32(name.encode())])


class WorkBuilder:
    """Makes the workloads a scenario lists."""

    def __init__(self, around: Around) -> None:
        self._around = around
        self._source = around.source
        self._file = around.file
        self._fleets = around.fleets
        self._tenancy = around.tenancy
        self._curves: list[tuple[WorkloadId, NDArray[np.float64]]] = []
        self._bursts: dict[str, NDArray[np.float64]] = {}

    def workloads(self, *, cut: bool) -> list[Workload]:
        """All of them; `cut`: what would be submitted after the end is left out, not refused."""
        self._check_curves()
        return [
            workload
            for number, part in enumerate(self._file.workloads)
            for workload in self._written(part, ("workloads", number), cut=cut)
        ]

    def loads(self) -> LoadCurves:
        """Request rates of all services of `workloads`, which must have been called before."""
        if not self._curves:
            return LoadCurves.none()
        return LoadCurves(
            tuple(name for name, _ in self._curves),
            np.stack([values for _, values in self._curves]),
            self._file.start,
            round(LOAD_STEP_S * NS_PER_S),
        )

    def _check_curves(self) -> None:
        """Refuse more load curves than memory holds, at the entry that is too much."""
        steps, total = -(-self._file.duration // round(LOAD_STEP_S * NS_PER_S)), 0
        for number, part in enumerate(self._file.workloads):
            total += part.count * steps if part.service is not None else 0
            if total > _MOST_LOAD_VALUES:
                raise self._source.wrong(
                    ("workloads", number, "count"),
                    f"makes {total:,} values of load, more than a run can hold",
                    "have fewer services, or shorten `duration`",
                )

    def _written(self, part: WorkloadPart, where: FieldPath, *, cut: bool) -> list[Workload]:
        last = part.at + part.every * (part.count - 1)
        if last >= self._file.duration and not cut:
            raise self._source.wrong(
                (*where, "every" if part.count > 1 else "at"),
                "it is submitted after the end of the run",
                "submit it earlier or lengthen `duration`",
            )
        first = self._workload(part, where)
        problem = never_fits(first, self._around.groups)
        if problem is not None:
            raise self._source.wrong(where, *problem)
        found = []
        for index in range(part.count):
            at = part.at + part.every * index
            if at < self._file.duration:
                found.append(self._copy(first, part, at, index, where))
        return found

    def _copy(
        self, first: Workload, part: WorkloadPart, at: int, index: int, where: FieldPath
    ) -> Workload:
        """One of several alike, with its own time, name, deadline and load."""
        name = WorkloadId(f"{part.name}-{index}" if part.count > 1 else part.name)
        submitted_ns = self._file.start + at
        service = first.service
        if service is not None and part.service is not None:
            rng = self._around.rng(name)
            spread = part.service.size_spread
            factor = float(np.exp(rng.normal(-(spread**2) / 2, spread))) if spread else 1.0
            mean = service.requests_per_s * factor
            service = replace(service, requests_per_s=mean)
            self._curves.append((name, self._curve(part.service, mean, rng, where)))
        return replace(
            first,
            id=name,
            submitted_ns=submitted_ns,
            sla=_sla(part.sla, submitted_ns),
            service=service,
        )

    def _workload(self, part: WorkloadPart, where: FieldPath) -> Workload:
        kind = WorkloadKind(part.kind)
        self._check_kind(part, kind, where)
        tenant = self._tenancy.known_tenant(part.tenant, (*where, "tenant"))
        for number, name in enumerate(part.profiles or ()):
            known_profile(name, self._source, (*where, "profiles", number))
        work = part.work
        if work is not None:
            known_profile(work.reference, self._source, (*where, "work", "reference"))
        data = [
            self._tenancy.known_artefact(name, (*where, "data", number))
            for number, name in enumerate(part.data)
        ]
        return Workload(
            id=WorkloadId(part.name),
            tenant=TenantId(tenant.name),
            kind=kind,
            demand=_demand(part.demand),
            team=self._tenancy.known_team(tenant, part.team, (*where, "team")),
            service_name=part.name if kind is WorkloadKind.SERVING else "",
            priority=part.priority,
            pool=self._tenancy.known_pool(tenant, part.pool, (*where, "pool")),
            work=Work(work.time / NS_PER_S, work.reference.lower(), work.compute_bound)
            if work
            else None,
            gang=self._gang(part, where),
            service=self._service(part.service, part.clusters, where) if part.service else None,
            sla=_sla(part.sla, self._file.start),
            weights=self._tenancy.known_artefact(part.weights, (*where, "weights")),
            data=tuple(name for name in data if name is not None),
            clusters=self._fleets.known_clusters(part.clusters, (*where, "clusters")),
            profiles=frozenset(name.lower() for name in part.profiles) if part.profiles else None,
            delay_tolerant=part.delay_tolerant,
            preemptible=part.preemptible,
            when_cut_off=WhenCutOff(part.when_cut_off),
        )

    def _check_kind(self, part: WorkloadPart, kind: WorkloadKind, where: FieldPath) -> None:
        """Jobs have work, services a service, and neither has what belongs to the other."""
        serving = kind is WorkloadKind.SERVING
        needed, useless = ("service", "work") if serving else ("work", "service")
        if getattr(part, needed) is None:
            raise self._source.wrong(
                (*where, needed), "is missing", f"add `{needed}: …`, {part.kind} needs it"
            )
        if getattr(part, useless) is not None:
            raise self._source.wrong(
                (*where, useless), f"means nothing for {part.kind}", "leave it out"
            )
        if serving and part.sla.deadline is not None:
            raise self._source.wrong(
                (*where, "sla", "deadline"), "a service never ends", "leave it out"
            )

    def _gang(self, part: WorkloadPart, where: FieldPath) -> Gang:
        gang = part.gang
        if gang.most_workers is not None and gang.most_workers < gang.workers:
            raise self._source.wrong(
                (*where, "gang", "most_workers"),
                f"{gang.most_workers} is less than its {gang.workers} workers",
                f"write at least {gang.workers}",
            )
        return Gang(
            workers=gang.workers,
            most_workers=gang.most_workers,
            growth=gang.growth,
            checkpoint_s=gang.checkpoint / NS_PER_S if gang.checkpoint else None,
            checkpoint_bytes=gang.checkpoint_size,
        )

    def _service(self, part: ServicePart, clusters: list[str] | None, where: FieldPath) -> Service:
        where = (*where, "service")
        known_profile(part.reference, self._source, (*where, "reference"))
        if part.warm > part.most:
            raise self._source.wrong(
                (*where, "warm"),
                f"{part.warm} warm instances are more than the {part.most} it may have",
                f"write at most {part.most}",
            )
        if part.service_time >= part.latency:
            raise self._source.wrong(
                (*where, "latency"),
                "is shorter than a request takes by itself",
                "allow more, or correct `service_time`",
            )
        self._check_reach(part, clusters, where)
        total = sum(part.users.values())
        return Service(
            requests_per_s=part.requests_per_s,
            replica_requests_per_s=part.replica_requests_per_s,
            target_latency_ms=part.latency / NS_PER_MS,
            service_time_ms=part.service_time / NS_PER_MS,
            warm_minimum=part.warm,
            most_replicas=part.most,
            spread=part.spread,
            users=tuple((region, share / total) for region, share in part.users.items()),
            reference=part.reference.lower(),
            load_s=part.load_time / NS_PER_S,
        )

    def _check_reach(self, part: ServicePart, clusters: list[str] | None, where: FieldPath) -> None:
        """Its users are somewhere, and there are as many clusters as it wants to be in."""
        count = len(set(clusters)) if clusters else len(self._file.clusters)
        if part.spread > count:
            raise self._source.wrong(
                (*where, "spread"),
                f"wants {part.spread} clusters of the {count} it may use",
                f"write at most {count}",
            )
        known = self._file.network.latency.users
        for region in part.users:
            if region not in known:
                raise self._source.wrong(
                    (*where, "users", region),
                    f"nothing says how far users in '{region}' are from any cluster",
                    f"add them to `network.latency.users`, or {nearest(region, known)}"
                    if known
                    else "add them to `network.latency.users`, or leave `users` out",
                )

    def _curve(
        self, part: ServicePart, mean: float, rng: np.random.Generator, where: FieldPath
    ) -> NDArray[np.float64]:
        load = part.load
        shape = LoadShape(load.swing, load.peak_hour, load.weekend, load.bursts)
        bursts = self._burst_profile(load.trace, where) if load.trace else None
        series = azure_like(
            rng,
            mean_per_s=mean,
            length_s=self._file.duration / NS_PER_S,
            shape=shape,
            start_ns=self._file.start,
            burst_profile=bursts,
        )
        return series.values

    def _burst_profile(self, name: str, where: FieldPath) -> NDArray[np.float64]:
        if name not in self._bursts:
            path = self._around.data.file(name, self._source, (*where, "service", "load"))
            self._bursts[name] = read_azure(path).burst_profile(LOAD_STEP_S)
        return self._bursts[name]


def _demand(part: DemandPart) -> Demand:
    return Demand(
        memory_bytes=part.memory,
        compute_tops=part.tops,
        bandwidth_bytes_per_s=float(part.bandwidth),
        cpu_milli=round(part.cpu * 1000),
        host_memory_bytes=part.host_memory,
        data_type=DataType(part.data_type),
        devices=part.devices,
        whole=part.whole,
    )


def _sla(part: SlaPart, submitted_ns: int) -> Sla:
    return Sla(
        deadline_ns=None if part.deadline is None else submitted_ns + part.deadline,
        penalty_per_hour_late=part.penalty_per_hour,
        penalty_per_violated_minute=part.penalty_per_minute,
        penalty_cap=float("inf") if part.cap is None else part.cap,
    )
