"""One look at all GPUs (the paper's Algorithm 1): NVML's lists joined with containers' processes.

A look reads the memory in use, and the processes with theirs where that has changed: asking for
each of many processes costs a millisecond, for their sum a small part of it. Utilisation, samples
and power change only when NVML closes a window, several times slower than the fastest looks, and
are read accordingly. NVML is
not believed blindly: a pid must exist, and nobody holds more memory than there is.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol

from dure.agent.containers.processes import Known, ProcessBook
from dure.devices.nvml import GpuFacts
from dure.domain.containers import GpuLoad, GpuTask, TaskTable
from dure.domain.ids import GpuUuid
from dure.domain.units import MIB, NS_PER_MS, NS_PER_S

_SLOW_NS = 40 * NS_PER_MS
"""Between two readings of what NVML averages: a quarter of its shortest window, 1/6 s."""
_DEAR_NS = 8 * NS_PER_MS
"""A look that takes longer waits for a driver that makes or ends contexts: call by call, so that a
look in which it is asked for everything takes two to three times as long as for processes alone.
Only such looks are judged."""
_DEAR_SLOW_NS = 160 * NS_PER_MS
"""The time between two readings then: about NVML's shortest window."""
_LIST_NS = 100 * NS_PER_MS
"""Between two lists of processes while the memory in use stays: two changes may make up for one
another."""
_RARE_NS = 10 * NS_PER_S
"""Between two readings of what hardly changes, such as the power limit."""
_NEVER_NS = -(1 << 62)
_LONGEST_WINDOW_NS = NS_PER_S
"""NVML's samples cover 1/6 to 1 s."""
_SHORTEST_WINDOW_NS = 50 * NS_PER_MS
_US_PER_S = 1_000_000
_FREED_BYTES = 16 * MIB
"""Smaller changes of memory are housekeeping of the driver."""
_POWER_STEP = 0.02
"""Of the limit: power moves all the time, and less than this is no news."""


class GpuReader(Protocol):
    """What a look needs of NVML."""

    def gpus(self) -> list[GpuFacts]: ...

    def processes(self, index: int, *, mps: bool = False) -> list[tuple[int, int]]: ...

    def samples(self, index: int, since_us: int) -> list[tuple[int, int, float]] | None: ...

    def memory(self, index: int) -> tuple[int, int] | None: ...

    def utilization(self, index: int) -> float: ...

    def power_w(self, index: int) -> float | None: ...

    def power_limit_w(self, index: int) -> float | None: ...


@dataclass(slots=True)
class _Sample:
    stamp_us: int
    share: float
    seen_ns: int


@dataclass(slots=True)
class SampleBook:
    """The newest sample of each process of one GPU, and how long it speaks for the present.

    A process that did nothing in a window has no sample of it: whoever has none of the newest
    window used nothing.
    """

    since_us: int
    window_ns: int = _LONGEST_WINDOW_NS
    _newest: dict[int, _Sample] = field(default_factory=dict)
    _newest_us: int = 0
    _learned: bool = False
    _silent_since_ns: int | None = None

    def add(self, samples: list[tuple[int, int, float]], now_ns: int, *, busy: bool) -> None:
        """What is newer than `since_us`; `busy`: kernels ran, so there should be something."""
        if not samples:
            self._notice_silence(now_ns, busy=busy)
            return
        self._silent_since_ns = None
        for pid, stamp_us, share in sorted(samples, key=lambda sample: sample[1]):
            before = self._newest.get(pid)
            if before is not None and stamp_us > before.stamp_us:
                self._learn(1000 * (stamp_us - before.stamp_us))
            self._newest[pid] = _Sample(stamp_us, share, now_ns)
            self._newest_us = max(self._newest_us, stamp_us)
        self.since_us = self._newest_us

    def share(self, pid: int, now_ns: int) -> float:
        """Of the SMs, in the last window."""
        sample = self._newest.get(pid)
        if sample is None:
            return 0.0
        old = now_ns - sample.seen_ns > self.window_ns * 3 // 2 + _SLOW_NS
        overtaken = 1000 * (self._newest_us - sample.stamp_us) > self.window_ns // 2
        return 0.0 if old or overtaken else sample.share

    def shares(self, now_ns: int) -> dict[int, float]:
        """Of all processes that used anything, by pid."""
        found = ((pid, self.share(pid, now_ns)) for pid in self._newest)
        return {pid: share for pid, share in found if share > 0}

    def keep(self, pids: set[int]) -> None:
        """Forget the samples of processes that are gone."""
        for pid in [pid for pid in self._newest if pid not in pids]:
            del self._newest[pid]

    def _learn(self, step_ns: int) -> None:
        """The shortest time between two samples of a process is the window."""
        if step_ns < _SHORTEST_WINDOW_NS:
            return
        step_ns = min(step_ns, _LONGEST_WINDOW_NS)
        self.window_ns = min(self.window_ns, step_ns) if self._learned else step_ns
        self._learned = True

    def _notice_silence(self, now_ns: int, *, busy: bool) -> None:
        """A wall clock that was set back would hide all that is new: ask for everything again."""
        if not busy:
            self._silent_since_ns = None
        elif self._silent_since_ns is None:
            self._silent_since_ns = now_ns
        elif now_ns - self._silent_since_ns > 2 * _LONGEST_WINDOW_NS:
            self.since_us, self._newest_us, self._silent_since_ns = 0, 0, None


