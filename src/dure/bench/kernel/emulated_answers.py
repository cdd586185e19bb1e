"""A program on the emulator whose result is known: a chain of kernels that really compute.

    python -m dure.bench.kernel.emulated_answers NAME SECONDS

Stands in for every program of dure.bench.workloads.answers, so that the bench itself can be tried.
"""

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from dure.bench.kernel.launch_cost import checked, first_context
from dure.bench.workloads.answers import tell_results

WORDS = 1024
CHAIN = 30
"""Kernels of one run; each multiplies what the one before it left."""
WORK_NS = 300_000
BLOCKS = 1024
PTX = b""".version 7.8
.target sm_70
.address_size 64
.visible .entry dure_fill(.param .u64 x, .param .u64 n, .param .u32 value, .param .u64 work_ns,
 .param .u64 iterations) { ret; }
.visible .entry dure_chase(.param .u64 x, .param .u64 n, .param .u32 addend, .param .u64 work_ns,
 .param .u64 iterations) { ret; }
"""


def chain(driver: ctypes.CDLL) -> Callable[[], Any]:
    """A run of the chain; gives the words it leaves."""
    first_context(driver)
    module, words, stream = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
    checked("module", driver.cuModuleLoadData(ctypes.byref(module), PTX))
    checked("memory", driver.cuMemAlloc_v2(ctypes.byref(words), ctypes.c_size_t(4 * WORDS)))
    checked("stream", driver.cuStreamCreate(ctypes.byref(stream), 1))
    functions = {}
    for name in (b"dure_fill", b"dure_chase"):
        functions[name] = ctypes.c_void_p()
        found = driver.cuModuleGetFunction(ctypes.byref(functions[name]), module, name)
        checked("function", found)

    def launch(name: bytes, number: int) -> None:
        values = (
            *(words, ctypes.c_uint64(WORDS), ctypes.c_uint32(number)),
            *(ctypes.c_uint64(WORK_NS), ctypes.c_uint64(0)),
        )
        pointers = (ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in values)
        parameters = (ctypes.c_void_p * len(values))(*pointers)
        shape = (ctypes.c_uint(size) for size in (BLOCKS, 1, 1, 256, 1, 1, 0))
        code = driver.cuLaunchKernel(functions[name], *shape, stream, parameters, None)
        checked("launch", code)

    def once() -> Any:
        launch(b"dure_fill", 7)
        for step in range(CHAIN):
            launch(b"dure_chase", step)
        checked("synchronize", driver.cuStreamSynchronize(stream))
        found = np.zeros(WORDS, dtype=np.uint32)
        into = found.ctypes.data_as(ctypes.c_void_p)
        checked("copy", driver.cuMemcpyDtoH_v2(into, words, ctypes.c_size_t(4 * WORDS)))
        return found

    return once


def main() -> None:
    """The command line."""
    tell_results(chain(ctypes.CDLL("libcuda.so.1")), float(sys.argv[2]))


if __name__ == "__main__":
    main()
