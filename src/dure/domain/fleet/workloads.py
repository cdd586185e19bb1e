"""Workloads: what runs in the fleet, what it needs in every dimension, and what lateness costs."""

from dataclasses import dataclass, field
from enum import Enum

from dure.domain.fleet.profiles import DataType
from dure.domain.ids import ArtefactId, ClusterId, PoolId, TenantId, WorkloadId


class WorkloadKind(Enum):
    """Classes of work that are placed differently."""

    TRAINING = "training"
    """A gang that runs as long as its work takes, and can resume from a checkpoint."""
    BATCH = "batch"
    """Inference over a given set: fills holes, may wait until its deadline."""
    SERVING = "serving"
    """Answers requests; keeps warm instances."""


class WhenCutOff(Enum):
    """What may happen to a workload whose cluster cannot be reached."""

    WAIT = "wait"
    """Nothing: it stays where it was put."""
    REPLACE = "replace"
    """It is started elsewhere, and may for a while run twice."""
    FENCE_AFTER = "fence-after"
    """It is started elsewhere once its old place has surely stopped it."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one instance needs. Any profile and slice that meets it will do."""

    memory_bytes: int = 0
    """Of device memory, on each of its devices."""
    compute_tops: float = 0.0
    """At `data_type`, on each of its devices."""
    bandwidth_bytes_per_s: float = 0.0
    """Of device memory, on each of its devices."""
    cpu_milli: int = 0
    host_memory_bytes: int = 0
    data_type: DataType = DataType.FP16
    devices: int = 1
    """Devices of the instance; more than one are whole devices inside one link domain."""
    whole: bool = False
    """Whether nothing less than whole devices will do."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """A model's weights or a data set, and where it lies."""

    id: ArtefactId
    size_bytes: int
    places: frozenset[ClusterId] = frozenset()


@dataclass(frozen=True, slots=True)
class Sla:
    """What a broken promise costs, in the fleet's currency."""

    deadline_ns: int | None = None
    """When a job must be done, on the fleet's clock."""
    penalty_per_hour_late: float = 0.0
    penalty_per_violated_minute: float = 0.0
    """Of a service that answers later than its target."""
    penalty_cap: float = float("inf")
    """The most it ever costs: of a job in all, of a service per day."""

    def late_cost(self, late_ns: float) -> float:
        """The penalty of a job that is late by so much."""
        hours = max(0.0, late_ns) / 3.6e12
        return min(self.penalty_cap, hours * self.penalty_per_hour_late)


@dataclass(frozen=True, slots=True)
class Work:
    """How much a job has to do, and how its speed depends on the device."""

    reference_s: float
    """How long it takes on its least number of workers, each on `reference`."""
    reference: str = "v100"
    """The profile that `reference_s` was measured on."""
    compute_bound: float = 0.6
    """Share of that time that scales with compute; the rest scales with memory bandwidth."""


@dataclass(frozen=True, slots=True)
class Gang:
    """Workers that run together or not at all."""

    workers: int = 1
    """Instances; each has `Demand.devices` devices in one link domain (its tensor-parallel group);
    different workers (pipeline stages, replicas) may be on different nodes of one cluster."""
    most_workers: int | None = None
    """How far it can grow while devices are idle; None: not elastic."""
    growth: float = 0.9
    """What each worker beyond the least adds, of a full worker's speed."""
    checkpoint_s: float | None = 1800.0
    """How often progress is saved; None: it starts anew when moved."""
    checkpoint_bytes: int = 0
    """What a move between clusters has to carry."""

    @property
    def limit(self) -> int:
        """The most workers it can use."""
        return max(self.workers, self.most_workers or self.workers)

    def speed(self, workers: int) -> float:
        """Speed-up over the least number of workers."""
        return 1.0 + self.growth * (workers - self.workers) / self.workers


@dataclass(frozen=True, slots=True)
class Service:
    """What a serving workload promises and expects."""

    requests_per_s: float
    """Expected, before anything was observed."""
    replica_requests_per_s: float
    """What one instance on the work's reference profile serves when always busy."""
    target_latency_ms: float
    """From the user and back, at the 95th percentile."""
    service_time_ms: float
    """Of one request on the reference profile, without queueing."""
    warm_minimum: int = 1
    """Instances that stay even without load; 0: may scale to zero."""
    most_replicas: int = 64
    spread: int = 1
    """Clusters it should be in."""
    users: tuple[tuple[str, float], ...] = ()
    """Share of its requests by user region; none: only the time within the cluster counts."""
    reference: str = "v100"
    load_s: float = 30.0
    """From start to warm, beside fetching the weights."""
    standby: int = 0
    """Instances kept warm beside those that take requests; the first that a growing load gets."""
    shrink_after_s: float | None = None
    """How long fewer instances must be enough before any is stopped; None: as its cluster does."""
    forgets_bursts: bool = False
    """Whether it is as large as the present load asks; else it keeps what bursts of the last hours
    needed, so that the next one finds it there."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One submitted workload, as its owner described it."""

    id: WorkloadId
    tenant: TenantId
    kind: WorkloadKind
    demand: Demand
    submitted_ns: int = 0
    team: str = ""
    service_name: str = ""
    priority: int = 0
    """Higher goes first and may displace lower."""
    pool: PoolId | None = None
    """The vNode pool it belongs to; None: any shared pool of its tenant, or the open fleet."""
    work: Work | None = None
    """Of a job; a service has none."""
    gang: Gang = field(default_factory=Gang)
    service: Service | None = None
    sla: Sla = field(default_factory=Sla)
    weights: ArtefactId | None = None
    data: tuple[ArtefactId, ...] = ()
    clusters: frozenset[ClusterId] | None = None
    """Where it may run; None: anywhere."""
    profiles: frozenset[str] | None = None
    """Accelerators it was built for; None: any that meets the demand."""
    delay_tolerant: bool = False
    """May start later than it could, if that is cheaper and its deadline holds."""
    preemptible: bool = True
    when_cut_off: WhenCutOff = WhenCutOff.WAIT
