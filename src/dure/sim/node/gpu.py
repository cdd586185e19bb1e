"""A modelled GPU: compute by turns, copies over one link, memory that runs out, late samples."""

import math
from collections import Counter
from dataclasses import dataclass

from dure.domain.containers import GpuLoad
from dure.domain.ids import GpuUuid
from dure.domain.units import NS_PER_S
from dure.sim.agenda import Agenda
from dure.sim.node.model import GpuModel
from dure.sim.node.sharing import Done, EqualShare, Piece

_GOLDEN = 0.6180339887
"""Multiples of it are spread evenly over the whole."""


@dataclass(frozen=True, slots=True)
class _Samples:
    """What NVML's last whole window held."""

    utilization: float = 0.0
    power_w: float = 0.0
    shares: dict[int, float] | None = None


class Gpu:
    """One GPU and the processes on it, named by their pids."""

    def __init__(self, uuid: GpuUuid, model: GpuModel, agenda: Agenda) -> None:
        self.uuid = uuid
        self.model = model
        slowed = 1.0 + model.switch_loss
        self._compute = EqualShare(agenda, lambda n: 1.0 if n == 1 else 1.0 / (n * slowed))
        self._into = EqualShare(agenda, _link_rate(model, model.copy_in_bytes_per_s))
        self._out_of = EqualShare(agenda, _link_rate(model, model.copy_out_bytes_per_s))
        self._contexts = EqualShare(agenda, model.context_rate)
        self._kernels: dict[Piece, tuple[int, bool]] = {}
        """Pid, and whether it only waits for a peer."""
        self.memory: dict[int, int] = {}
        """Bytes by pid, context included."""
        self.busy_ns = 0.0
        """Time any kernel ran."""
        self._meter = _Meter(model)

    @property
    def memory_used_bytes(self) -> int:
        return sum(self.memory.values())

    @property
    def computing(self) -> bool:
        """Whether any kernel runs, or a copy goes on."""
        return bool(len(self._compute) or len(self._into) or len(self._out_of))

    # Memory

    def allocate(self, pid: int, size_bytes: int) -> bool:
        """Take memory; False: there is not enough."""
        if self.memory_used_bytes + size_bytes > self.model.memory_bytes:
            return False
        self.memory[pid] = self.memory.get(pid, 0) + size_bytes
        return True

    def free(self, pid: int, size_bytes: int) -> None:
        """Give memory back, never the context's."""
        self.memory[pid] = max(self.model.context_bytes, self.memory[pid] - size_bytes)

    def close(self, pid: int) -> None:
        """The process is no longer on this GPU."""
        self.memory.pop(pid, None)

    # Work

    def launch(self, now_ns: int, pid: int, time_ns: int, done: Done) -> Piece:
        """Start a kernel; nothing but its end ends it."""
        return self._launch(now_ns, pid, time_ns + self._turn_work(time_ns), done)

    def spin(self, now_ns: int, pid: int) -> Piece:
        """Start a kernel that waits for a peer, until `end`."""
        return self._launch(now_ns, pid, math.inf, _never)

    def end(self, now_ns: int, piece: Piece) -> None:
        """Take a kernel away: a peer came, or its process died."""
        self._account(now_ns)
        self._compute.stop(now_ns, piece)
        del self._kernels[piece]

    def copy(self, now_ns: int, size_bytes: float, done: Done, *, into_gpu: bool) -> Piece:
        """Start a copy."""
        self._account(now_ns)
        return (self._into if into_gpu else self._out_of).begin(now_ns, size_bytes, done)

    def stop_copy(self, now_ns: int, piece: Piece, *, into_gpu: bool) -> float:
        """Interrupt a copy; the bytes that are left."""
        self._account(now_ns)
        return (self._into if into_gpu else self._out_of).stop(now_ns, piece)

    def make_context_part(self, now_ns: int, done: Done) -> Piece:
        """Start the driver's work on one part of a context."""
        part_ns = self.model.context_ns / self.model.context_parts
        return self._contexts.begin(now_ns, part_ns, done)

    def stop_context(self, now_ns: int, piece: Piece) -> None:
        """The process died in it."""
        self._contexts.stop(now_ns, piece)

    def context_part_made(self, now_ns: int, pid: int) -> None:
        """The driver's own kernels in it count as the process's."""
        self._account(now_ns)
        self._meter.count(pid, self.model.context_busy_ns // self.model.context_parts)

    # What NVML says

    @property
    def look_ns(self) -> int:
        """How long a look waits for the driver now."""
        return self.model.context_look_ns if len(self._contexts) else 0

    def load(self, now_ns: int) -> GpuLoad:
        """The GPU as a whole; utilisation and power are those of the last whole window."""
        self._account(now_ns)
        samples = self._meter.samples
        return GpuLoad(
            self.uuid,
            self.model.memory_bytes,
            self.memory_used_bytes,
            samples.utilization,
            samples.power_w,
            self.model.limit_w,
        )

    def share(self, pid: int) -> float:
        """Part of the last whole window in which this process's kernels ran."""
        return (self._meter.samples.shares or {}).get(pid, 0.0)

    def _turn_work(self, time_ns: int) -> float:
        """What a kernel shorter than a slice loses by waiting for its turn, in work of its own.

        It comes last in the round, in the middle of somebody's slice, and then runs to its end,
        where equal shares would have it run all the time at a part of the speed.
        """
        others = len({pid for pid, _ in self._kernels.values()})
        if not others or time_ns >= self.model.slice_ns:
            return 0.0
        waits_ns = (others - 0.5) * self.model.slice_ns
        return max(0.0, waits_ns - others * time_ns) / (others + 1)

    def _launch(self, now_ns: int, pid: int, left: float, done: Done) -> Piece:
        self._account(now_ns)
        piece = self._compute.begin(now_ns, left, lambda at_ns: self._ended(at_ns, piece, done))
        self._kernels[piece] = (pid, math.isinf(left))
        return piece

    def _ended(self, now_ns: int, piece: Piece, done: Done) -> None:
        self._account(now_ns)
        del self._kernels[piece]
        done(now_ns)

    def _account(self, now_ns: int) -> None:
        """Put what ran since the last change on the meter."""
        running = list(self._kernels.values())
        if self.model.copy_busy and self.memory and not running:
            span_ns = now_ns - self._meter.read_ns
            seen_ns = round(len(self._into) * self.model.copy_busy * span_ns)
            self._meter.count(max(self.memory), seen_ns)
        if running:
            self.busy_ns += now_ns - self._meter.read_ns
        self._meter.run_until(now_ns, running)


class _Meter:
    """Use by window: of the one that goes on, and of the last whole one."""

    def __init__(self, model: GpuModel) -> None:
        self._model = model
        self.read_ns = 0
        self.samples = _Samples(0.0, model.idle_w)
        self._busy_ns = 0.0
        self._energy_wns = 0.0
        self._used_ns: Counter[int] = Counter()
        self._computed: set[int] = set()
        """Those who had kernels of their own in it."""

    def run_until(self, now_ns: int, running: list[tuple[int, bool]]) -> None:
        """The same kernels ran since the last call."""
        window_ns = self._model.sample_window_ns
        while (edge_ns := (self.read_ns // window_ns + 1) * window_ns) <= now_ns:
            self._add(edge_ns, running)
            self._close(window_ns)
            # Windows between that are all alike need not be closed one by one.
            skipped = (now_ns - edge_ns) // window_ns - 1
            if skipped > 0:
                self.read_ns += skipped * window_ns
        self._add(now_ns, running)

    def count(self, pid: int, used_ns: int) -> None:
        """Something short ran in the window that goes on."""
        if used_ns:
            self._used_ns[pid] += used_ns

    def _add(self, until_ns: int, running: list[tuple[int, bool]]) -> None:
        span_ns = until_ns - self.read_ns
        self.read_ns = until_ns
        model = self._model
        if not running:
            self._energy_wns += span_ns * model.idle_w
            return
        self._busy_ns += span_ns
        waiting = all(spins for _, spins in running)
        self._energy_wns += span_ns * (model.spinning_w if waiting else model.busy_w)
        for pid, _ in running:
            self._used_ns[pid] += span_ns / len(running)  # type: ignore[assignment]
            self._computed.add(pid)

    def _close(self, window_ns: int) -> None:
        shares = {pid: used_ns / window_ns for pid, used_ns in self._used_ns.items()}
        if self._model.sample_one and len(self._computed) > 1:
            shares = self._one_of(shares, self.read_ns // window_ns)
        self.samples = _Samples(self._busy_ns / window_ns, self._energy_wns / window_ns, shares)
        self._busy_ns = self._energy_wns = 0.0
        self._used_ns.clear()
        self._computed.clear()

    @staticmethod
    def _one_of(shares: dict[int, float], window: int) -> dict[int, float]:
        """All of a window as one process's: who used more of it is seen more often."""
        total = sum(shares.values())
        mark = (window * _GOLDEN) % 1.0 * total
        for pid, share in sorted(shares.items()):
            mark -= share
            if mark <= 0.0:
                return {pid: total}
        return {max(shares): total}


def _link_rate(model: GpuModel, one_bytes_per_s: float) -> "_LinkRate":
    return _LinkRate(one_bytes_per_s / NS_PER_S, model.link_bytes_per_s / NS_PER_S)


@dataclass(frozen=True, slots=True)
class _LinkRate:
    """Bytes per nanosecond of each copy: its own pace, or its part of the link."""

    one: float
    all: float

    def __call__(self, copies: int) -> float:
        return min(self.one, self.all / copies)


def _never(_now_ns: int) -> None:
    raise AssertionError("a kernel that waits for a peer does not end by itself")
