"""Containers that come and go: failures, health checks, peers, one after another."""

import pytest

from dure.sim.node.containers import HealthCheck
from dure.sim.node.model import GpuModel
from dure.sim.node.steps import Allocate, HostWork, Kernel, Loop, Meet, Serve
from tests.sim.node.worlds import GB, MS, Bench, S, container, outcome

FAST = GpuModel(context_ns=0)


def test_a_container_that_failed_is_started_again_as_often_as_it_may_be() -> None:
    holder = container("holder", Allocate(130 * GB), HostWork(600 * MS))
    late = container("late", HostWork(50 * MS), Allocate(20 * GB), Kernel(MS), restarts=3)
    result = outcome(holder, late)
    assert result.containers[1].failure is None
    assert result.containers[1].restarts == 2
    assert result.out_of_memory == 2
    once = container("late", HostWork(50 * MS), Allocate(20 * GB), Kernel(MS), restarts=1)
    assert outcome(holder, once).containers[1].failure == "out of memory"


def test_a_frozen_container_turns_unhealthy_and_a_locked_one_does_not() -> None:
    check = HealthCheck(interval_ns=100 * MS, retries=3)
    work = Loop(20, (HostWork(20 * MS), Kernel(30 * MS)))
    for pause, unhealthy in (("freeze", 1), ("lock", 0)):
        bench = Bench(container("a", work, health=check), gpus=(FAST,))
        getattr(bench, pause)("a", 150 * MS, 650 * MS)
        bench.run()
        assert bench["a"].history.unhealthy == unhealthy
        assert bench.ended_ms("a") is not None


def test_a_healer_restarts_what_turned_unhealthy_from_the_beginning() -> None:
    check = HealthCheck(interval_ns=100 * MS, retries=2, restart=True)
    bench = Bench(container("a", HostWork(1000 * MS), health=check), gpus=(FAST,))
    bench.freeze("a", 350 * MS, 900 * MS)
    bench.run()
    assert bench["a"].life == 2
    assert bench.ended_ms("a") == pytest.approx(500 + 100 + 1000, abs=1)


def test_ranks_on_two_gpus_wait_for_each_other_and_the_container_ends_with_the_last() -> None:
    ring = Loop(5, (Kernel(100 * MS), Meet("ring")))
    other = container("other", Kernel(300 * MS), gpus=(1,))
    bench = Bench(container("both", ring, gpus=(0, 1)), other, gpus=(FAST, FAST))
    bench.run()
    # The other's 300 ms on GPU 1 are taken out of the steps of both ranks, with the loss.
    assert bench.ended_ms("both") == pytest.approx(5 * 100 + 300 * 1.0725, rel=0.08)


def test_a_rank_whose_peer_never_comes_is_ended_by_its_library() -> None:
    impatient = GpuModel(context_ns=0, peer_patience_ns=2 * S)
    early = container("early", Meet("ring"))
    late = container("late", HostWork(10 * S), Meet("ring"))
    bench = Bench(early, late, gpus=(impatient,))
    bench.run()
    assert bench["early"].history.failure == "a peer was lost"
    assert bench.ended_ms("early") == 2000
    assert bench.ended_ms("late") == 10_000


def test_one_after_another_keeps_the_order_of_the_starts_on_each_gpu_apart() -> None:
    long, short = (Kernel(1000 * MS),), (Kernel(100 * MS),)
    result = outcome(
        container("second", *long, start_ns=10 * MS),
        container("first", *long),
        container("elsewhere", *short, gpus=(1,), start_ns=20 * MS),
        container("service", Serve((0,), short), start_ns=20 * MS),
        mode="one-after-another",
        gpus=(FAST, FAST),
    )
    ends = {each.name: each.completion_s for each in result.containers}
    assert ends["elsewhere"] == pytest.approx(0.1)
    assert ends["first"] == pytest.approx(1.1, abs=0.02)
    assert ends["second"] == pytest.approx(2.1, abs=0.02)
    assert (ends["service"] or 9.0) < 0.3


def test_a_container_released_later_is_timed_from_its_release() -> None:
    result = outcome(container("a", Kernel(100 * MS), release_ns=2 * S), gpus=(FAST,))
    assert result.makespan_s == pytest.approx(0.1)


def test_what_does_not_end_within_the_limit_is_counted() -> None:
    result = outcome(container("a", HostWork(100 * S)), limit_ns=10 * S)
    assert (result.unfinished, result.failed) == (1, 1)
    assert result.containers[0].failure == "did not end in time"
    assert result.mean_s is None
