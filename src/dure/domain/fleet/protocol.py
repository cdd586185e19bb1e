"""What the centre and its members say to each other, as values; `dure.wire` puts them on the line.

The centre states a desired set for each cluster: an epoch (who leads), a revision (which set), and
the attempts that shall exist. It is a set, not commands: said twice it changes nothing, and what
is not in it shall not exist. A member refuses what is older than what it has seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from dure.domain.fleet.clusters import Cluster, NodeGroup
from dure.domain.fleet.decisions import Order, Placement, SiteSummary
from dure.domain.fleet.lifecycle import JobPhase, PartitionPhase
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.programs import Program, Thing
from dure.domain.fleet.tenancy import Allotment, FleetTenant, VNodePool
from dure.domain.fleet.virtual import SpaceStatus, VirtualCluster
from dure.domain.ids import ClusterId, TenantId, WorkloadId

# --- from the centre -----------------------------------------------------------------------


class Want(Enum):
    """What shall become of an attempt."""

    RUN = "run"
    RELEASE = "release"
    """It shall stop, and its cluster says when nothing of it is left."""


@dataclass(frozen=True, slots=True, order=True)
class AttemptKey:
    """One attempt of a job."""

    job: WorkloadId
    attempt: int


@dataclass(frozen=True, slots=True)
class Desired:
    """One attempt that a cluster shall have."""

    order: Order
    program: Program
    namespace: str
    """Where its objects belong."""
    want: Want = Want.RUN
    why: str = ""
    """Of a release, for people."""
    fence_after_s: float | None = None
    """The member stops it after so long without contact to the centre; None: it runs on."""
    checkpoint: int = 0
    """Number of the checkpoint that its program is asked to save; 0: none is asked for."""
    gentle: bool = False
    """Whether it may take its time to start, since another place serves meanwhile."""

    @property
    def key(self) -> AttemptKey:
        """Which attempt it is."""
        return AttemptKey(self.order.workload.id, self.order.attempt)


@dataclass(frozen=True, slots=True)
class Partition:
    """A node whose devices shall be divided anew, once."""

    node: str
    layout: str
    """Of a name that the node's own manager knows, such as `all-1g.10gb`."""
    number: int
    """Tells one wish from the next for the same node, which has a greater one."""
    drain: bool = False
    """Whether what uses its devices is moved elsewhere first; else the wish is refused by that."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the local stage needs to know beside its orders."""

    cluster: Cluster
    """With its tariff and series; the groups are those the member reported."""
    policy: FleetPolicy
    tenants: tuple[FleetTenant, ...] = ()
    pools: tuple[VNodePool, ...] = ()
    allotments: tuple[Allotment, ...] = ()
    round_trip_ms: float = 0.0
    """From the users of this cluster, as far as it is known."""
    partitions: tuple[Partition, ...] = ()
    """Wishes of which the centre does not know the end, one for a node at most."""
    virtual: tuple[VirtualCluster, ...] = ()
    """Virtual clusters that have, or had, a part here."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A desired set, whole or as the difference from an earlier revision of the same epoch."""

    epoch: int
    revision: int
    base: int | None = None
    """The revision it changes; None: it is the whole set."""
    desired: tuple[Desired, ...] = ()
    """All attempts, or those that are new or changed."""
    removed: tuple[AttemptKey, ...] = ()
    """Of a difference: attempts that are no longer in the set."""
    surroundings: Surroundings | None = None
    """None: as before."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An attempt that a cluster does not take."""

    key: AttemptKey
    why: str


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """What a member says to a plan: whether it took it, and which of its attempts it refuses."""

    epoch: int
    revision: int
    taken: bool
    why: str = ""
    """Of a plan that was not taken: older than what is known, or a base that is not known."""
    accepted: tuple[AttemptKey, ...] = ()
    """New attempts that may start from now on at any time."""
    refused: tuple[Refusal, ...] = ()


# --- from a member -------------------------------------------------------------------------


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
class Hello:
    """The first word of a member."""

    cluster: ClusterId
    kind: str
    """`kubernetes` or `process`."""
    incarnation: str
    """New whenever the member begins to count its reports anew."""
    version: str
    epoch: int = 0
    revision: int = 0
    """Of the last plan it took."""
    takes_signals: bool = False
    """Whether this member knows what `Signals` are."""
    takes_routes: bool = False
    """Whether this member wants to hear where services answer."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """The centre's answer to a hello."""

    version: str
    heard: int
    """The last report of this incarnation that is stored; 0: none."""
    now_ns: int
    """The centre's clock."""
    silence_s: float
    """After so long without a word the member looks for another server."""
    takes_wishes: bool = False
    """Whether this server knows what `Wishes` are."""


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


# --- of people who speak to a cluster, and through it to the centre ------------------------


@dataclass(frozen=True, slots=True)
class Wish:
    """A job that somebody declared in a cluster, as it is there now; said twice it is one job."""

    uid: str
    """Of the object; with the cluster it names the job for ever."""
    generation: int
    """Counts the object's changes: a lower one says nothing new."""
    namespace: str
    """Decides whose job it is."""
    name: str
    document: Mapping[str, Any] = field(default_factory=dict)
    """The object's `spec`; empty: the centre has it, and is only asked how the job stands."""
    withdrawn: bool = False
    """Whether the object is gone: the job shall end, or never begin."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What people of a cluster want; each is answered by a standing once it is stored."""

    wishes: tuple[Wish, ...]


