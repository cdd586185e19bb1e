"""Re-runs: the work of the last hour again, under the policy in force and under another."""

from typing import Annotated

from pydantic import Field, model_validator

from dure.api.base import Document, Line, Name
from dure.api.policies import PolicySpec
from dure.domain.fleet.workloads import WorkloadKind

LONGEST_MIN = 360


class RerunRequest(Document):
    """What shall be tried on the work of the last hour; exactly one of policy, mode and spec."""

    policy: Name | None = None
    """A stored policy."""
    mode: Line | None = None
    """A rule to compare with: GET /v1/reruns/choices lists them."""
    spec: PolicySpec | None = None
    """A policy that is not stored."""
    minutes: Annotated[int, Field(ge=5, le=LONGEST_MIN)] = 60
    """How far back."""

    @model_validator(mode="after")
    def _one(self) -> "RerunRequest":
        if sum(each is not None for each in (self.policy, self.mode, self.spec)) != 1:
            raise ValueError("names none or several of policy, mode, spec; give exactly one")
        return self


class RerunMode(Document):
    """A rule to compare with."""

    name: str
    about: str


class RerunChoices(Document):
    """GET /v1/reruns/choices."""

    in_force: str | None
    """The policy in force; null: the defaults."""
    policies: list[str]
    modes: list[RerunMode]


class RerunMoney(Document):
    """What it came to, in the fleet's currency."""

    rent: float
    energy: float
    transfers: float
    penalties: float
    """Of late jobs and slow services."""
    unfinished: float
    """What is left undone when the time is over, at the dearest price that could run it."""
    total: float


class RerunCluster(Document):
    """One cluster's part."""

    cluster: str
    device_hours: float
    utilisation: float
    money: float
    kg_co2: float
    jobs: int
    """That ended there."""


class RerunSide(Document):
    """One of the two runs."""

    name: str
    money: RerunMoney
    kg_co2: float
    kwh: float
    ended: int
    unfinished: int
    refused: int
    mean_wait_seconds: float
    p95_wait_seconds: float
    on_time_share: float
    """Of jobs whose deadline lay within the time."""
    within_target_share: float
    """Of the minutes of services."""
    utilisation: float
    fragmentation: float
    placements: int
    moves: int
    preemptions: int
    clusters: list[RerunCluster]


class RerunJob(Document):
    """Where a job was and would have been."""

    id: str
    name: str
    tenant: str
    kind: WorkloadKind
    was: str | None
    """The cluster it was in; null: it had none."""
    in_force: str | None
    candidate: str | None
    in_force_wait_seconds: float | None
    """From its coming to its start; null: it did not start."""
    candidate_wait_seconds: float | None


class RerunDocument(Document):
    """POST /v1/reruns."""

    since: str
    until: str
    currency: str
    jobs: int
    services: int
    notes: list[str]
    """What a reader should know: what was left out, and what was assumed."""
    in_force: RerunSide
    candidate: RerunSide
    differing: list[RerunJob]
    """Jobs that the two runs place differently, the newest first; not more than 200."""
    took_seconds: float
