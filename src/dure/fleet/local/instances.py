"""Orders a cluster has taken on, and their instances with the places they hold."""

from dataclasses import dataclass, field

from dure.domain.fleet.decisions import InstanceId, Order, Placement
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.ids import PoolId, WorkloadId
from dure.fleet.fit import Footprint
from dure.fleet.packing import packer as packing

NEVER_NS = 2**62
"""A moment that never comes."""


@dataclass(slots=True)
class Spot:
    """Capacity that is taken on one node, for one instance."""

    placement: Placement
    shape: int
    """What was asked for, as the yard numbers it."""
    footprint: Footprint
    group: int
    packed: packing.Placement | None = field(default=None, init=False, compare=False, repr=False)
    """What the packing core calls it: worked out once, when it is first asked for."""

    @property
    def node(self) -> int:
        """The node it is on."""
        return self.placement.node


@dataclass(slots=True)
class Instance:
    """One running instance."""

    id: InstanceId
    task: "Task"
    spot: Spot
    started_ns: int
    pool: PoolId | None = None
    """The pool whose units it uses; None: it uses what is open to all, or lent."""
    warm: bool = False
    leaving: Spot | None = None
    """The place it still holds while its replacement warms."""
    moved_ns: int = -NEVER_NS

    def places(self) -> tuple[Spot, ...]:
        """All that it holds now."""
        return (self.spot,) if self.leaving is None else (self.spot, self.leaving)


@dataclass(slots=True)
class Task:
    """An order this cluster took on."""

    order: Order
    group: int
    shape: int
    footprint: Footprint
    """What each new instance takes."""
    least: Footprint
    """What its demand asks for; `footprint` is larger while its slices have grown."""
    priority: int
    """The workload's and its tenant's together."""
    given_ns: int
    """Since when it is here; a task that is queued again keeps its age."""
    wanted: int
    """Instances it should have now."""
    instances: dict[int, Instance] = field(default_factory=dict)
    next_index: int = 0
    """Indices are never used twice, so that late news of a former instance harms nobody."""
    queued_ns: int = -1
    """Since when it waits for a place; -1: it does not."""
    passes: int = 0
    """Orders behind it in the queue that were placed while it was blocked."""
    started_ns: int = 0
    expected_end_ns: int = NEVER_NS
    done_share: float = 0.0
    """Estimated part of a job's work that is done, at `as_of_ns`."""
    as_of_ns: int = 0
    saved_share: float = 0.0
    """Of that, what its last checkpoint has saved."""
    checkpoint_ns: int = 0
    """Since when a restart would lose work."""
    moving: dict[int, tuple[Spot, str]] = field(default_factory=dict)
    """Places that are taken for instances which move there at the next checkpoint, and why."""
    ending: bool = False
    """Some of its instances have finished by themselves."""
    level: int = 0
    """Steps by which its slices are larger than its demand asks."""
    spare: int = 0
    """Instances of a service that are kept warm beside those it should have."""
    row: int = -1
    """Of a service in the columns of the autoscaler."""
    id: WorkloadId = field(default_factory=lambda: WorkloadId(""))
    """The workload's, or for a while a name of its own: see `replaced`."""
    replaced: bool = False
    """Whether a newer order for the same service is here: it stays until that one is warm."""
    arriving: bool = False
    """Whether instances of it that run already are still being told; until the next round."""
    failures: int = 0
    """Starts that came to nothing, one after another."""
    shunned: dict[int, int] = field(default_factory=dict)
    """Nodes where a start came to nothing, and until when others come first."""
    serving: bool = field(init=False)
    """Whether it is a service: its instances come and go one by one."""
    limit: int = field(init=False)
    """The most workers a gang can use."""

    def __post_init__(self) -> None:
        workload = self.order.workload
        self.id = self.id or workload.id
        self.serving = workload.kind is WorkloadKind.SERVING
        self.limit = max(self.wanted, workload.gang.limit)

    @property
    def missing(self) -> int:
        """Instances to be placed: of a service one by one, of a gang all or none."""
        if self.serving:
            return max(0, self.target - len(self.instances))
        return 0 if self.instances else self.wanted

    @property
    def target(self) -> int:
        """Instances of a service with those that are kept warm; never more than it may have."""
        service = self.order.workload.service
        if service is None or not self.spare:
            return self.wanted
        return max(self.wanted, min(self.wanted + self.spare, service.most_replicas))

    @property
    def surplus(self) -> int:
        """Workers an elastic gang has beyond its least."""
        return 0 if self.serving else max(0, len(self.instances) - self.wanted)

    @property
    def devices(self) -> float:
        """Devices that all its instances use up, in whole ones."""
        return len(self.instances) * self.footprint.device_share

    @property
    def rank(self) -> tuple[int, int, float, WorkloadId]:
        """Its place in the queue: priority, then age, then the larger first."""
        size = self.wanted * self.footprint.device_share
        return (-self.priority, self.given_ns, -size, self.id)


_KIND_COST = {WorkloadKind.BATCH: 0, WorkloadKind.TRAINING: 1, WorkloadKind.SERVING: 2}


DisplacementCost = tuple[int, int, int, float, WorkloadId]
"""In the order of `displacement_cost`."""


def displacement_cost(task: Task, now_ns: int) -> DisplacementCost:
    """Orders tasks by what it costs to stop or move them, the least affected first."""
    workload = task.order.workload
    since = now_ns - max(task.checkpoint_ns, task.started_ns)
    lost = 0.0 if task.serving else since * task.devices
    kind = _KIND_COST[workload.kind]
    return (task.priority, 0 if workload.preemptible else 1, kind, lost, task.id)