@dataclass(slots=True)
class _Gpu:
    """What is known of one GPU between looks."""

    facts: GpuFacts
    samples: SampleBook
    utilization: float = 0.0
    power_w: float | None = None
    power_limit_w: float | None = None
    total_bytes: int = 0
    """As NVML tells it with the memory in use; 0: not told yet."""
    used_bytes: int = 0
    mps: bool = False
    """Whether processes were seen under an MPS server."""
    sampled: bool = True
    shares: dict[int, float] = field(default_factory=dict)
    """By pid, as of the last slow reading."""
    tasks: dict[int, GpuTask] = field(default_factory=dict)
    """By pid, as of the last look: a row that says the same is the same object, which makes tables
    cheap to make and to compare."""
    rows: list[tuple[int, int]] = field(default_factory=list)
    """Pid and bytes of each process, as last listed."""
    listed_ns: int = _NEVER_NS
    slow_ns: int = _NEVER_NS
    rare_ns: int = _NEVER_NS


@dataclass(slots=True)
class Looker:
    """Looks again and again."""

    reader: GpuReader
    book: ProcessBook
    left_out: int = 0
    """Processes of the last look that do not exist."""
    clock: Callable[[], int] = time.monotonic_ns
    _gpus: list[_Gpu] = field(default_factory=list)
    _slow_every_ns: int = _SLOW_NS

    def __post_init__(self) -> None:
        since_us = int(time.time() * _US_PER_S) - _US_PER_S
        self._gpus = [_Gpu(facts, SampleBook(since_us)) for facts in self.reader.gpus()]

    def look(self, now_ns: int) -> TaskTable:
        """The task table of this moment."""
        listed: list[list[tuple[int, int]]] = []
        began_ns, averages_read = self.clock(), False
        for gpu in self._gpus:
            averages_read |= self._read_slowly(gpu, now_ns)
            listed.append(self._processes(gpu, now_ns))
        if averages_read:
            dear = self.clock() - began_ns > _DEAR_NS * len(self._gpus)
            self._slow_every_ns = _DEAR_SLOW_NS if dear else _SLOW_NS
        pids = {pid for rows in listed for pid, _ in rows}
        known = self.book.look_up(pids, now_ns)
        self.left_out = len(pids) - len(known)
        loads: list[GpuLoad] = []
        tasks: list[GpuTask] = []
        for gpu, rows in zip(self._gpus, listed, strict=True):
            uuid = GpuUuid(gpu.facts.uuid)
            loads.append(self._load(gpu, uuid))
            here = [(known[pid], used) for pid, used in rows if pid in known]
            before, gpu.tasks = gpu.tasks, {}
            equal_share = None if gpu.sampled else gpu.utilization / max(1, len(here))
            for process, used in here:
                share = gpu.shares.get(process.pid, 0.0) if equal_share is None else equal_share
                task = _row(gpu, process, used, share, before.get(process.pid))
                gpu.tasks[process.pid] = task
                tasks.append(task)
        tasks.sort(key=_ROW_ORDER)
        return TaskTable(now_ns, tuple(loads), tuple(tasks))

    def _read_slowly(self, gpu: _Gpu, now_ns: int) -> bool:
        """What is worth reading only now and then; whether averages were read."""
        reader, index = self.reader, gpu.facts.index
        due = now_ns - gpu.slow_ns >= self._slow_every_ns
        if due:
            gpu.slow_ns = now_ns
            gpu.utilization = reader.utilization(index)
            gpu.power_w = _steady(gpu.power_w, reader.power_w(index), gpu.power_limit_w)
            samples = reader.samples(index, gpu.samples.since_us)
            gpu.sampled = samples is not None
            gpu.samples.add(samples or [], now_ns, busy=gpu.utilization > 0)
            gpu.samples.keep(set(gpu.tasks) | {pid for pid, _, _ in samples or ()})
            gpu.shares = gpu.samples.shares(now_ns)
        if now_ns - gpu.rare_ns >= _RARE_NS:
            gpu.rare_ns = now_ns
            gpu.power_limit_w = reader.power_limit_w(index)
            gpu.mps = bool(reader.processes(index, mps=True))
        return due

    def _processes(self, gpu: _Gpu, now_ns: int) -> list[tuple[int, int]]:
        """Each process once, also those under MPS."""
        read = self.reader.memory(gpu.facts.index)
        if read is not None and 0 <= read[1] <= read[0]:
            still = read == (gpu.total_bytes, gpu.used_bytes)
            gpu.total_bytes, gpu.used_bytes = read
            if still and now_ns - gpu.listed_ns < _LIST_NS:
                return gpu.rows
        rows = self.reader.processes(gpu.facts.index)
        if gpu.mps:
            rows += self.reader.processes(gpu.facts.index, mps=True)
        gpu.rows, gpu.listed_ns = list(dict(rows).items()), now_ns
        return gpu.rows

    @staticmethod
    def _load(gpu: _Gpu, uuid: GpuUuid) -> GpuLoad:
        return GpuLoad(
            gpu=uuid,
            memory_total_bytes=gpu.total_bytes or gpu.facts.memory_bytes,
            memory_used_bytes=gpu.used_bytes,
            utilization=gpu.utilization,
            power_w=gpu.power_w,
            power_limit_w=gpu.power_limit_w,
        )


