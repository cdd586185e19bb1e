"""What a job says of itself: one YAML document of `dure submit`, one body of `POST /v1/jobs`."""

from enum import Enum
from typing import Annotated

from pydantic import Field, model_validator

from dure.api.base import (
    AtLeastZero,
    Count,
    Deadline,
    Document,
    Duration,
    LabelKey,
    LabelValue,
    Line,
    LowerName,
    Name,
    Positive,
    Priority,
    Share,
    Size,
    SmallJson,
    Text,
    Windows,
    duration_ns,
    short_form,
)
from dure.domain.fleet.profiles import DataType
from dure.domain.fleet.workloads import WorkloadKind

MOST_ARRAY = 10_000
"""Jobs of one array: they are stored in one transaction, and nobody waits long for it."""
MOST_LABELS = 32
POD_FIELDS = frozenset(
    {
        "affinity",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "hostAliases",
        "imagePullSecrets",
        "nodeSelector",
        "runtimeClassName",
        "securityContext",
        "tolerations",
        "topologySpreadConstraints",
    }
)
"""Fields of a Pod that a job may set by itself. The rest is Dure's (containers, scheduling), or
would reach beyond the job's namespace (host's network, paths and priority classes)."""
_POD_USER_FIELDS = frozenset(
    {"fsGroup", "runAsGroup", "runAsNonRoot", "runAsUser", "seccompProfile", "supplementalGroups"}
)

EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,254}$")]
FilePath = Annotated[str, Field(pattern=r"^/[^\x00-\x1f\x7f:]*$", max_length=1024)]
ObjectName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", max_length=253)
]
"""A name in Kubernetes."""
Profile = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Arguments = Annotated[list[Text], Field(max_length=256)]


class Resources(Document):
    """What one instance needs. Any accelerator and slice that meets it will do."""

    memory: Size = "0B"
    """Device memory, on each of its devices."""
    tops: AtLeastZero = 0.0
    """10^12 operations a second at `dataType`, on each of its devices."""
    bandwidth: Size = "0B"
    """Of device memory, per second, on each of its devices."""
    cpu: AtLeastZero = 0.0
    """Cores of the host."""
    host_memory: Size = "0B"
    data_type: DataType = DataType.FP16
    devices: Annotated[int, Field(ge=1, le=64)] = 1
    """More than one are whole devices inside one link domain."""
    whole: bool = False
    """Whether nothing less than whole devices will do."""
    profiles: Annotated[list[Profile], Field(min_length=1, max_length=64)] | None = None
    """Accelerators it was built for; any that meets the rest where this is left out."""


class Work(Document):
    """How much a job has to do."""

    time: Duration
    """How long it takes on its least number of workers, each on `reference`."""
    reference: Profile = "v100"
    """The accelerator that `time` was measured on."""
    compute_bound: Share = 0.6
    """Share of that time that scales with compute; the rest scales with memory bandwidth."""


class WhenNoCheckpoint(Enum):
    """What becomes of a move whose checkpoint does not come in time."""

    STAY = "stay"
    STOP = "stop"


MOST_CHECKPOINT_WAIT = "4h"
"""A place is kept at the target meanwhile."""


class Gang(Document):
    """Workers that run together or not at all."""

    workers: Annotated[int, Field(ge=1, le=4096)] = 1
    most_workers: Annotated[int, Field(ge=1, le=4096)] | None = None
    """How far it can grow while devices are idle."""
    growth: Annotated[float, Field(gt=0, le=1)] = 0.9
    """What each worker beyond the least adds, of a full worker's speed."""
    checkpoint_every: Duration | None = "30m"
    """How often progress is saved; null: it starts anew when moved."""
    checkpoint_size: Size = "0B"
    """What a move between clusters has to carry."""
    checkpoint_wait: Duration = "10m"
    """How long a move waits for a checkpoint that it asked for; four hours at most."""
    when_no_checkpoint: WhenNoCheckpoint = WhenNoCheckpoint.STAY
    """What a move does when none came: `stay` where it is, or `stop` and do work again."""

    @model_validator(mode="after")
    def _grows(self) -> "Gang":
        if self.most_workers is not None and self.most_workers < self.workers:
            raise ValueError(
                f"mostWorkers of {self.most_workers} is less than its {self.workers} workers; "
                f"write at least {self.workers}"
            )
        if duration_ns(self.checkpoint_wait) > duration_ns(MOST_CHECKPOINT_WAIT):
            raise ValueError(
                f"checkpointWait of {self.checkpoint_wait} keeps a place at the target too long; "
                f"write at most {MOST_CHECKPOINT_WAIT}"
            )
        return self


