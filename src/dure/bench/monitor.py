"""`dure bench monitor`: what a look at many processes costs, and how much of a core watching.

The processes are real, each in a control group named as a container's where this user may make
one; what NVML would say of them is said by a stand-in, so that the cost is that of the monitor. The
monitor's process is then run as an agent runs it, on this host's NVML or on the emulator.
"""

import contextlib
import ctypes
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dure.agent.containers.looking import Looker
from dure.agent.containers.monitor import Monitor
from dure.agent.containers.monitor_process import MonitorProcess
from dure.agent.containers.processes import ProcessBook, container_finder
from dure.agent.containers.table_memory import TableWriter, make_memory
from dure.agent.mps import EMULATOR_VARIABLE
from dure.bench.common.machine import gpu_machine, machine_words
from dure.devices import library
from dure.devices.nvml import GpuFacts, NoGpuError, Nvml
from dure.devices.segments import make_room_for_descriptors
from dure.domain.errors import DureError
from dure.domain.units import GIB, MIB, NS_PER_MS, NS_PER_S
from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, number, silent

LIMIT_NS = 2 * NS_PER_MS
IDLE_CORE_SHARE = 0.03
FAST_CORE_SHARE = 0.10
"""What is to be shown; the shares are those of a whole agent, of which this is the larger part."""
PERIODS_NS = (250 * NS_PER_MS, 50 * NS_PER_MS, 40 * NS_PER_MS, 10 * NS_PER_MS)
"""How often an agent has it look: alone, in company, while somebody queues, or copies."""
_LOOK_NS = PERIODS_NS[-1]
_WINDOW_NS = NS_PER_S // 6
"""NVML's shortest window: so often every process has a new sample."""
_CGROUPS = Path("/sys/fs/cgroup")
_GPU = GpuFacts(0, "GPU-00000000-1111-2222-3333-444444444444", "stand-in", 141 * GIB, 132, (9, 0))
_EMULATED = "an emulated GPU"
_EMULATED_TENANTS = 8
_START_LIMIT_S = 30.0
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


