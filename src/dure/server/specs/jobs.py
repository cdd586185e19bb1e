"""Stored jobs as workloads and programs."""

from dataclasses import dataclass

from dure.api.base import Document, deadline_ns, duration_ns
from dure.api.jobs import CutOff, JobSpec, WhenNoCheckpoint
from dure.domain.fleet.migrations import MoveKind, kind_of
from dure.domain.fleet.programs import Mount, Program, Thing, ThingKind
from dure.domain.fleet.windows import Window, windows_of
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
from dure.domain.ids import ArtefactId, PoolId, TenantId, WorkloadId
from dure.domain.units import NS_PER_MS, NS_PER_S, parse_bytes
from dure.server.specs.reading import clusters_named, read_spec
from dure.stores import rows

UNSAID_WORK = Work(reference_s=3600.0)
"""Of a job whose owner does not say how long it takes: an hour, to be corrected by its progress."""
ARRAY_INDEX = "DURE_ARRAY_INDEX"


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
    checkpoint_wait_s: float = 600.0
    """How long a move waits for a checkpoint that it asked for."""
    stop_anyway: bool = False
    """Whether it ends then nevertheless; else it stays."""
    windows: tuple[Window, ...] = ()
    """When it may be moved by itself; none: at any time."""


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
        checkpoint_wait_s=duration_ns(spec.gang.checkpoint_wait) / NS_PER_S,
        stop_anyway=spec.gang.when_no_checkpoint is WhenNoCheckpoint.STOP,
        windows=windows_of(spec.windows),
    )


def move_kind(row: rows.Job) -> MoveKind:
    """How a stored job gets from one place to another."""
    return kind_of(job_terms(row).workload)


def job_spec(row: rows.Job) -> JobSpec:
    """A job as its owner wrote it."""
    return read_spec(JobSpec, row.spec, f"job {row.id}")


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
        clusters=clusters_named(spec.clusters),
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
        standby=service.standby,
        shrink_after_s=None
        if service.shrink_after is None
        else duration_ns(service.shrink_after) / NS_PER_S,
        forgets_bursts=not service.keep_for_bursts,
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