class Serving(Document):
    """What a service promises and expects."""

    requests_per_second: AtLeastZero
    """Expected, before anything was observed."""
    replica_requests_per_second: Positive
    """What one instance on `reference` serves when always busy."""
    latency: Duration
    """From the user and back, at the 95th percentile."""
    service_time: Duration
    """Of one request on `reference`, without queueing."""
    warm: Annotated[int, Field(ge=0, le=10_000)] = 1
    """Instances that stay even without load; 0: may scale to zero."""
    most: Annotated[int, Field(ge=1, le=10_000)] = 64
    spread: Annotated[int, Field(ge=1, le=1000)] = 1
    """Clusters it should be in."""
    users: Annotated[dict[Name, Positive], Field(max_length=100)] = Field(default_factory=dict)
    """Parts of its requests by user region."""
    reference: Profile = "v100"
    load_time: Duration = "30s"
    """From start to warm, beside fetching the weights."""
    standby: Annotated[int, Field(ge=0, le=1000)] = 0
    """Instances kept warm beside those that take requests: a load that grows gets them at once.
    `most` bounds both together."""
    shrink_after: Duration | None = None
    """How long fewer instances must be enough before any is stopped, one step at a time; left out:
    five minutes."""
    keep_for_bursts: bool = True
    """Whether it stays large enough for bursts as those of the last hours; else it is as large as
    the present load asks."""

    @model_validator(mode="after")
    def _fits(self) -> "Serving":
        if self.warm > self.most:
            raise ValueError(
                f"warm of {self.warm} is more than the {self.most} instances it may have; "
                f"write at most {self.most}"
            )
        if self.standby >= self.most and self.standby:
            raise ValueError(
                f"standby of {self.standby} leaves none of the {self.most} instances it may have "
                f"for requests; write at most {self.most - 1}"
            )
        return self


class Sla(Document):
    """What a broken promise costs, in the fleet's currency."""

    deadline: Deadline | None = None
    """When a job must be done: a moment, or `+6h` from its submission."""
    penalty_per_hour: AtLeastZero = 0.0
    """Of a job that is late."""
    penalty_per_minute: AtLeastZero = 0.0
    """Of a service that answers later than its target."""
    cap: AtLeastZero | None = None
    """The most it ever costs: of a job in all, of a service per day."""


class ArtefactUse(Document):
    """A model's weights or a data set that a job reads."""

    name: Name
    size: Size | None = None
    """Where no cluster says it."""


class EnvFrom(Document):
    """Entries of a Secret or a ConfigMap as variables; exactly one of the two."""

    secret: ObjectName | None = None
    config_map: ObjectName | None = None

    @model_validator(mode="after")
    def _one(self) -> "EnvFrom":
        _exactly_one(self, "secret", "config_map")
        return self


class Mount(Document):
    """Something of the cluster as files of the program; exactly one of the three."""

    path: FilePath
    secret: ObjectName | None = None
    config_map: ObjectName | None = None
    volume: ObjectName | None = None
    """A claim of storage that exists already."""
    read_only: bool = True

    @model_validator(mode="after")
    def _one(self) -> "Mount":
        _exactly_one(self, "secret", "config_map", "volume")
        return self


class CutOff(Enum):
    """What may happen to a job whose cluster cannot be reached."""

    WAIT = "wait"
    REPLACE = "replace"


class OnClusterLost(Document):
    """What may happen to a job whose cluster cannot be reached; one of the two."""

    then: CutOff | None = None
    """`wait`: it stays where it is. `replace`: it is started elsewhere, and may run twice."""
    fence_after: Duration | None = None
    """Its cluster stops it after so long without contact, then it is started elsewhere."""

    @model_validator(mode="after")
    def _one(self) -> "OnClusterLost":
        _exactly_one(self, "then", "fence_after")
        return self


class Array(Document):
    """Many jobs alike; each finds its number in the variable DURE_ARRAY_INDEX."""

    count: Annotated[int, Field(ge=1, le=MOST_ARRAY)]


def _exactly_one(part: Document, *names: str) -> None:
    given = [name for name in names if getattr(part, name) is not None]
    if len(given) != 1:
        spoken = [type(part).model_fields[name].alias or name for name in names]
        raise ValueError(
            f"names {len(given) or 'none'} of {', '.join(spoken)}; give exactly one of them"
        )


ArtefactOrName = Annotated[
    ArtefactUse, short_form(lambda value: {"name": value}, ArtefactUse | Name)
]


