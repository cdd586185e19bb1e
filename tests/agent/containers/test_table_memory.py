"""The task table in shared memory: what is written is what is read, and never half of it."""

import os
import struct
import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from dure.agent.containers.table_memory import (
    MOST_TASKS,
    TABLE_BYTES,
    TableReader,
    TableWriter,
    make_memory,
)
from dure.domain.containers import GpuLoad, GpuTask, TaskTable
from dure.domain.ids import ContainerId, GpuUuid

GPUS = [GpuUuid(f"GPU-0000000{index}-1111-2222-3333-444444444444") for index in range(3)]
BYTES = st.integers(0, 2**63)
SHARES = st.floats(0, 1)
WATTS = st.none() | st.floats(0, 2000)
LOADS = st.builds(
    GpuLoad,
    gpu=st.sampled_from(GPUS),
    memory_total_bytes=BYTES,
    memory_used_bytes=BYTES,
    utilization=SHARES,
    power_w=WATTS,
    power_limit_w=WATTS,
)
TASKS = st.builds(
    GpuTask,
    gpu=st.just(GPUS[0]),
    pid=st.integers(1, 2**22),
    started_ticks=st.integers(0, 2**63),
    container=st.none() | st.text("0123456789abcdef", min_size=64, max_size=64).map(ContainerId),
    memory_bytes=BYTES,
    sm_share=SHARES,
)


def pair() -> tuple[TableWriter, TableReader, int]:
    handle = make_memory()
    return TableWriter(handle), TableReader(handle), handle


def table(tasks: int, share: float = 0.5) -> TaskTable:
    load = GpuLoad(GPUS[0], 10, 5, share)
    rows = [GpuTask(GPUS[0], pid, pid, None, pid, share) for pid in range(1, tasks + 1)]
    return TaskTable(0, (load,), tuple(rows))


@given(
    st.lists(LOADS, min_size=1, max_size=3, unique_by=lambda load: load.gpu),
    st.lists(TASKS, max_size=20),
)
def test_what_is_read_is_what_was_written(loads: list[GpuLoad], tasks: list[GpuTask]) -> None:
    writer, reader, handle = pair()
    kept = tuple(task for task in tasks if task.gpu in {load.gpu for load in loads})
    written = TaskTable(7, tuple(loads), kept)
    writer.publish(written)
    writer.beat(7, 100, 200, 0)
    assert reader.read() == written
    os.close(handle)


def test_there_is_no_table_before_the_first() -> None:
    _, reader, handle = pair()
    assert reader.read() is None
    assert reader.pulse().beat_ns == 0
    os.close(handle)


def test_a_beat_without_a_change_moves_the_time_of_the_table_alone() -> None:
    writer, reader, handle = pair()
    writer.publish(table(2))
    writer.beat(10, 1, 1, 0)
    before = reader.read()
    writer.beat(20, 1, 1, 3)
    after = reader.read()
    assert before is not None
    assert after is not None
    assert (before.taken_ns, after.taken_ns) == (10, 20)
    assert before.tasks == after.tasks
    pulse = reader.pulse()
    assert (pulse.looks, pulse.changes, pulse.left_out) == (2, 1, 3)
    os.close(handle)


def test_more_rows_than_there_is_room_for_are_left_out() -> None:
    writer, reader, handle = pair()
    writer.publish(table(MOST_TASKS + 5))
    found = reader.read()
    assert found is not None
    assert len(found.tasks) == MOST_TASKS
    os.close(handle)


def test_a_writer_that_died_while_writing_leaves_no_table() -> None:
    writer, reader, handle = pair()
    writer.publish(table(3))
    odd = struct.pack("=Q", 3)
    os.pwrite(handle, odd, 8)
    assert reader.read() is None
    os.close(handle)


def test_rows_that_do_not_fit_their_checksum_are_no_table() -> None:
    writer, reader, handle = pair()
    writer.publish(table(3))
    os.pwrite(handle, b"\xff", 4096 + 60)
    assert reader.read() is None
    os.close(handle)


def test_a_new_writer_goes_on_in_the_memory_of_a_dead_one() -> None:
    writer, reader, handle = pair()
    writer.publish(table(3))
    os.pwrite(handle, struct.pack("=Q", 3), 8)  # died in the middle
    TableWriter(handle).publish(table(4))
    found = reader.read()
    assert found is not None
    assert len(found.tasks) == 4
    os.close(handle)


def test_no_reader_ever_sees_rows_of_two_tables() -> None:
    writer, reader, handle = pair()
    small, large = table(5, 0.25), table(400, 0.75)
    writer.publish(small)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for each in (large, small):
                writer.publish(each)
                time.sleep(0.001)  # as a monitor rests between two looks

    thread = threading.Thread(target=write)
    thread.start()
    seen = 0
    try:
        until = time.monotonic() + 30.0
        while seen < 200 and time.monotonic() < until:
            found = reader.read()
            if found is None:
                continue
            seen += 1
            assert (found.gpus, found.tasks) in (
                (small.gpus, small.tasks),
                (large.gpus, large.tasks),
            )
    finally:
        stop.set()
        thread.join()
    assert seen == 200
    assert os.fstat(handle).st_size == TABLE_BYTES
    os.close(handle)
