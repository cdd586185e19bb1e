"""Migrations: what is asked for, what it would come to, and where one stands."""

from typing import Annotated

from pydantic import Field

from dure.api.base import Document, LowerName
from dure.domain.fleet.migrations import MoveKind, MoveStep


class MigrationRequest(Document):
    """Where a job shall go."""

    to: LowerName | None = None
    """The cluster; left out: the one where it is cheapest."""
    now: bool = False
    """Whether it is to be moved though no window is open for it."""


class MigrationDocument(Document):
    """A job on its way from one place to another, or that was."""

    id: str
    job: str
    kind: MoveKind
    """`warm`: a service, new place first. `checkpoint`: it saves, ends and resumes. `requeue`: it
    ends and starts again."""
    step: MoveStep
    reason: str
    """Of the step."""
    from_attempt: int
    from_cluster: str
    to_attempt: int | None
    to_cluster: str
    """Empty: not chosen yet."""
    checkpoint: int = 0
    """Number of the checkpoint that was asked for; 0: none was."""
    asked_by: str
    """Empty: the planner, because of what it saves."""
    why: str
    saving: float
    """Expected, net of all costs of the move, in the fleet's currency."""
    egress: float
    """What carrying checkpoint, weights and data costs."""
    carbon_saved_g: float
    aborted_by: str = ""
    begun_at: str
    since: str
    """When it came to its step."""
    ended_at: str | None


class MigrationList(Document):
    """Migrations that have not ended."""

    items: list[MigrationDocument]


class MoveTerm(Document):
    """One part of what a move costs, in the fleet's currency."""

    name: str
    amount: float


class MigrationPreview(Document):
    """What a migration would come to; nothing was begun."""

    job: str
    kind: MoveKind
    from_site: str
    to_site: str
    steps: list[MoveStep]
    """That it would take."""
    pause_seconds: float
    """Expected, in which the job does nothing; 0 of a service."""
    checkpoint_wait_seconds: float | None = None
    """How long it would wait for a checkpoint; left out: it asks for none."""
    egress: float
    stay: float
    """What staying costs, as long as the move makes a difference."""
    terms: list[MoveTerm]
    """What moving costs instead."""
    saving: float
    """The difference; below zero: it costs more than it saves."""
    carbon_saved_g: float
    in_window: bool
    """Whether it may be made now without `now`."""
    hindrance: str = ""
    """Why it would be refused as things are; empty: it would not."""


class CheckpointDone(Document):
    """A job's program says that it has saved what it was asked to save."""

    number: Annotated[int, Field(ge=1, le=2**53)]
    """Of the request, as the program found it."""