class JobSpec(Document):
    """A job as its owner describes it."""

    name: Name
    kind: WorkloadKind
    """`training`: a gang that resumes from checkpoints. `batch`: may wait until its deadline.
    `serving`: answers requests and keeps warm instances."""
    tenant: LowerName | None = None
    """Whose it is; left out: the tenant of the token."""
    team: LowerName | None = None
    service_name: LowerName | None = None
    """The service of the team that it is billed to."""
    priority: Priority = 0
    """Higher goes first and may displace lower."""

    image: Line = ""
    """Empty: a command of the host; only clusters of kind `process` run those."""
    command: Arguments = Field(default_factory=list)
    args: Arguments = Field(default_factory=list)
    env: Annotated[dict[EnvName, Text], Field(max_length=256)] = Field(default_factory=dict)
    env_from: Annotated[list[EnvFrom], Field(max_length=32)] = Field(default_factory=list)
    mounts: Annotated[list[Mount], Field(max_length=32)] = Field(default_factory=list)
    working_dir: Annotated[str, Field(pattern=r"^(/[^\x00-\x1f\x7f]*)?$", max_length=1024)] = ""
    service_account: Annotated[str, Field(pattern=r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?$")] = (
        ""
    )
    grace: Duration = "30s"
    """From the request to end until it is killed."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Where a service answers; it is ready once somebody can connect there."""
    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=MOST_LABELS)] = Field(
        default_factory=dict
    )
    """Of the job, to find it by, and of its Pods."""
    annotations: Annotated[dict[LabelKey, Text], Field(max_length=MOST_LABELS)] = Field(
        default_factory=dict
    )
    pod: SmallJson = Field(default_factory=dict)
    """Further fields of its Pods' spec."""

    resources: Resources = Resources()
    work: Annotated[Work, short_form(lambda value: {"time": value}, Work | Duration)] | None = None
    """Of a job: how long it takes; an hour where this is left out."""
    gang: Annotated[Gang, short_form(lambda value: {"workers": value}, Gang | Count)] = Gang()
    service: Serving | None = None
    """Of a serving job, which must have it."""
    sla: Sla = Sla()
    weights: ArtefactOrName | None = None
    data: Annotated[list[ArtefactOrName], Field(max_length=64)] = Field(default_factory=list)
    clusters: Annotated[list[LowerName], Field(min_length=1, max_length=1000)] | None = None
    """Where it may run; anywhere where this is left out."""
    pool: Name | None = None
    """The vNode pool it belongs to."""
    delay_tolerant: bool = False
    """May start later than it could, if that is cheaper and its deadline holds."""
    preemptible: bool = True
    pinned: bool = False
    """Whether it is not to be moved by itself; `dure pin` and `dure unpin` change it later."""
    windows: Windows = Field(default_factory=list)
    """When it may be moved by itself; at any time where none is named."""
    on_cluster_lost: Annotated[
        OnClusterLost, short_form(lambda value: {"then": value}, OnClusterLost | CutOff)
    ] = OnClusterLost(then=CutOff.WAIT)
    retries: Annotated[int, Field(ge=0, le=1000)] = 0
    """How often it is started anew after its program failed."""
    array: Annotated[Array, short_form(lambda value: {"count": value}, Array | Count)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> "JobSpec":
        serving = self.kind is WorkloadKind.SERVING
        _needs(self, serving)
        if self.service_name is not None and self.team is None:
            raise ValueError("serviceName is of a team; name the team too")
        if not self.image and not self.command:
            raise ValueError("there is nothing to run; give an image, a command or both")
        unknown = sorted(set(self.pod) - POD_FIELDS)
        if unknown:
            raise ValueError(
                f"pod.{unknown[0]} is not a job's to set; use {', '.join(sorted(POD_FIELDS))}"
            )
        context = self.pod.get("securityContext")
        if context is not None and not (
            isinstance(context, dict) and set(context) <= _POD_USER_FIELDS
        ):
            raise ValueError(
                "pod.securityContext sets more than a job may; "
                f"use {', '.join(sorted(_POD_USER_FIELDS))}"
            )
        return self


def _needs(spec: JobSpec, serving: bool) -> None:
    """Jobs have work, services a service, and neither has what belongs to the other."""
    kind = spec.kind.value
    if serving and spec.service is None:
        raise ValueError("service is missing; say what it promises and expects")
    if not serving and spec.service is not None:
        raise ValueError(f"service means nothing for {kind}; leave it out")
    if serving and spec.work is not None:
        raise ValueError("work means nothing for serving; leave it out")
    if serving and spec.sla.deadline is not None:
        raise ValueError("sla.deadline means nothing for serving, which never ends; leave it out")
    if serving and spec.array is not None:
        raise ValueError("array means nothing for serving; set service.warm and service.most")
