"""Processes that NVML names: whether they exist, which life of the pid it is, whose container."""

import os
import select
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dure.domain.ids import ContainerId
from dure.runtimes.cgroups import PROC, containers_in, started_ticks

ContainerOf = Callable[[int], ContainerId | None]
"""The container a process belongs to; None: a program of the host."""

_ASK_AGAIN_NS = 1_000_000_000
"""A process outside of any container may still be moved into one; inside, it stays."""


def container_finder(proc: Path = PROC) -> ContainerOf:
    """Asks a process's cgroup for the outermost container that is not this process's own: the one
    that a runtime beside us knows, whatever runs inside of it."""
    ours = {container.id for container in containers_in(_read(proc / "self" / "cgroup"))}

    def container_of(pid: int) -> ContainerId | None:
        found = containers_in(_read(proc / str(pid) / "cgroup"))
        return next((each.id for each in found if each.id not in ours), None)

    return container_of


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


@dataclass(slots=True)
class Known:
    """One process, for as long as it lives."""

    pid: int
    started_ticks: int
    container: ContainerId | None
    asked_ns: int
    handle: int | None
    """Readable when the process ends; None where the kernel has no such thing."""


@dataclass(slots=True)
class ProcessBook:
    """Asks /proc once for each process instead of once for each look.

    A descriptor of each process tells when it ends, so that a pid that is given out again is a
    new process, and one system call asks for all of them.
    """

    container_of: ContainerOf
    _known: dict[int, Known] = field(default_factory=dict)
    _ends: "select.epoll" = field(default_factory=select.epoll)

    def close(self) -> None:
        """Give all descriptors back."""
        for pid in list(self._known):
            self._forget(pid)
        self._ends.close()

    def look_up(self, pids: Iterable[int], now_ns: int) -> dict[int, Known]:
        """Those of the pids that exist, by pid; what is not named any more is forgotten."""
        for handle, _ in self._ends.poll(0):
            ended = [pid for pid, known in self._known.items() if known.handle == handle]
            for pid in ended:
                self._forget(pid)
        found: dict[int, Known] = {}
        for pid in pids:
            known = self._known.get(pid) or self._meet(pid, now_ns)
            if known is None:
                continue
            if known.handle is None and started_ticks(pid) != known.started_ticks:
                self._forget(pid)
                known = self._meet(pid, now_ns)
                if known is None:
                    continue
            if known.container is None and now_ns - known.asked_ns > _ASK_AGAIN_NS:
                known.container, known.asked_ns = self.container_of(pid), now_ns
            found[pid] = known
        for pid in [pid for pid in self._known if pid not in found]:
            self._forget(pid)
        return found

    def _meet(self, pid: int, now_ns: int) -> Known | None:
        """Take down a process; None where there is none of that pid, or it has ended."""
        if not 0 < pid < 1 << 22:  # the kernel's largest pid, PID_MAX_LIMIT
            return None
        handle: int | None = None
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        except OSError:
            handle = None  # an old kernel: then its start time is compared at every look
        started = started_ticks(pid)
        if started is None or (handle is not None and _ended(handle)):
            if handle is not None:
                os.close(handle)
            return None
        known = Known(pid, started, self.container_of(pid), now_ns, handle)
        if handle is not None:
            self._ends.register(handle, select.EPOLLIN)
        self._known[pid] = known
        return known

    def _forget(self, pid: int) -> None:
        known = self._known.pop(pid, None)
        if known is not None and known.handle is not None:
            with suppress(OSError):
                self._ends.unregister(known.handle)
            os.close(known.handle)


def _ended(handle: int) -> bool:
    watcher = select.poll()
    watcher.register(handle, select.POLLIN)
    return bool(watcher.poll(0))
