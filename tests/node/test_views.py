"""What people are shown of containers, and the sentences that say why."""

import pytest

from dure.domain.containers import PauseWay, WorkState
from dure.domain.errors import InputError
from dure.domain.ids import ContainerId
from dure.domain.node_events import GuardChanged, Missing, PersonPaused
from dure.domain.units import GIB, NS_PER_S
from dure.node.history import ImageRecord
from dure.node.settings import NodeSettings
from tests.node.factories import MS, Host, container


def queue_of_three() -> Host:
    record = ImageRecord("job", 4 * GIB, (3 * NS_PER_S,))
    host = Host(NodeSettings(ways=(PauseWay.CUDA_LOCK,), history=(record,)))
    for name in ("a", "b", "c"):
        host.start(container(name, image="job", deadline="60s", max_wait="20s"))
        host.work(name, 4.0, 1.0 if name == "a" else 0.0)
        host.run(500 * MS)
    return host


def test_a_table_shows_state_place_wait_and_bounds() -> None:
    host = queue_of_three()
    shown = {each.name: each for each in host.machine.view(host.now_ns).containers}
    assert [each.state for each in shown.values()] == [
        WorkState.RUNNING,
        WorkState.QUEUED,
        WorkState.QUEUED,
    ]
    assert [each.queue_place for each in shown.values()] == [None, 1, 2]
    waiting = shown["b"]
    assert waiting.way is PauseWay.CUDA_LOCK
    assert 300 * MS < waiting.waited_ns < 1_000 * MS
    assert waiting.resume_by_ns is not None
    assert waiting.resume_by_ns - host.now_ns < 20 * NS_PER_S
    assert waiting.deadline_ns is not None
    assert waiting.burst_ns == 3 * NS_PER_S
    assert waiting.memory_bytes == waiting.expected_memory_bytes == 4 * GIB
    assert shown["a"].sm_share == 1.0
    assert shown["a"].resume_by_ns is None


def test_every_state_has_a_reason() -> None:
    host = queue_of_three()
    host.start(container("exempt", exempt="true"))
    host.start(container("none", gpus=()))
    host.start("person")
    host.send(PersonPaused(host.now_ns, ContainerId("person")))
    view = host.machine.view(host.now_ns)
    assert view.strategy == "dure"
    assert all(each.reason for each in view.containers)
    states = {each.name: each.state for each in view.containers}
    assert states["person"] is WorkState.HELD
    assert states["none"] is WorkState.UNMANAGED


def test_why_tells_the_whole_story() -> None:
    host = queue_of_three()
    told = " ".join(host.machine.why(ContainerId("b"), host.now_ns))
    for part in (
        "'b' is queued",
        "others came before it",
        "place in the queue is 1 of 2",
        "CUDA calls wait in the driver",
        "at the latest",
        "last about 3 s",
        "expected to use 4 GiB",
        "deadline is in",
    ):
        assert part in told, told


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (Missing.WATCHDOG, "the watchdog is not there"),
        (Missing.MONITOR, "the monitor does not look at the GPUs"),
    ],
)
def test_what_is_missing_to_pause_anybody_is_named(missing: Missing, words: str) -> None:
    host = queue_of_three()
    host.send(GuardChanged(host.now_ns, missing))
    said = host.machine.why(ContainerId("b"), host.now_ns)
    assert said[0] == f"'b' is running: {words}."
    assert said[-1] == f"Nothing is paused, since {words}."
    host.send(GuardChanged(host.now_ns, None))
    assert words not in " ".join(host.machine.why(ContainerId("b"), host.now_ns))


def test_why_of_nobody_is_refused() -> None:
    with pytest.raises(InputError, match="no container 'ghost'"):
        Host().machine.why(ContainerId("ghost"), 0)
