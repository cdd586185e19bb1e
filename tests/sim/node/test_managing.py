"""The machine on a simulated host: faults, people, and promises kept through them."""

import pytest

from dure.node.history import ImageRecord
from dure.node.settings import NodeSettings
from dure.sim.node.faults import Deed, Fault, FaultKind, PersonAct
from dure.sim.node.model import SECOND_H200, GpuModel
from dure.sim.node.modes import MODES
from dure.sim.node.results import NodeResult
from dure.sim.node.steps import Allocate, Free, HostWork, Kernel, Loop
from tests.sim.node.worlds import GB, MS, S, container, outcome, products

MANAGED = [name for name, mode in MODES.items() if mode.strategy is not None]
DURE = ["dure-docker", "dure-cuda-lock", "dure-lock-only"]


def held(result: NodeResult, at_s: float) -> list[str]:
    """Who was kept from the GPU at a moment."""
    return [
        each.name
        for each in result.containers
        if any(begin <= at_s < end for begin, end, _ in each.pause_spans_s)
    ]


@pytest.mark.parametrize("mode", MANAGED)
def test_everybody_ends_and_nobody_is_held_at_the_end(mode: str) -> None:
    result = outcome(*products(4), mode=mode)
    assert (result.unfinished, result.failed, result.overdue) == (0, 0, 0)
    assert not any(each.held_at_end for each in result.containers)
    assert result.pauses > 0


@pytest.mark.parametrize("mode", MANAGED)
def test_a_container_alone_is_never_touched(mode: str) -> None:
    assert outcome(*products(1), mode=mode).pauses == 0


@pytest.mark.parametrize("mode", DURE)
def test_when_the_agent_dies_everybody_runs_again_soon_and_a_new_agent_goes_on(mode: str) -> None:
    fault = Fault(FaultKind.AGENT, 3 * S, 4 * S)
    result = outcome(*products(5), mode=mode, faults=(fault,))
    assert held(result, 2.9) != []
    assert held(result, 3.6) == []
    assert held(result, 6.9) == []
    assert (result.unfinished, result.failed, result.overdue) == (0, 0, 0)


def test_nothing_is_paused_while_the_watchdog_is_away() -> None:
    fault = Fault(FaultKind.WATCHDOG, 2 * S, 3 * S)
    result = outcome(*products(5), mode="dure-docker", faults=(fault,))
    assert held(result, 1.9) != []
    assert held(result, 2.3) == held(result, 4.9) == []


@pytest.mark.parametrize("mode", DURE)
def test_containers_end_and_are_let_go_though_docker_is_away_for_a_while(mode: str) -> None:
    fault = Fault(FaultKind.DOCKER, 2 * S, 10 * S)
    settings = NodeSettings(max_freeze_ns=5 * S, max_pause_ns=5 * S)
    result = outcome(*products(4), mode=mode, faults=(fault,), settings=settings)
    assert (result.unfinished, result.failed) == (0, 0)
    longest = max(each.longest_wait_s for each in result.containers)
    assert longest <= 5.0 + 0.3


@pytest.mark.parametrize("mode", DURE)
def test_what_a_person_paused_stays_paused_until_the_person_lets_go(mode: str) -> None:
    acts = (
        PersonAct(300 * MS, "task-1", Deed.DOCKER_PAUSE),
        PersonAct(30 * S, "task-1", Deed.DOCKER_UNPAUSE),
    )
    result = outcome(*products(3), mode=mode, acts=acts)
    first, *others = result.containers
    assert (first.completion_s or 0.0) > 30.0
    assert all((each.completion_s or 99.0) < 20.0 for each in others)


@pytest.mark.parametrize("mode", DURE)
def test_who_is_exempted_by_a_person_is_not_paused_from_then_on(mode: str) -> None:
    acts = tuple(PersonAct(50 * MS, name, Deed.EXEMPT) for name in ("task-1", "task-2", "task-3"))
    assert outcome(*products(3), mode=mode, acts=acts).pauses == 0


@pytest.mark.parametrize("mode", MANAGED)
def test_the_same_scenario_gives_the_same_run(mode: str) -> None:
    assert outcome(*products(3), mode=mode) == outcome(*products(3), mode=mode)


