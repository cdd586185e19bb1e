"""The life of a migration: what is known of both places goes in, the next step and deeds come out.

Until the old place is told to end it can go on, whatever happens to the new one: every step before
`RELEASING` has a way back to it, and that way is taken by itself when a limit is over. Time is in
what is seen, so that a new leader goes on from the stored step.
"""

from dataclasses import dataclass, replace
from enum import Enum

from dure.domain.fleet.lifecycle import AttemptState
from dure.domain.fleet.migrations import Move, MoveKind, MoveStep
from dure.domain.units import NS_PER_S

_STARTED = (AttemptState.RUNNING, AttemptState.RELEASING)
_LEAST_SAVED = 5e-4
"""Shares are told in thousandths: less is no news."""


class Deed(Enum):
    """What is to be done about a step."""

    REQUEST = "request"
    """Ask the old place to save its work."""
    WITHDRAW = "withdraw"
    """Ask it no more."""
    YIELD_NEW = "yield-new"
    """Send no more requests to the new place."""
    RELEASE_OLD = "release-old"
    RELEASE_NEW = "release-new"


@dataclass(frozen=True, slots=True)
class Place:
    """What is known of one attempt."""

    state: AttemptState
    answers: bool = False
    """Of a service: all instances that were ordered are ready, as was told not long ago."""
    reachable: bool = True
    """Of a service: whether there is anything that requests could be sent to."""
    running_ns: int = 0
    """Since when it runs."""
    checkpointed: int = 0
    """The last checkpoint that it, or its program through the centre, says to have saved."""
    saved_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Sight:
    """What is known now; a place that is None is gone, or was never there."""

    now_ns: int
    old: Place | None
    new: Place | None
    job_ended: bool = False
    abort: str = ""
    """Why it is to be called off; empty: it is not."""
    mute_s: float = 0.0
    """How long the new place of a service has not answered."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long steps take, or may take."""

    shift_s: float
    drain_s: float
    warm_s: float
    """For the new place to answer, and then for it to be silent."""
    checkpoint_s: float
    """For a checkpoint that was asked for."""
    stop_anyway: bool = False
    """Whether a job whose checkpoint does not come ends nevertheless; else it stays."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A migration after a look at it."""

    move: Move
    deeds: tuple[Deed, ...] = ()


def advance(move: Move, sight: Sight, limits: Limits) -> Progress:
    """The next step, or the same one where nothing has happened."""
    if move.step.ended:
        return Progress(move)
    if sight.job_ended:
        return _to(move, sight, MoveStep.DROPPED, "its job has ended")
    if move.kind is MoveKind.WARM:
        return _service(move, sight, limits)
    return _job(move, sight, limits)


def ordered(move: Move, new: int | None, now_ns: int) -> Move:
    """A place was found; its first step there."""
    step = {
        MoveKind.WARM: MoveStep.WARMING,
        MoveKind.CHECKPOINT: MoveStep.SAVING,
        MoveKind.REQUEUE: MoveStep.RELEASING,
    }[move.kind]
    return replace(move, step=step, new=new, since_ns=now_ns)


def first_deeds(move: Move) -> tuple[Deed, ...]:
    """What is to be done when a place was found."""
    return {
        MoveKind.WARM: (),
        MoveKind.CHECKPOINT: (Deed.REQUEST,),
        MoveKind.REQUEUE: (Deed.RELEASE_OLD,),
    }[move.kind]


def _to(move: Move, sight: Sight, step: MoveStep, why: str, *deeds: Deed) -> Progress:
    return Progress(replace(move, step=step, since_ns=sight.now_ns, why=why), deeds)


def _passed_s(move: Move, sight: Sight) -> float:
    return (sight.now_ns - move.since_ns) / NS_PER_S


# --- services ------------------------------------------------------------------------------


def _service(move: Move, sight: Sight, limits: Limits) -> Progress:
    if move.step is MoveStep.RELEASING:
        return Progress(move) if sight.old else _to(move, sight, MoveStep.DONE, "")
    if move.step is MoveStep.UNDOING:
        return _undoing(move, sight, limits)
    if sight.old is None:
        return _alone(move, sight)
    if sight.abort:
        return _back(move, sight, sight.abort)
    return _towards(move, sight, limits)


def _towards(move: Move, sight: Sight, limits: Limits) -> Progress:
    if move.step in (MoveStep.ASKED, MoveStep.PLACING):
        return Progress(move)
    if sight.new is None or sight.new.state is AttemptState.RELEASING:
        return _to(move, sight, MoveStep.UNDONE, "its new place is gone")
    return _STEPS[move.step](move, sight, sight.new, limits)


def _alone(move: Move, sight: Sight) -> Progress:
    """The old place ended by itself: whatever there is of the new one must do."""
    if sight.new is not None and sight.new.state is AttemptState.RUNNING:
        return _to(move, sight, MoveStep.DONE, "its old place ended by itself")
    return _to(move, sight, MoveStep.DROPPED, "its old place ended by itself")