@dataclass(frozen=True, slots=True)
class WishRefusal:
    """Why a wish did not become a job."""

    reason: str
    """One word of camel case, for programs."""
    field: str
    what: str
    remedy: str
    final: bool = True
    """Whether it would be the same tomorrow; else it is worth to ask again."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What has become of a wish."""

    uid: str
    generation: int
    """Of the wish as it is stored; below what was said: say it whole."""
    job: str = ""
    """Its id; empty: there is none."""
    refusal: WishRefusal | None = None
    withdrawn: bool = False
    phase: JobPhase = JobPhase.QUEUED
    suspended: bool = False
    attempt: int = 0
    cluster: str = ""
    """Where it is; empty: nowhere yet."""
    slice: str = ""
    """What its instances have: `3g.40gb`, `whole`, `2 x whole`."""
    cost_per_hour: float = 0.0
    """In the fleet's currency, for what it holds now."""
    currency: str = ""
    g_co2_per_hour: float = 0.0
    why: str = ""
    """Of its phase, for people."""


@dataclass(frozen=True, slots=True)
class Standings:
    """News of jobs that were wished for in a cluster."""

    standings: tuple[Standing, ...]


# --- of where services answer ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RouteBackend:
    """One instance that answers, wherever it is."""

    attempt: int
    address: str
    """HOST:PORT."""
    weight: int
    """Its part of new requests, beside the others; 0: it finishes what it has."""


@dataclass(frozen=True, slots=True)
class ServiceRoute:
    """Where a service answers now, for those who ask for it in a cluster that has, or had, it."""

    job: WorkloadId
    name: str
    namespace: str
    port: int
    """At which it is to be found there."""
    backends: tuple[RouteBackend, ...] = ()
    ended: bool = False
    """Whether it is over, and need not be found any more."""


@dataclass(frozen=True, slots=True)
class Routes:
    """News of where services answer; each takes the place of what was said of it before."""

    services: tuple[ServiceRoute, ...]
    whole: bool = False
    """Whether these are all there are: others need not be found any more."""


# --- of the load of services ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadSignal:
    """What somebody outside its cluster sees of a service's load: a part of it, until it expires.

    What several sources say adds up, except that the worst latency counts."""

    workload: WorkloadId
    source: str
    """Who says so; what it says later takes the place of this."""
    at_ns: int
    """When it was measured, by the centre's clock."""
    until_ns: int
    """From when on it counts no more."""
    requests_per_s: float | None = None
    """None: not known to the source."""
    queue_length: float | None = None
    latency_ms: float | None = None
    """At the 95th percentile."""


@dataclass(frozen=True, slots=True)
class Signals:
    """News of loads; lost ones are not said again, since newer ones follow."""

    signals: tuple[LoadSignal, ...]


# --- of the link itself --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ack:
    """The centre has stored a report, and all before it."""

    seq: int


@dataclass(frozen=True, slots=True)
class Ping:
    """Somebody is there; said when nothing else is."""


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The centre ends the link."""

    why: str
    retry_elsewhere: bool = True
    """Whether another server would take the member at once; else nobody will until told anew."""


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Somebody wants to read what an instance wrote."""

    id: int
    """Of the request, chosen by the centre; its chunks carry it."""
    key: AttemptKey
    index: int
    follow: bool = False
    """Whether to go on with what it will write."""
    tail: int | None = None
    """Lines to begin with, from the end; None: all."""


@dataclass(frozen=True, slots=True)
class LogCancel:
    """Nobody reads that any more."""

    id: int


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of what an instance wrote, in order."""

    id: int
    """Of the request."""
    data: bytes = b""
    end: bool = False
    """Whether it is the last."""
    error: str = ""
    """Of a last one: why there is no more; empty: that was all."""


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """Somebody wants to speak to a cluster's API server as the account of a virtual cluster."""

    id: int
    """Of the request, chosen by the centre; its answer carries it."""
    name: str
    """Of the virtual cluster."""
    for_s: int
    """How long the token shall hold."""


@dataclass(frozen=True, slots=True)
class AccessAnswer:
    """A token for that, and where to show it."""

    id: int
    """Of the request."""
    token: str = field(default="", repr=False)
    url: str = ""
    """Of the API server, as the member reaches it or was told that people do."""
    authority: str = ""
    """Whom to trust about it, in PEM."""
    namespace: str = ""
    error: str = ""
    """Why there is none; empty: there is."""


MemberWord = Hello | Report | PlanAnswer | LogChunk | Ping | Wishes | AccessAnswer
"""All that a member says."""
CentreWord = (
    Welcome
    | Plan
    | Ack
    | LogRequest
    | LogCancel
    | Ping
    | Goodbye
    | Standings
    | Signals
    | AccessRequest
    | Routes
)
"""All that the centre says."""
