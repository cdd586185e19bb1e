"""One process on one GPU: runs its program's operations, and can be frozen, locked and killed."""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Protocol

from dure.sim.agenda import Agenda
from dure.sim.node.gpu import Gpu
from dure.sim.node.sharing import Piece
from dure.sim.node.steps import (
    CUDA_CALLS,
    Allocate,
    Answered,
    AwaitRequest,
    Close,
    Copy,
    Free,
    HostWork,
    Kernel,
    Meet,
    Operation,
)


class Ending(Enum):
    """How a process ended."""

    DONE = "done"
    OUT_OF_MEMORY = "out of memory"
    PEER_LOST = "a peer was lost"
    KILLED = "killed"


class Surroundings(Protocol):
    """What a process deals with beside its GPU."""

    def process_ended(self, now_ns: int, process: "Process", ending: Ending) -> None:
        """It is gone, and with it its memory."""

    def answered(self, process: "Process", latency_ns: int) -> None:
        """It answered a request."""

    def meet(self, now_ns: int, process: "Process", name: str) -> None:
        """It waits for its peers; `met` lets it go on."""


class Process:
    """A program's way through its operations."""

    def __init__(
        self, pid: int, gpu: Gpu, program: Iterator[Operation], agenda: Agenda, around: Surroundings
    ) -> None:
        self.pid = pid
        self.gpu = gpu
        self.ended = False
        self.phases_ns: Counter[str] = Counter()
        """Time spent in each kind of operation, waits of a pause included."""
        self.serving = False
        """Whether it waits for a request: nothing keeps it from the GPU but the lack of work."""
        self._program = program
        self._agenda = agenda
        self._around = around
        self._began_ns = 0
        self._frozen = False
        self._locked = False
        self._operation: Operation | None = None
        self._since_ns = 0
        """When its present operation became due."""
        self._begun = False
        """Whether the present operation is under way, not only due."""
        self._piece: Piece | None = None
        self._context_parts = 0
        """Of its CUDA context, that are made."""
        self._left: float = 0.0
        """Of a host's work, in nanoseconds, or of a copy, in bytes, while it is interrupted."""
        self._timer = 0
        """Numbers the timers; an older one is void."""
        self._timer_end_ns = 0
        self._lock_done: Callable[[int], None] | None = None
        self._freeze_done: Callable[[int], None] | None = None

    def start(self, now_ns: int) -> None:
        """Begin the program."""
        self._began_ns = now_ns
        self._next(now_ns)

    @property
    def on_gpu(self) -> bool:
        """Whether it has a context, and so is on NVML's list."""
        return self.pid in self.gpu.memory

    # Keeping it from the GPU

    @property
    def making_context(self) -> bool:
        """Whether the driver works on its context right now."""
        return self._begun and self._lacks_context()

    def freeze(self, now_ns: int, done: Callable[[int], None] | None = None) -> None:
        """Stop its CPU side; a kernel that was launched runs on. Done at once, or when the part of
        its context that is being made is there."""
        self._frozen = True
        if self.making_context:
            self._freeze_done = done
            return
        self._stop_cpu(now_ns)
        if done is not None:
            done(now_ns)

    def _stop_cpu(self, now_ns: int) -> None:
        if not self._begun:
            return
        match self._operation:
            case HostWork():
                self._left = self._timer_end_ns - now_ns
                self._timer += 1
            case Copy(into_gpu=into_gpu) if self._piece is not None:
                self._left = self.gpu.stop_copy(now_ns, self._piece, into_gpu=into_gpu)
                self._piece = None

    def thaw(self, now_ns: int) -> None:
        """Let its CPU side go on."""
        if not self._frozen:
            return
        self._frozen = False
        self._freeze_done = None
        match self._operation:
            case HostWork() if self._begun:
                self._set_timer(now_ns, round(self._left))
            case Copy() if self._begun and self._piece is None:
                self._copy(now_ns, self._left)
            case _ if not self._begun and not self.ended:
                self._attempt(now_ns)

    def lock(self, now_ns: int, done: Callable[[int], None]) -> None:
        """Hold its CUDA calls back; done when the copy it is in, if any, is over, or its context
        is made."""
        self._locked = True
        copying = self._begun and isinstance(self._operation, Copy)
        if (copying or self.making_context) and not self._frozen:
            self._lock_done = done
        else:
            done(now_ns)

    def unlock(self, now_ns: int) -> None:
        """Let its CUDA calls through."""
        if not self._locked:
            return
        self._locked = False
        self._lock_done = None
        if not self._begun and not self._frozen and not self.ended:
            self._attempt(now_ns)

    def kill(self, now_ns: int) -> None:
        """End it at once, whatever it does."""
        if not self.ended:
            self._end(now_ns, Ending.KILLED)

    def fail(self, now_ns: int, ending: Ending) -> None:
        """It ends by an error of its own."""
        if not self.ended:
            self._end(now_ns, ending)

    # The program

    def met(self, now_ns: int) -> None:
        """All peers have come."""
        if self._piece is not None:
            self.gpu.end(now_ns, self._piece)
            self._piece = None
        self._finish(now_ns)

    def _next(self, now_ns: int) -> None:
        """Go to the next operation, or end."""
        self._operation = next(self._program, None)
        self._since_ns = now_ns
        self._attempt(now_ns)

    def _attempt(self, now_ns: int) -> None:
        """Begin the operation that is due, unless something keeps it from that."""
        operation = self._operation
        ends = operation is None
        if self._frozen:
            return
        # A lock waits for the end of a call, and the context is made in one.
        between = 0 < self._context_parts < self.gpu.model.context_parts
        if self._locked and not between and (ends or isinstance(operation, CUDA_CALLS)):
            return
        if operation is None:
            self._end(now_ns, Ending.DONE)
        elif self._lacks_context():
            self._begun = True
            self._piece = self.gpu.make_context_part(now_ns, self._context_part_made)
        else:
            self._begun = True
            self._begin(now_ns, operation)

    def _lacks_context(self) -> bool:
        """Whether its next call needs a context that is not whole yet."""
        needs = isinstance(self._operation, Allocate | Copy | Kernel | Meet)
        return needs and self._context_parts < self.gpu.model.context_parts

    def _context_part_made(self, now_ns: int) -> None:
        """The driver's own work, which a freeze interrupts between two parts."""
        model = self.gpu.model
        self._begun, self._piece = False, None
        self._context_parts += 1
        self.gpu.context_part_made(now_ns, self.pid)
        if self._context_parts == model.context_hidden_parts and not self.gpu.allocate(
            self.pid, model.context_bytes
        ):
            self._end(now_ns, Ending.OUT_OF_MEMORY)
            return
        if self._context_parts == model.context_parts:
            self.phases_ns["context"] += now_ns - self._since_ns
            self._since_ns = now_ns
            self._tell_locked(now_ns)
        if self._freeze_done is not None:
            done, self._freeze_done = self._freeze_done, None
            done(now_ns)
        self._attempt(now_ns)

    def _begin(self, now_ns: int, operation: Operation) -> None:
        match operation:
            case HostWork():
                self._set_timer(now_ns, operation.time_ns)
            case AwaitRequest():
                self.serving = True
                at_ns = max(now_ns, self._began_ns + operation.arrival_ns)
                self._set_timer(now_ns, at_ns - now_ns)
            case Answered():
                self._around.answered(self, now_ns - self._began_ns - operation.arrival_ns)
                self._finish(now_ns)
            case Copy():
                self._copy(now_ns, operation.size_bytes)
            case Kernel():
                self._piece = self.gpu.launch(now_ns, self.pid, operation.time_ns, self._finish)
            case Meet():
                self._piece = self.gpu.spin(now_ns, self.pid)
                self._around.meet(now_ns, self, operation.name)
            case Allocate() | Free() | Close():
                self._change_memory(now_ns, operation)

    def _change_memory(self, now_ns: int, operation: Allocate | Free | Close) -> None:
        match operation:
            case Allocate() if not self.gpu.allocate(self.pid, operation.size_bytes):
                self._end(now_ns, Ending.OUT_OF_MEMORY)
                return
            case Free() if self.on_gpu:
                held = self.gpu.memory[self.pid]
                wanted = operation.size_bytes
                self.gpu.free(self.pid, held if wanted is None else wanted)
            case Close():
                self.gpu.close(self.pid)
                self._context_parts = 0
        self._set_timer(now_ns, self.gpu.model.memory_call_ns)

    def _copy(self, now_ns: int, size_bytes: float) -> None:
        operation = self._operation
        assert isinstance(operation, Copy)
        self._piece = self.gpu.copy(now_ns, size_bytes, self._finish, into_gpu=operation.into_gpu)

    def _set_timer(self, now_ns: int, time_ns: int) -> None:
        self._timer += 1
        self._timer_end_ns = now_ns + time_ns
        self._agenda.note(self._timer_end_ns, self._timer_ended, self._timer)

    def _timer_ended(self, now_ns: int, timer: int) -> None:
        if timer == self._timer and not self.ended:
            self._finish(now_ns)

    def _finish(self, now_ns: int) -> None:
        """The present operation is over."""
        self.serving = False
        self._begun = False
        self._piece = None
        self.phases_ns[_kind(self._operation)] += now_ns - self._since_ns
        self._tell_locked(now_ns)
        self._next(now_ns)

    def _tell_locked(self, now_ns: int) -> None:
        """What a lock waited for is over."""
        if self._lock_done is not None:
            done, self._lock_done = self._lock_done, None
            done(now_ns)

    def _end(self, now_ns: int, ending: Ending) -> None:
        self.ended = True
        self._timer += 1
        piece, operation = self._piece, self._operation
        self._piece = None
        match operation:
            case _ if piece is not None and self._lacks_context():
                self.gpu.stop_context(now_ns, piece)
            case Copy() if piece is not None:
                self.gpu.stop_copy(now_ns, piece, into_gpu=operation.into_gpu)
            case Kernel() | Meet() if piece is not None:
                self.gpu.end(now_ns, piece)
        self.gpu.close(self.pid)
        self._tell_locked(now_ns)
        if self._freeze_done is not None:
            done, self._freeze_done = self._freeze_done, None
            done(now_ns)
        self._around.process_ended(now_ns, self, ending)


def _kind(operation: Operation | None) -> str:
    match operation:
        case Copy():
            return "copy in" if operation.into_gpu else "copy out"
        case Kernel() | Meet():
            return "kernel"
        case HostWork():
            return "host"
        case AwaitRequest():
            return "idle"
        case _:
            return "memory"
