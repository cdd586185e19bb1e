"""Nodes as groups of equal ones, in an order that stays."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.programs import Thing
from dure.domain.fleet.protocol.reports import Inventory, NodeFact
from dure.domain.ids import TenantId
from dure.kube import labels as own_labels
from dure.kube.devices import NodeDevices
from dure.kube.quantities import milli, whole
from dure.kube.resources import Object

_GIB = 1024**3
_MEMORY_STEP_BYTES = 256 << 20
_CPU_STEP_MILLI = 100
"""Capacities are rounded down to these, so that trifles make no new group."""


@dataclass(frozen=True, slots=True)
class KubeNode:
    """A node with accelerators."""

    name: str
    devices: NodeDevices
    group: str
    cpu_milli: int
    """For Pods; what DaemonSets take of it is counted by group."""
    host_memory_bytes: int
    link_domain: int
    numa_domains: int
    why: str = ""
    """Why nothing new may go there; empty: it may."""


def kube_node(node: Object, devices: NodeDevices, why: str) -> KubeNode:
    """A node of the API as the fleet sees it."""
    labels = node["metadata"].get("labels") or {}
    has, allows = node["status"].get("capacity") or {}, node["status"]["allocatable"]
    link = labels.get(own_labels.LINK_DOMAIN, "")
    numa = labels.get(own_labels.NUMA_DOMAINS, "")
    return KubeNode(
        name=node["metadata"]["name"],
        devices=devices,
        group=labels.get(own_labels.GROUP) or _group_name(devices, {**allows, **has}),
        cpu_milli=milli(allows.get("cpu", 0)),
        host_memory_bytes=whole(allows.get("memory", 0)),
        link_domain=int(link) if link.isdigit() else max(1, devices.count),
        numa_domains=int(numa) if numa.isdigit() else 1,
        why=why,
    )


def _group_name(devices: NodeDevices, has: Mapping[str, str]) -> str:
    """Says all that makes nodes equal, so that it does not depend on which others there are."""
    cpus = round(milli(has.get("cpu", 0)) / 1000)
    memory_gib = round(whole(has.get("memory", 0)) / _GIB)
    means = "-claims" if devices.driver else ""
    size = f"{devices.count}x{devices.profile.name}"
    return f"{size}-{devices.mode.value}{means}-{cpus}cpu-{memory_gib}gib"


@dataclass(frozen=True, slots=True)
class Overhead:
    """What DaemonSets ask for on a node."""

    cpu_milli: int = 0
    host_memory_bytes: int = 0


def inventory_of(
    nodes: Iterable[KubeNode],
    overheads: Mapping[str, Overhead],
    things: frozenset[tuple[TenantId, Thing]] = frozenset(),
    features: frozenset[str] = frozenset(),
) -> Inventory:
    """All nodes by group, both by name; a group has what its least node has."""
    by_group: dict[str, list[KubeNode]] = {}
    for node in sorted(nodes, key=lambda node: node.name):
        by_group.setdefault(_exact(node), []).append(node)
    groups, facts = [], []
    for name in sorted(by_group):
        members = by_group[name]
        groups.append(_group(name, members, overheads))
        facts += [NodeFact(node.name, name, up=not node.why, why=node.why) for node in members]
    return Inventory(tuple(groups), tuple(facts), features, things)


def _exact(node: KubeNode) -> str:
    """The group of a node; where a person named one, nodes that differ are still kept apart."""
    devices = node.devices
    if node.group.startswith(f"{devices.count}x"):
        return node.group
    means = "-claims" if devices.driver else ""
    return f"{node.group}-{devices.count}x{devices.profile.name}-{devices.mode.value}{means}"


def _group(name: str, nodes: list[KubeNode], overheads: Mapping[str, Overhead]) -> NodeGroup:
    over = [overheads.get(node.name, Overhead()) for node in nodes]
    cpu_milli = min(node.cpu_milli for node in nodes) - max(one.cpu_milli for one in over)
    memory_bytes = min(node.host_memory_bytes for node in nodes)
    memory_bytes -= max(one.host_memory_bytes for one in over)
    first = nodes[0]
    return NodeGroup(
        name=name,
        count=len(nodes),
        profile=first.devices.profile.name,
        devices=first.devices.count,
        cpu_milli=max(0, cpu_milli // _CPU_STEP_MILLI * _CPU_STEP_MILLI),
        host_memory_bytes=max(0, memory_bytes // _MEMORY_STEP_BYTES * _MEMORY_STEP_BYTES),
        link_domain=min(node.link_domain for node in nodes),
        numa_domains=max(node.numa_domains for node in nodes),
        mode=first.devices.mode,
    )
