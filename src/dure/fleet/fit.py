"""What a workload takes on a profile, and how fast it runs there: the rule both stages share."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.profiles import DeviceProfile, fits
from dure.domain.fleet.slices import WHOLE_MILLI, ShareMode
from dure.domain.fleet.workloads import Demand, Workload, WorkloadKind
from dure.domain.ids import ClusterId
from dure.domain.units import GIB, NS_PER_S, format_bytes
from dure.fleet.queueing import least_replicas

_UNPLACED = (ShareMode.MPS, ShareMode.TIME_SLICE, ShareMode.QUEUE)
"""Modes in which an empty device can also be given out whole."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one instance takes; of each of its devices where it says so."""

    template: str
    """Slice template; `whole` for undivided devices."""
    mode: ShareMode
    devices: int
    compute_milli: int
    """Of each device."""
    memory_bytes: int
    """Of each device."""
    bandwidth_milli: int
    """Of each device."""
    slots: int
    """Of each device; 0 where slices have no place."""
    cpu_milli: int
    host_memory_bytes: int

    @property
    def device_share(self) -> float:
        """Devices it uses up, in whole ones."""
        return self.devices * self.compute_milli / WHOLE_MILLI


@functools.cache
def footprint(demand: Demand, profile: DeviceProfile, mode: ShareMode) -> Footprint | None:
    """The smallest slice that meets the demand on devices in that mode; None: never."""
    whole = demand.whole or demand.devices > 1
    found = fits(profile, demand, (mode,))
    if found:
        template = found[0]
    elif whole and mode in _UNPLACED:
        fitting = fits(profile, demand, (ShareMode.WHOLE,))
        if not fitting:
            return None
        template = fitting[0]
    else:
        return None
    return Footprint(
        template=template.name,
        mode=mode,
        devices=demand.devices,
        compute_milli=template.compute_milli,
        memory_bytes=template.memory_bytes,
        bandwidth_milli=template.bandwidth_milli,
        slots=template.slots if mode not in _UNPLACED else 0,
        cpu_milli=demand.cpu_milli,
        host_memory_bytes=demand.host_memory_bytes,
    )


@functools.cache
def _relative_speed(
    reference: DeviceProfile, profile: DeviceProfile, demand: Demand, compute_bound: float
) -> float:
    """Speed of a piece of work on one profile over that on another, split by what bounds it."""
    bandwidth = profile.bandwidth_bytes_per_s / reference.bandwidth_bytes_per_s
    theirs, ours = (each.tops.get(demand.data_type) for each in (reference, profile))
    compute = ours / theirs if ours and theirs else bandwidth
    return 1.0 / (compute_bound / compute + (1.0 - compute_bound) / bandwidth)


def speed(workload: Workload, profile: DeviceProfile) -> float:
    """Speed relative to its reference profile; a slice that meets the demand runs at 1."""
    if not (workload.demand.whole or workload.demand.devices > 1):
        return 1.0
    if workload.work is not None:
        reference, bound = workload.work.reference, workload.work.compute_bound
    elif workload.service is not None:
        reference, bound = workload.service.reference, _SERVICE_COMPUTE_BOUND
    else:
        return 1.0
    return _relative_speed(device_profile(reference), profile, workload.demand, bound)


_SERVICE_COMPUTE_BOUND = 0.3
"""Token-by-token generation mostly waits for memory."""


def runtime_ns(
    workload: Workload, profile: DeviceProfile, workers: int, done_share: float = 0.0
) -> int:
    """How long a job's remaining work takes on so many workers."""
    if workload.work is None:
        return 0
    rate = speed(workload, profile) * workload.gang.speed(workers)
    return round((1.0 - done_share) * workload.work.reference_s / rate * NS_PER_S)


def replica_rate(workload: Workload, profile: DeviceProfile) -> float:
    """Requests per second one instance of a service serves when always busy."""
    if workload.service is None:
        return 0.0
    return workload.service.replica_requests_per_s * speed(workload, profile)


def slice_speed(least: Footprint, compute_milli: int) -> float:
    """Speed of a service's instance on a larger slice than the smallest that meets its demand.

    Requests that are served side by side use up all compute there is, so it goes by its share.
    """
    return max(1.0, compute_milli / least.compute_milli)


