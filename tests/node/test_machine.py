"""Rules that hold under every strategy: who may be paused, by whose word, and for how long."""

from dataclasses import replace
from itertools import pairwise

import pytest

from dure.domain.containers import PauseWay, WorkState
from dure.domain.errors import InputError, InvariantError
from dure.domain.ids import ContainerId
from dure.domain.node_events import (
    ContainerChanged,
    ContainerStopping,
    GuardChanged,
    Missing,
    PausedByOthers,
    PauseEnded,
    PersonExempted,
    PersonPaused,
    PersonResumed,
    ResumedByOthers,
    TimePassed,
)
from dure.domain.node_instructions import NEVER_NS, Pause, PollEvery, Resume
from dure.domain.units import NS_PER_S
from dure.node.machine import NodeMachine
from dure.node.settings import NodeSettings
from dure.node.strategies.registry import STRATEGIES
from tests.node.factories import BOTH, GPU, MS, OTHER_GPU, Host, container

PAUSING = [name for name in STRATEGIES if name != "none"]


def busy(host: Host, *names: str) -> None:
    """Containers that start one after another and compute all the time."""
    for name in names:
        if name not in host.running:
            host.start(name)
        host.work(name, share=1.0)
        host.run(20 * MS)
    host.run(1500 * MS)


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(InputError, match="not a strategy"):
        NodeMachine(NodeSettings(strategy="magic"))


def test_time_runs_forward() -> None:
    machine = NodeMachine(NodeSettings())
    machine.handle(TimePassed(5))
    with pytest.raises(InvariantError):
        machine.handle(TimePassed(4))


