"""What shadow mode keeps: nodes with accelerators, and every Pod that asked for one."""

from dataclasses import dataclass

from dure.domain.fleet.slices import ShareMode


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node with accelerators, as it was last seen."""

    cluster: str
    name: str
    profile: str
    mode: ShareMode
    devices: int
    cpu_milli: int
    host_memory_bytes: int
    link_domain: int
    seen_ns: int


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A Pod that asked for accelerators, and what became of it."""

    uid: str
    cluster: str
    namespace: str
    name: str
    gang: str
    """Its owner, where that wants several Pods together; else its own uid."""
    resource: str
    count: int
    profiles: tuple[str, ...]
    """Accelerators that could meet it."""
    memory_bytes: int
    whole: bool
    cpu_milli: int
    host_memory_bytes: int
    priority: int
    created_ns: int
    workload: str = ""
    """The Workload of Kueue it belongs to."""
    node: str = ""
    bound_ns: int | None = None
    ended_ns: int | None = None
    expected: bool = False
    """Whether it is a Pod that a waiting Workload of Kueue will have, and has not yet."""
    served: bool = False
    """Whether it belongs to something that never ends: a Deployment, a StatefulSet."""


@dataclass(frozen=True, slots=True)
class WorkloadRecord:
    """A Workload of Kueue: its Pods are made when it is admitted, its wait began when it was."""

    cluster: str
    namespace: str
    name: str
    created_ns: int


@dataclass(frozen=True, slots=True)
class Watched:
    """Everything a log holds."""

    nodes: tuple[NodeRecord, ...]
    pods: tuple[PodRecord, ...]
    """By the time they were made."""
    since_ns: int
    until_ns: int
    dropped: int
    """Pods that were forgotten to keep the log small."""
    workloads: tuple[WorkloadRecord, ...] = ()
    unread: tuple[tuple[str, int], ...] = ()
    """Why Pods could not be understood, and how many of them."""
