"""What a freeze, a lock and a lack of memory do to a program."""

import pytest

from dure.sim.node.model import GpuModel
from dure.sim.node.steps import (
    Allocate,
    Close,
    Copy,
    Free,
    HostWork,
    Kernel,
    Loop,
    Serve,
)
from dure.sim.node.world import START_NS
from tests.sim.node.worlds import GB, MS, Bench, container, outcome

COPY_MS = 1000 / 6.06
"""Of a gigabyte to the GPU."""


def test_a_kernel_that_was_launched_runs_on_through_a_freeze() -> None:
    bench = Bench(container("a", Kernel(1000 * MS), HostWork(100 * MS)))
    bench.freeze("a", 300 * MS, 1000 * MS)
    bench.run()
    assert bench.ended_ms("a") == pytest.approx(200 + 1000 + 100, abs=1)


def test_after_a_freeze_a_program_goes_on_where_it_was() -> None:
    bench = Bench(container("a", HostWork(500 * MS), Kernel(100 * MS)))
    bench.freeze("a", 200 * MS, 1200 * MS)
    bench.run()
    assert bench.ended_ms("a") == pytest.approx(1000 + 500 + 200 + 100, abs=1)


def test_a_freeze_interrupts_a_copy_and_what_was_copied_stays_copied() -> None:
    bench = Bench(container("a", Copy(GB, into_gpu=True)))
    bench.freeze("a", 250 * MS, 1250 * MS)
    bench.run()
    assert bench.ended_ms("a") == pytest.approx(200 + COPY_MS + 1000, abs=1)


def test_a_lock_during_a_copy_takes_effect_at_its_end_and_holds_the_launch() -> None:
    bench = Bench(container("a", Copy(GB, into_gpu=True), Kernel(100 * MS)))
    effective = bench.lock("a", 250 * MS, 2000 * MS)
    bench.run()
    assert [time / MS for time in effective] == [pytest.approx(200 + COPY_MS, abs=1)]
    assert bench.ended_ms("a") == pytest.approx(2000 + 100, abs=1)


def test_a_locked_program_works_on_with_its_cpu() -> None:
    bench = Bench(container("a", HostWork(500 * MS), Kernel(100 * MS)))
    effective = bench.lock("a", 100 * MS, 400 * MS)
    bench.run()
    assert effective == [100 * MS]
    assert bench.ended_ms("a") == pytest.approx(500 + 200 + 100, abs=1)


def test_a_locked_program_cannot_end_before_it_is_let_go() -> None:
    bench = Bench(container("a", Kernel(100 * MS)))
    bench.lock("a", 250 * MS, 900 * MS)
    bench.run()
    assert bench.ended_ms("a") == 900


def test_a_program_that_begins_in_a_held_container_is_held() -> None:
    bench = Bench(container("a", Kernel(100 * MS), release_ns=500 * MS))
    bench.freeze("a", 100 * MS, 1000 * MS)
    bench.run()
    assert bench.ended_ms("a") == pytest.approx(1000 + 200 + 100, abs=1)


def test_who_finds_no_memory_fails_and_leaves_none_behind() -> None:
    holder = container("holder", Allocate(100 * GB), HostWork(1000 * MS))
    late = container("late", HostWork(100 * MS), Allocate(50 * GB), Kernel(100 * MS))
    result = outcome(holder, late)
    assert result.out_of_memory == 1
    assert [each.failure for each in result.containers] == [None, "out of memory"]
    third = container("third", HostWork(400 * MS), Allocate(39 * GB), Kernel(100 * MS))
    assert outcome(holder, late, third).containers[2].failure is None


def test_memory_that_was_freed_can_be_allocated_again() -> None:
    looper = Loop(5, (Allocate(90 * GB), Kernel(10 * MS), Free(), HostWork(10 * MS)))
    assert outcome(container("a", looper)).out_of_memory == 0
    kept = Loop(5, (Allocate(90 * GB), Kernel(10 * MS)))
    assert outcome(container("a", kept)).out_of_memory == 1


def test_closing_gives_up_the_context_and_the_next_call_makes_another() -> None:
    bench = Bench(container("a", Kernel(100 * MS), Close(), HostWork(300 * MS), Kernel(100 * MS)))
    seen: list[int] = []
    for time_ms in (250, 400, 850):
        bench.at(time_ms * MS, lambda now_ns: seen.append(len(bench.world.table(now_ns).tasks)))
    bench.run()
    assert seen == [1, 0, 1]
    assert bench.ended_ms("a") == pytest.approx(2 * 300 + 300, abs=1)


def test_requests_wait_while_their_server_is_frozen() -> None:
    serve = Serve((0, 1000 * MS, 2000 * MS), (Kernel(10 * MS),))
    bench = Bench(container("web", Allocate(GB), serve))
    bench.freeze("web", 900 * MS, 1500 * MS)
    bench.run()
    latencies = [time / MS for time in bench["web"].history.latencies_ns]
    assert latencies == [pytest.approx(210, abs=1), pytest.approx(510, abs=1), pytest.approx(10)]


def test_contexts_are_made_by_turns_where_the_driver_does_so() -> None:
    gpu = GpuModel(context_ns=220 * MS, context_turn_ns=145 * MS)
    alone = Bench(container("a", Kernel(100 * MS)), gpus=(gpu,))
    alone.run()
    assert alone.ended_ms("a") == pytest.approx(220 + 100, abs=1)
    four = Bench(*(container(f"a{n}", HostWork(0), Allocate(GB)) for n in range(4)), gpus=(gpu,))
    four.run()
    assert four.ended_ms("a3") == pytest.approx(4 * 145, abs=1)


def test_a_freeze_waits_for_the_part_of_the_context_under_way_and_stops_the_next() -> None:
    bench = Bench(container("a", Kernel(100 * MS)))
    effective: list[int] = []
    bench.at(110 * MS, lambda now_ns: bench["a"].begin_freeze(now_ns, effective.append))
    bench.at(1000 * MS, bench["a"].let_go)
    bench.run()
    assert [(at_ns - START_NS) / MS for at_ns in effective] == [pytest.approx(150, abs=1)]
    assert bench.ended_ms("a") == pytest.approx(1000 + 50 + 100, abs=1)


def test_a_lock_waits_for_the_whole_context_and_holds_the_call_after_it() -> None:
    bench = Bench(container("a", Allocate(GB), Kernel(100 * MS)))
    effective = bench.lock("a", 60 * MS, 900 * MS)
    bench.run()
    assert [time / MS for time in effective] == [pytest.approx(200, abs=1)]
    assert bench.ended_ms("a") == pytest.approx(900 + 100, abs=1)


def test_memory_of_a_context_is_seen_while_it_is_made() -> None:
    bench = Bench(container("a", Kernel(100 * MS)))
    seen: list[int] = []
    for time_ms in (50, 150):
        bench.at(time_ms * MS, lambda now_ns: seen.append(len(bench.world.table(now_ns).tasks)))
    bench.run()
    assert seen == [0, 1]


def test_who_dies_in_the_middle_of_its_context_leaves_the_driver_to_the_others() -> None:
    gpu = GpuModel(context_ns=200 * MS, context_turn_ns=200 * MS)
    bench = Bench(container("a", Kernel(MS)), container("b", Kernel(100 * MS)), gpus=(gpu,))

    def kill(now_ns: int) -> None:
        bench["a"].processes[0].kill(now_ns)

    bench.at(150 * MS, kill)
    bench.run()
    assert bench.ended_ms("b") == pytest.approx(150 + (200 - 75) + 100, abs=1)
