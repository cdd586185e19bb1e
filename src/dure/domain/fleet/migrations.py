"""Lives of migrations: how work gets from one attempt to the next, step by step."""

from dataclasses import dataclass
from enum import Enum

from dure.domain.fleet.workloads import Workload, WorkloadKind


class MoveKind(Enum):
    """How a workload gets from one place to another."""

    WARM = "warm"
    """A service: the new place answers before the old one ends."""
    CHECKPOINT = "checkpoint"
    """Training: it saves when asked, ends, and resumes from there."""
    REQUEUE = "requeue"
    """A job that saves nothing when asked: it ends and starts again."""


class MoveStep(Enum):
    """Where a migration stands."""

    ASKED = "asked"
    """Somebody wants it; no place was sought yet."""
    PLACING = "placing"
    """It must leave, and serves on until a place is found."""
    WARMING = "warming"
    """The new place starts; the old one serves."""
    SHIFTING = "shifting"
    """Requests pass to the new place in steps."""
    DRAINING = "draining"
    """The new place has all new requests; the old one finishes what it began."""
    UNDOING = "undoing"
    """Requests are back at the old place; the new one finishes what it began."""
    SAVING = "saving"
    """A checkpoint was asked for; the job runs on at the old place."""
    RELEASING = "releasing"
    """The old place was told to end: from here on there is no way back."""
    RESUMING = "resuming"
    """The old place is gone, the new one does not run yet."""
    DONE = "done"
    UNDONE = "undone"
    """It stayed where it was."""
    DROPPED = "dropped"
    """There was nothing left to move: the job ended, or lost its place by something else."""

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self in _ENDS

    @property
    def abortable(self) -> bool:
        """Whether it can still be called off."""
        return self in _ABORTABLE


_ENDS = frozenset({MoveStep.DONE, MoveStep.UNDONE, MoveStep.DROPPED})
_ABORTABLE = frozenset(
    {
        MoveStep.ASKED,
        MoveStep.PLACING,
        MoveStep.WARMING,
        MoveStep.SHIFTING,
        MoveStep.DRAINING,
        MoveStep.SAVING,
    }
)


NOT_LOOKED = -1.0
"""A share that is not known yet."""


@dataclass(frozen=True, slots=True)
class Move:
    """One migration, as far as its next step depends on it."""

    kind: MoveKind
    step: MoveStep
    since_ns: int
    """When it came to this step."""
    old: int
    """The attempt that leaves."""
    new: int | None = None
    """The attempt that takes over; None: it has no place yet."""
    request: int = 0
    """Number of the checkpoint that was asked for; 0: none was."""
    saved_share: float = NOT_LOOKED
    """What was saved when it was asked for; below zero: that was not looked at yet."""
    why: str = ""
    """Of the step, for people."""


def kind_of(workload: Workload) -> MoveKind:
    """How a workload moves."""
    if workload.kind is WorkloadKind.SERVING:
        return MoveKind.WARM
    saves = workload.kind is WorkloadKind.TRAINING and workload.gang.checkpoint_s is not None
    return MoveKind.CHECKPOINT if saves else MoveKind.REQUEUE
