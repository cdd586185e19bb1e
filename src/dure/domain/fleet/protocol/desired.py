"""What a cluster shall have: a desired set of attempts, and what a member answers to it."""

from dataclasses import dataclass
from enum import Enum

from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.decisions import Order
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.programs import Program
from dure.domain.fleet.tenancy import Allotment, FleetTenant, VNodePool
from dure.domain.fleet.virtual import VirtualCluster
from dure.domain.ids import WorkloadId


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
