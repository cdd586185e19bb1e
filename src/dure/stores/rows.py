"""What the store keeps, as frozen rows: one class for each table, fields named as its columns.

`revision` counts the changes of a row; `put` refuses a row whose revision is not the stored one.
Times are nanoseconds since 1970.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dure.domain.fleet.accounts import FeedKind, Role, TenantKind
from dure.domain.fleet.lifecycle import AttemptState, ClusterState, JobPhase, PartitionPhase
from dure.domain.fleet.migrations import NOT_LOOKED, MoveKind, MoveStep
from dure.domain.fleet.virtual import SpacePhase, VirtualTier

Json = Mapping[str, Any]
"""A JSON object, as its owner wrote it."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A node of the tree tenant → team → service; its path is its name: `acme/vision/ocr`."""

    path: str
    kind: TenantKind
    parent: str | None = None
    spec: Json = field(default_factory=dict)
    revision: int = 1
    created_ns: int = 0


@dataclass(frozen=True, slots=True)
class Pool:
    """A vNode pool."""

    name: str
    tenant: str | None = None
    """Its owner; None: the fleet's."""
    spec: Json = field(default_factory=dict)
    revision: int = 1
    created_ns: int = 0


@dataclass(frozen=True, slots=True)
class Policy:
    """A named setting of the planner."""

    name: str
    spec: Json = field(default_factory=dict)
    revision: int = 1
    created_ns: int = 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A member cluster, and how far the centre and it have come."""

    name: str
    kind: str
    spec: Json = field(default_factory=dict)
    state: ClusterState = ClusterState.JOINED
    incarnation: str = ""
    """Of the member that last said hello."""
    last_contact_ns: int | None = None
    desired_revision: int = 0
    """Of the desired set that the centre last decided."""
    accepted_epoch: int = 0
    accepted_revision: int = 0
    """Of the desired set that the member last accepted."""
    desired_epoch: int = 0
    """Of the leader that last decided something for it."""
    surroundings_revision: int = 0
    """Of the desired set since which its tenants, pools, prices and leases are these."""
    link_epoch: int = 0
    """Counts the hellos of its members; what an older link brings is refused."""
    linked_url: str = ""
    """Where the REST interface of the server is that has the link; empty: none has."""
    report_seq: int = 0
    """The last stored report of the incarnation."""
    revision: int = 1
    created_ns: int = 0


@dataclass(frozen=True, slots=True)
class ClusterNews:
    """What a cluster last said of itself, and the leases it was given, as plain data."""

    cluster: str
    inventory: Json = field(default_factory=dict)
    """Empty: it has not said yet."""
    sites: Json = field(default_factory=dict)
    """Summaries under `sites`."""
    allotments: Json = field(default_factory=dict)
    """Leases of pools under `allotments`."""
    at_ns: int = 0
    """When it last said something of itself, by the centre's clock."""
    retired: Json = field(default_factory=dict)
    """Groups of nodes that it had before, by name: what ran there may still have to be charged."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The last wish that a node's devices be divided anew, and what has become of it."""

    cluster: str
    node: str
    layout: str
    number: int
    """The revision of the cluster's desired set since which it is wanted."""
    drain: bool = False
    """Whether what uses its devices is moved elsewhere first."""
    phase: PartitionPhase = PartitionPhase.ASKED
    reason: str = ""
    """Of its phase, for people."""
    asked_ns: int = 0
    ended_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One submitted job; its id sorts by the time of submission."""

    id: str
    tenant: str
    name: str
    spec: Json
    team: str = ""
    service: str = ""
    array_id: str | None = None
    array_index: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    phase: JobPhase = JobPhase.QUEUED
    priority: int = 0
    attempt: int = 0
    """Number of its latest attempt; 0: none yet."""
    cluster: str | None = None
    reason: str = ""
    """Why it is in its phase, for people."""
    failures: int = 0
    """Attempts whose program failed."""
    suspended: bool = False
    """Whether its owner wants it to have no place for now."""
    pinned: bool = False
    """Whether it is not to be moved by itself."""
    revision: int = 1
    submitted_ns: int = 0
    updated_ns: int = 0
    ended_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """An object in a cluster that a job came from; its cluster and UID name it for ever."""

    cluster: str
    uid: str
    namespace: str
    name: str
    job_id: str | None = None
    """None: it was withdrawn before it became a job, or the job has gone from the books."""
    generation: int = 0
    """Of its changes, the last that is known here."""
    created_ns: int = 0
    withdrawn_ns: int | None = None
    """When the centre heard that the object is gone."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a job in a cluster.

    Epoch says which leader asked for it, desired_revision the set since which it is wanted so.
    """

    job_id: str
    attempt: int
    cluster: str
    epoch: int
    desired_revision: int
    exclusive: bool = True
    """Training and batch: no other attempt may be live. Serving may overlap."""
    state: AttemptState = AttemptState.RESERVED
    reason: str = ""
    """Of a refusal or an end."""
    spec: Json = field(default_factory=dict)
    """What the plan said about it: site, instances, explanation."""
    status: Json = field(default_factory=dict)
    """What its cluster last said about it: phase, instances, progress, exit code."""
    sent_ns: int | None = None
    """When its cluster may first have heard of it."""
    dropped_ns: int | None = None
    """When it left its cluster's desired set; one that is gone is kept there for a while, for what
    it wrote and what it used."""
    reserved_ns: int = 0
    committed_ns: int | None = None
    running_ns: int | None = None
    releasing_ns: int | None = None
    gone_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """What a tenant may spend in a period, in money or grams, and what it has spent."""

    tenant: str
    name: str
    unit: str
    limit_amount: float
    period_start_ns: int
    period_end_ns: int
    spent_amount: float = 0.0
    spec: Json = field(default_factory=dict)
    revision: int = 1


@dataclass(frozen=True, slots=True)
class Meter:
    """What an attempt has used in all, as its cluster said, and how much of it is charged."""

    job_id: str
    attempt: int
    cluster: str
    device_us: int
    """Device-microseconds, weighed by the share of each device."""
    charged_us: int
    since_ns: int
    """From when on what is not charged was used,"""
    until_ns: int
    """and until when."""


@dataclass(frozen=True, slots=True)
class Migration:
    """A job on its way from one attempt to another, or that was; its id sorts by its begin."""

    id: str
    job_id: str
    kind: MoveKind
    step: MoveStep
    since_ns: int
    """When it came to its step, by the database's clock."""
    old_attempt: int
    old_cluster: str
    new_attempt: int | None = None
    new_cluster: str = ""
    """Where it goes, or shall; empty: wherever is best."""
    request: int = 0
    """Number of the checkpoint that was asked for; 0: none was."""
    acked: int = 0
    """The last that its program told the centre itself to have saved."""
    saved_share: float = NOT_LOOKED
    """What was saved when it was asked for; below zero: that was not looked at yet."""
    asked_by: str = ""
    """Who wanted it; empty: the planner."""
    why: str = ""
    """Why it began."""
    reason: str = ""
    """Of its step, for people."""
    stop_anyway: bool = False
    """Whether it leaves although no checkpoint comes, as from a cluster that is drained."""
    saving: float = 0.0
    """Expected, net of all costs of the move, in the fleet's currency."""
    egress: float = 0.0
    """What carrying checkpoint, weights and data costs."""
    carbon_saved_g: float = 0.0
    abort_by: str = ""
    """Who called it off; empty: nobody."""
    begun_ns: int = 0
    ended_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Charge:
    """What an attempt used up on one day; only grows, and not once its month is closed."""

    job_id: str
    attempt: int
    day: str
    """Of use, as 2026-11-05, in the fleet's time zone."""
    month: str
    """That it is billed in, as 2026-11; later than its day's where that was closed already."""
    currency: str
    tenant: str
    team: str
    service: str
    cluster: str
    profile: str
    from_ns: int
    to_ns: int
    """From the first to the last use of the day that is known."""
    device_us: int = 0
    rent_micro: int = 0
    """In millionths of the currency, as all money here."""
    energy_micro: int = 0
    egress_micro: int = 0
    carbon_ug: int = 0
    """Micrograms of CO2."""

    @property
    def money_micro(self) -> int:
        """All of its parts."""
        return self.rent_micro + self.energy_micro + self.egress_micro


