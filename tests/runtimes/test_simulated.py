import pytest

from dure.domain.containers import Container, PauseWay
from dure.domain.errors import DureError
from dure.domain.ids import ContainerId
from dure.runtimes.docker_errors import RuntimeUnreachableError
from dure.runtimes.events import RuntimeEvent, RuntimeEventKind
from dure.runtimes.simulated import (
    CUDA_LOCK_NS,
    DOCKER_PAUSE_NS,
    SimulatedPauser,
    SimulatedRuntime,
)

A = Container(ContainerId("a" * 64), "a", "image", 0, ())


def test_pauses_take_virtual_time_by_their_way() -> None:
    runtime = SimulatedRuntime()
    runtime.start(A)
    SimulatedPauser(runtime).pause(A)
    assert runtime.clock.now_ns == DOCKER_PAUSE_NS
    SimulatedPauser(runtime, PauseWay.CUDA_LOCK, CUDA_LOCK_NS).pause(A)
    assert runtime.clock.now_ns == DOCKER_PAUSE_NS + CUDA_LOCK_NS


def test_a_container_held_in_two_ways_runs_when_both_are_over() -> None:
    runtime = SimulatedRuntime()
    runtime.start(A)
    freeze = SimulatedPauser(runtime)
    lock = SimulatedPauser(runtime, PauseWay.CUDA_LOCK, CUDA_LOCK_NS)
    lock.pause(A)
    freeze.pause(A)
    freeze.resume(A)
    assert not runtime.runs(A.id)
    lock.resume(A)
    assert runtime.runs(A.id)


def test_events_are_told_in_order_until_the_daemon_goes() -> None:
    runtime = SimulatedRuntime()
    events = runtime.events()
    runtime.start(A)
    SimulatedPauser(runtime).pause(A)
    runtime.thaw(A.id)
    runtime.rename(A.id, "b")
    runtime.end(A.id)
    runtime.lose()
    kind = RuntimeEventKind
    assert [next(events) for _ in range(5)] == [
        RuntimeEvent(kind.STARTED, A.id),
        RuntimeEvent(kind.PAUSED, A.id, own=True),
        RuntimeEvent(kind.RESUMED, A.id),
        RuntimeEvent(kind.CHANGED, A.id),
        RuntimeEvent(kind.ENDED, A.id),
    ]
    with pytest.raises(RuntimeUnreachableError):
        next(events)
    with pytest.raises(RuntimeUnreachableError):
        runtime.containers()
    runtime.come_back()
    assert runtime.containers() == ()


def test_a_way_that_fails_says_why_and_pauses_nothing() -> None:
    runtime = SimulatedRuntime()
    runtime.start(A)
    with pytest.raises(DureError, match="out of order"):
        SimulatedPauser(runtime, fails=lambda _: "out of order").pause(A)
    assert runtime.runs(A.id)
