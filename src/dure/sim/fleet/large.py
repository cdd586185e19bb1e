"""A large made fleet and its load: every kind of hardware and work, of any size, from a seed."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster, ClusterClass, Fleet, NodeGroup, Tariff
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.profiles import DataType
from dure.domain.fleet.series import DAY_NS, HOUR_NS
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import FleetTenant, VNodePool
from dure.domain.fleet.workloads import (
    Artefact,
    Demand,
    Gang,
    Service,
    Sla,
    Work,
    Workload,
    WorkloadKind,
)
from dure.domain.ids import ArtefactId, ClusterId, PoolId, TenantId, WorkloadId
from dure.domain.units import GIB, NS_PER_S
from dure.fleet.fit import speed
from dure.sim.fleet.generators import LOAD_STEP_S, Curve, LoadShape, azure_like, curve
from dure.sim.fleet.setting import LoadCurves, Setting

START_NS = 1_696_118_400 * NS_PER_S
"""Sunday, 1 October 2023, 00:00 UTC."""
_REGIONS = tuple(f"region-{number:02}" for number in range(20))
_GRIDS = ("flat", "solar", "evening", "wind")
_TENANTS = 40
_MODELS = 60
"""Sets of weights that services and batch jobs use."""


@dataclass(frozen=True, slots=True)
class LargeSize:
    """How much of everything."""

    clusters: int = 100
    devices: int = 50_000
    batch: int = 150_000
    training: int = 45_000
    serving: int = 5_000
    days: float = 7.0
    load: float = 0.7
    """Mean demand of training over the whole devices, and of batch work and services over those
    that are shared."""


@dataclass(frozen=True, slots=True)
class _Hardware:
    """A kind of node group."""

    profile: str
    devices: int
    mode: ShareMode
    share: float
    """Of a cluster's devices."""
    price: float
    """On demand, USD per device-hour."""


_HARDWARE = (
    (
        _Hardware("h100", 8, ShareMode.WHOLE, 0.5, 3.4),
        _Hardware("a100", 8, ShareMode.MIG, 0.25, 1.9),
        _Hardware("l4", 4, ShareMode.MPS, 0.25, 0.7),
    ),
    (
        _Hardware("a100", 8, ShareMode.WHOLE, 0.6, 1.9),
        _Hardware("t4", 4, ShareMode.TIME_SLICE, 0.2, 0.35),
        _Hardware("inferentia2", 6, ShareMode.CORE_GROUP, 0.2, 0.6),
    ),
    (
        _Hardware("h200", 8, ShareMode.WHOLE, 0.5, 4.1),
        _Hardware("h100", 8, ShareMode.MIG, 0.3, 3.4),
        _Hardware("l4", 4, ShareMode.QUEUE, 0.2, 0.7),
    ),
    (
        _Hardware("v100", 8, ShareMode.WHOLE, 0.6, 0.9),
        _Hardware("ascend-910b", 8, ShareMode.CORE_GROUP, 0.4, 1.2),
    ),
)


def large_setting(size: LargeSize, seed: int = 1) -> Setting:
    """The fleet, its tenants and a load of `size.load` for so many days."""
    rng = np.random.default_rng(seed)
    hours = int(size.days * 24) + 48
    clusters = tuple(_cluster(rng, number, size, hours) for number in range(size.clusters))
    fleet = Fleet(
        clusters,
        ExchangeRates("USD", {"KRW": 0.00075}),
        egress_default_per_gb=0.02,
        latency_ms={
            (region, cluster.id): 5.0 if region == cluster.region else 40.0 + 10.0 * distance
            for index, region in enumerate(_REGIONS)
            for cluster in clusters
            for distance in [abs(index - _REGIONS.index(cluster.region)) % 10]
        },
    )
    artefacts = _artefacts(rng, clusters)
    services, loads = _services(rng, size, artefacts)
    whole, shared = _device_hours(clusters, size)
    jobs = [
        *_trainings(rng, size, size.load * whole),
        *_batches(rng, size, artefacts, _BATCH_SHARE * size.load * shared),
    ]
    return Setting(
        fleet=fleet,
        workloads=tuple(sorted([*services, *jobs], key=lambda each: each.submitted_ns)),
        start_ns=START_NS,
        duration_ns=round(size.days * DAY_NS),
        loads=loads,
        tenants=tuple(
            FleetTenant(TenantId(f"tenant-{number:02}"), weight=1.0 + number % 3)
            for number in range(_TENANTS)
        ),
        pools=_pools(size),
        artefacts=artefacts,
        seed=seed,
        name="large",
    )


