"""One look: what NVML says, joined with containers, and not believed where it cannot be true."""

import os
from dataclasses import dataclass, field

import pytest

from dure.agent.containers.looking import Looker, SampleBook, same
from dure.agent.containers.processes import ProcessBook
from dure.devices.nvml import GpuFacts
from dure.domain.ids import ContainerId
from dure.domain.units import GIB, NS_PER_MS, NS_PER_S

UUIDS = [f"GPU-0000000{index}-1111-2222-3333-444444444444" for index in range(2)]
HERE = os.getpid()
OTHER = os.getppid()
BOX = ContainerId("c" * 64)


@dataclass
class Script:
    """NVML as a test wants it."""

    count: int = 1
    rows: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    mps_rows: list[tuple[int, int]] = field(default_factory=list)
    new: list[tuple[int, int, float]] | None = field(default_factory=list)
    used: tuple[int, int] | None = (100 * GIB, 10 * GIB)
    busy: float = 0.0
    watts: float | None = 300.0
    asked: list[str] = field(default_factory=list)

    def gpus(self) -> list[GpuFacts]:
        return [
            GpuFacts(index, UUIDS[index], "H200", 100 * GIB, 132, (9, 0))
            for index in range(self.count)
        ]

    def processes(self, index: int, *, mps: bool = False) -> list[tuple[int, int]]:
        return list(self.mps_rows) if mps else list(self.rows.get(index, []))

    def samples(self, index: int, since_us: int) -> list[tuple[int, int, float]] | None:
        self.asked.append("samples")
        return None if self.new is None else [row for row in self.new if row[1] > since_us]

    def memory(self, index: int) -> tuple[int, int] | None:
        return self.used

    def utilization(self, index: int) -> float:
        return self.busy

    def power_w(self, index: int) -> float | None:
        return self.watts

    def power_limit_w(self, index: int) -> float | None:
        return 700.0


def looker(script: Script) -> Looker:
    return Looker(script, ProcessBook(lambda pid: BOX if pid == HERE else None))


def test_processes_become_rows_with_container_memory_and_share() -> None:
    script = Script(rows={0: [(HERE, GIB), (OTHER, 2 * GIB)]})
    one = looker(script)
    script.new = [(HERE, 2**60, 0.75)]
    table = one.look(10**9)
    rows = {task.pid: task for task in table.tasks}
    assert (rows[HERE].container, rows[HERE].memory_bytes, rows[HERE].sm_share) == (BOX, GIB, 0.75)
    assert (rows[OTHER].container, rows[OTHER].sm_share) == (None, 0.0)
    load = table.gpus[0]
    assert (load.memory_used_bytes, load.power_w, load.power_limit_w) == (10 * GIB, 300.0, 700.0)


def test_pids_that_do_not_exist_are_counted_and_left_out() -> None:
    one = looker(Script(rows={0: [(HERE, GIB), (4_000_000_000, GIB), (0, GIB)]}))
    table = one.look(0)
    assert [task.pid for task in table.tasks] == [HERE]
    assert one.left_out == 2


def test_more_memory_than_there_is_was_not_said() -> None:
    script = Script(rows={0: [(HERE, 3 * GIB)]}, used=(100 * GIB, 20 * GIB))
    one = looker(script)
    one.look(0)
    script.rows, script.used = {0: [(HERE, 2**64 - 1)]}, (100 * GIB, 2**60)
    table = one.look(1)
    assert table.tasks[0].memory_bytes == 3 * GIB
    assert table.gpus[0].memory_used_bytes == 20 * GIB


def test_a_process_on_two_gpus_is_a_row_on_each() -> None:
    script = Script(count=2, rows={0: [(HERE, GIB)], 1: [(HERE, 2 * GIB)]})
    table = looker(script).look(0)
    assert [(task.gpu, task.memory_bytes) for task in table.tasks] == [
        (UUIDS[0], GIB),
        (UUIDS[1], 2 * GIB),
    ]


def test_clients_of_an_mps_server_are_seen_once() -> None:
    script = Script(rows={0: [(HERE, GIB)]}, mps_rows=[(HERE, GIB), (OTHER, GIB)])
    assert {task.pid for task in looker(script).look(10**11).tasks} == {HERE, OTHER}
    assert len(looker(script).look(10**11).tasks) == 2


def test_slow_figures_are_not_read_at_every_look() -> None:
    script = Script(rows={0: [(HERE, GIB)]})
    one = looker(script)
    for moment in range(100):
        one.look(10**9 + moment * 5 * NS_PER_MS)
    assert 10 <= len(script.asked) <= 14


def test_without_samples_a_process_gets_its_part_of_what_ran() -> None:
    script = Script(rows={0: [(HERE, GIB), (OTHER, GIB)]}, new=None, busy=0.8)
    assert {task.sm_share for task in looker(script).look(10**9).tasks} == {0.4}


