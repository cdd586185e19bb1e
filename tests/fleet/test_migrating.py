"""The machine of migrations: every step, the way back from each, and what limits do."""

from dataclasses import replace

import pytest

from dure.domain.fleet.lifecycle import AttemptState
from dure.domain.fleet.migrations import Move, MoveKind, MoveStep
from dure.domain.units import NS_PER_S
from dure.fleet.migrating import (
    Deed,
    Limits,
    Place,
    Progress,
    Sight,
    advance,
    first_deeds,
    ordered,
)

LIMITS = Limits(shift_s=10.0, drain_s=5.0, warm_s=60.0, checkpoint_s=600.0)
RUNS = Place(AttemptState.RUNNING, answers=True, running_ns=0)
STARTS = Place(AttemptState.COMMITTED)
SERVICE = Move(MoveKind.WARM, MoveStep.WARMING, 0, old=1, new=2)
TRAINING = Move(MoveKind.CHECKPOINT, MoveStep.SAVING, 0, old=1, new=2, request=7)


def at(after_s: float, old: Place | None, new: Place | None, **more: object) -> Sight:
    return Sight(round(after_s * NS_PER_S), old, new, **more)  # type: ignore[arg-type]


def look(move: Move, sight: Sight, limits: Limits = LIMITS) -> tuple[MoveStep, tuple[Deed, ...]]:
    found = advance(move, sight, limits)
    return found.move.step, found.deeds


def test_a_service_passes_step_by_step_and_its_old_place_ends_last() -> None:
    assert look(SERVICE, at(1, RUNS, STARTS)) == (MoveStep.WARMING, ())
    move = advance(SERVICE, at(2, RUNS, RUNS), LIMITS).move
    assert (move.step, move.since_ns) == (MoveStep.SHIFTING, 2 * NS_PER_S)
    assert look(move, at(9.9, RUNS, RUNS)) == (MoveStep.SHIFTING, ())
    move = advance(move, at(10, RUNS, RUNS), LIMITS).move
    assert move.step is MoveStep.DRAINING
    assert look(move, at(14.9, RUNS, RUNS)) == (MoveStep.DRAINING, ())
    found = advance(move, at(15, RUNS, RUNS), LIMITS)
    assert (found.move.step, found.deeds) == (MoveStep.RELEASING, (Deed.RELEASE_OLD,))
    assert look(found.move, at(16, replace(RUNS, state=AttemptState.RELEASING), RUNS)) == (
        MoveStep.RELEASING,
        (),
    )
    assert look(found.move, at(17, None, RUNS)) == (MoveStep.DONE, ())


@pytest.mark.parametrize(
    ("step", "then", "deeds"),
    [
        (MoveStep.ASKED, MoveStep.UNDONE, (Deed.RELEASE_NEW,)),
        (MoveStep.PLACING, MoveStep.UNDONE, (Deed.RELEASE_NEW,)),
        (MoveStep.WARMING, MoveStep.UNDONE, (Deed.RELEASE_NEW,)),
        (MoveStep.SHIFTING, MoveStep.UNDOING, (Deed.YIELD_NEW,)),
        (MoveStep.DRAINING, MoveStep.UNDOING, (Deed.YIELD_NEW,)),
    ],
)
def test_a_service_that_is_called_off_stays_and_is_never_told_to_end(
    step: MoveStep, then: MoveStep, deeds: tuple[Deed, ...]
) -> None:
    assert step.abortable
    found = advance(replace(SERVICE, step=step), at(3, RUNS, RUNS, abort="called off"), LIMITS)
    assert (found.move.step, found.deeds, found.move.why) == (then, deeds, "called off")


def test_the_new_place_finishes_what_it_began_before_it_ends() -> None:
    undoing = replace(SERVICE, step=MoveStep.UNDOING, why="called off")
    assert look(undoing, at(4.9, RUNS, RUNS)) == (MoveStep.UNDOING, ())
    assert look(undoing, at(5, RUNS, RUNS)) == (MoveStep.UNDONE, (Deed.RELEASE_NEW,))
    assert look(undoing, at(1, RUNS, None)) == (MoveStep.UNDONE, ())


@pytest.mark.parametrize("step", [MoveStep.RELEASING, MoveStep.UNDOING])
def test_what_cannot_be_called_off_any_more_goes_on(step: MoveStep) -> None:
    move = replace(SERVICE, step=step)
    assert not step.abortable
    assert look(move, at(1, RUNS, RUNS, abort="too late")) == (step, ())


@pytest.mark.parametrize("step", [MoveStep.WARMING, MoveStep.SHIFTING, MoveStep.DRAINING])
def test_a_service_stays_where_its_new_place_is_gone(step: MoveStep) -> None:
    assert look(replace(SERVICE, step=step), at(3, RUNS, None)) == (MoveStep.UNDONE, ())


def test_a_new_place_that_is_not_ready_in_time_is_given_up() -> None:
    assert look(SERVICE, at(60, RUNS, STARTS)) == (MoveStep.UNDONE, (Deed.RELEASE_NEW,))


def test_a_new_place_that_falls_silent_gets_no_further_and_is_given_up_at_last() -> None:
    silent = replace(RUNS, answers=False)
    draining = replace(SERVICE, step=MoveStep.DRAINING)
    assert look(draining, at(99, RUNS, silent))[0] is MoveStep.SHIFTING
    shifting = replace(SERVICE, step=MoveStep.SHIFTING)
    assert look(shifting, at(99, RUNS, silent, mute_s=59.0)) == (MoveStep.SHIFTING, ())
    assert look(shifting, at(99, RUNS, silent, mute_s=60.0)) == (
        MoveStep.UNDOING,
        (Deed.YIELD_NEW,),
    )