def test_people_pause_by_docker_also_where_there_is_no_agent() -> None:
    acts = (
        PersonAct(1 * S, "task-1", Deed.DOCKER_PAUSE),
        PersonAct(9 * S, "task-1", Deed.DOCKER_UNPAUSE),
        PersonAct(2 * S, "task-1", Deed.PAUSE),
    )
    result = outcome(*products(1), acts=acts)
    assert result.makespan_s == pytest.approx(9.0 + 0.15, abs=0.05)
    assert result.pauses == 0


@pytest.mark.parametrize("mode", DURE)
def test_two_that_start_at_once_and_do_not_fit_go_one_after_the_other(mode: str) -> None:
    steps = (HostWork(100 * MS), Allocate(100 * GB), Kernel(1 * S))
    label = (("dure.memory", "101GB"),)
    jobs = [container(name, *steps, labels=label, image="job") for name in ("first", "second")]
    assert outcome(*jobs).out_of_memory == 1
    result = outcome(*jobs, mode=mode)
    assert result.out_of_memory == 0
    assert result.makespan_s == pytest.approx(2.6, abs=0.3)


@pytest.mark.parametrize("mode", DURE)
def test_a_pause_ordered_by_a_person_lasts_until_the_person_ends_it(mode: str) -> None:
    acts = (PersonAct(1 * S, "task-2", Deed.PAUSE), PersonAct(40 * S, "task-2", Deed.RESUME))
    settings = NodeSettings(max_freeze_ns=5 * S, max_pause_ns=5 * S)
    result = outcome(*products(2), mode=mode, acts=acts, settings=settings)
    first, second = result.containers
    assert (first.completion_s or 99.0) < 10.0
    assert (second.completion_s or 0.0) > 40.0
    assert result.overdue == 0


@pytest.mark.parametrize("mode", DURE)
def test_experience_of_images_does_no_harm(mode: str) -> None:
    fresh = outcome(*products(4), mode=mode)
    experienced = outcome(*products(4), mode=mode, experienced=True)
    assert experienced.makespan_s <= 1.02 * fresh.makespan_s
    assert (experienced.mean_s or 99.0) <= 1.05 * (fresh.mean_s or 0.0)


@pytest.mark.parametrize("mode", DURE)
def test_a_held_container_that_is_told_to_stop_is_let_go_and_not_killed(mode: str) -> None:
    acts = (PersonAct(2 * S, "task-3", Deed.DOCKER_STOP),)
    result = outcome(*products(3), mode=mode, acts=acts)
    assert held(result, 1.9) == ["task-2", "task-3"]
    assert result.containers[2].failure == "stopped by a person"
    assert result.containers[2].longest_wait_s < 2.2
    assert result.unfinished == 0


def test_who_shared_the_gpu_with_kernels_that_ran_on_is_not_taken_for_a_light_one() -> None:
    # Copies so fast that freezing comes too late: all compute together, at a quarter each.
    fast = GpuModel(copy_in_bytes_per_s=12e9, copy_out_bytes_per_s=12e9, link_bytes_per_s=50e9)
    result = outcome(*products(4), mode="dure-docker", gpus=(fast,), experienced=True)
    assert result.pauses > 0
    assert not any("runs beside others" in what for _, _, what in result.decisions)


@pytest.mark.parametrize("gpu", [GpuModel(), SECOND_H200], ids=["fitted", "second"])
@pytest.mark.parametrize("mode", DURE)
def test_trainers_that_take_longer_than_was_known_stay_queued(mode: str, gpu: GpuModel) -> None:
    step = Loop(700, (Kernel(20 * MS), HostWork(MS)))
    jobs = [
        container(f"job-{n}", Allocate(4 * GB), step, Free(), image="job", start_ns=n * 100 * MS)
        for n in range(3)
    ]
    known = ImageRecord("job", 4 * GB + gpu.context_bytes, (10 * S,), (10 * S,), gaps=False)
    settings = NodeSettings(history=(known,))
    plain = outcome(*jobs, gpus=(gpu,))
    queued = outcome(*jobs, mode=mode, gpus=(gpu,), settings=settings)
    assert queued.mean_s is not None
    assert plain.mean_s is not None
    assert queued.mean_s < 0.72 * plain.mean_s, "one after another would be 0.67"
    assert queued.makespan_s <= plain.makespan_s