@pytest.mark.parametrize("strategy", PAUSING)
def test_who_comes_second_waits(strategy: str) -> None:
    host = Host(NodeSettings(strategy=strategy))
    busy(host, "a", "b")
    assert set(host.paused) == {"b"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_sole_tenant_is_never_touched(strategy: str) -> None:
    host = Host(NodeSettings(strategy=strategy))
    host.start("idle")
    busy(host, "a")
    host.run(30 * NS_PER_S, every_ns=100 * MS)
    assert not host.story


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_a_gpu_in_common_nobody_waits(strategy: str) -> None:
    host = Host(NodeSettings(strategy=strategy))
    host.start(container("a"))
    host.start(container("b", gpus=(OTHER_GPU,)))
    busy(host, "a", "b")
    assert not host.story


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_containers_that_may_not_be_paused_are_not(strategy: str) -> None:
    host = Host(NodeSettings(strategy=strategy))
    host.start(container("exempt", exempt="true"))
    host.start(container("malformed", priority="top"))
    host.start(replace(container("unfit"), unmanaged="its runtime cannot pause"))
    host.start(container("none", gpus=()))
    host.start("shim")
    host.tasks["shim"].tenant = "tenant-1"
    busy(host, "exempt", "malformed", "unfit", "shim")
    assert not host.story
    states = {each.name: each.state for each in host.machine.view(host.now_ns).containers}
    assert states["exempt"] is WorkState.EXEMPT
    for name in ("malformed", "unfit", "none", "shim"):
        assert states[name] is WorkState.UNMANAGED


def test_a_malformed_label_is_told_once_and_mended_by_a_change() -> None:
    host = Host()
    wrong = container("a", max_wait="soon")
    host.start(wrong)
    host.run(1 * NS_PER_S, every_ns=100 * MS)
    assert len(host.told()) == 1
    assert "'a' is unmanaged" in host.told()[0]
    assert "dure.max-wait" in host.told()[0]
    host.send(ContainerChanged(host.now_ns, replace(wrong, labels=())))
    (shown,) = host.machine.view(host.now_ns).containers
    assert shown.state is WorkState.IDLE


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_the_watchdog_nothing_is_paused(strategy: str) -> None:
    host = Host(NodeSettings(strategy=strategy), guard=False)
    busy(host, "a", "b", "c")
    assert not host.story


@pytest.mark.parametrize("missing", Missing)
@pytest.mark.parametrize("strategy", PAUSING)
def test_without_watchdog_or_monitor_all_are_let_go_but_not_a_persons_pause(
    strategy: str, missing: Missing
) -> None:
    host = Host(NodeSettings(strategy=strategy))
    busy(host, "a", "b", "c")
    host.start("theirs")
    host.send(PersonPaused(host.now_ns, ContainerId("theirs")))
    assert {"b", "c", "theirs"} == set(host.paused)
    host.send(GuardChanged(host.now_ns, missing))
    assert set(host.paused) == {"theirs"}
    host.run(5 * NS_PER_S, every_ns=50 * MS)
    assert set(host.paused) == {"theirs"}


@pytest.mark.parametrize("strategy", PAUSING)
def test_no_pause_lasts_past_its_deadline_and_who_was_let_go_gets_time(strategy: str) -> None:
    settings = NodeSettings(strategy=strategy, max_freeze_ns=4 * NS_PER_S, turn_ns=60 * NS_PER_S)
    host = Host(settings)
    busy(host, "a", "b")
    pause = host.paused["b"]
    host.run(pause.resume_by_ns - host.now_ns, every_ns=50 * MS)
    assert "b" not in host.paused
    resumed_ns = [at for at, what, name in host.story if (what, name) == ("resume", "b")]
    assert resumed_ns[0] <= pause.resume_by_ns
    host.run(3 * NS_PER_S, every_ns=50 * MS)
    assert "b" not in host.paused


def test_a_label_bounds_the_wait() -> None:
    host = Host()
    host.start(container("b", max_wait="700ms"))
    busy(host, "a")
    host.work("b", share=1.0)
    host.look()
    host.run(100 * MS)
    began_ns = host.now_ns
    assert "b" in host.paused
    assert host.paused["b"].resume_by_ns <= began_ns + 700 * MS
    host.run(700 * MS)
    assert "b" not in host.paused


def test_who_may_not_wait_at_all_is_not_paused() -> None:
    host = Host()
    host.start(container("b", max_wait="0s"))
    busy(host, "a", "b")
    assert not host.order("pause")


def test_a_health_check_bounds_a_freeze_but_not_a_lock() -> None:
    checked = replace(container("b"), health_checked=True)
    for ways, limit_ns in (
        ((PauseWay.DOCKER,), NodeSettings().max_freeze_checked_ns),
        (BOTH, NodeSettings().max_pause_ns),
    ):
        host = Host(NodeSettings(ways=ways))
        host.start(checked)
        busy(host, "a", "b")
        pause = host.paused["b"]
        assert pause.way is ways[0]
        waited_ns = host.now_ns - host.machine.view(host.now_ns).containers[0].waited_ns
        assert pause.resume_by_ns <= waited_ns + limit_ns


def test_a_project_is_paused_and_let_go_as_one() -> None:
    host = Host()
    parts = [replace(container(name), project="job") for name in ("rank-0", "rank-1")]
    busy(host, "a")
    for part in parts:
        host.start(part)
        host.work(part.id, share=1.0)
    host.run(200 * MS)
    assert set(host.paused) == {"rank-0", "rank-1"}
    host.end("a")
    assert not host.paused


def test_a_project_with_an_untouchable_part_is_left_alone() -> None:
    host = Host()
    busy(host, "a")
    host.start(replace(container("rank-0"), project="job"))
    host.start(replace(container("rank-1", exempt="true"), project="job"))
    for name in ("rank-0", "rank-1"):
        host.work(name, share=1.0)
    host.run(500 * MS)
    assert "rank-0" not in host.paused


def test_parts_of_a_project_without_a_gpu_are_never_touched() -> None:
    host = Host()
    busy(host, "a")
    host.start(replace(container("rank"), project="job"))
    host.start(replace(container("database", gpus=()), project="job"))
    host.work("rank", share=1.0)
    host.run(500 * MS)
    assert set(host.paused) == {"rank"}


def test_a_container_that_needs_two_gpus_waits_for_both() -> None:
    host = Host()
    host.start(container("wide", gpus=(GPU, OTHER_GPU)))
    host.start(container("a"))
    busy(host, "a")
    host.work("wide", share=1.0)
    host.run(300 * MS)
    assert set(host.paused) == {"wide"}
    host.end("a")
    host.run(20 * MS)
    assert not host.paused


@pytest.mark.parametrize("strategy", PAUSING)
def test_who_stops_is_let_go_at_once_and_not_paused_again(strategy: str) -> None:
    host = Host(NodeSettings(strategy=strategy))
    busy(host, "a", "b")
    host.send(ContainerStopping(host.now_ns, ContainerId("b")))
    assert "b" not in host.paused
    host.run(3 * NS_PER_S, every_ns=50 * MS)
    assert "b" not in host.paused


@pytest.mark.parametrize("missing", [Missing.WATCHDOG, Missing.MONITOR])
def test_who_computed_while_nobody_could_be_held_queues_when_that_is_over(
    missing: Missing,
) -> None:
    host = Host(NodeSettings(ways=BOTH))
    host.send(GuardChanged(host.now_ns, missing))
    for name in ("a", "b", "c"):
        host.start(container(name), found=True)
        host.work(name, share=0.33)
    host.run(500 * MS)
    assert host.free == {"a", "b", "c"}
    host.send(GuardChanged(host.now_ns, None))
    host.run(100 * MS)
    assert len(host.free) == 1, "one has its turn, else they share the GPU until they end"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_a_person_paused_stays_paused(strategy: str) -> None:
    host = Host(NodeSettings(strategy=strategy))
    host.start(replace(container("found"), paused=True), found=True)
    host.start("later")
    host.send(PausedByOthers(host.now_ns, ContainerId("later")))
    busy(host, "a", "b")
    host.end("a")
    host.run(5 * NS_PER_S, every_ns=50 * MS)
    assert not {"found", "later"} & {name for _, _, name in host.story}
    shown = {each.name: each for each in host.machine.view(host.now_ns).containers}
    assert shown["found"].state is shown["later"].state is WorkState.HELD


def test_a_person_pauses_and_only_a_person_resumes() -> None:
    host = Host(NodeSettings(ways=BOTH))
    host.start("a")
    host.send(PersonPaused(host.now_ns, ContainerId("a")))
    pause = host.paused["a"]
    assert pause.by_person
    assert pause.resume_by_ns == NEVER_NS
    assert pause.way is PauseWay.DOCKER, "it has no CUDA process to lock"
    host.run(600 * NS_PER_S, every_ns=NS_PER_S)
    assert "a" in host.paused
    host.send(PersonResumed(host.now_ns, ContainerId("a")))
    assert "a" not in host.paused


def test_a_person_takes_over_a_pause_of_dure() -> None:
    host = Host()
    busy(host, "a", "b")
    before = host.paused["b"]
    host.send(PersonPaused(host.now_ns, ContainerId("b")))
    after = host.paused["b"]
    assert (before.by_person, after.by_person) == (False, True)
    assert "b" not in host.order("resume"), "let go for a moment, it would launch its kernel"
    host.end("a")
    host.run(300 * NS_PER_S, every_ns=NS_PER_S)
    assert "b" in host.paused


@pytest.mark.parametrize("still_held", [False, True])
def test_a_take_over_that_failed_leaves_nobody_held_by_a_person_who_is_not_held(
    still_held: bool,
) -> None:
    host = Host(NodeSettings(ways=(PauseWay.CUDA_LOCK,)))
    busy(host, "a", "b")
    host.prompt = False
    host.send(PersonPaused(host.now_ns, ContainerId("b")))
    (asked,) = host.due
    assert isinstance(asked, Pause)
    assert asked.by_person
    host.due.clear()
    host.end("a")
    host.send(PauseEnded(host.now_ns, asked.container, PauseWay.DOCKER, "no room", still_held))
    (view,) = host.machine.view(host.now_ns).containers
    assert (view.state is WorkState.HELD) is still_held
    assert any("could not be paused: no room" in told for told in host.told()) is not still_held


def test_a_person_cannot_pause_what_was_given_no_gpu() -> None:
    host = Host()
    host.start(container("web", gpus=()))
    host.send(PersonPaused(host.now_ns, ContainerId("web")))
    assert not host.story
    assert host.told() == ["'web' is not paused: it was given no GPU"]


def test_who_a_person_let_go_is_left_alone_for_a_while() -> None:
    for event in (PersonResumed, ResumedByOthers):
        host = Host(NodeSettings(hands_off_ns=5 * NS_PER_S, turn_ns=60 * NS_PER_S))
        busy(host, "a", "b")
        host.send(event(host.now_ns, ContainerId("b")))
        host.run(4 * NS_PER_S, every_ns=50 * MS)
        assert host.order("pause") == ["b"]
        host.run(2 * NS_PER_S, every_ns=50 * MS)
        assert host.order("pause") == ["b", "b"]


def test_the_runtime_is_not_asked_to_unpause_what_a_person_unpaused() -> None:
    host = Host()
    busy(host, "a", "b")
    host.send(ResumedByOthers(host.now_ns, ContainerId("b")))
    assert "b" not in host.order("resume")


def test_a_lock_is_taken_back_when_a_person_unpauses() -> None:
    host = Host(NodeSettings(ways=(PauseWay.CUDA_LOCK,)))
    busy(host, "a", "b")
    host.send(PausedByOthers(host.now_ns, ContainerId("b")))
    host.send(ResumedByOthers(host.now_ns, ContainerId("b")))
    assert "b" in host.order("resume")


def test_exempting_lets_go_and_the_reverse_makes_it_wait_again() -> None:
    host = Host()
    busy(host, "a", "b")
    host.send(PersonExempted(host.now_ns, ContainerId("b"), exempt=True))
    assert "b" not in host.paused
    host.send(PersonExempted(host.now_ns, ContainerId("b"), exempt=False))
    host.run(20 * MS)
    assert "b" in host.paused


def test_who_cannot_be_paused_is_told_once_and_tried_later() -> None:
    host = Host(NodeSettings(unpausable_ns=3 * NS_PER_S), prompt=False)
    busy(host, "a", "b")
    host.answer("operation not supported")
    host.run(1 * NS_PER_S)
    assert host.order("pause") == ["b"]
    assert len(host.told()) == 1
    assert "operation not supported" in host.told()[0]
    host.run(3 * NS_PER_S)
    assert host.order("pause") == ["b", "b"]
    host.answer("operation not supported")
    assert len(host.told()) == 1


def test_letting_go_is_tried_until_it_works() -> None:
    host = Host(prompt=False)
    busy(host, "a", "b")
    host.answer()
    host.end("a")
    host.answer("daemon is away")
    host.until(host.now_ns + 150 * MS)
    assert host.order() == ["b"]
    host.until(host.now_ns + 100 * MS)
    assert host.order() == ["b", "b"]
    host.answer("daemon is away")
    host.until(host.now_ns + 1000 * MS)
    host.answer()
    resumes = len(host.order())
    host.until(host.now_ns + 1000 * MS)
    assert len(host.order()) == resumes
    assert len(host.told()) == 1
    assert "daemon is away" in host.told()[0]


def test_an_answer_from_an_earlier_life_does_not_leave_a_container_frozen() -> None:
    host = Host(prompt=False)
    busy(host, "a", "b")
    host.due.clear()
    host.end("b")
    host.start("b")
    host.send(PauseEnded(host.now_ns, ContainerId("b"), PauseWay.DOCKER))
    assert host.order() == ["b"]


@pytest.mark.parametrize("strategy", PAUSING)
def test_nobody_waits_for_a_gpu_on_which_nothing_happens(strategy: str) -> None:
    host = Host(NodeSettings(strategy=strategy))
    busy(host, "a", "b", "c")
    host.work("a", share=0.0)
    for name in ("b", "c"):
        host.work(name, share=0.0)
    host.run(host.settings.idle_bound_ns + 100 * MS)
    assert "b" not in host.paused


def test_a_gpu_that_draws_no_power_counts_as_idle_though_it_looks_busy() -> None:
    host = Host()
    host.power_w = 600.0
    busy(host, "a", "b")
    host.run(3 * NS_PER_S)
    assert "b" in host.paused
    host.power_w = 150.0  # a waits for a peer that is frozen elsewhere
    host.run(3 * NS_PER_S)
    assert "b" not in host.paused


def test_the_monitor_looks_fast_only_while_an_input_comes_and_slower_while_one_queues() -> None:
    host = Host()

    def rate() -> int:
        return [each.every_ns for each in host.said if isinstance(each, PollEvery)][-1]

    host.start("a")
    assert rate() == host.settings.idle_poll_ns
    host.start("b")
    assert rate() == host.settings.shared_poll_ns
    busy(host, "a")
    assert rate() == host.settings.shared_poll_ns
    host.work("b")
    host.run(10 * MS)
    assert rate() == host.settings.fast_poll_ns, "it is to be held before it launches"
    host.work("b", share=1.0)
    host.run(100 * MS)
    assert "b" in host.paused
    assert rate() == host.settings.queue_poll_ns
    host.end("a")
    host.end("b")
    assert rate() == host.settings.idle_poll_ns


@pytest.mark.parametrize("strategy", PAUSING)
def test_without_a_way_to_pause_everybody_runs(strategy: str) -> None:
    host = Host(NodeSettings(strategy=strategy, ways=()))
    busy(host, "a", "b")
    assert not host.story


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_plan_on_an_unchanged_table_is_empty(strategy: str) -> None:
    host = Host(NodeSettings(strategy=strategy))
    busy(host, "a", "b", "c")
    assert host.look() == ()
    assert host.look() == ()


def test_a_lying_memory_figure_is_told_once() -> None:
    host = Host(gpus=(GPU,))
    host.start(container("a", memory="10GiB"))
    host.used_bytes = 2**50
    host.run(200 * MS)
    host.start(container("b", memory="10GiB"))
    host.run(200 * MS)
    assert len(host.told()) == 1
    assert "NVML" in host.told()[0]
    assert not host.story


def test_pause_and_resume_are_asked_for_once() -> None:
    host = Host(prompt=False)
    busy(host, "a", "b")
    host.run(1 * NS_PER_S)
    assert host.order("pause") == ["b"]
    host.end("a")
    host.run(1 * NS_PER_S)
    assert host.order("resume") == ["b"]
    kinds = [type(each) for each in host.due]
    assert kinds == [Pause, Resume]


def test_who_does_not_come_to_rest_in_time_is_tried_again_soon_and_then_seldom() -> None:
    settings = NodeSettings(ways=(PauseWay.CUDA_LOCK,), unpausable_ns=3 * NS_PER_S)
    host = Host(settings, prompt=False)
    busy(host, "a", "b")
    told: list[int] = []
    failed_ns: list[int] = []
    while len(told) < 5:
        if host.due:
            failed_ns.append(host.now_ns)
            host.answer("it did not come to rest", restless=True)
            host.paused.clear()
            told.append(len(host.told()))
        host.run(10 * MS, every_ns=10 * MS)
    waits_s = [round((after - before) / NS_PER_S, 1) for before, after in pairwise(failed_ns)]
    assert waits_s == [0.5, 1.0, 2.0, 3.0]
    assert told == [0, 0, 0, 1, 1]
    assert "left alone" in host.told()[0]


def test_who_came_to_rest_at_last_is_held() -> None:
    host = Host(NodeSettings(ways=(PauseWay.CUDA_LOCK,)), prompt=False)
    busy(host, "a", "b")
    host.answer("it did not come to rest", restless=True)
    host.paused.clear()
    host.prompt = True
    host.run(600 * MS)
    assert set(host.paused) == {"b"}
