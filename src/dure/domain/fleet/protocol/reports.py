"""What a member tells of its cluster: attempts, what it consists of, loads and use."""

from dataclasses import dataclass, field
from enum import Enum

from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.decisions import Placement, SiteSummary
from dure.domain.fleet.lifecycle import PartitionPhase
from dure.domain.fleet.programs import Thing
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.fleet.virtual import SpaceStatus
from dure.domain.ids import TenantId, WorkloadId


class RunPhase(Enum):
    """Where an attempt is, as its cluster sees it."""

    WAITING = "waiting"
    """Accepted; the local stage has no place for it yet."""
    STARTING = "starting"
    RUNNING = "running"
    """All its instances run; of a service, at least one is ready."""
    RELEASING = "releasing"
    GONE = "gone"
    """Nothing of it runs, and nothing will."""


class Outcome(Enum):
    """How an attempt came to be gone."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """Its program failed."""
    STOPPED = "stopped"
    """The centre asked for it."""
    DISPLACED = "displaced"
    """Its cluster took the place back, or lost it; the work is still wanted."""
    TURNED_DOWN = "turned-down"
    """Its cluster found no place, or cannot run it."""
    FENCED = "fenced"
    """Its time without contact to the centre was over."""


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """One instance of an attempt."""

    index: int
    node: str
    name: str
    """Of the object that carries it out: a Pod, a process."""
    placement: Placement
    ready: bool = False
    address: str = ""
    """Of a service: HOST:PORT where it answers; empty: nowhere yet, or nobody said a port."""
    standby: bool = False
    """Whether it is kept warm, or finishes what it has, and gets no requests."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """How large a service is in its cluster and why, and what was last heard of its load."""

    serving: int
    """Instances that shall take requests."""
    standby: int = 0
    """Instances that shall be kept warm beside them."""
    level: int = 0
    """Steps by which their slices are larger than asked for."""
    why: str = ""
    """Of the last change of its size, for people."""
    changed_ns: int = 0
    requests_per_s: float = 0.0
    queue_length: float = 0.0
    latency_ms: float = 0.0
    """At the 95th percentile."""
    heard_ns: int = 0
    """When that was heard; 0: never."""


@dataclass(frozen=True, slots=True)
class AttemptStatus:
    """An attempt as its cluster sees it."""

    key: AttemptKey
    phase: RunPhase
    outcome: Outcome | None = None
    """Of one that is gone."""
    why: str = ""
    instances: tuple[InstanceStatus, ...] = ()
    done_share: float = 0.0
    saved_share: float = 0.0
    started_ns: int | None = None
    ended_ns: int | None = None
    exit_code: int | None = None
    sizing: Sizing | None = None
    """Of a service whose size follows its load."""
    checkpointed: int = 0
    """The last checkpoint of those asked for that all who speak of it say to have saved."""


@dataclass(frozen=True, slots=True)
class NodeFact:
    """A node of a cluster; its place in the inventory is its number for the local stage."""

    name: str
    group: str
    up: bool = True
    why: str = ""
    """Of one that is not to be used: cordoned, not ready, reclaimed."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a cluster consists of."""

    groups: tuple[NodeGroup, ...] = ()
    nodes: tuple[NodeFact, ...] = ()
    """Those of the first group, then those of the second, and so on."""
    features: frozenset[str] = frozenset()
    """`dra`, `logs`, …: what may be asked of it."""
    things: frozenset[tuple[TenantId, Thing]] = frozenset()
    """What programs may name there, by tenant."""


@dataclass(frozen=True, slots=True)
class ServiceLoad:
    """How a service fared in a cluster since the last report."""

    workload: WorkloadId
    requests_per_s: float
    replicas: int
    violated_share: float


@dataclass(frozen=True, slots=True)
class Usage:
    """What an attempt has used of devices in all: told again, or late, it counts once."""

    key: AttemptKey
    device_us: int
    """Device-microseconds since its first instance was ready, weighed by the share of each device;
    never less than before."""
    since_ns: int
    """From when on was used what the centre is not known to have stored,"""
    until_ns: int
    """and until when."""
    memory_bytes: int = 0
    compute_share: float = 0.0


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """What has become of a wish to divide a node's devices anew."""

    node: str
    number: int
    phase: PartitionPhase
    why: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """News of a cluster, numbered without gaps within an incarnation."""

    seq: int
    at_ns: int
    whole: bool
    """Whether everything is stated, in this and those that follow; else what changed."""
    attempts: tuple[AttemptStatus, ...] = ()
    sites: tuple[SiteSummary, ...] = ()
    inventory: Inventory | None = None
    """None: as before."""
    loads: tuple[ServiceLoad, ...] = ()
    usage: tuple[Usage, ...] = ()
    warnings: tuple[str, ...] = field(default=())
    partitions: tuple[PartitionStatus, ...] = ()
    spaces: tuple[SpaceStatus, ...] = ()