def _cluster(rng: np.random.Generator, number: int, size: LargeSize, hours: int) -> Cluster:
    kinds = _HARDWARE[number % len(_HARDWARE)]
    wanted = size.devices // size.clusters + (number < size.devices % size.clusters)
    groups = []
    left = wanted
    for index, kind in enumerate(kinds):
        last = index == len(kinds) - 1
        devices = left if last else min(left, round(wanted * kind.share))
        left -= devices
        count = max(1, round(devices / kind.devices))
        groups.append(
            NodeGroup(
                name=f"{kind.profile}-{kind.mode.value}",
                count=count,
                profile=kind.profile,
                devices=kind.devices,
                cpu_milli=16_000 * kind.devices,
                host_memory_bytes=128 * GIB * kind.devices,
                link_domain=kind.devices if kind.mode is ShareMode.WHOLE else 1,
                mode=kind.mode,
            )
        )
    owned = number % 5 == 0
    factor = float(rng.uniform(0.8, 1.3))
    prices = {} if owned else {kind.profile: kind.price * factor for kind in kinds}
    classes = (ClusterClass.ON_PREM, ClusterClass.CLOUD, ClusterClass.CLOUD, ClusterClass.EDGE)
    grid = _GRIDS[number % len(_GRIDS)]
    carbon = Curve(float(rng.uniform(40, 600)), grid, 0.4, 0.05, float(number % 24))
    power = Curve(float(rng.uniform(30, 160)), grid, 0.4, 0.1, float(number % 24))
    return Cluster(
        id=ClusterId(f"c{number:03}"),
        region=_REGIONS[number % len(_REGIONS)],
        provider="own" if owned else f"provider-{number % 4}",
        cluster_class=ClusterClass.ON_PREM if owned else classes[1 + number % 3],
        groups=tuple(groups),
        tariff=Tariff("USD", prices),
        carbon_g_per_kwh=curve(rng, carbon, hours=hours, start_ns=START_NS),
        electricity_per_mwh=curve(rng, power, hours=hours, start_ns=START_NS),
        pue=float(rng.uniform(1.1, 1.5)),
    )


def _artefacts(rng: np.random.Generator, clusters: tuple[Cluster, ...]) -> tuple[Artefact, ...]:
    return tuple(
        Artefact(
            ArtefactId(f"model-{number:02}"),
            int(rng.integers(2, 80)) * GIB,
            frozenset(
                clusters[int(index)].id
                for index in rng.choice(len(clusters), size=min(3, len(clusters)), replace=False)
            ),
        )
        for number in range(_MODELS)
    )


