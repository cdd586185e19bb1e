"""The task table in shared memory: one process writes it when it changed, another reads it.

A counter that is odd while the rows are written tells a reader to look again, and a checksum
catches what the counter cannot on machines that reorder writes. The beat says that the writer
still looks, also while nothing changes.
"""

import math
import mmap
import os
import struct
import time
import zlib
from dataclasses import dataclass

from dure.domain.containers import GpuLoad, GpuTask, TaskTable
from dure.domain.ids import ContainerId, GpuUuid

_MAGIC = 0x0001_7461_626C_6531
"""Layout version 1, "table1" in ASCII."""
_HEAD_WORDS = 512
"""One page of 64-bit words; the rows begin on the next."""
_HEAD_BYTES = _HEAD_WORDS * 8
_MAGIC_AT, _TURN, _BEAT, _LOOKS, _TOOK, _CPU, _GPUS, _TASKS, _SUM, _CHANGES, _LEFT_OUT = range(11)
_GPU = struct.Struct("=48sQQddd")
_TASK = struct.Struct("=IIQQd80s")
MOST_GPUS = 64
MOST_TASKS = 4096
"""Rows there is room for; what is beyond is left out and counted."""
_TRIES = 50
_RETRY_S = 0.0001
"""A table of two hundred rows is written in a tenth of this."""

TABLE_BYTES = _HEAD_BYTES + MOST_GPUS * _GPU.size + MOST_TASKS * _TASK.size


@dataclass(frozen=True, slots=True)
class Pulse:
    """How the writer does."""

    beat_ns: int
    """When it looked last; 0: never."""
    looks: int
    changes: int
    took_ns: int
    """How long its last look took."""
    cpu_ns: int
    """Processor time it used so far."""
    left_out: int
    """Rows of the last table that did not fit or were not to be believed."""


def make_memory() -> int:
    """A descriptor of fresh shared memory for one table."""
    handle = os.memfd_create("dure-task-table", os.MFD_CLOEXEC)
    os.ftruncate(handle, TABLE_BYTES)
    return handle


class TableWriter:
    """The monitor's side."""

    def __init__(self, handle: int) -> None:
        self._map = mmap.mmap(handle, TABLE_BYTES)
        self._words = memoryview(self._map).cast("Q")
        self._words[_MAGIC_AT] = _MAGIC
        self._words[_TURN] += self._words[_TURN] & 1  # a writer before this one died in between

    def publish(self, table: TaskTable) -> None:
        """Replace the rows."""
        gpus, tasks = table.gpus[:MOST_GPUS], table.tasks[:MOST_TASKS]
        indices = {load.gpu: index for index, load in enumerate(gpus)}
        rows = [_pack_gpu(load) for load in gpus]
        rows += [_pack_task(task, indices[task.gpu]) for task in tasks if task.gpu in indices]
        data = b"".join(rows)
        words = self._words
        words[_TURN] += 1
        self._map[_HEAD_BYTES : _HEAD_BYTES + len(data)] = data
        words[_GPUS] = len(gpus)
        words[_TASKS] = len(rows) - len(gpus)
        words[_SUM] = zlib.crc32(data)
        words[_CHANGES] += 1
        words[_TURN] += 1

    def beat(self, now_ns: int, took_ns: int, cpu_ns: int, left_out: int) -> None:
        """A look is over, whether or not it found anything new."""
        words = self._words
        words[_LOOKS] += 1
        words[_TOOK] = took_ns
        words[_CPU] = cpu_ns
        words[_LEFT_OUT] = left_out
        words[_BEAT] = now_ns


class TableReader:
    """The agent's side; outlives writers, so that a new one goes on where the last one died."""

    def __init__(self, handle: int) -> None:
        self._map = mmap.mmap(handle, TABLE_BYTES, prot=mmap.PROT_READ)
        self._words = memoryview(self._map).cast("Q")

    def pulse(self) -> Pulse:
        """How the writer does."""
        words = self._words
        return Pulse(
            beat_ns=words[_BEAT],
            looks=words[_LOOKS],
            changes=words[_CHANGES],
            took_ns=words[_TOOK],
            cpu_ns=words[_CPU],
            left_out=words[_LEFT_OUT],
        )

    def read(self) -> TaskTable | None:
        """The table as it is now; None where there is none, or a writer died while it wrote."""
        words = self._words
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_RETRY_S)
            turn = words[_TURN]
            if words[_MAGIC_AT] != _MAGIC or turn == 0:
                return None
            taken_ns = words[_BEAT]
            gpus, tasks = words[_GPUS], words[_TASKS]
            size = gpus * _GPU.size + tasks * _TASK.size
            if turn & 1 or size > TABLE_BYTES - _HEAD_BYTES:
                continue
            data = self._map[_HEAD_BYTES : _HEAD_BYTES + size]
            if words[_TURN] == turn and zlib.crc32(data) == words[_SUM]:
                return _unpack(data, gpus, taken_ns)
        return None


def _pack_gpu(load: GpuLoad) -> bytes:
    return _GPU.pack(
        load.gpu.encode(),
        load.memory_total_bytes,
        load.memory_used_bytes,
        load.utilization,
        math.nan if load.power_w is None else load.power_w,
        math.nan if load.power_limit_w is None else load.power_limit_w,
    )


def _pack_task(task: GpuTask, gpu: int) -> bytes:
    return _TASK.pack(
        gpu,
        task.pid,
        task.started_ticks,
        task.memory_bytes,
        task.sm_share,
        (task.container or "").encode(),
    )


def _unpack(data: bytes, gpus: int, taken_ns: int) -> TaskTable:
    split = gpus * _GPU.size
    loads = tuple(
        GpuLoad(
            gpu=GpuUuid(_text(uuid)),
            memory_total_bytes=total,
            memory_used_bytes=used,
            utilization=utilization,
            power_w=None if math.isnan(power) else power,
            power_limit_w=None if math.isnan(limit) else limit,
        )
        for uuid, total, used, utilization, power, limit in _GPU.iter_unpack(data[:split])
    )
    tasks = tuple(
        GpuTask(
            gpu=loads[gpu].gpu,
            pid=pid,
            started_ticks=started,
            container=ContainerId(_text(container)) if container[0] else None,
            memory_bytes=memory,
            sm_share=share,
        )
        for gpu, pid, started, memory, share, container in _TASK.iter_unpack(data[split:])
    )
    return TaskTable(taken_ns=taken_ns, gpus=loads, tasks=tasks)


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode()
