"""A tenant's process on the emulator: the same orders as a real one, modelled kernels as its work.

    python -m dure.bench.kernel.emulated_worker SOCKET NAME WORKLOAD

Speaks to the driver library itself, so that the shim is in the path as with any program.
"""

import ctypes
from dataclasses import dataclass

from dure.bench.kernel.launch_cost import checked, first_context
from dure.bench.kernel.loads import Work
from dure.bench.kernel.worker import Seen, introduce, serve

PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry dure_spin(.param .u64 work_ns, .param .u64 bytes, .param .u64 iterations)
{ ret; }
"""
_NOT_READY = 600  # CUDA_ERROR_NOT_READY


@dataclass(frozen=True, slots=True)
class Shape:
    """What one step launches."""

    launches: int
    work_ns: int
    blocks: int
    bytes_moved: int = 0


SHAPES = {
    "encoder-infer": Shape(4, 500_000, 1024),
    "resnet50-infer": Shape(4, 250_000, 512),
    "resnet50-eager": Shape(10, 200_000, 512),
    "llm-decode-eager": Shape(20, 50_000, 64),
    "resnet50-train": Shape(20, 500_000, 2048),
    "bert-train": Shape(20, 400_000, 2048),
    "gpt-train": Shape(20, 400_000, 2048),
    "matmul-long": Shape(2, 6_000_000, 4096),
    "matmul-short": Shape(1, 500_000, 4096),
    "matmul-wide": Shape(1, 2_000_000, 8192),
    "stream-bound": Shape(1, 500_000, 4096, 500_000_000),
    "token": Shape(1, 1_000_000, 1),
}
"""Modelled stand-ins of the real workloads, by their names."""


class EmulatedProgram:
    """One stream of modelled kernels."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def build(self) -> None:
        """Connect to the driver."""
        self._driver = ctypes.CDLL("libcuda.so.1")
        first_context(self._driver)
        module, function, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        checked("module", self._driver.cuModuleLoadData(ctypes.byref(module), PTX))
        checked(
            "function",
            self._driver.cuModuleGetFunction(ctypes.byref(function), module, b"dure_spin"),
        )
        checked("stream", self._driver.cuStreamCreate(ctypes.byref(stream), 1))
        self._function, self._stream = function, stream
        values = (self._shape.work_ns, self._shape.bytes_moved, 0)
        self._values = [ctypes.c_uint64(value) for value in values]
        self._parameters = (ctypes.c_void_p * 3)(
            *(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in self._values)
        )

    def warm(self, *, tune: bool) -> tuple[Work, Seen]:
        """A few steps; there is nothing to tune."""
        del tune
        for _ in range(5):
            self.step()
        self.synchronize()
        return Work(self.step, self.spin, self.synchronize), {"gpu": "emulated"}

    def step(self) -> None:
        """Submit one step."""
        for _ in range(self._shape.launches):
            checked(
                "launch",
                self._driver.cuLaunchKernel(
                    self._function,
                    *(ctypes.c_uint(value) for value in (self._shape.blocks, 1, 1, 256, 1, 1, 0)),
                    self._stream,
                    self._parameters,
                    None,
                ),
            )

    def synchronize(self) -> None:
        """Wait for it."""
        checked("synchronize", self._driver.cuStreamSynchronize(self._stream))

    def spin(self) -> None:
        """Wait for it, busily."""
        while (code := self._driver.cuStreamQuery(self._stream)) == _NOT_READY:
            pass
        checked("query", code)


def main() -> None:
    """The command line."""
    channel, workload = introduce()
    serve(channel, EmulatedProgram(SHAPES[workload]))


if __name__ == "__main__":
    main()