def test_a_service_that_nobody_can_ask_changes_places_at_once() -> None:
    portless = replace(RUNS, reachable=False, answers=False)
    assert look(SERVICE, at(1, RUNS, portless)) == (MoveStep.RELEASING, (Deed.RELEASE_OLD,))


def test_an_old_place_that_ends_by_itself_leaves_what_there_is() -> None:
    assert look(SERVICE, at(1, None, RUNS))[0] is MoveStep.DONE
    assert look(SERVICE, at(1, None, STARTS))[0] is MoveStep.DROPPED


def test_a_job_ends_once_its_checkpoint_is_saved_and_resumes_elsewhere() -> None:
    assert first_deeds(TRAINING) == (Deed.REQUEST,)
    assert ordered(TRAINING, 2, 5).step is MoveStep.SAVING
    assert look(TRAINING, at(1, RUNS, STARTS)) == (MoveStep.SAVING, ())
    assert look(TRAINING, at(1, replace(RUNS, checkpointed=6), STARTS)) == (MoveStep.SAVING, ())
    found = advance(TRAINING, at(2, replace(RUNS, checkpointed=7), STARTS), LIMITS)
    assert (found.move.step, found.deeds) == (MoveStep.RELEASING, (Deed.RELEASE_OLD,))
    ending = replace(RUNS, state=AttemptState.RELEASING)
    assert look(found.move, at(3, ending, STARTS)) == (MoveStep.RELEASING, ())
    move = advance(found.move, at(4, None, STARTS), LIMITS).move
    assert move.step is MoveStep.RESUMING
    assert look(move, at(5, None, None)) == (MoveStep.RESUMING, ())
    assert look(move, at(6, None, RUNS)) == (MoveStep.DONE, ())


def test_a_checkpoint_that_a_job_saves_by_itself_counts_too() -> None:
    move = replace(TRAINING, saved_share=0.3)
    assert look(move, at(1, replace(RUNS, saved_share=0.3), STARTS)) == (MoveStep.SAVING, ())
    assert look(move, at(1, replace(RUNS, saved_share=0.4), STARTS))[0] is MoveStep.RELEASING


def test_what_was_saved_before_it_was_asked_for_is_no_answer() -> None:
    found = advance(TRAINING, at(1, replace(RUNS, saved_share=0.6), STARTS), LIMITS)
    assert (found.move.step, found.move.saved_share) == (MoveStep.SAVING, 0.6)
    later = at(2, replace(RUNS, saved_share=0.61), STARTS)
    assert look(found.move, later)[0] is MoveStep.RELEASING


def test_a_checkpoint_that_never_comes_lets_a_job_stay_or_stop_as_its_owner_says() -> None:
    late = at(600, RUNS, STARTS)
    assert look(TRAINING, at(599, RUNS, STARTS)) == (MoveStep.SAVING, ())
    stays = advance(TRAINING, late, LIMITS)
    assert (stays.move.step, stays.deeds) == (MoveStep.UNDONE, (Deed.WITHDRAW, Deed.RELEASE_NEW))
    assert "no checkpoint came within 600 s" in stays.move.why
    stops = replace(LIMITS, stop_anyway=True)
    assert look(TRAINING, late, stops) == (MoveStep.RELEASING, (Deed.RELEASE_OLD,))


def test_a_job_that_is_called_off_runs_on_and_is_asked_for_nothing() -> None:
    sight = at(1, RUNS, STARTS, abort="called off")
    assert look(TRAINING, sight) == (MoveStep.UNDONE, (Deed.WITHDRAW, Deed.RELEASE_NEW))
    asked = replace(TRAINING, step=MoveStep.ASKED, new=None)
    assert look(asked, at(1, RUNS, None, abort="called off")) == (MoveStep.UNDONE, ())
    for step in (MoveStep.RELEASING, MoveStep.RESUMING):
        assert not step.abortable
        assert look(replace(TRAINING, step=step), sight)[1] == ()


def test_a_job_whose_new_place_falls_away_runs_on() -> None:
    assert look(TRAINING, at(1, RUNS, None)) == (
        MoveStep.UNDONE,
        (Deed.WITHDRAW,),
    )


def test_a_job_that_must_leave_needs_no_place_to_begin() -> None:
    drained = replace(TRAINING, new=None)
    assert look(drained, at(1, RUNS, None)) == (MoveStep.SAVING, ())
    assert look(drained, at(1, None, None))[0] is MoveStep.RESUMING


def test_work_that_saves_nothing_ends_at_once() -> None:
    batch = replace(TRAINING, kind=MoveKind.REQUEUE)
    assert first_deeds(batch) == (Deed.RELEASE_OLD,)
    assert ordered(batch, 2, 0).step is MoveStep.RELEASING


@pytest.mark.parametrize("step", [step for step in MoveStep if not step.ended])
@pytest.mark.parametrize("move", [SERVICE, TRAINING])
def test_a_job_that_ended_is_not_moved(move: Move, step: MoveStep) -> None:
    found = advance(replace(move, step=step), at(1, RUNS, RUNS, job_ended=True), LIMITS)
    assert found == Progress(found.move)
    assert found.move.step is MoveStep.DROPPED


@pytest.mark.parametrize("step", [step for step in MoveStep if step.ended])
def test_what_is_over_stays_over(step: MoveStep) -> None:
    move = replace(SERVICE, step=step)
    assert advance(move, at(99, None, None), LIMITS) == Progress(move)
