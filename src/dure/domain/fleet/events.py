"""Events of the fleet: everything its two machines ever learn, with the time they learned it.

Some go to the global stage, some to the local stage of one cluster, some to both.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.decisions import InstanceId, Order, Placement, SiteSummary
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.series import Series
from dure.domain.fleet.signals import FleetSignal
from dure.domain.fleet.tenancy import Allotment, FleetTenant, VNodePool
from dure.domain.fleet.workloads import Artefact, Workload
from dure.domain.ids import ClusterId, TenantId, WorkloadId

# --- to the global stage -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClusterJoined:
    """A cluster became a member, came back, or changed its prices."""

    now_ns: int
    cluster: Cluster


@dataclass(frozen=True, slots=True)
class ClusterLost:
    """A cluster cannot be reached."""

    now_ns: int
    cluster: ClusterId


@dataclass(frozen=True, slots=True)
class ClusterClosed:
    """Nothing new goes to a cluster until it joins again; what is there keeps its place."""

    now_ns: int
    cluster: ClusterId


@dataclass(frozen=True, slots=True)
class ClusterSummarised:
    """A cluster said how much it has left."""

    now_ns: int
    sites: tuple[SiteSummary, ...]


@dataclass(frozen=True, slots=True)
class TenantSet:
    """A tenant is new or changed, with all its pools; both stages hear it."""

    now_ns: int
    tenant: FleetTenant
    pools: tuple[VNodePool, ...] = ()


@dataclass(frozen=True, slots=True)
class ArtefactSeen:
    """Weights or data exist, or have reached another cluster."""

    now_ns: int
    artefact: Artefact


@dataclass(frozen=True, slots=True)
class WorkloadSubmitted:
    """Somebody wants something to run."""

    now_ns: int
    workload: Workload
    last_attempt: int = 0
    """Of one that a centre knew before it was restarted: the highest attempt that was made."""
    saved_share: float = 0.0
    """Of the same: what its last checkpoint has saved."""


@dataclass(frozen=True, slots=True)
class OrderFound:
    """An order that a centre gave before it was restarted still holds its place.

    Comes when its cluster has joined, whether or not it can be reached (`ClusterLost` comes later),
    and before the `ClusterSummarised` that counts it; one that the summary does not count yet comes
    after it. Its workload need not have been submitted.
    """

    now_ns: int
    """When it was placed or, once it has started, when it did."""
    order: Order
    started: bool
    """Whether all its instances run."""
    done_share: float = 0.0
    saved_share: float = 0.0
    leaving: bool = False
    """Whether it was told to stop and has not yet said that it did."""


@dataclass(frozen=True, slots=True)
class WorkloadWithdrawn:
    """Its owner no longer wants it."""

    now_ns: int
    workload: WorkloadId


@dataclass(frozen=True, slots=True)
class WorkloadStarted:
    """All instances of an order run."""

    now_ns: int
    workload: WorkloadId
    attempt: int


@dataclass(frozen=True, slots=True)
class WorkloadProgressed:
    """How far a job is, and how much of that a checkpoint has saved; workers it has now."""

    now_ns: int
    workload: WorkloadId
    done_share: float
    saved_share: float
    workers: int


@dataclass(frozen=True, slots=True)
class WorkloadStopped:
    """A job left its cluster before it was done: displaced, its node died, or it moved."""

    now_ns: int
    workload: WorkloadId
    attempt: int
    saved_share: float
    why: str


@dataclass(frozen=True, slots=True)
class WorkloadEnded:
    """A job is done."""

    now_ns: int
    workload: WorkloadId


@dataclass(frozen=True, slots=True)
class OrderTurnedDown:
    """A cluster could not carry an order out and no longer tries."""

    now_ns: int
    workload: WorkloadId
    attempt: int
    why: str


@dataclass(frozen=True, slots=True)
class ServiceObserved:
    """How a service fared in one cluster since last time."""

    now_ns: int
    workload: WorkloadId
    cluster: ClusterId
    requests_per_s: float
    replicas: int
    violated_share: float
    """Of the time."""


@dataclass(frozen=True, slots=True)
class SpendObserved:
    """What a team of a tenant has used up since last time, or the fleet where nobody's work ran."""

    now_ns: int
    tenant: str
    """`dure.fleet.bills.FLEET`: powered nodes without instances, which no tenant pays for."""
    money: float
    g_co2: float
    team: str = ""
    """Empty: work of no team."""


@dataclass(frozen=True, slots=True)
class SeriesExtended:
    """New hours of prices or carbon are known for a cluster."""

    now_ns: int
    cluster: ClusterId
    carbon_g_per_kwh: Series | None = None
    electricity_per_mwh: Series | None = None


@dataclass(frozen=True, slots=True)
class PolicySet:
    """The operator changed the rules; both stages hear it."""

    now_ns: int
    policy: FleetPolicy


@dataclass(frozen=True, slots=True)
class RoundDue:
    """Time to decide: the tick of both stages."""

    now_ns: int


# --- to the local stage --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OrderGiven:
    """The centre wants this to run here."""

    now_ns: int
    order: Order


