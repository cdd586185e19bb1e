"""A container runtime in virtual time, with pauses that take as long as one says: for tests and
worlds that run the agent's code without a daemon."""

import os
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from dure.domain.containers import Container, PauseWay
from dure.domain.errors import DureError
from dure.domain.ids import ContainerId
from dure.runtimes.cgroups import started_ticks
from dure.runtimes.docker import Place
from dure.runtimes.docker_errors import (
    AlreadyPausedError,
    ContainerGoneError,
    RuntimeUnreachableError,
)
from dure.runtimes.events import RuntimeEvent, RuntimeEventKind

DOCKER_PAUSE_NS = 35_000_000
"""Measured on one H200 host."""
CUDA_LOCK_NS = 450_000
"""Measured on driver 580."""


class VirtualClock:
    """Time that passes only when somebody lets it."""

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns
        self._lock = threading.Lock()

    def sleep(self, for_ns: int) -> None:
        """Let time pass."""
        with self._lock:
            self.now_ns += for_ns


class SimulatedRuntime:
    """Containers that exist because a test or a world says so."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self._running: dict[ContainerId, Container] = {}
        self._locked: set[ContainerId] = set()
        self._listeners: list[queue.SimpleQueue[RuntimeEvent | None]] = []
        self._lock = threading.RLock()
        self.reachable = True

    # As a person or a program at the host would

    def start(self, container: Container) -> None:
        """A container begins to run."""
        with self._lock:
            self._running[container.id] = replace(container, started_ns=self.clock.now_ns)
        self._report(RuntimeEventKind.STARTED, container.id)

    def end(self, container: ContainerId) -> None:
        """It dies, frozen or not."""
        with self._lock:
            self._running.pop(container, None)
            self._locked.discard(container)
        self._report(RuntimeEventKind.ENDED, container)

    def rename(self, container: ContainerId, name: str) -> None:
        """It gets another name."""
        with self._lock:
            self._running[container] = replace(self._running[container], name=name)
        self._report(RuntimeEventKind.CHANGED, container)

    def freeze(self, container: ContainerId, *, own: bool = False) -> None:
        """It is paused; by a person unless it is said to be our own doing."""
        with self._lock:
            self._set_paused(container, paused=True)
        self._report(RuntimeEventKind.PAUSED, container, own=own)

    def thaw(self, container: ContainerId, *, own: bool = False) -> None:
        """It is unpaused."""
        with self._lock:
            self._set_paused(container, paused=False)
        self._report(RuntimeEventKind.RESUMED, container, own=own)

    def lose(self) -> None:
        """The daemon goes; `come_back` starts it again with its containers alive."""
        self.reachable = False
        for listener in self._listeners:
            listener.put(None)

    def come_back(self) -> None:
        """The daemon answers again."""
        self.reachable = True

    def runs(self, container: ContainerId) -> bool:
        """Whether it can use the GPU."""
        with self._lock:
            found = self._running.get(container)
            return found is not None and not found.paused and container not in self._locked

    # As the agent sees it

    def containers(self) -> tuple[Container, ...]:
        """Everything that runs now, paused or not."""
        self._must_answer()
        with self._lock:
            return tuple(self._running.values())

    def inspect(self, container: ContainerId) -> Container | None:
        """One of them; None where it does not run any more."""
        self._must_answer()
        with self._lock:
            return self._running.get(container)

    def events(self) -> Iterator[RuntimeEvent]:
        """What happens from the call on."""
        self._must_answer()
        listener: queue.SimpleQueue[RuntimeEvent | None] = queue.SimpleQueue()
        self._listeners.append(listener)
        return self._listen(listener)

    def _listen(self, listener: "queue.SimpleQueue[RuntimeEvent | None]") -> Iterator[RuntimeEvent]:
        while (event := listener.get()) is not None:
            yield event
        self._listeners.remove(listener)
        self._must_answer()

    def close(self) -> None:
        """End all listening."""
        for listener in self._listeners:
            listener.put(None)

    def place(self, container: Container) -> Place | None:
        """Its processes are this one; None where this life of it is over."""
        with self._lock:
            found = self._running.get(container.id)
        ticks = started_ticks(os.getpid())
        if found is None or found.started_ns != container.started_ns or ticks is None:
            return None
        return Place("simulated://", os.getpid(), ticks, None)

    def lock(self, container: ContainerId) -> None:
        """Its CUDA calls wait."""
        with self._lock:
            if container not in self._running:
                raise ContainerGoneError("it does not run")
            self._locked.add(container)

    def unlock(self, container: ContainerId) -> None:
        """Its CUDA calls go on."""
        with self._lock:
            self._locked.discard(container)

    def _set_paused(self, container: ContainerId, *, paused: bool) -> None:
        found = self._running.get(container)
        if found is None:
            raise ContainerGoneError("it does not run")
        if found.paused == paused and paused:
            raise AlreadyPausedError("somebody else paused it")
        self._running[container] = replace(found, paused=paused)

    def _must_answer(self) -> None:
        if not self.reachable:
            raise RuntimeUnreachableError("the simulated daemon is away", "start it")

    def _report(self, kind: RuntimeEventKind, container: ContainerId, *, own: bool = False) -> None:
        for listener in self._listeners:
            listener.put(RuntimeEvent(kind, container, own))


@dataclass(slots=True)
class SimulatedPauser:
    """One way to pause that takes as long as the real one."""

    runtime: SimulatedRuntime
    way: PauseWay = PauseWay.DOCKER
    takes_ns: int = DOCKER_PAUSE_NS
    fails: Callable[[Container], str | None] = field(default=lambda _: None)
    """Why a pause of this container does not work."""

    def unsupported(self) -> str | None:
        """Always works."""
        return None

    def pause(self, container: Container) -> None:
        """Returns when it is kept from the GPU."""
        self.runtime.clock.sleep(self.takes_ns)
        problem = self.fails(container)
        if problem is not None:
            raise DureError(problem)
        if self.way is PauseWay.DOCKER:
            self.runtime.freeze(container.id, own=True)
        else:
            self.runtime.lock(container.id)

    def resume(self, container: Container) -> None:
        """Returns when it runs."""
        self.runtime.clock.sleep(self.takes_ns)
        if self.way is PauseWay.CUDA_LOCK:
            self.runtime.unlock(container.id)
            return
        found = self.runtime.inspect(container.id)
        if found is not None and found.paused:
            self.runtime.thaw(container.id, own=True)
