"""A log as a case to be decided anew: the fleet, jobs as they came, what was there before."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dure.beside.shadow.prices import ShadowPrices
from dure.beside.shadow.records import NodeRecord, PodRecord, Watched
from dure.domain.errors import InputError
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster, Fleet, NodeGroup, Tariff
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.series import Series
from dure.domain.fleet.workloads import Demand, Gang, Work, Workload, WorkloadKind
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.domain.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class Hold:
    """Devices of a node that were, or would have been, in use for a while."""

    cluster: str
    node: str
    devices: float
    """Whole ones, or a share of one."""
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class ShadowJob:
    """Pods that ran together, as one job."""

    workload: Workload
    pods: tuple[PodRecord, ...]
    bound_ns: int | None
    """When the last of them was bound; None: never."""

    @property
    def cluster(self) -> str:
        """Where it was sent."""
        return self.pods[0].cluster


@dataclass(frozen=True, slots=True)
class Case:
    """All of it."""

    fleet: Fleet
    nodes: Mapping[str, tuple[NodeRecord, ...]]
    """By cluster, in the order in which the local stage numbers them."""
    jobs: tuple[ShadowJob, ...]
    """By the time they came."""
    standing: tuple[Hold, ...]
    """What ran already when watching began: taken as given."""
    observed: tuple[Hold, ...]
    """What was bound meanwhile, where it was."""
    since_ns: int
    until_ns: int


def case_of(watched: Watched, prices: ShadowPrices) -> Case:
    """What a log says, with prices."""
    if not watched.nodes:
        raise InputError(
            "no node with accelerators was seen", "watch clusters that have some, for longer"
        )
    nodes = _by_cluster(watched.nodes)
    fleet = Fleet(
        tuple(_cluster(name, each, prices) for name, each in nodes.items()),
        ExchangeRates(prices.currency, dict(prices.rates)),
    )
    known = {(node.cluster, node.name) for node in watched.nodes}
    before: list[PodRecord] = []
    came: list[PodRecord] = []
    for pod in _since_queued(watched):
        if pod.node and (pod.cluster, pod.node) not in known:
            continue
        old = pod.bound_ns is not None and pod.bound_ns < watched.since_ns
        (before if old else came).append(pod)
    profiles = {(node.cluster, node.name): node for node in watched.nodes}
    until_ns = max(watched.until_ns, watched.since_ns + 1)
    return Case(
        fleet,
        nodes,
        tuple(_jobs(came, profiles, watched.since_ns, until_ns)),
        tuple(_held(before, profiles, watched.since_ns, until_ns)),
        tuple(_held(came, profiles, watched.since_ns, until_ns)),
        watched.since_ns,
        until_ns,
    )


def _since_queued(watched: Watched) -> list[PodRecord]:
    """Pods, made when their Workload was: Kueue makes Pods only once it admits.

    MultiKueue copies a Workload to other clusters under its own name: the oldest counts. Of those
    that still wait the Pods are counted that they will have.
    """
    queued: dict[tuple[str, str], int] = {}
    for each in watched.workloads:
        key = each.namespace, each.name
        queued[key] = min(each.created_ns, queued.get(key, each.created_ns))
    real = {(pod.namespace, pod.workload) for pod in watched.pods if not pod.expected}
    there = [
        pod
        for pod in watched.pods
        if not pod.expected or (pod.ended_ns is None and (pod.namespace, pod.workload) not in real)
    ]
    return [
        replace(pod, created_ns=min(pod.created_ns, queued[pod.namespace, pod.workload]))
        if (pod.namespace, pod.workload) in queued
        else pod
        for pod in there
    ]


def _by_cluster(nodes: Iterable[NodeRecord]) -> dict[str, tuple[NodeRecord, ...]]:
    """Nodes group by group, each in the order of their names."""
    found: dict[str, list[NodeRecord]] = {}
    for node in nodes:
        found.setdefault(node.cluster, []).append(node)
    return {
        cluster: tuple(sorted(each, key=lambda node: (_group_name(node), node.name)))
        for cluster, each in sorted(found.items())
    }


def _group_name(node: NodeRecord) -> str:
    cpus, memory_gib = node.cpu_milli // 1000, node.host_memory_bytes >> 30
    size = f"{node.devices}x{node.profile}-{node.mode.value}"
    return f"{size}-{cpus}cpu-{memory_gib}gib-{node.link_domain}"


def _cluster(name: str, nodes: tuple[NodeRecord, ...], prices: ShadowPrices) -> Cluster:
    spec = prices.of(name)
    groups: dict[str, list[NodeRecord]] = {}
    for node in nodes:
        groups.setdefault(_group_name(node), []).append(node)
    return Cluster(
        id=ClusterId(name),
        region=spec.region,
        provider=spec.provider,
        cluster_class=spec.cluster_class,
        groups=tuple(_group(group, each) for group, each in groups.items()),
        tariff=Tariff(
            spec.tariff.currency, dict(spec.tariff.device_hour), tuple(spec.tariff.calendar)
        ),
        carbon_g_per_kwh=Series.constant(spec.carbon.constant or 0.0),
        electricity_per_mwh=Series.constant(spec.electricity.constant or 0.0),
        pue=spec.pue,
    )


def _group(name: str, nodes: list[NodeRecord]) -> NodeGroup:
    first = nodes[0]
    return NodeGroup(
        name=name,
        count=len(nodes),
        profile=first.profile,
        devices=first.devices,
        cpu_milli=min(node.cpu_milli for node in nodes),
        host_memory_bytes=min(node.host_memory_bytes for node in nodes),
        link_domain=first.link_domain,
        mode=first.mode,
    )


# --- jobs ----------------------------------------------------------------------------------


def _jobs(
    pods: Iterable[PodRecord],
    nodes: Mapping[tuple[str, str], NodeRecord],
    since_ns: int,
    until_ns: int,
) -> list[ShadowJob]:
    gangs: dict[str, list[PodRecord]] = {}
    for pod in pods:
        gangs.setdefault(pod.gang, []).append(pod)
    found = [_job(name, each, nodes, since_ns, until_ns) for name, each in gangs.items()]
    return sorted(found, key=lambda job: (job.workload.submitted_ns, job.workload.id))


def _job(
    name: str,
    pods: list[PodRecord],
    nodes: Mapping[tuple[str, str], NodeRecord],
    since_ns: int,
    until_ns: int,
) -> ShadowJob:
    first = pods[0]
    bound = [pod.bound_ns for pod in pods if pod.bound_ns is not None]
    bound_ns = max(bound) if len(bound) == len(pods) else None
    # Of a job that has not ended, or has not begun, no more is known than the time that is left.
    begin_ns = max(since_ns, bound_ns if bound_ns is not None else first.created_ns)
    end_ns = max((pod.ended_ns or until_ns for pod in pods), default=until_ns)
    ran_on = nodes[first.cluster, first.node].profile if first.node else first.profiles[0]
    workload = Workload(
        id=WorkloadId(name),
        tenant=TenantId(first.namespace),
        kind=WorkloadKind.TRAINING if len(pods) > 1 else WorkloadKind.BATCH,
        demand=replace(
            _demand(first),
            cpu_milli=max(pod.cpu_milli for pod in pods),
            host_memory_bytes=max(pod.host_memory_bytes for pod in pods),
        ),
        submitted_ns=max(since_ns, min(pod.created_ns for pod in pods)),
        priority=max(pod.priority for pod in pods),
        work=Work(max(1.0, (end_ns - begin_ns) / NS_PER_S), ran_on),
        gang=Gang(workers=len(pods), checkpoint_s=None),
        profiles=frozenset(first.profiles),
        preemptible=False,
    )
    return ShadowJob(workload, tuple(pods), bound_ns)


def _demand(pod: PodRecord) -> Demand:
    return Demand(
        memory_bytes=pod.memory_bytes,
        devices=pod.count if pod.whole else 1,
        whole=pod.whole,
        cpu_milli=pod.cpu_milli,
        host_memory_bytes=pod.host_memory_bytes,
    )


def _held(
    pods: Iterable[PodRecord],
    nodes: Mapping[tuple[str, str], NodeRecord],
    since_ns: int,
    until_ns: int,
) -> list[Hold]:
    found = []
    for pod in pods:
        node = nodes.get((pod.cluster, pod.node))
        if node is None or pod.bound_ns is None:
            continue
        start_ns, end_ns = max(pod.bound_ns, since_ns), min(pod.ended_ns or until_ns, until_ns)
        if end_ns > start_ns:
            devices = held_devices(_demand(pod), node.profile)
            found.append(Hold(pod.cluster, pod.node, devices, start_ns, end_ns))
    return found


def held_devices(demand: Demand, profile: str) -> float:
    """What one Pod holds: whole devices, or of one as much as its memory."""
    if demand.whole:
        return float(demand.devices)
    return min(1.0, demand.memory_bytes / device_profile(profile).memory_bytes)