def _pools(size: LargeSize) -> tuple[VNodePool, ...]:
    """Every fourth tenant has a pool of whole A100s, half of which it lends."""
    units = max(1, size.devices // 2000)
    return tuple(
        VNodePool(
            PoolId(f"pool-{number:02}"),
            TenantId(f"tenant-{number:02}"),
            "a100",
            guaranteed=units,
            lendable=units // 2,
            maximum=4 * units,
        )
        for number in range(0, _TENANTS, 4)
    )


def _tenant(rng: np.random.Generator) -> TenantId:
    return TenantId(f"tenant-{min(_TENANTS - 1, int(rng.exponential(10))):02}")


_GANG_SIZES = np.array([1, 2, 4, 8, 16, 32, 64])
_GANG_SHARES = np.array([0.40, 0.15, 0.15, 0.18, 0.07, 0.035, 0.015])
_BATCH_SHARE = 0.3
"""Of the load of shared devices; the rest is left to services."""
_BATCH_DEVICE_SHARE = 0.25
"""Typical part of a device that a batch job holds."""
_REFERENCE = "a100"


def _device_hours(clusters: tuple[Cluster, ...], size: LargeSize) -> tuple[float, float]:
    """Capacity of the run: of whole devices, counted by their speed at training, and of shared."""
    job = _training("probe", Gang(), 1, 3600.0)
    whole = shared = 0.0
    for cluster in clusters:
        for group in cluster.groups:
            hours = group.count * group.devices * size.days * 24.0
            if group.mode is ShareMode.WHOLE:
                whole += hours * speed(job, device_profile(group.profile))
            else:
                shared += hours
    return whole, shared


def _times(rng: np.random.Generator, count: int, size: LargeSize) -> NDArray[np.int64]:
    """Submissions over the run, more by day than by night."""
    length = size.days * 24.0
    hours = rng.uniform(0.0, length, 2 * count)
    kept = hours[rng.uniform(0.0, 1.5, 2 * count) < 1.0 + 0.5 * np.sin(hours * np.pi / 12.0)]
    return START_NS + np.asarray(np.sort(kept[:count]) * HOUR_NS, np.int64)


def _training(name: str, gang: Gang, per_worker: int, reference_s: float) -> Workload:
    """A training job of whole devices, without a date."""
    return Workload(
        id=WorkloadId(name),
        tenant=TenantId("tenant-00"),
        kind=WorkloadKind.TRAINING,
        demand=Demand(
            memory_bytes=14 * GIB,
            cpu_milli=8000 * per_worker,
            host_memory_bytes=48 * GIB * per_worker,
            devices=per_worker,
            whole=True,
        ),
        work=Work(reference_s, _REFERENCE),
        gang=gang,
    )


def _trainings(rng: np.random.Generator, size: LargeSize, device_h: float) -> list[Workload]:
    """Gangs that need so many device-hours in all."""
    times = _times(rng, size.training, size)
    gangs = rng.choice(_GANG_SIZES, size=len(times), p=_GANG_SHARES / _GANG_SHARES.sum())
    hours = np.exp(rng.normal(0.0, 1.4, len(times)))
    hours = np.clip(hours * device_h / float((hours * gangs).sum()), 0.1, 24.0 * size.days)
    slack = rng.choice([1.0, 6.0, 24.0], size=len(times), p=[0.4, 0.3, 0.3])
    jobs = []
    for index in range(len(times)):
        devices = int(gangs[index])
        per_worker = min(devices, 8)
        run_ns = int(hours[index] * HOUR_NS)
        workers = devices // per_worker
        gang = Gang(
            workers,
            most_workers=2 * workers if index % 4 == 0 else None,
            checkpoint_bytes=10 * GIB,
        )
        jobs.append(
            replace(
                _training(f"train-{index}", gang, per_worker, hours[index] * 3600.0),
                tenant=_tenant(rng),
                submitted_ns=int(times[index]),
                priority=int(rng.integers(0, 3)),
                sla=Sla(
                    int(times[index]) + 2 * run_ns + int(slack[index] * HOUR_NS),
                    penalty_per_hour_late=0.5 * devices,
                    penalty_cap=20.0 * devices * max(1.0, hours[index]),
                ),
                delay_tolerant=bool(slack[index] > 1.0),
            )
        )
    return jobs


def _batches(
    rng: np.random.Generator, size: LargeSize, artefacts: tuple[Artefact, ...], device_h: float
) -> list[Workload]:
    """Slices for about so many device-hours in all."""
    times = _times(rng, size.batch, size)
    hours = np.exp(rng.normal(0.0, 1.0, len(times)))
    hours *= device_h / _BATCH_DEVICE_SHARE / float(hours.sum())
    hours = np.clip(hours, 0.05, 24.0 * size.days)
    memory = rng.choice([3, 8, 16], size=len(times), p=[0.4, 0.4, 0.2])
    models = rng.integers(0, len(artefacts), len(times))
    return [
        Workload(
            id=WorkloadId(f"batch-{index}"),
            tenant=_tenant(rng),
            kind=WorkloadKind.BATCH,
            demand=Demand(
                memory_bytes=int(memory[index]) * GIB,
                compute_tops=15.0,
                cpu_milli=2000,
                host_memory_bytes=8 * GIB,
                data_type=DataType.FP16,
            ),
            submitted_ns=int(times[index]),
            work=Work(hours[index] * 3600.0, _REFERENCE),
            sla=Sla(
                int(times[index] + (2.0 * hours[index] + 8.0) * HOUR_NS),
                penalty_per_hour_late=0.2,
                penalty_cap=5.0,
            ),
            weights=artefacts[int(models[index])].id,
            delay_tolerant=True,
        )
        for index in range(len(times))
    ]


def _services(
    rng: np.random.Generator, size: LargeSize, artefacts: tuple[Artefact, ...]
) -> tuple[list[Workload], LoadCurves]:
    services, rows = [], []
    length_s = size.days * 86_400.0
    for index in range(size.serving):
        region = int(rng.integers(0, len(_REGIONS)))
        mean = float(np.exp(rng.normal(3.0, 1.0)))
        shape = LoadShape(0.5, float(rng.uniform(0, 24)), 0.8, 0.5)
        series = azure_like(rng, mean_per_s=mean, length_s=length_s, shape=shape, start_ns=START_NS)
        rows.append(series.values)
        services.append(
            Workload(
                id=WorkloadId(f"serve-{index}"),
                tenant=_tenant(rng),
                kind=WorkloadKind.SERVING,
                demand=Demand(
                    memory_bytes=int(rng.choice([4, 9, 18])) * GIB,
                    compute_tops=20.0,
                    cpu_milli=2000,
                    host_memory_bytes=8 * GIB,
                ),
                submitted_ns=START_NS + int(rng.integers(0, 6)) * HOUR_NS,
                priority=5,
                service=Service(
                    requests_per_s=mean,
                    replica_requests_per_s=10.0,
                    target_latency_ms=400.0,
                    service_time_ms=80.0,
                    warm_minimum=int(index % 7 != 0),
                    most_replicas=40,
                    spread=1 + int(index % 5 == 0),
                    users=((_REGIONS[region], 0.8), (_REGIONS[(region + 3) % 20], 0.2)),
                    reference=_REFERENCE,
                ),
                sla=Sla(penalty_per_violated_minute=0.05, penalty_cap=30.0),
                weights=artefacts[int(rng.integers(0, len(artefacts)))].id,
            )
        )
    names = tuple(service.id for service in services)
    curves = np.array(rows) if rows else np.zeros((0, 1))
    return services, LoadCurves(names, curves, START_NS, round(LOAD_STEP_S * NS_PER_S))