_ROW_ORDER = attrgetter("gpu", "started_ticks", "pid")


def _row(
    gpu: _Gpu, process: Known, used_bytes: int, share: float, before: GpuTask | None
) -> GpuTask:
    """A process on a GPU, with the last memory that could be true: more than the GPU has is how
    drivers say "unknown"."""
    same_life = before is not None and before.started_ticks == process.started_ticks
    if used_bytes > gpu.facts.memory_bytes:
        used_bytes = before.memory_bytes if before is not None and same_life else 0
    if (
        before is not None
        and same_life
        and before.memory_bytes == used_bytes
        and before.sm_share == share
        and before.container == process.container
    ):
        return before
    return GpuTask(
        gpu=GpuUuid(gpu.facts.uuid),
        pid=process.pid,
        started_ticks=process.started_ticks,
        container=process.container,
        memory_bytes=used_bytes,
        sm_share=share,
    )


def _steady(before: float | None, now: float | None, limit: float | None) -> float | None:
    """The old figure while the new one hardly differs."""
    if before is None or now is None or abs(now - before) > _POWER_STEP * (limit or now):
        return now
    return before


def same(one: TaskTable | None, other: TaskTable) -> bool:
    """Whether two tables say the same, whenever they were taken."""
    return one is not None and one.gpus == other.gpus and one.tasks == other.tasks


def gave_back(before: TaskTable | None, now: TaskTable) -> bool:
    """Whether a process that is still there has given memory back."""
    if before is None:
        return False
    had = {(task.gpu, task.pid): task.memory_bytes for task in before.tasks}
    return any(
        task.memory_bytes <= had.get((task.gpu, task.pid), 0) - _FREED_BYTES for task in now.tasks
    )
