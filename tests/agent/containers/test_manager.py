"""The manager: what the machine asks for happens, and whatever goes wrong lets containers go."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dure.domain.containers import Container, PauseWay
from dure.domain.errors import DureError
from dure.domain.ids import ContainerId
from dure.domain.node_events import (
    ContainerStarted,
    NodeEvent,
    PauseEnded,
    PersonPaused,
    ResumedByOthers,
    ResumeEnded,
    TableTaken,
    TimePassed,
)
from dure.domain.node_instructions import NodeInstruction, Pause, PollEvery, Resume, WakeAt
from dure.runtimes.docker_errors import PauseUnsupportedError
from dure.runtimes.errors import RestlessError, StillHeldError
from dure.runtimes.simulated import SimulatedPauser
from tests.agent.containers.stand import ScriptedMachine, Stand, container, table, wait_for

A, B, C = container(1), container(2), container(3)
FAR_NS = 3600 * 10**9

MakeStand = Callable[..., Stand]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeStand]:
    made: list[Stand] = []

    def start(**settings: Any) -> Stand:
        stand = Stand(tmp_path / str(len(made)), **settings)
        made.append(stand)
        stand.start()
        return stand

    yield start
    for stand in made:
        stand.stop()


def test_who_comes_to_a_full_gpu_waits_and_goes_when_it_is_free(make: MakeStand) -> None:
    stand = make()
    stand.guard()
    stand.begin(A, B)
    stand.hold(A, B)
    assert [(owed.container, owed.done) for owed in stand.owed()] == [(B.id, True)]
    assert stand.state(B) == "queued"
    stand.runtime.end(A.id)
    wait_for("box2 runs", lambda: stand.runtime.runs(B.id))
    wait_for("nothing owed", lambda: stand.owed() == ())
    assert stand.state(A) == "absent"


def test_nothing_is_paused_while_watchdog_or_monitor_is_away(make: MakeStand) -> None:
    stand = make()
    stand.begin(A, B)
    for watchdog, monitor in ((False, True), (True, False)):
        stand.guard(watchdog=watchdog, monitor=monitor)
        for _ in range(20):
            stand.manager.take_table(table(A, idle=(B,)))
            time.sleep(0.01)
        assert stand.runtime.runs(B.id)
        assert stand.manager.troubles


@pytest.mark.parametrize(
    ("lost", "words"),
    [("watchdog", "the watchdog is not there"), ("monitor", "the monitor does not look")],
)
def test_losing_watchdog_or_monitor_lets_everybody_go_and_is_told_as_what_it_is(
    make: MakeStand, lost: str, words: str
) -> None:
    stand = make()
    stand.guard()
    stand.begin(A, B, C)
    stand.hold(A, B, C)
    stand.guard(**{lost: False})
    wait_for("all run", lambda: all(stand.runtime.runs(each.id) for each in (A, B, C)))
    wait_for("nothing owed", lambda: stand.owed() == ())
    assert f"Nothing is paused, since {words}" in stand.manager.why(B.id)[-1]


def test_a_container_that_ends_while_paused_leaves_nothing_behind(make: MakeStand) -> None:
    stand = make()
    stand.guard()
    stand.begin(A, B)
    stand.hold(A, B)
    stand.runtime.end(B.id)
    wait_for("it is forgotten", lambda: B.id not in stand.manager.containers)
    wait_for("nothing owed", lambda: stand.owed() == ())


def test_a_new_name_is_known_at_once(make: MakeStand) -> None:
    stand = make()
    stand.guard()
    stand.begin(A, B)
    stand.hold(A, B)
    stand.runtime.rename(B.id, "other")
    wait_for("its name", lambda: [v.name for v in stand.views() if v.id == B.id] == ["other"])


def test_what_a_person_paused_stays_paused(make: MakeStand) -> None:
    stand = make()
    stand.guard()
    stand.begin(A, B)
    stand.runtime.freeze(B.id)
    wait_for("it is known", lambda: stand.state(B) == "paused by a person")
    stand.guard(watchdog=False)
    stand.runtime.end(A.id)
    time.sleep(0.2)
    assert not stand.runtime.runs(B.id)
    assert stand.owed() == ()


def test_what_a_person_lets_go_is_left_alone(make: MakeStand) -> None:
    stand = make()
    stand.guard()
    stand.begin(A, B)
    stand.hold(A, B)
    stand.runtime.thaw(B.id)
    wait_for("nothing owed", lambda: stand.owed() == ())
    for _ in range(20):
        stand.manager.take_table(table(A, B))
        time.sleep(0.01)
    assert stand.runtime.runs(B.id)


def test_a_container_that_somebody_paused_first_is_theirs(make: MakeStand) -> None:
    stand = make()
    stand.guard()
    stand.begin(A, B)

    def overtaken(_: Container) -> None:
        if stand.runtime.runs(B.id):
            stand.runtime.freeze(B.id)  # a person is quicker

    pauser = stand.pausers[PauseWay.DOCKER]
    assert isinstance(pauser, SimulatedPauser)
    pauser.fails = overtaken
    stand.hold(A, B)
    wait_for("it is known", lambda: stand.state(B) == "paused by a person")
    stand.runtime.end(A.id)
    time.sleep(0.2)
    assert not stand.runtime.runs(B.id), "nobody but the person lets it go"
    wait_for("nothing owed", lambda: stand.owed() == ())


def test_a_container_whose_runtime_cannot_pause_is_unmanaged_from_then_on(
    make: MakeStand,
) -> None:
    stand = make()
    stand.guard()
    stand.begin(A, B)

    def unable(_: Container) -> str | None:
        raise PauseUnsupportedError("its runtime cannot pause")

    pauser = stand.pausers[PauseWay.DOCKER]
    assert isinstance(pauser, SimulatedPauser)
    pauser.fails = unable
    until = time.monotonic() + 20.0
    while stand.state(B) != "unmanaged" and time.monotonic() < until:
        stand.manager.take_table(table(A, idle=(B,)))
        time.sleep(0.02)
    (seen,) = [view for view in stand.views() if view.id == B.id]
    assert (seen.state.value, "cannot pause" in seen.reason) == ("unmanaged", True)
    assert stand.runtime.runs(B.id)
    wait_for("nothing owed", lambda: stand.owed() == ())


def test_a_dry_run_says_what_it_would_do_and_does_nothing(make: MakeStand) -> None:
    stand = make(dry_run=True)
    stand.guard()
    stand.begin(A, B)
    for _ in range(20):
        stand.manager.take_table(table(A, idle=(B,)))
        time.sleep(0.01)
    wait_for("the state that would be", lambda: stand.state(B) == "queued")
    assert stand.runtime.runs(B.id)
    assert "would pause box2 by docker" in stand.said()
    assert stand.owed() == ()
    stand.runtime.end(A.id)
    wait_for("it would go", lambda: "would let box2 go" in stand.said())


def test_a_way_that_fails_is_followed_by_the_next(make: MakeStand) -> None:
    stand = make(ways=(PauseWay.CUDA_LOCK, PauseWay.DOCKER), strategy="dure")
    lock = stand.pausers[PauseWay.CUDA_LOCK]
    assert isinstance(lock, SimulatedPauser)
    lock.fails = lambda _: "no lock today"
    ask = ScriptedMachine(lambda _: ())
    stand.guard()
    stand.begin(A)
    stand.manager.call(lambda: setattr(stand.manager, "_machine", ask))
    stand.manager.person(TimePassed)
    ask.answer = _once(Pause(A.id, PauseWay.CUDA_LOCK, FAR_NS + time.monotonic_ns(), "test"))
    stand.manager.person(TimePassed)
    wait_for("an answer", lambda: any(isinstance(event, PauseEnded) for event in ask.seen))
    (ended,) = [event for event in ask.seen if isinstance(event, PauseEnded)]
    assert (ended.way, ended.error) == (PauseWay.DOCKER, None)
    assert not stand.runtime.runs(A.id)
    ask.answer = _once(Resume(A.id, "test"))
    stand.manager.person(TimePassed)
    wait_for("it runs", lambda: stand.runtime.runs(A.id))


def _once(*instructions: NodeInstruction) -> Callable[[NodeEvent], tuple[NodeInstruction, ...]]:
    left = [instructions]
    return lambda _: left.pop() if left else ()


def _scripted(
    make: MakeStand, *instructions: NodeInstruction, **more: Any
) -> tuple[Stand, ScriptedMachine]:
    """A stand whose machine asks for these things when A has started."""
    asked = list(instructions)

    def answer(event: NodeEvent) -> tuple[NodeInstruction, ...]:
        if isinstance(event, ContainerStarted) and event.container.id == A.id:
            return tuple(asked)
        return ()

    machine = ScriptedMachine(answer)
    stand = make(make_machine=lambda: machine, **more)
    return stand, machine


def test_a_container_whose_health_is_checked_is_not_frozen_in_place_of_a_lock(
    make: MakeStand,
) -> None:
    checked = container(1, health_checked=True)
    pause = Pause(A.id, PauseWay.CUDA_LOCK, FAR_NS + time.monotonic_ns(), "test")
    stand, machine = _scripted(make, pause, ways=(PauseWay.CUDA_LOCK, PauseWay.DOCKER))
    lock = stand.pausers[PauseWay.CUDA_LOCK]
    assert isinstance(lock, SimulatedPauser)
    lock.fails = lambda _: "no lock today"
    stand.begin(checked)
    wait_for("an answer", lambda: any(isinstance(event, PauseEnded) for event in machine.seen))
    (ended,) = [event for event in machine.seen if isinstance(event, PauseEnded)]
    assert ended.error == "cuda-lock: no lock today"
    assert stand.runtime.runs(A.id)


def test_a_deadline_is_kept_even_where_the_machine_forgets_it(make: MakeStand) -> None:
    pause = Pause(A.id, PauseWay.DOCKER, time.monotonic_ns() + 10**9, "test")
    stand, _ = _scripted(make, pause)
    stand.begin(A)
    wait_for("it is paused", lambda: not stand.runtime.runs(A.id))
    wait_for("it is let go", lambda: stand.runtime.runs(A.id), 10.0)
    wait_for("nothing owed", lambda: stand.owed() == ())


@dataclass(slots=True)
class Sticky(SimulatedPauser):
    """A lock that opens only when a test lets it."""

    sticks: bool = True
    tries: int = 0

    def resume(self, container: Container) -> None:
        self.tries += 1
        if self.sticks:
            raise DureError("it cannot be unlocked")
        SimulatedPauser.resume(self, container)


def _sticky(make: MakeStand, *instructions: NodeInstruction) -> tuple[Stand, ScriptedMachine]:
    """As `_scripted`, with a lock that sticks, and Docker beside it."""
    stand, machine = _scripted(make, *instructions, ways=(PauseWay.CUDA_LOCK, PauseWay.DOCKER))
    lock = Sticky(stand.runtime, PauseWay.CUDA_LOCK)
    stand.pausers[PauseWay.CUDA_LOCK] = lock
    stand.manager.pausers[PauseWay.CUDA_LOCK] = lock  # type: ignore[index]
    return stand, machine


def _ended(machine: ScriptedMachine) -> list[PauseEnded]:
    return [event for event in machine.seen if isinstance(event, PauseEnded)]


@pytest.mark.parametrize("kind", [StillHeldError, ValueError])
def test_a_pause_that_failed_half_way_stays_owed_until_it_is_let_go(
    make: MakeStand, kind: type[Exception]
) -> None:
    pause = Pause(A.id, PauseWay.CUDA_LOCK, FAR_NS + time.monotonic_ns(), "test")
    stand, machine = _sticky(make, pause)
    lock = stand.pausers[PauseWay.CUDA_LOCK]
    assert isinstance(lock, Sticky)

    def half(each: Container) -> None:
        stand.runtime.lock(each.id)
        raise kind("half of it is locked")

    lock.fails = half
    stand.begin(A)
    wait_for("an answer", lambda: _ended(machine))
    assert "half of it is locked" in (_ended(machine)[0].error or "")
    wait_for("two tries", lambda: lock.tries >= 2)
    assert [owed.way for owed in stand.owed()] == [PauseWay.CUDA_LOCK]
    assert lock.tries < 20, "it is tried in every round"
    lock.sticks = False
    wait_for("it runs", lambda: stand.runtime.runs(A.id))
    wait_for("nothing owed", lambda: stand.owed() == ())


def test_a_lock_that_does_not_open_for_the_pause_of_a_person_stays_owed_until_it_does(
    make: MakeStand,
) -> None:
    far_ns = FAR_NS + time.monotonic_ns()
    stand, machine = _sticky(
        make,
        Pause(A.id, PauseWay.CUDA_LOCK, far_ns, "test"),
        Pause(A.id, PauseWay.CUDA_LOCK, far_ns, "a person paused it", by_person=True),
    )
    lock = stand.pausers[PauseWay.CUDA_LOCK]
    assert isinstance(lock, Sticky)
    stand.begin(A)
    wait_for("two answers", lambda: len(_ended(machine)) == 2)
    assert [event.error for event in _ended(machine)] == [None, "it cannot be unlocked"]
    wait_for("the machine knows", lambda: isinstance(machine.seen[-1], ResumedByOthers))
    assert not stand.runtime.runs(A.id)
    assert [owed.way for owed in stand.owed()] == [PauseWay.CUDA_LOCK]
    machine.answer = _once(Resume(A.id, "test"))
    lock.sticks = False
    stand.manager.person(TimePassed)
    wait_for("it runs", lambda: stand.runtime.runs(A.id))
    wait_for("nothing owed", lambda: stand.owed() == ())


def test_a_lock_that_opened_for_a_pause_of_a_person_that_failed_is_dures_again(
    make: MakeStand,
) -> None:
    stand = make(ways=(PauseWay.CUDA_LOCK, PauseWay.DOCKER))
    freezer = stand.pausers[PauseWay.DOCKER]
    assert isinstance(freezer, SimulatedPauser)
    freezer.fails = lambda _: "no room"
    stand.guard()
    stand.begin(A, B)
    stand.hold(A, B)
    stand.manager.person(lambda now_ns: PersonPaused(now_ns, B.id))
    wait_for("it is told", lambda: "could not be paused: no room" in stand.said())
    stand.hold(A, B)
    assert stand.state(B) == "queued", "nobody but Dure keeps it"
    stand.runtime.end(A.id)
    stand.manager.take_table(table(B))
    wait_for("it runs", lambda: stand.runtime.runs(B.id))
    assert stand.state(B) != "paused by a person"
    wait_for("nothing owed", lambda: stand.owed() == ())


def test_a_container_held_by_one_way_is_let_go_by_it_before_it_is_held_by_another(
    make: MakeStand,
) -> None:
    far_ns = FAR_NS + time.monotonic_ns()
    stand, machine = _sticky(
        make,
        Pause(A.id, PauseWay.CUDA_LOCK, far_ns, "test"),
        Pause(A.id, PauseWay.DOCKER, far_ns, "test"),
    )
    lock = stand.pausers[PauseWay.CUDA_LOCK]
    assert isinstance(lock, Sticky)
    lock.sticks = False
    stand.begin(A)
    wait_for("two answers", lambda: len(_ended(machine)) == 2)
    assert [event.error for event in _ended(machine)] == [None, None]
    machine.answer = _once(Resume(A.id, "test"))
    stand.manager.person(TimePassed)
    wait_for("it runs", lambda: stand.runtime.runs(A.id))
    wait_for("nothing owed", lambda: stand.owed() == ())


def test_a_pause_that_could_not_be_noted_as_done_is_one_all_the_same(
    make: MakeStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = Pause(A.id, PauseWay.DOCKER, FAR_NS + time.monotonic_ns(), "test")
    stand, machine = _scripted(make, pause)

    def full(*_: object) -> None:
        raise DureError("the disk is full")

    monkeypatch.setattr(stand.journal, "done", full)
    stand.begin(A)
    wait_for("an answer", lambda: _ended(machine))
    assert [event.error for event in _ended(machine)] == [None]
    assert [(owed.container, owed.done) for owed in stand.owed()] == [(A.id, False)]
    machine.answer = _once(Resume(A.id, "test"))
    stand.manager.person(TimePassed)
    wait_for("it runs", lambda: stand.runtime.runs(A.id))
    wait_for("nothing owed", lambda: stand.owed() == ())


def _resumed(machine: ScriptedMachine) -> list[ResumeEnded]:
    return [event for event in machine.seen if isinstance(event, ResumeEnded)]


def _full(*_: object) -> None:
    raise DureError("the disk is full")


def test_a_person_pauses_who_is_locked_though_the_journal_is_full(
    make: MakeStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    far_ns = FAR_NS + time.monotonic_ns()
    stand, machine = _sticky(
        make,
        Pause(A.id, PauseWay.CUDA_LOCK, far_ns, "test"),
        Pause(A.id, PauseWay.CUDA_LOCK, far_ns, "a person paused it", by_person=True),
    )
    lock = stand.pausers[PauseWay.CUDA_LOCK]
    assert isinstance(lock, Sticky)
    lock.sticks = False
    monkeypatch.setattr(stand.journal, "forget", _full)
    stand.begin(A)
    wait_for("two answers", lambda: len(_ended(machine)) == 2)
    assert [event.error for event in _ended(machine)] == [None, None]
    assert not stand.runtime.runs(A.id), "frozen and said to run, nobody would find it"
    assert stand.manager.call(lambda: stand.manager.containers[A.id].paused)


def test_a_frozen_one_is_not_left_to_a_person_where_the_journal_would_let_it_go(
    make: MakeStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = make(ways=(PauseWay.DOCKER,))
    stand.guard()
    stand.begin(A, B)
    stand.hold(A, B)
    monkeypatch.setattr(stand.journal, "forget", _full)
    stand.manager.person(lambda now_ns: PersonPaused(now_ns, B.id))
    wait_for("it is settled", lambda: stand.manager.settled(B.id))
    assert stand.state(B) != "paused by a person"
    assert [owed.container for owed in stand.owed()] == [B.id]
    monkeypatch.undo()
    wait_for("it runs", lambda: stand.runtime.runs(B.id))
    wait_for("nothing owed", lambda: stand.owed() == ())


@pytest.mark.parametrize("kind", [RestlessError, DureError])
def test_the_machine_is_told_who_did_not_come_to_rest_in_time(
    make: MakeStand, monkeypatch: pytest.MonkeyPatch, kind: type[DureError]
) -> None:
    pause = Pause(A.id, PauseWay.CUDA_LOCK, FAR_NS + time.monotonic_ns(), "test")
    stand, machine = _scripted(make, pause, ways=(PauseWay.CUDA_LOCK,))

    def fail(*_: object) -> None:
        raise kind("it did not come to rest")

    monkeypatch.setattr(type(stand.pausers[PauseWay.CUDA_LOCK]), "pause", fail)
    stand.begin(A)
    wait_for("an answer", lambda: _ended(machine))
    assert [event.restless for event in _ended(machine)] == [kind is RestlessError]


def test_who_was_let_go_is_known_to_run_though_the_journal_is_full(
    make: MakeStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = Pause(A.id, PauseWay.DOCKER, FAR_NS + time.monotonic_ns(), "test")
    stand, machine = _scripted(make, pause)
    stand.begin(A)
    wait_for("it is held", lambda: _ended(machine))
    monkeypatch.setattr(stand.journal, "forget", _full)
    machine.answer = _once(Resume(A.id, "test"))
    stand.manager.person(TimePassed)
    wait_for("an answer", lambda: _resumed(machine))
    assert [event.error for event in _resumed(machine)] == [None]
    assert stand.runtime.runs(A.id)
    assert [owed.container for owed in stand.owed()] == [A.id]
    monkeypatch.undo()
    wait_for("nothing owed", lambda: stand.owed() == ())
    assert len(_resumed(machine)) == 1


def test_a_failed_pause_that_stayed_owed_does_not_end_the_pause_of_a_person(
    make: MakeStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    far_ns = FAR_NS + time.monotonic_ns()
    stand, machine = _scripted(
        make,
        Pause(A.id, PauseWay.DOCKER, far_ns, "test"),
        Pause(A.id, PauseWay.DOCKER, far_ns, "a person paused it", by_person=True),
        ways=(PauseWay.DOCKER,),
    )
    freezer, problems = stand.pausers[PauseWay.DOCKER], iter(["no room", None])
    full, really_forget = iter([True, False]), stand.journal.forget

    def forget(id_: ContainerId) -> None:
        if next(full):
            _full()
        really_forget(id_)

    assert isinstance(freezer, SimulatedPauser)
    freezer.fails = lambda _: next(problems)
    monkeypatch.setattr(stand.journal, "forget", forget)
    stand.begin(A)
    wait_for("two answers", lambda: len(_ended(machine)) == 2)
    assert [event.error is None for event in _ended(machine)] == [False, True]
    assert stand.owed() == ()


def test_the_end_of_a_held_container_is_known_though_the_journal_is_full(
    make: MakeStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = make()
    stand.guard()
    stand.begin(A, B)
    stand.hold(A, B)
    monkeypatch.setattr(stand.journal, "forget", _full)
    stand.runtime.end(B.id)
    wait_for("it is gone", lambda: stand.state(B) == "absent")


def test_a_deadline_is_kept_while_the_manager_has_its_hands_full(make: MakeStand) -> None:
    pause = Pause(A.id, PauseWay.DOCKER, time.monotonic_ns() + 10**9, "test")
    stand, _ = _scripted(make, pause)
    stand.begin(A)
    wait_for("it is paused", lambda: not stand.runtime.runs(A.id))
    over = threading.Event()

    def flood() -> None:
        while not over.wait(0.01):
            stand.manager.take_table(table(A))

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        wait_for("it is let go", lambda: stand.runtime.runs(A.id), 10.0)
    finally:
        over.set()
        thread.join()


def test_time_does_not_go_back_for_a_machine_whose_answers_had_to_wait(make: MakeStand) -> None:
    def answer(event: NodeEvent) -> tuple[NodeInstruction, ...]:
        if isinstance(event, TableTaken):
            return (Pause(A.id, PauseWay.DOCKER, FAR_NS + event.now_ns, "test"),)
        return ()

    machine = ScriptedMachine(answer)
    stand = make(make_machine=lambda: machine, dry_run=True)
    stand.begin(A)
    go_on = threading.Event()
    waits = threading.Thread(target=lambda: stand.manager.call(lambda: go_on.wait(10.0)))
    waits.start()
    for _ in range(3):  # the answer to the first comes after the last
        stand.manager.take_table(table(A))
    go_on.set()
    waits.join()
    wait_for("all answers", lambda: len(_ended(machine)) == 3)
    times = [event.now_ns for event in machine.seen]
    assert times == sorted(times)


def test_a_resume_that_overtakes_a_slow_pause_leaves_the_container_running(
    make: MakeStand,
) -> None:
    far_ns = time.monotonic_ns() + FAR_NS
    entered, go_on = threading.Event(), threading.Event()
    instructions = (
        Pause(A.id, PauseWay.DOCKER, far_ns, "test"),
        Resume(A.id, "test"),
        Pause(A.id, PauseWay.DOCKER, far_ns, "never to begin"),
        Resume(A.id, "test"),
    )
    stand, machine = _scripted(make, *instructions)

    def slow(_: Container) -> None:
        entered.set()
        go_on.wait(10.0)

    pauser = stand.pausers[PauseWay.DOCKER]
    assert isinstance(pauser, SimulatedPauser)
    pauser.fails = slow
    stand.begin(A)
    assert entered.wait(10.0)
    go_on.set()
    ends = (PauseEnded, ResumeEnded)
    wait_for("four answers", lambda: sum(isinstance(e, ends) for e in machine.seen) == 4)
    assert stand.runtime.runs(A.id)
    errors = [event.error for event in machine.seen if isinstance(event, PauseEnded)]
    assert errors == [None, "let go again before the pause began"]
    assert stand.owed() == ()


def test_one_slow_pause_does_not_keep_the_others_waiting(make: MakeStand) -> None:
    far_ns = time.monotonic_ns() + FAR_NS
    go_on = threading.Event()

    def answer(event: NodeEvent) -> tuple[NodeInstruction, ...]:
        if isinstance(event, ContainerStarted):
            return (Pause(event.container.id, PauseWay.DOCKER, far_ns, "test"),)
        return ()

    machine = ScriptedMachine(answer)
    stand = make(make_machine=lambda: machine)
    pauser = stand.pausers[PauseWay.DOCKER]
    assert isinstance(pauser, SimulatedPauser)
    pauser.fails = lambda each: None if each.id != A.id or go_on.wait(20.0) else "never"
    stand.begin(A, B, C)
    wait_for("the others are paused", lambda: stand.keeps(B) and stand.keeps(C))
    assert stand.runtime.runs(A.id)
    go_on.set()
    wait_for("it is paused, too", lambda: stand.keeps(A))


def test_the_machine_hears_of_a_container_before_anything_is_made_ready_for_it(
    make: MakeStand,
) -> None:
    stand, machine = _scripted(make)
    heard: list[tuple[int, int]] = []

    def expect(calls: int) -> None:
        heard.append((calls, sum(isinstance(e, ContainerStarted) for e in machine.seen)))

    stand.manager.expect = expect
    stand.begin(A, container(4, gpus=()), B)
    wait_for("all are heard of", lambda: len(heard) == 3)
    assert heard == [(1, 1), (1, 2), (2, 3)]


def test_wishes_to_be_woken_and_to_look_more_often_are_kept(make: MakeStand) -> None:
    stand, machine = _scripted(make, WakeAt(time.monotonic_ns() + 50_000_000), PollEvery(5_000_000))
    stand.begin(A)
    wait_for("it is woken", lambda: any(isinstance(e, TimePassed) for e in machine.seen))
    assert stand.periods == [5_000_000]


def test_tenants_of_the_kernel_level_are_named_in_the_table(make: MakeStand) -> None:
    stand, machine = _scripted(make, tenants={1000: "web"})
    stand.begin(A, B)
    stand.manager.take_table(table(A, B))
    wait_for("a table", lambda: any(isinstance(e, TableTaken) for e in machine.seen))
    (taken,) = [e for e in machine.seen if isinstance(e, TableTaken)]
    assert [task.tenant for task in taken.table.tasks] == ["web", None]


def test_a_machine_that_fails_lets_all_go_and_is_replaced(make: MakeStand) -> None:
    broken: list[ScriptedMachine] = []

    def fresh() -> ScriptedMachine:
        def answer(event: NodeEvent) -> tuple[NodeInstruction, ...]:
            if len(broken) == 1 and isinstance(event, ContainerStarted):
                until_ns = time.monotonic_ns() + FAR_NS
                return (Pause(event.container.id, PauseWay.DOCKER, until_ns, "test"),)
            if len(broken) == 1 and isinstance(event, TableTaken):
                raise ValueError("a bug")
            return ()

        broken.append(ScriptedMachine(answer))
        return broken[-1]

    stand = make(make_machine=fresh)
    stand.begin(A)
    wait_for("it is paused", lambda: stand.keeps(A))
    stand.manager.take_table(table(A))
    wait_for("it runs", lambda: stand.runtime.runs(A.id))
    assert len(broken) == 2
    assert [type(event) for event in broken[1].seen[:2]][1] is ContainerStarted
    assert "deciding failed (a bug)" in stand.said()


def test_a_machine_that_fails_again_and_again_is_given_up(make: MakeStand) -> None:
    def answer(event: NodeEvent) -> tuple[NodeInstruction, ...]:
        if isinstance(event, TableTaken):
            raise ValueError("a bug")
        return ()

    stand = make(make_machine=lambda: ScriptedMachine(answer))
    stand.begin(A)
    for _ in range(10):
        stand.manager.take_table(table(A))
    wait_for("it is given up", lambda: "machine" in stand.manager.troubles)
    assert stand.runtime.runs(A.id)


def test_a_runtime_that_goes_and_comes_back_finds_everything_as_it_is_now(make: MakeStand) -> None:
    stand = make()
    stand.guard()
    stand.begin(A, B)
    stand.hold(A, B)
    stand.runtime.lose()
    wait_for("the loss", lambda: "runtime" in stand.manager.troubles)
    stand.runtime.end(A.id)
    stand.runtime.start(C)
    stand.runtime.come_back()
    wait_for("what is new", lambda: C.id in stand.manager.containers)
    assert A.id not in stand.manager.containers
    wait_for("box2 runs", lambda: stand.runtime.runs(B.id))
    assert "runtime" not in stand.manager.troubles


def test_a_container_that_ran_before_is_found_running(make: MakeStand, tmp_path: Path) -> None:
    machine = ScriptedMachine(lambda _: ())
    stand = Stand(tmp_path / "found", make_machine=lambda: machine)
    stand.runtime.start(A)
    stand.start()
    wait_for("it is found", lambda: A.id in stand.manager.containers)
    (started,) = [event for event in machine.seen if isinstance(event, ContainerStarted)]
    assert started.found
    stand.stop()


def test_the_end_lets_everybody_go(make: MakeStand, tmp_path: Path) -> None:
    stand = Stand(tmp_path / "end")
    stand.start()
    stand.guard()
    stand.begin(A, B, C)
    stand.hold(A, B, C)
    stand.stop()
    assert all(stand.runtime.runs(each.id) for each in (A, B, C))
    assert stand.owed() == ()


def test_whoever_asks_a_manager_that_ended_gets_an_error(make: MakeStand, tmp_path: Path) -> None:
    stand = Stand(tmp_path / "over")
    stand.start()
    stand.stop()
    with pytest.raises(DureError, match="ended"):
        stand.manager.view()