@dataclass(frozen=True, slots=True)
class OrderWithdrawn:
    """The centre no longer wants it here."""

    now_ns: int
    workload: WorkloadId
    attempt: int


@dataclass(frozen=True, slots=True)
class AllotmentsSet:
    """Leases of this cluster, all of them."""

    now_ns: int
    allotments: tuple[Allotment, ...]


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node died or was taken out; what ran on it is gone."""

    now_ns: int
    node: int


@dataclass(frozen=True, slots=True)
class NodeCordoned:
    """A node takes nothing new; what runs on it runs on."""

    now_ns: int
    node: int


@dataclass(frozen=True, slots=True)
class NodeBack:
    """A node can be used (again): it was lost, or cordoned."""

    now_ns: int
    node: int


@dataclass(frozen=True, slots=True)
class NodesEmptying:
    """Nodes that shall become empty, all of them: what runs there moves where it may."""

    now_ns: int
    nodes: frozenset[int]


@dataclass(frozen=True, slots=True)
class ForeignUsed:
    """What others than Dure use of a node, all of it together."""

    now_ns: int
    node: int
    devices: int = 0
    """Whole ones; which they are is not known."""
    cpu_milli: int = 0
    host_memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class InstanceFound:
    """An instance that was started before the local stage was, and where it is."""

    now_ns: int
    order: Order
    instance: InstanceId
    placement: Placement
    """In the numbers that nodes and devices have now."""
    warm: bool


@dataclass(frozen=True, slots=True)
class SizeFound:
    """So large a service was to be, and why, before the local stage began; told after its order."""

    now_ns: int
    workload: WorkloadId
    attempt: int
    serving: int
    """Instances that were to take requests."""
    level: int
    """Steps by which slices were to be larger than asked for."""
    why: str


@dataclass(frozen=True, slots=True)
class StartFailed:
    """An instance could not be brought to its node and was taken back: the room was not there."""

    now_ns: int
    instance: InstanceId
    why: str


@dataclass(frozen=True, slots=True)
class InstanceWarm:
    """A started instance is ready for work."""

    now_ns: int
    instance: InstanceId


@dataclass(frozen=True, slots=True)
class InstanceEnded:
    """An instance finished or failed by itself."""

    now_ns: int
    instance: InstanceId


@dataclass(frozen=True, slots=True)
class CheckpointReached:
    """A job saved its progress: the moment it can be moved or shrunk without loss."""

    now_ns: int
    workload: WorkloadId


@dataclass(frozen=True, slots=True)
class LoadsObserved:
    """Load of services in this cluster, in columns; the same row is the same service."""

    now_ns: int
    workloads: tuple[WorkloadId, ...]
    requests_per_s: NDArray[np.float64]
    queue_length: NDArray[np.float64]
    latency_ms: NDArray[np.float64]
    """At the 95th percentile, from the user's request to its answer within the cluster."""


@dataclass(frozen=True, slots=True)
class UsageObserved:
    """What an instance really uses, of what it asked for: feeds right-sizing."""

    now_ns: int
    workload: WorkloadId
    memory_bytes: int
    compute_share: float
    samples: int = 1
    """Observations it stands for; the amounts are the highest of them."""


@dataclass(frozen=True, slots=True)
class MoveAsked:
    """Somebody wants a workload elsewhere, whatever that saves."""

    now_ns: int
    workload: WorkloadId
    cluster: ClusterId | None = None
    """Where to; None: wherever it is cheapest."""


@dataclass(frozen=True, slots=True)
class MovesHeld:
    """What is not to be moved by itself from now on; all else may be."""

    now_ns: int
    workloads: frozenset[WorkloadId] = frozenset()
    tenants: frozenset[TenantId] = frozenset()
    clusters: frozenset[ClusterId] = frozenset()
    """Neither away from these nor there."""


@dataclass(frozen=True, slots=True)
class SignalSeen:
    """Trouble is seen coming, or is over: weights of the objective should follow."""

    now_ns: int
    signal: FleetSignal


GlobalEvent = (
    SignalSeen
    | ClusterJoined
    | ClusterLost
    | ClusterClosed
    | ClusterSummarised
    | TenantSet
    | ArtefactSeen
    | WorkloadSubmitted
    | OrderFound
    | WorkloadWithdrawn
    | WorkloadStarted
    | WorkloadProgressed
    | WorkloadStopped
    | WorkloadEnded
    | OrderTurnedDown
    | ServiceObserved
    | SpendObserved
    | SeriesExtended
    | PolicySet
    | UsageObserved
    | MoveAsked
    | MovesHeld
    | RoundDue
)
LocalEvent = (
    OrderGiven
    | OrderWithdrawn
    | TenantSet
    | AllotmentsSet
    | NodeLost
    | NodeCordoned
    | NodeBack
    | NodesEmptying
    | ForeignUsed
    | InstanceFound
    | SizeFound
    | InstanceWarm
    | StartFailed
    | InstanceEnded
    | CheckpointReached
    | LoadsObserved
    | PolicySet
    | RoundDue
)
