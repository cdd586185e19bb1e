"""Small fleets and workloads for tests of the fleet's stages."""

from dataclasses import replace
from typing import Any

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster, ClusterClass, Fleet, NodeGroup, Tariff
from dure.domain.fleet.decisions import Site, SiteSummary
from dure.domain.fleet.series import HOUR_NS, Series
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import (
    Demand,
    Gang,
    Service,
    Sla,
    Work,
    Workload,
    WorkloadKind,
)
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.domain.units import GIB


def group(
    name: str = "main",
    *,
    nodes: int = 2,
    profile: str = "a100",
    devices: int = 8,
    mode: ShareMode = ShareMode.WHOLE,
) -> NodeGroup:
    """Equal nodes with plenty of everything but devices."""
    return NodeGroup(
        name=name,
        count=nodes,
        profile=profile,
        devices=devices,
        cpu_milli=128_000,
        host_memory_bytes=1024 * GIB,
        link_domain=devices,
        mode=mode,
    )


def cluster(
    name: str,
    *,
    rent: float | None = 2.0,
    carbon: float | Series = 300.0,
    electricity: float | Series = 100.0,
    groups: tuple[NodeGroup, ...] = (),
    calendar: tuple[float, ...] = (1.0,),
) -> Cluster:
    """A cluster; `rent` per device-hour, None: owned."""
    groups = groups or (group(),)
    prices = {} if rent is None else {each.profile: rent for each in groups}
    return Cluster(
        id=ClusterId(name),
        region=name,
        provider="maker",
        cluster_class=ClusterClass.ON_PREM if rent is None else ClusterClass.CLOUD,
        groups=groups,
        tariff=Tariff(device_hour=prices, calendar=calendar),
        carbon_g_per_kwh=carbon if isinstance(carbon, Series) else Series.constant(carbon),
        electricity_per_mwh=(
            electricity if isinstance(electricity, Series) else Series.constant(electricity)
        ),
    )


def fleet(*clusters: Cluster, **rest: Any) -> Fleet:
    """A fleet of these."""
    return Fleet(clusters=clusters, **rest)


def summary(
    member: Cluster, number: int = 0, *, used: int = 0, waiting: int = 0, revision: int = 0
) -> SiteSummary:
    """What a site says with `used` of its devices in use, packed node by node."""
    each = member.groups[number]
    devices = each.count * each.devices
    nodes_in_use = -(-used // each.devices)
    free = devices - used
    memory = device_profile(each.profile).memory_bytes
    partly = nodes_in_use * each.devices - used
    return SiteSummary(
        site=Site(member.id, each.name),
        profile=each.profile,
        nodes=each.count,
        nodes_in_use=nodes_in_use,
        devices=devices,
        free_devices=free,
        free_on_used_nodes=partly,
        free_compute_milli=free * 1000,
        free_memory_bytes=free * memory,
        free_cpu_milli=each.count * each.cpu_milli,
        free_host_memory_bytes=each.count * each.host_memory_bytes,
        largest_node_free=each.devices if nodes_in_use < each.count else partly,
        waiting_devices=waiting,
        revision=revision,
        free_bandwidth_milli=free * 1000,
    )


def job(name: str = "job", *, hours: float = 2.0, devices: int = 1, **rest: Any) -> Workload:
    """A batch job of whole a100s that runs for so long on its least number of workers."""
    sla = rest.pop("sla", None) or Sla()
    workers = rest.pop("workers", 1)
    gang = rest.pop("gang", Gang(workers=workers))
    return replace(
        Workload(
            id=WorkloadId(name),
            tenant=TenantId("ann"),
            kind=WorkloadKind.BATCH,
            demand=Demand(memory_bytes=10 * GIB, devices=devices, whole=True, cpu_milli=4000),
            work=Work(reference_s=hours * 3600.0, reference="a100"),
            gang=gang,
            sla=sla,
        ),
        **rest,
    )


def patient(name: str = "job", *, due_h: float, now_ns: int = 0, **rest: Any) -> Workload:
    """A job that may wait until its deadline, and pays dearly beyond it."""
    sla = Sla(deadline_ns=now_ns + round(due_h * HOUR_NS), penalty_per_hour_late=100.0)
    return job(name, sla=sla, delay_tolerant=True, **rest)


def service(name: str = "chat", *, spread: int = 1, rate: float = 1.0, **rest: Any) -> Workload:
    """A service of whole a100s that one replica can almost serve."""
    target = rest.pop("target_ms", 500.0)
    users = rest.pop("users", ())
    return replace(
        Workload(
            id=WorkloadId(name),
            tenant=TenantId("ann"),
            kind=WorkloadKind.SERVING,
            demand=Demand(memory_bytes=10 * GIB, whole=True, cpu_milli=4000),
            service=Service(
                requests_per_s=rate,
                replica_requests_per_s=10.0,
                target_latency_ms=target,
                service_time_ms=100.0,
                spread=spread,
                users=users,
                reference="a100",
            ),
            sla=Sla(penalty_per_violated_minute=1.0, penalty_cap=500.0),
        ),
        **rest,
    )