@dataclass(frozen=True, slots=True)
class Closing:
    """A month whose charges never change again."""

    month: str
    zone: str
    """Time zone of its days."""
    digest: str
    """Of everything that is billed in it."""
    totals: Json
    closed_by: str
    closed_ns: int


@dataclass(frozen=True, slots=True)
class Price:
    """What others' wish for a site adds to the cost of a device-hour there."""

    site: str
    per_device_hour: float
    at_ns: int


@dataclass(frozen=True, slots=True)
class Feed:
    """A named series of tariffs or carbon intensities."""

    name: str
    kind: FeedKind
    unit: str
    spec: Json = field(default_factory=dict)
    revision: int = 1
    created_ns: int = 0


@dataclass(frozen=True, slots=True)
class FeedPoint:
    """The value of a feed from an instant on."""

    feed: str
    at_ns: int
    value: float


@dataclass(frozen=True, slots=True)
class Token:
    """A credential; only the SHA-256 of its secret is stored."""

    id: str
    secret_hash: str
    role: Role
    name: str = ""
    tenant: str | None = None
    """That its bearer may see and touch; needed for the role tenant."""
    cluster: str | None = None
    """That its bearer may speak for; needed for the role member."""
    created_ns: int = 0
    expires_ns: int | None = None
    revoked_ns: int | None = None


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A request that was carried out once, and the answer it got."""

    tenant: str
    key: str
    body_hash: str
    answer: Json
    created_ns: int = 0


@dataclass(frozen=True, slots=True)
class NewEvent:
    """Something that happens in a transaction; gets its number when that commits."""

    kind: str
    subject: str
    tenant: str | None = None
    data: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; later ones have greater numbers, without gaps."""

    seq: int
    at_ns: int
    kind: str
    subject: str
    tenant: str | None = None
    data: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who asked for what, and how it ended."""

    id: str
    at_ns: int
    actor: str
    action: str
    subject: str
    outcome: str
    tenant: str | None = None
    data: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lease:
    """Leadership for a time, by the database's clock; its epoch fences what the holder writes."""

    name: str
    holder: str
    epoch: int
    expires_ns: int


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    """A tenant's own cluster over shared hardware."""

    name: str
    tenant: str
    tier: VirtualTier
    spec: Json = field(default_factory=dict)
    deleting: bool = False
    """Whether it shall go."""
    forced: bool = False
    """Of one that shall go: whether Pods that run there are no reason to wait."""
    standing: Json = field(default_factory=dict)
    """Of a dedicated one: what its process last said of it; empty: nothing yet."""
    said_ns: int | None = None
    """When it did."""
    revision: int = 1
    created_ns: int = 0


@dataclass(frozen=True, slots=True)
class VirtualSpace:
    """A scoped virtual cluster in one cluster, as that last said."""

    name: str
    cluster: str
    number: int
    """The revision of the virtual cluster that it is about."""
    namespace: str
    phase: SpacePhase = SpacePhase.ASKED
    reason: str = ""
    pods: int = 0
