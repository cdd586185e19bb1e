"""What a program in a container does, step by step, and the operations that come of it."""

from collections.abc import Iterator
from dataclasses import dataclass

from dure.sim.node.model import FLOAT_BYTES, matmul_kernel_ns

# Steps


@dataclass(frozen=True, slots=True)
class HostWork:
    """Work of the CPU alone."""

    time_ns: int


@dataclass(frozen=True, slots=True)
class Allocate:
    """Take GPU memory; fails where there is not enough."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class Free:
    """Give GPU memory back; None: all of it, and the context stays."""

    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Close:
    """Give up the context, too: the process leaves NVML's list until its next CUDA call."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Move bytes between host and GPU."""

    size_bytes: int
    into_gpu: bool


@dataclass(frozen=True, slots=True)
class Kernel:
    """Launch work and wait for it; what is launched at once cannot be stopped."""

    time_ns: int
    """Alone on the GPU."""


@dataclass(frozen=True, slots=True)
class Meet:
    """A collective: wait on the GPU, which looks busy, until all peers have come."""

    name: str


@dataclass(frozen=True, slots=True)
class Loop:
    """The same steps again and again."""

    times: int
    steps: tuple["Step", ...]


@dataclass(frozen=True, slots=True)
class Serve:
    """Answer requests that come from outside, one at a time, each by the same steps."""

    arrivals_ns: tuple[int, ...]
    """Counted from the program's start, sorted."""
    steps: tuple["Step", ...]


Step = HostWork | Allocate | Free | Close | Copy | Kernel | Meet | Loop | Serve


@dataclass(frozen=True, slots=True)
class AwaitRequest:
    """Nothing to do before this moment, counted from the program's start."""

    arrival_ns: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The request that came at this moment is done."""

    arrival_ns: int


Operation = HostWork | Allocate | Free | Close | Copy | Kernel | Meet | AwaitRequest | Answered
"""What a process does next; loops are unrolled."""

CUDA_CALLS = (Allocate, Free, Close, Copy, Kernel, Meet)
"""Operations the driver can hold back."""


def operations(steps: tuple[Step, ...]) -> Iterator[Operation]:
    """The steps in order, one operation at a time."""
    for step in steps:
        match step:
            case Loop():
                for _ in range(step.times):
                    yield from operations(step.steps)
            case Serve():
                for arrival_ns in step.arrivals_ns:
                    yield AwaitRequest(arrival_ns)
                    yield from operations(step.steps)
                    yield Answered(arrival_ns)
            case _:
                yield step


def meetings(steps: tuple[Step, ...]) -> frozenset[str]:
    """Names of all collectives the steps take part in."""
    found: set[str] = set()
    for step in steps:
        if isinstance(step, Loop | Serve):
            found |= meetings(step.steps)
        elif isinstance(step, Meet):
            found.add(step.name)
    return frozenset(found)


def serves(steps: tuple[Step, ...]) -> bool:
    """Whether the program answers requests, and is judged by how fast it does."""
    return any(
        isinstance(step, Serve) or (isinstance(step, Loop) and serves(step.steps)) for step in steps
    )


def peak_bytes(steps: tuple[Step, ...]) -> int:
    """The most memory the program ever has allocated, without its context."""
    held = most = 0
    for operation in operations(_once(steps)):
        match operation:
            case Allocate():
                held += operation.size_bytes
            case Free():
                held = 0 if operation.size_bytes is None else held - operation.size_bytes
            case Close():
                held = 0
        most = max(most, held)
    return most


def _once(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Loops taken twice at most, which shows what one turn needs and what it leaves behind."""
    return tuple(
        Loop(min(step.times, 2), _once(step.steps))
        if isinstance(step, Loop)
        else Loop(min(len(step.arrivals_ns), 2), _once(step.steps))
        if isinstance(step, Serve)
        else step
        for step in steps
    )


def matmul(side: int) -> tuple[Step, ...]:
    """The paper's task: all arrays first, two inputs in, one kernel, the result out."""
    array_bytes = side * side * FLOAT_BYTES
    return (
        Allocate(3 * array_bytes),
        Copy(array_bytes, into_gpu=True),
        Copy(array_bytes, into_gpu=True),
        Kernel(matmul_kernel_ns(side)),
        Copy(array_bytes, into_gpu=False),
        Free(),
    )