def test_a_look_that_finds_the_same_is_the_same_table() -> None:
    script = Script(rows={0: [(HERE, GIB)]})
    one = looker(script)
    first = one.look(10**9)
    assert same(first, one.look(2 * 10**9))
    script.watts = 303.0
    assert same(first, one.look(3 * 10**9)), "a few watts are no news"
    script.watts = 600.0
    assert not same(first, one.look(4 * 10**9))
    assert not same(None, first)


def test_a_share_ends_with_the_window_in_which_a_process_did_nothing() -> None:
    book = SampleBook(0)
    window_us = 200_000
    for step in range(1, 5):
        both = [(1, step * window_us, 0.5), (2, step * window_us, 0.5)]
        book.add(both, step * 200 * NS_PER_MS, busy=True)
    assert book.window_ns == 200 * NS_PER_MS
    now_ns = 5 * 200 * NS_PER_MS
    book.add([(2, 5 * window_us, 0.9)], now_ns, busy=True)
    assert (book.share(1, now_ns), book.share(2, now_ns)) == (0.0, 0.9)


def test_no_sample_at_all_is_no_use_once_the_window_is_over() -> None:
    book = SampleBook(0)
    for step in range(1, 4):
        book.add([(1, step * 200_000, 1.0)], step * 200 * NS_PER_MS, busy=True)
    last_ns = 3 * 200 * NS_PER_MS
    assert book.share(1, last_ns + 250 * NS_PER_MS) == 1.0
    assert book.share(1, last_ns + 400 * NS_PER_MS) == 0.0


def test_a_wall_clock_that_was_set_back_is_survived() -> None:
    book = SampleBook(10**15)
    for second in range(4):
        book.add([], second * NS_PER_S, busy=True)
    assert book.since_us == 0
    book.add([(1, 5, 0.5)], 4 * NS_PER_S, busy=True)
    assert book.share(1, 4 * NS_PER_S) == 0.5


@pytest.mark.parametrize("gone", [1, 2])
def test_what_is_known_of_a_process_goes_with_it(gone: int) -> None:
    book = SampleBook(0)
    book.add([(1, 5, 0.5), (2, 5, 0.5)], 0, busy=True)
    book.keep({3 - gone})
    assert book.share(gone, 0) == 0.0
    assert book.share(3 - gone, 0) == 0.5


def test_processes_are_listed_again_when_memory_changed_or_after_a_while() -> None:
    script = Script(rows={0: [(HERE, GIB)]})
    one = looker(script)
    assert len(one.look(10**9).tasks) == 1
    script.rows = {0: [(HERE, GIB), (OTHER, GIB)]}
    assert len(one.look(10**9 + 10 * NS_PER_MS).tasks) == 1, "the sum is what it was"
    assert len(one.look(10**9 + 110 * NS_PER_MS).tasks) == 2
    script.rows, script.used = {0: []}, (100 * GIB, 9 * GIB)
    assert one.look(10**9 + 120 * NS_PER_MS).tasks == ()
    script.rows, script.used = {0: [(HERE, GIB)]}, None
    assert len(one.look(10**9 + 130 * NS_PER_MS).tasks) == 1, "who does not tell is asked each time"


def test_while_the_driver_is_slow_to_answer_it_is_asked_for_averages_less_often() -> None:
    script = Script(rows={0: [(HERE, GIB)]})
    one = looker(script)
    now_ns = 0

    def clock() -> int:
        return now_ns

    one.clock = clock
    answer = script.memory

    def slowly(index: int) -> tuple[int, int] | None:
        nonlocal now_ns
        now_ns += 20 * NS_PER_MS
        return answer(index)

    for slow, most in ((False, 9), (True, 3)):
        script.memory = slowly if slow else answer  # type: ignore[method-assign]
        one.look(now_ns)
        script.asked.clear()
        until_ns = now_ns + 400 * NS_PER_MS
        while now_ns < until_ns:
            one.look(now_ns)
            now_ns += 20 * NS_PER_MS
        assert 2 <= len(script.asked) <= most + 1
        assert slow or len(script.asked) >= most


def test_averages_that_are_slow_to_come_stay_rare_between_two_readings_of_them() -> None:
    """Looks that read processes alone are fast, and say nothing of what averages cost."""
    script = Script(rows={0: [(HERE, GIB)]})
    one = looker(script)
    now_ns = 0

    def slowly(index: int) -> float:
        nonlocal now_ns
        now_ns += 20 * NS_PER_MS
        return 0.0

    one.clock = lambda: now_ns
    script.utilization = slowly  # type: ignore[method-assign]
    one.look(now_ns)
    script.asked.clear()
    until_ns = now_ns + 800 * NS_PER_MS
    while now_ns < until_ns:
        one.look(now_ns)
        now_ns += 10 * NS_PER_MS
    assert 4 <= len(script.asked) <= 6
