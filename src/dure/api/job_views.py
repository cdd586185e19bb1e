"""Jobs as the server tells of them: where they are, why, and what that costs."""

from enum import Enum

from pydantic import Field

from dure.api.base import Document, Priority
from dure.api.jobs import JobSpec
from dure.api.loads import SizeDocument
from dure.api.migrations import MigrationDocument
from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.workloads import WorkloadKind


class Submitted(Document):
    """What was stored of a submission."""

    ids: list[str]
    """Of the jobs, in the order of the array."""
    array_id: str | None = None
    """Finds all jobs of an array."""


class DryRun(Document):
    """What a submission would store."""

    spec: JobSpec
    count: int


class JobSummary(Document):
    """A job in a list."""

    id: str
    tenant: str
    team: str
    service_name: str
    name: str
    kind: WorkloadKind
    phase: JobPhase
    priority: int
    attempt: int
    """Number of its latest attempt; 0: none yet."""
    cluster: str | None
    reason: str
    """Why it is in its phase."""
    suspended: bool = False
    """Whether its owner wants it to have no place for now."""
    pinned: bool = False
    """Whether it is not to be moved by itself."""
    moving: str = ""
    """Where a migration of it stands and where it goes, as `saving → west`; empty: none does."""
    labels: dict[str, str]
    array_id: str | None
    array_index: int | None
    ready: int | None = None
    """Of a service: instances that take requests; left out of streams."""
    wanted: int | None = None
    """The same that shall, by its load."""
    revision: int
    submitted_at: str
    updated_at: str
    ended_at: str | None


class JobEdit(Document):
    """What its owner changes of a job; what is left out stays."""

    priority: Priority | None = None
    suspend: bool | None = None
    """Whether it shall have no place for now: what runs is stopped, and starts again later."""
    pinned: bool | None = None
    """Whether it is not to be moved by itself."""


class AttemptDocument(Document):
    """One attempt of a job in a cluster."""

    attempt: int
    cluster: str
    state: AttemptState
    reason: str
    reserved_at: str
    committed_at: str | None
    running_at: str | None
    releasing_at: str | None
    gone_at: str | None
    size: SizeDocument | None = None
    """Of a service."""
    exit_code: int | None = None
    """Of its program, where its cluster told it."""


class JobDocument(JobSummary):
    """A job with everything that is known of it."""

    spec: JobSpec
    attempts: list[AttemptDocument]
    migration: MigrationDocument | None = None
    """The last of it, under way or over."""


class CostTerm(Document):
    """One part of what a placement costs, in the fleet's currency; below zero: a saving."""

    name: str
    amount: float


class AlternativeDocument(Document):
    """A place that was not taken."""

    site: str
    start_at: str
    total: float
    """What it would have cost by the same sum, congestion included."""
    why: str = ""


class ExplanationDocument(Document):
    """Why an attempt is where it is. Money in the fleet's currency, over the expected run."""

    terms: list[CostTerm] = Field(default_factory=list)
    money: float = 0.0
    """All terms."""
    g_co2: float = 0.0
    sla_risk: float = 0.0
    """Expected penalty, before weights."""
    congestion: float = 0.0
    """What it pays for being where others want to be."""
    total: float = 0.0
    """What was compared: all terms and the congestion price."""
    runner_up: AlternativeDocument | None = None
    note: str = ""


class ExplainedAttempt(Document):
    """An attempt and why it is where it is."""

    attempt: int
    cluster: str
    state: AttemptState
    reason: str
    explanation: ExplanationDocument | None = None
    size: SizeDocument | None = None
    """Of a service: how large it is there, and why."""


class JobExplanation(Document):
    """Why a job is where it is, or why it waits."""

    id: str
    phase: JobPhase
    reason: str
    """Why it waits or ended."""
    attempts: list[ExplainedAttempt]
    """The latest first."""
    migration: MigrationDocument | None = None
    """The last of it, under way or over."""


class SortOrder(Enum):
    """Order of a list of jobs."""

    OLDEST = "oldest"
    NEWEST = "newest"