def _back(move: Move, sight: Sight, why: str) -> Progress:
    """The old place serves on; a new one that has requests may finish them."""
    if sight.new is None:
        return _to(move, sight, MoveStep.UNDONE, why)
    if move.step in (MoveStep.SHIFTING, MoveStep.DRAINING):
        return _to(move, sight, MoveStep.UNDOING, why, Deed.YIELD_NEW)
    return _to(move, sight, MoveStep.UNDONE, why, Deed.RELEASE_NEW)


def _undoing(move: Move, sight: Sight, limits: Limits) -> Progress:
    if sight.new is None:
        return _to(move, sight, MoveStep.UNDONE, move.why)
    if _passed_s(move, sight) >= limits.drain_s:
        return _to(move, sight, MoveStep.UNDONE, move.why, Deed.RELEASE_NEW)
    return Progress(move)


def _warming(move: Move, sight: Sight, new: Place, limits: Limits) -> Progress:
    if new.state is AttemptState.RUNNING:
        if not new.reachable:
            # Nobody can ask it anything, so that there is nothing to pass.
            return _to(move, sight, MoveStep.RELEASING, "", Deed.RELEASE_OLD)
        if new.answers:
            return _to(move, sight, MoveStep.SHIFTING, "")
    if _passed_s(move, sight) >= limits.warm_s:
        return _back(move, sight, f"its new place was not ready within {limits.warm_s:g} s")
    return Progress(move)


def _shifting(move: Move, sight: Sight, new: Place, limits: Limits) -> Progress:
    if not new.answers:
        if sight.mute_s >= limits.warm_s:
            return _back(move, sight, f"its new place did not answer for {limits.warm_s:g} s")
        return Progress(move)
    if (sight.now_ns - new.running_ns) / NS_PER_S >= limits.shift_s:
        return _to(move, sight, MoveStep.DRAINING, "")
    return Progress(move)


def _draining(move: Move, sight: Sight, new: Place, limits: Limits) -> Progress:
    if not new.answers:
        return _to(move, sight, MoveStep.SHIFTING, "its new place does not answer")
    if _passed_s(move, sight) >= limits.drain_s:
        return _to(move, sight, MoveStep.RELEASING, "", Deed.RELEASE_OLD)
    return Progress(move)


_STEPS = {
    MoveStep.WARMING: _warming,
    MoveStep.SHIFTING: _shifting,
    MoveStep.DRAINING: _draining,
}


# --- jobs ----------------------------------------------------------------------------------


def _job(move: Move, sight: Sight, limits: Limits) -> Progress:
    if move.step is MoveStep.RESUMING:
        runs = sight.new is not None and sight.new.state is AttemptState.RUNNING
        return _to(move, sight, MoveStep.DONE, move.why) if runs else Progress(move)
    if sight.old is None:
        if move.step is MoveStep.ASKED:
            return _to(move, sight, MoveStep.DROPPED, "its old place ended by itself")
        return _to(move, sight, MoveStep.RESUMING, move.why)
    if sight.abort and move.step is not MoveStep.RELEASING:
        return _stay(move, sight, sight.abort)
    return _saving(move, sight, sight.old, limits) if _saves(move) else Progress(move)


def _saves(move: Move) -> bool:
    return move.step is MoveStep.SAVING


def _stay(move: Move, sight: Sight, why: str) -> Progress:
    deeds = [Deed.WITHDRAW] if _saves(move) else []
    if sight.new is not None:
        deeds.append(Deed.RELEASE_NEW)
    return _to(move, sight, MoveStep.UNDONE, why, *deeds)


def _saving(move: Move, sight: Sight, old: Place, limits: Limits) -> Progress:
    if move.new is not None and sight.new is None:
        return _stay(move, sight, "its new place is gone")
    if move.saved_share < 0.0:
        # What it had saved before it was asked is no answer.
        move = replace(move, saved_share=old.saved_share)
    if why := _why_it_may_end(move, old):
        return _to(move, sight, MoveStep.RELEASING, why, Deed.RELEASE_OLD)
    if _passed_s(move, sight) < limits.checkpoint_s:
        return Progress(move)
    late = f"no checkpoint came within {limits.checkpoint_s:g} s"
    if limits.stop_anyway:
        why = f"{late}: work since the last one is done again"
        return _to(move, sight, MoveStep.RELEASING, why, Deed.RELEASE_OLD)
    return _stay(move, sight, f"{late}: it stays")


def _why_it_may_end(move: Move, old: Place) -> str:
    """Why nothing, or little, would be lost now; empty: it would."""
    if old.state not in _STARTED:
        return "it had not started"
    if old.checkpointed >= move.request:
        return f"checkpoint {move.request} is saved"
    if old.saved_share > move.saved_share + _LEAST_SAVED:
        return f"it saved its work by itself, {old.saved_share:.1%} of it"
    return ""