@dataclass(slots=True)
class _StandIn:
    """NVML's answers about processes that exist, new ones with every window."""

    pids: Sequence[int]
    now_ns: int = 0
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    _window: int = -1
    _rows: list[tuple[int, int, float]] = field(default_factory=list)

    def gpus(self) -> list[GpuFacts]:
        return [_GPU]

    def processes(self, index: int, *, mps: bool = False) -> list[tuple[int, int]]:
        return [] if mps else [(pid, GIB // 4) for pid in self.pids]

    def samples(self, index: int, since_us: int) -> list[tuple[int, int, float]]:
        window = self.now_ns // _WINDOW_NS
        if window == self._window:
            return []
        self._window = window
        stamp_us = since_us + _WINDOW_NS // 1000
        shares = self._rng.integers(0, 100, len(self.pids)) / 100.0
        return [(pid, stamp_us, float(share)) for pid, share in zip(self.pids, shares, strict=True)]

    def memory(self, index: int) -> tuple[int, int]:
        """Another sum at every look, so that each has to list the processes."""
        return _GPU.memory_bytes, len(self.pids) * GIB // 4 + self.now_ns % MIB

    def utilization(self, index: int) -> float:
        return 1.0

    def power_w(self, index: int) -> float | None:
        return 600.0

    def power_limit_w(self, index: int) -> float | None:
        return 700.0


def bench_monitor(
    *,
    processes: int = 200,
    containers: int = 64,
    looks: int = 4000,
    seconds: float = 10.0,
    tell: Tell = silent,
) -> BenchReport:
    """Time looks at made processes, then the processor time of a monitor at each of its rates."""
    make_room_for_descriptors()
    tell("starting processes", 0.0)
    with _crowd(processes, containers) as (pids, contained):
        tell("looking", 0.1)
        looked = _looks(pids, looks)
    tell("watching", 0.4)
    machine, shares = _watching(seconds, tell)
    return _report(_Found(processes, contained, *looked, machine, shares))


@dataclass(frozen=True, slots=True)
class _Found:
    processes: int
    contained: int
    """Control groups that could be made."""
    containers: int
    """That the monitor found."""
    first_ns: int
    took_ns: list[int]
    cpu_ns: list[int]
    machine: str
    shares: dict[int, tuple[float, float]]
    """Of one core, and looks a second, by period."""

    @property
    def crowd(self) -> str:
        """What was looked at, in words."""
        return f"{self.processes} processes in {self.containers} containers"


def _looks(pids: Sequence[int], looks: int) -> tuple[int, int, list[int], list[int]]:
    """Containers found, and how long the first look and each later one took: by the clock, and
    of the processor, which does not count what others on this machine take."""
    reader = _StandIn(pids)
    handle = make_memory()
    book = ProcessBook(container_finder())
    looker = Looker(reader, book)
    monitor = Monitor(looker, TableWriter(handle))
    began_ns = time.monotonic_ns()
    took: list[int] = []
    used: list[int] = []
    for step in range(looks + 1):
        reader.now_ns = began_ns + step * _LOOK_NS
        before_ns = time.thread_time_ns()
        took.append(monitor.tick(reader.now_ns)[1])
        used.append(time.thread_time_ns() - before_ns)
    table = looker.look(reader.now_ns)
    book.close()
    os.close(handle)
    if len(table.tasks) != len(pids):
        raise DureError("some of the processes ended", "run it again")
    containers = len({task.container for task in table.tasks} - {None})
    return containers, took[0], took[1:], used[1:]


@contextlib.contextmanager
def _crowd(processes: int, containers: int) -> Iterator[tuple[list[int], int]]:
    """Processes that sleep, spread over control groups named as containers are."""
    with contextlib.ExitStack() as ends:
        groups = _groups(containers, ends)  # which go after the processes in them
        started = [
            subprocess.Popen(["sleep", "3600"], preexec_fn=_end_with_parent)  # noqa: PLW1509, no threads yet
            for _ in range(processes)
        ]
        ends.callback(_end_all, started)
        for number_, process in enumerate(started):
            if groups:
                group = groups[number_ % len(groups)]
                (group / "cgroup.procs").write_text(f"{process.pid}\n", encoding="ascii")
        yield [process.pid for process in started], len(groups)


def _groups(containers: int, ends: contextlib.ExitStack) -> list[Path]:
    """Fresh control groups; none where this user may not make any."""
    first = _CGROUPS / "freezer"
    parent = (first if first.is_dir() else _CGROUPS) / f"dure-bench-{os.getpid()}"
    made: list[Path] = []
    try:
        parent.mkdir()
        ends.callback(_remove, parent)
        for _ in range(containers):
            group = parent / secrets.token_hex(32)
            group.mkdir()
            ends.callback(_remove, group)
            made.append(group)
    except OSError:
        return []
    return made


def _remove(folder: Path) -> None:
    until = time.monotonic() + 5.0
    while time.monotonic() < until:
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.01)
        else:
            return


def _end_all(started: Sequence["subprocess.Popen[bytes]"]) -> None:
    for process in started:
        process.kill()
    for process in started:
        process.wait()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def _watching(seconds: float, tell: Tell) -> tuple[str, dict[int, tuple[float, float]]]:
    """Share of a core that the monitor's process takes at each rate, and on what."""
    with contextlib.ExitStack() as ends:
        environment, machine = _gpu(ends)
        command = ["env", *(f"{name}={value}" for name, value in environment.items())]
        monitor = MonitorProcess(
            command=(*command, sys.executable, "-m", "dure.agent.containers.monitor")
        )
        monitor.start()
        ends.callback(monitor.stop)
        until = time.monotonic() + _START_LIMIT_S
        while monitor.pulse().looks == 0:
            if time.monotonic() > until:
                raise DureError("the monitor does not start", "see what it said above")
            time.sleep(0.02)
        shares: dict[int, tuple[float, float]] = {}
        for index, period_ns in enumerate(PERIODS_NS):
            tell("watching", 0.4 + 0.6 * index / len(PERIODS_NS))
            monitor.look_every(period_ns)
            time.sleep(0.5)
            before, began = monitor.pulse(), time.monotonic()
            time.sleep(seconds)
            after, passed_s = monitor.pulse(), time.monotonic() - began
            used_s = (after.cpu_ns - before.cpu_ns) / NS_PER_S
            shares[period_ns] = used_s / passed_s, (after.looks - before.looks) / passed_s
        return machine, shares


def _gpu(ends: contextlib.ExitStack) -> tuple[dict[str, str], str]:
    """What the monitor's process needs to find a GPU: nothing, or an emulator with some tenants."""
    try:
        Nvml().close()
    except NoGpuError:
        pass
    else:
        emulated = EMULATOR_VARIABLE in os.environ
        return {}, _EMULATED if emulated else machine_words(gpu_machine())
    folder = ends.enter_context(
        tempfile.TemporaryDirectory(prefix="dure-monitor-", ignore_cleanup_errors=True)
    )
    environment = {
        EMULATOR_VARIABLE: folder,
        "LD_LIBRARY_PATH": str(library.FOLDER / "emulator"),
    }
    tenants = [
        subprocess.Popen(
            [str(library.path("dure-tenant")), "idle", "--seconds", "3600"],
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            preexec_fn=_end_with_parent,  # noqa: PLW1509, no threads yet
        )
        for _ in range(_EMULATED_TENANTS)
    ]
    ends.callback(_end_all, tenants)
    return environment, _EMULATED


def _report(found: _Found) -> BenchReport:
    return BenchReport(
        name="monitor",
        title="What it costs to watch containers",
        about=(
            f"One look at {found.crowd}: the monitor's own work on real processes, with NVML's "
            "answers from a stand-in (real ones come on top), at the rate of an agent that queues; "
            "in every window of NVML all processes have a new sample, so that the table is written "
            "anew. Then the processor time of the monitor's process, as an agent runs it, on "
            f"{found.machine}."
        ),
        grids=_grids(found),
        verdicts=_verdicts(found),
        simulated=False,
        subject="NVML",
        figures={
            "processes": found.processes,
            "containers": found.containers,
            "first_look_ns": found.first_ns,
            "look_ns": found.took_ns,
            "look_cpu_ns": found.cpu_ns,
            "core_share_by_period_ns": {
                str(period_ns): share for period_ns, (share, _) in found.shares.items()
            },
        },
    )


def _grids(found: _Found) -> tuple[Grid, ...]:
    looks = tuple(
        (what, *(number(_percentile_ms(took_ns, share), 3) for share in (50, 99, 100)))
        for what, took_ns in (
            ("of the processor", found.cpu_ns),
            ("by the clock, with all that others here took", found.took_ns),
        )
    )
    rows = tuple(
        (f"{period_ns / NS_PER_MS:g} ms", number(looks_per_s, 1), f"{100 * share:.2f} %")
        for period_ns, (share, looks_per_s) in found.shares.items()
    )
    return (
        Grid(
            f"One of {len(found.cpu_ns):,} looks, ms (the very first: "
            f"{found.first_ns / NS_PER_MS:.0f} ms)",
            ("time", "median", "p99", "longest"),
            looks,
        ),
        Grid("Processor time of the monitor", ("a look every", "looks/s", "of one core"), rows),
    )


def _verdicts(found: _Found) -> tuple[Verdict, ...]:
    p99_ms = _percentile_ms(found.took_ns, 99)
    idle, fast = found.shares[PERIODS_NS[0]][0], found.shares[PERIODS_NS[-1]][0]
    return (
        Verdict(
            f"a look at {found.crowd} takes at most 2 ms",
            f"p99 {p99_ms:.2f} ms by the clock",
            p99_ms * NS_PER_MS <= LIMIT_NS,
        ),
        Verdict(
            "every container is found",
            f"{found.containers} of {found.contained}"
            if found.contained
            else "this user may make no control groups, so there was none",
            found.containers == found.contained if found.contained else None,
        ),
        Verdict(
            "at the idle rate the monitor takes little of the 3 % of a core an agent may",
            f"{idle:.2%}",
            idle < IDLE_CORE_SHARE,
        ),
        Verdict(
            "while somebody queues, little of the 10 %",
            f"{fast:.2%}",
            fast < FAST_CORE_SHARE,
        ),
    )


def _percentile_ms(took_ns: Sequence[int], share: float) -> float:
    return float(np.percentile(took_ns, share)) / NS_PER_MS
