"""What NVML says of a modelled GPU, and when."""

from dataclasses import replace

import pytest

from dure.domain.containers import TaskTable
from dure.sim.node.model import GpuModel
from dure.sim.node.steps import Allocate, Copy, HostWork, Kernel, Meet
from tests.sim.node.worlds import GB, MS, Bench, container

MODEL = GpuModel(sample_window_ns=200 * MS, context_ns=100 * MS)


def tables(bench: Bench, *times_ms: int) -> list[TaskTable]:
    seen: list[TaskTable] = []
    for time_ms in times_ms:
        bench.at(time_ms * MS, lambda now_ns: seen.append(bench.world.table(now_ns)))
    bench.run()
    return seen


def test_utilisation_is_that_of_the_last_whole_window() -> None:
    bench = Bench(container("a", Kernel(300 * MS), HostWork(1000 * MS)), gpus=(MODEL,))
    # The kernel runs from 100 to 400 ms; windows end at 200, 400, 600.
    seen = tables(bench, 150, 250, 399, 401, 601)
    assert [table.gpus[0].utilization for table in seen] == [0.0, 0.5, 0.5, 1.0, 0.0]
    assert [table.tasks[0].sm_share for table in seen] == [0.0, 0.5, 0.5, 1.0, 0.0]


def test_a_long_silence_is_no_different_from_many_short_ones() -> None:
    looked_often = Bench(container("a", Kernel(5000 * MS)), gpus=(MODEL,))
    looked_once = Bench(container("a", Kernel(5000 * MS)), gpus=(MODEL,))
    often = tables(looked_often, *range(100, 3100, 10))[-1]
    once = tables(looked_once, 3090)[-1]
    assert often == once
    assert once.gpus[0].utilization == 1.0


def test_processes_that_share_a_gpu_share_its_samples() -> None:
    two = [container(name, Kernel(2000 * MS)) for name in "ab"]
    (table,) = tables(Bench(*two, gpus=(MODEL,)), 900)
    assert [task.sm_share for task in table.tasks] == [pytest.approx(0.5)] * 2
    assert table.gpus[0].utilization == 1.0


def test_a_copy_may_show_as_faint_work_of_the_newest_process() -> None:
    model = replace(MODEL, copy_busy=0.1)
    copies = container("a", Allocate(20 * GB), Copy(20 * GB, into_gpu=True))
    idles = container("b", Allocate(GB), HostWork(3000 * MS))
    times_ms = range(100, 1100, 20)
    a, b = tables(Bench(copies, idles, gpus=(model,)), *times_ms)[-1].tasks
    assert a.sm_share == 0.0
    assert b.sm_share == pytest.approx(0.1, abs=0.02)


def test_memory_is_told_at_once_and_includes_the_context() -> None:
    bench = Bench(container("a", Allocate(10 * GB), HostWork(500 * MS)), gpus=(MODEL,))
    before, after = tables(bench, 50, 150)
    assert before.tasks == ()
    (task,) = after.tasks
    assert task.memory_bytes == after.gpus[0].memory_used_bytes == 10 * GB + MODEL.context_bytes


def test_who_waits_for_a_peer_looks_busy_at_low_power() -> None:
    early = container("early", Meet("ring"), HostWork(1000 * MS))
    late = container("late", HostWork(2000 * MS), Meet("ring"))
    bench = Bench(early, late, gpus=(MODEL,))
    (table,) = tables(bench, 1001)
    assert table.gpus[0].utilization == 1.0
    assert table.gpus[0].power_w == MODEL.spinning_w
    assert bench.ended_ms("early") == pytest.approx(2100 + 1000, abs=1)


def test_a_program_of_the_host_is_in_no_container() -> None:
    bench = Bench(container("a", Kernel(500 * MS), outside=True), gpus=(MODEL,))
    (table,) = tables(bench, 150)
    assert [task.container for task in table.tasks] == [None]


@pytest.mark.parametrize("others", [1, 4])
def test_a_kernel_shorter_than_a_slice_waits_for_its_turn(others: int) -> None:
    long = [container(f"long-{n}", Kernel(1000 * MS)) for n in range(others)]
    short = container("short", HostWork(100 * MS), Kernel(MS // 2))
    bench = Bench(*long, short, gpus=(MODEL,))
    bench.run()
    # Its context is there at 200 ms; then every other has its slice, one of them half of it.
    waits_ms = (others - 0.5) * MODEL.slice_ns / MS
    assert (bench.ended_ms("short") or 0.0) - 200.0 == pytest.approx(waits_ms + 0.5, rel=0.08)


def test_a_window_that_several_share_may_show_one_of_them_only() -> None:
    model = replace(MODEL, sample_one=True)
    both = [container(name, Meet("start"), Kernel(4000 * MS)) for name in ("a", "b")]
    seen = tables(Bench(*both, gpus=(model,)), *range(900, 3900, 200))
    shares = [tuple(task.sm_share for task in table.tasks) for table in seen]
    assert {0.0, 1.0} == {round(share, 6) for pair in shares for share in pair}
    assert {pair.index(max(pair)) for pair in shares} == {0, 1}, "now this one, now that one"
