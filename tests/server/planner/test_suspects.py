"""One job that makes the machine fail is found and kept back; all others are planned."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from dure.domain.fleet.events import GlobalEvent, RoundDue, WorkloadSubmitted
from dure.domain.fleet.instructions import GlobalInstruction
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.ids import WorkloadId
from dure.fleet.global_machine import GlobalMachine
from dure.server.planner.suspects import Suspected, Suspects
from tests.server.centres import World, world
from tests.server.members import linked
from tests.stores.helpers import asynchronous

POISON = 4242
"""Priority of jobs that the machine fails on here."""
ROOM = 32


def _poisoned(monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    """Let the machine fail on an event of a kind, once it has heard of a poisonous job."""
    handle = GlobalMachine.handle

    def failing(self: GlobalMachine, event: GlobalEvent) -> list[GlobalInstruction]:
        done = handle(self, event)
        known: Iterable[Any] = (track.workload for track in self.state.tracks.values())
        if isinstance(event, kind) and any(each.priority == POISON for each in known):
            raise ZeroDivisionError("a figure that nobody thought of")
        return done

    monkeypatch.setattr(GlobalMachine, "handle", failing)


async def _reason(centre: World, job: str) -> str:
    return (await centre.job(job)).reason


@pytest.mark.parametrize("kind", [RoundDue, WorkloadSubmitted])
@asynchronous
async def test_a_job_the_machine_fails_on_waits_with_the_reason_and_all_others_run(
    kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    _poisoned(monkeypatch, kind)
    async with (
        world(f"sqlite:///{tmp_path / 'state.db'}") as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        await member.join(free=ROOM)
        poison = {"row": {"priority": POISON}}
        jobs = [await centre.submit(**(poison if number == 3 else {})) for number in range(9)]
        bad = jobs.pop(3)
        await member.until(lambda me: {key.job for key in me.desired} == set(jobs), 60)

        async def told() -> bool:
            return "the planner failed on it" in await _reason(centre, bad)

        await centre.until(told, "the reason")
        assert "ZeroDivisionError: a figure that nobody thought of" in await _reason(centre, bad)
        assert (await centre.job(bad)).phase is JobPhase.QUEUED
        later = await centre.submit()
        await member.until(lambda me: later in {key.job for key in me.desired}, 60)
        await centre.cancel(bad)
        await centre.phase(bad, JobPhase.CANCELLED)


def test_one_of_many_is_found_by_halves() -> None:
    suspects, guilty = Suspects(), "job-37"
    waiting = [f"job-{number}" for number in range(100)]
    failures, over = 0, False
    while not over:
        suspects.fresh.update(job for job in waiting if not suspects.why_kept(job))
        try:
            while not over:
                with suspects.blamed(suspects.fresh):
                    assert guilty not in suspects.fresh
                suspects.fresh.update(suspects.went_well())
                over = not suspects.fresh
        except Suspected:
            failures += 1
    assert failures <= 8
    assert [job for job in waiting if suspects.why_kept(job)] == [guilty]


def test_a_failure_without_anybody_new_is_told_as_it_is() -> None:
    with pytest.raises(KeyError), Suspects().blamed(()):
        raise KeyError(WorkloadId("x"))
