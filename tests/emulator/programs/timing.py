"""How long work takes: alone, in company, on sets of SMs, and how far programs run ahead."""

import ctypes
import itertools
import sys
import time
from ctypes import byref, c_size_t, c_uint, c_uint64, c_void_p

from tests.emulator.cuda import Cuda, KernelNodeParams
from tests.emulator.programs.common import Printed, beside_ms, say, timed


def durations(*_: str) -> Printed:
    """How long things take alone."""
    cuda = Cuda()
    stream = cuda.stream()
    size = 64 << 20
    device, host = cuda.allocate(size), c_void_p()
    cuda.call("cuMemHostAlloc", byref(host), c_size_t(size), 0)
    copy = ("cuMemcpyHtoDAsync_v2", c_uint64(device), host, c_size_t(size), stream)
    return {
        "wide_ms": timed(cuda, stream, lambda: cuda.spin(stream, 5)),
        "narrow_ms": timed(cuda, stream, lambda: cuda.spin(stream, 5, blocks=8)),
        "bytes_ms": timed(cuda, stream, lambda: cuda.spin(stream, 0.1, size=int(4.8e9))),
        "copy_ms": timed(cuda, stream, lambda: cuda.call(*copy)),
    }


def company(*_: str) -> Printed:
    """Kernels of one process beside one another."""
    cuda = Cuda()
    two = [cuda.stream(), cuda.stream()]
    urgent = [cuda.stream(priority=-5), cuda.stream()]
    return {
        "wide_ms": beside_ms(cuda, two, 1056),
        "narrow_ms": beside_ms(cuda, two, 528),
        "bandwidth_ms": beside_ms(cuda, two, 400, size=int(4.8e10 * 0.8)),
        "urgent_ms": beside_ms(cuda, urgent, 1056),
    }


def green(*_: str) -> Printed:
    """Kernels on sets of SMs."""
    cuda = Cuda()
    (context, half), (_context, other) = cuda.green_streams(64, 2)
    whole = cuda.stream()
    cuda.capture(whole)
    cuda.spin(whole, 4)
    plain = cuda.end_capture(whole)
    cuda.capture(half)
    cuda.spin(half, 4)
    narrow = cuda.end_capture(half)
    moved = c_void_p()
    cuda.call("cuGraphClone", byref(moved), plain)
    for node in cuda.nodes(moved):
        params = KernelNodeParams()
        cuda.call("cuGraphKernelNodeGetParams_v2", node, byref(params))
        params.ctx = context
        cuda.call("cuGraphKernelNodeSetParams_v2", node, byref(params))
    execs = {
        name: cuda.instantiate(graph)
        for name, graph in (("plain", plain), ("narrow", narrow), ("moved", moved))
    }

    def replay(name: str, stream: c_void_p) -> float:
        return timed(cuda, stream, lambda: cuda.call("cuGraphLaunch", execs[name], stream))

    return {
        "confined_ms": timed(cuda, half, lambda: cuda.spin(half, 4)),
        "disjoint_ms": beside_ms(cuda, [half, other], 1056),
        "captured_wide_on_green_ms": replay("plain", half),
        "captured_green_on_wide_ms": replay("narrow", whole),
        "moved_ms": replay("moved", whole),
        "sms": split_counts(cuda),
    }


def split_counts(cuda: Cuda) -> list[int]:
    """Groups of eight, and the SMs of one group and of the rest."""
    whole, rest = (ctypes.c_ubyte * 144)(), (ctypes.c_ubyte * 144)()
    cuda.call("cuDeviceGetDevResource", 0, byref(whole), 1)
    groups, count = (ctypes.c_ubyte * (144 * 32))(), c_uint(32)
    cuda.call(
        "cuDevSmResourceSplitByCount",
        *(byref(groups), byref(count), byref(whole), byref(rest), 0, 1),
    )
    sms = [int.from_bytes(bytes(part)[96:100], sys.byteorder) for part in (groups, rest)]
    return [count.value, *sms]


def hold_green(index: str, seconds: str) -> Printed:
    """Spin on one half of the SMs for a while; how long one kernel takes there meanwhile."""
    cuda = Cuda()
    _context, stream = cuda.green_streams(64, 2)[int(index)]
    say("ready")
    end, times = time.monotonic() + float(seconds), []
    while time.monotonic() < end:
        events = [cuda.record(stream)]
        for _ in range(10):
            cuda.spin(stream, 2)
            events.append(cuda.record(stream))
        times += [cuda.elapsed_ms(*pair) for pair in itertools.pairwise(events[1:])]
    return {"median_ms": sorted(times)[len(times) // 2]}


def far_ahead(*_: str) -> Printed:
    """How far a program gets ahead of the device before a launch blocks."""
    cuda = Cuda()
    stream, began = cuda.stream(), time.monotonic()
    cuda.spin(stream, 500)
    for _number in range(900):
        cuda.spin(stream, 0)
    free_s = time.monotonic() - began
    for _number in range(300):
        cuda.spin(stream, 0)
    return {"free_s": free_s, "blocked_s": time.monotonic() - began}


def bursts(count: str, kernels: str, ms: str) -> Printed:
    """Requests of some kernels each, with pauses: modelled milliseconds of each."""
    cuda = Cuda()
    stream = cuda.stream()
    took = []
    for _ in range(int(count)):
        time.sleep(0.004)
        cuda.spin(stream, 0.001)
        begin = cuda.record(stream)
        for _ in range(int(kernels)):
            cuda.spin(stream, float(ms))
        end = cuda.record(stream)
        cuda.synchronize(stream)
        took.append(cuda.elapsed_ms(begin, end))
        cuda.call("cuEventDestroy_v2", begin)
        cuda.call("cuEventDestroy_v2", end)
    return {"ms": sorted(took)}


def waiting(kernels: str, ms: str) -> Printed:
    """When some kernels were launched, and when they had ended."""
    cuda = Cuda()
    stream, x = cuda.stream(), cuda.allocate(256)
    cuda.fill(None, x, 1)
    cuda.synchronize(None)
    say("ready")
    sys.stdin.readline()
    began = time.monotonic()
    for addend in range(int(kernels)):
        cuda.chase(stream, x, addend, float(ms))
    launched = time.monotonic()
    cuda.synchronize(stream)
    ended = time.monotonic()
    times = {"began": began, "launched": launched, "ended": ended}
    return {**times, "word": cuda.word(x)}
