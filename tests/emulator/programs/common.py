"""What programs have in common: a line for whoever waits, and work that starts together."""

import sys
from collections.abc import Callable
from ctypes import c_void_p
from typing import Any

from tests.emulator.cuda import Cuda

Printed = dict[str, Any]
GATE_MS = 60.0
"""What is submitted meanwhile starts together: a slow caller does not count."""


def say(line: str) -> None:
    """A line for whoever waits for it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def closed_gate(cuda: Cuda) -> c_void_p:
    """An event that comes a while from now."""
    stream = cuda.stream()
    cuda.spin(stream, GATE_MS, blocks=1)
    return cuda.record(stream)


def timed(cuda: Cuda, stream: c_void_p | None, work: Callable[[], None]) -> float:
    """Modelled milliseconds of what is submitted to a stream."""
    cuda.call("cuStreamWaitEvent", stream, closed_gate(cuda), 0)
    begin = cuda.record(stream)
    work()
    return cuda.elapsed_ms(begin, cuda.record(stream))


def beside_ms(cuda: Cuda, streams: list[c_void_p], blocks: int, size: int = 0) -> float:
    """How long the first stream's kernel takes while the others have one too."""
    gate = closed_gate(cuda)
    for stream in streams:
        cuda.call("cuStreamWaitEvent", stream, gate, 0)
    begin = cuda.record(streams[0])
    for stream in streams[1:]:
        cuda.spin(stream, 50, blocks, size * 5)
    cuda.spin(streams[0], 10, blocks, size)
    took = cuda.elapsed_ms(begin, cuda.record(streams[0]))
    cuda.call("cuCtxSynchronize")
    return took