def replicas_for(
    workload: Workload, profile: DeviceProfile, requests_per_s: float, latency_budget_ms: float
) -> int:
    """Instances a service needs there so that its 95th percentile stays within the budget.

    The budget is what is left of the target after the way from the user and back.
    """
    service = workload.service
    if service is None:
        return 0
    alone_ms = service.service_time_ms / speed(workload, profile)
    needed = least_replicas(
        requests_per_s,
        replica_rate(workload, profile),
        max(0.0, latency_budget_ms - alone_ms) / 1000.0,
        service.most_replicas,
    )
    return max(needed, service.warm_minimum)


def never_fits(
    workload: Workload, groups: Iterable[tuple[ClusterId, NodeGroup]]
) -> tuple[str, str] | None:
    """Why a workload can run on none of these node groups, and the nearest thing that would."""
    reasons: dict[str, str] = {}
    for cluster, group in groups:
        problem = _problem(workload, cluster, group)
        if problem is None:
            return None
        reasons.setdefault(*problem)
    for rank, why in _RANKS.items():
        if rank in reasons:
            return f"workload '{workload.id}' can never run: {why}", reasons[rank]
    return f"workload '{workload.id}' can never run: there are no nodes", "add a cluster"


_RANKS = {
    "gang": "no site has enough devices for all its workers at once",
    "node": "no node has enough of what one worker needs",
    "demand": "no accelerator of the fleet meets its demand",
    "profile": "the accelerators it accepts are nowhere it may run",
    "cluster": "it may run in none of the clusters",
}
"""Reasons from the nearest miss to the farthest."""


def _problem(workload: Workload, cluster: ClusterId, group: NodeGroup) -> tuple[str, str] | None:
    """The first reason it cannot run there and what would help; None: it can."""
    demand, name = workload.demand, f"{cluster}/{group.name}"
    if workload.clusters is not None and cluster not in workload.clusters:
        return "cluster", f"allow it in '{cluster}'"
    if workload.profiles is not None and group.profile not in workload.profiles:
        return "profile", f"let it use {group.profile} as well, which {name} has"
    profile = device_profile(group.profile)
    needed = footprint(demand, profile, group.mode)
    if needed is None:
        largest = max(
            (each.memory_bytes for each in profile.slices if each.mode is group.mode),
            default=profile.memory_bytes,
        )
        tops = profile.tops.get(demand.data_type, 0.0)
        return "demand", (
            f"{name} ({group.profile}, {group.mode.value}) offers at most "
            f"{largest / GIB:.3g} GiB and {tops:.3g} TOPS in {demand.data_type.value}; "
            f"it asks for {demand.memory_bytes / GIB:.3g} GiB and {demand.compute_tops:.3g} TOPS"
        )
    return _room_problem(workload, group, needed, name)


def _room_problem(
    workload: Workload, group: NodeGroup, needed: Footprint, name: str
) -> tuple[str, str] | None:
    """Why nodes of this group are too small or too few for what it takes there."""
    if needed.devices > group.link_domain:
        return "node", (
            f"{name} joins at most {group.link_domain} devices; it asks for {needed.devices}"
        )
    if needed.cpu_milli > group.cpu_milli or needed.host_memory_bytes > group.host_memory_bytes:
        return "node", (
            f"a node of {name} has {group.cpu_milli / 1000:g} CPUs and "
            f"{format_bytes(group.host_memory_bytes)}; it asks for {needed.cpu_milli / 1000:g} "
            f"and {format_bytes(needed.host_memory_bytes)}"
        )
    workers = workload.gang.workers if workload.kind is WorkloadKind.TRAINING else 1
    room = group.count * _per_node(group, needed)
    if workers > room:
        return "gang", f"{name} has room for {room} of its {workers} workers"
    return None


def _per_node(group: NodeGroup, needed: Footprint) -> int:
    """How many instances an empty node holds."""
    if needed.devices > 1 or needed.compute_milli == WHOLE_MILLI:
        domains = max(1, group.devices // group.link_domain)
        held = domains * (min(group.link_domain, group.devices) // needed.devices)
    else:
        held = group.devices * device_profile(group.profile).slice(needed.template).most
    if needed.cpu_milli:
        held = min(held, group.cpu_milli // needed.cpu_milli)
    if needed.host_memory_bytes:
        held = min(held, group.host_memory_bytes // needed.host_memory_bytes)
    return held
