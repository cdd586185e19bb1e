"""The driver through ctypes: enough of it to say what the emulator must do."""

import ctypes
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any

PTX = b"""
.version 7.8
.target sm_70
.address_size 64
.visible .entry dure_spin(.param .u64 work_ns, .param .u64 bytes, .param .u64 turns) { ret; }
.visible .entry dure_fill(.param .u64 x, .param .u64 n, .param .u32 value, .param .u64 work_ns,
                          .param .u64 turns) { ret; }
.visible .entry dure_add(.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 n,
                         .param .u64 work_ns, .param .u64 turns) { ret; }
.visible .entry dure_chase(.param .u64 x, .param .u64 n, .param .u32 addend,
                           .param .u64 work_ns, .param .u64 turns) { ret; }
.visible .entry stranger(.param .u64 a, .param .align 8 .b8 b[24], .param .f32 c) { ret; }
"""

WIDE = 1056
"""Blocks of 256 threads that fill 132 SMs."""


class CudaError(Exception):
    """A call failed; `code` is its CUresult."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: {code}")
        self.code = code


class KernelNodeParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("func", c_void_p),
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("params", c_void_p),
        ("extra", c_void_p),
        ("kern", c_void_p),
        ("ctx", c_void_p),
    )


class Cuda:
    """The driver with the primary context of one device current."""

    def __init__(self, device: int = 0) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)
        self.module = c_void_p()
        self.call("cuModuleLoadData", byref(self.module), PTX)

    def code(self, name: str, *arguments: Any) -> int:
        """The result of a call."""
        return int(getattr(self.library, name)(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        """A call that must not fail."""
        code = self.code(name, *arguments)
        if code != 0:
            raise CudaError(name, code)

    def function(self, name: str) -> c_void_p:
        """A kernel by name."""
        made = c_void_p()
        self.call("cuModuleGetFunction", byref(made), self.module, name.encode())
        return made

    def stream(self, flags: int = 1, priority: int = 0) -> c_void_p:
        """A stream; 1 does not wait for the legacy default stream, 0 does."""
        made = c_void_p()
        self.call("cuStreamCreateWithPriority", byref(made), flags, priority)
        return made

    def event(self, flags: int = 0) -> c_void_p:
        """An event."""
        made = c_void_p()
        self.call("cuEventCreate", byref(made), flags)
        return made

    def record(self, stream: c_void_p | None) -> c_void_p:
        """A new event, recorded."""
        made = self.event()
        self.call("cuEventRecord", made, stream)
        return made

    def elapsed_ms(self, begin: c_void_p, end: c_void_p) -> float:
        """Modelled time between two events, which are waited for."""
        self.call("cuEventSynchronize", begin)
        self.call("cuEventSynchronize", end)
        value = c_float()
        self.call("cuEventElapsedTime", byref(value), begin, end)
        return value.value

    def allocate(self, size: int) -> int:
        """Device memory."""
        made = c_uint64()
        self.call("cuMemAlloc_v2", byref(made), c_size_t(size))
        return made.value

    def free_bytes(self) -> int:
        """What cuMemGetInfo says is free."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def launch_code(
        self, name: str, stream: c_void_p | None, values: tuple[Any, ...], blocks: int = WIDE
    ) -> int:
        """Launch a kernel; the result."""
        params = (c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        shape = (blocks, 1, 1, 256, 1, 1, 0)
        function = self.function(name)
        return self.code("cuLaunchKernel", function, *shape, stream, params, None)

    def spin(self, stream: c_void_p | None, ms: float, blocks: int = WIDE, size: int = 0) -> None:
        """A kernel that takes so long alone and moves so many bytes."""
        values = (c_uint64(int(ms * 1e6)), c_uint64(size), c_uint64(0))
        code = self.launch_code("dure_spin", stream, values, blocks)
        if code != 0:
            raise CudaError("cuLaunchKernel", code)

    def fill(self, stream: c_void_p | None, x: int, value: int, ms: float = 0.0) -> None:
        """Set 64 words when the kernel ends."""
        values = (c_uint64(x), c_uint64(64), c_uint32(value), c_uint64(int(ms * 1e6)), c_uint64(0))
        code = self.launch_code("dure_fill", stream, values)
        if code != 0:
            raise CudaError("cuLaunchKernel", code)

    def chase(self, stream: c_void_p | None, x: int, addend: int, ms: float = 0.0) -> None:
        """Step 64 words on when the kernel ends."""
        work = c_uint64(int(ms * 1e6))
        values = (c_uint64(x), c_uint64(64), c_uint32(addend), work, c_uint64(0))
        code = self.launch_code("dure_chase", stream, values)
        if code != 0:
            raise CudaError("cuLaunchKernel", code)

    def word(self, x: int) -> int:
        """The first word there, after all work."""
        self.call("cuCtxSynchronize")
        value = c_uint32()
        self.call("cuMemcpyDtoH_v2", byref(value), c_uint64(x), c_size_t(4))
        return value.value

    def synchronize(self, stream: c_void_p | None) -> None:
        """Wait for a stream."""
        self.call("cuStreamSynchronize", stream)

    def green_streams(self, sms: int, count: int) -> list[tuple[c_void_p, c_void_p]]:
        """Context and stream of so many green contexts of so many SMs each, disjoint."""
        whole = (ctypes.c_ubyte * 144)()
        self.call("cuDeviceGetDevResource", 0, byref(whole), 1)
        groups = (ctypes.c_ubyte * (144 * count))()
        made = c_uint(count)
        split = ("cuDevSmResourceSplitByCount", byref(groups), byref(made), byref(whole))
        self.call(*split, None, 0, sms)
        if made.value != count:
            raise CudaError("cuDevSmResourceSplitByCount", made.value)
        found = []
        for index in range(count):
            desc, green, context, stream = c_void_p(), c_void_p(), c_void_p(), c_void_p()
            one = byref(groups, 144 * index)
            self.call("cuDevResourceGenerateDesc", byref(desc), one, 1)
            self.call("cuGreenCtxCreate", byref(green), desc, 0, 1)
            self.call("cuCtxFromGreenCtx", byref(context), green)
            self.call("cuGreenCtxStreamCreate", byref(stream), green, 1, 0)
            found.append((context, stream))
        return found

    def capture(self, stream: c_void_p, mode: int = 1) -> None:
        """Begin a capture; 0 global, 1 of this thread, 2 relaxed."""
        self.call("cuStreamBeginCapture_v2", stream, mode)

    def end_capture(self, stream: c_void_p) -> c_void_p:
        """End it; the graph."""
        graph = c_void_p()
        self.call("cuStreamEndCapture", stream, byref(graph))
        return graph

    def instantiate(self, graph: c_void_p) -> c_void_p:
        """An executable graph."""
        made = c_void_p()
        self.call("cuGraphInstantiateWithFlags", byref(made), graph, c_uint64(0))
        return made

    def nodes(self, graph: c_void_p) -> list[c_void_p]:
        """Nodes of a graph."""
        count = c_size_t()
        self.call("cuGraphGetNodes", graph, None, byref(count))
        found = (c_void_p * count.value)()
        self.call("cuGraphGetNodes", graph, found, byref(count))
        return [c_void_p(node) for node in found]

    def state_of(self, pid: int) -> int:
        """The checkpoint state of a process."""
        state = c_int()
        self.call("cuCheckpointProcessGetState", pid, byref(state))
        return state.value
