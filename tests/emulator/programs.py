"""Small CUDA programs for the tests, each a function that returns what is printed as JSON."""

import ctypes
import itertools
import json
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from tests.emulator.cuda import Cuda, CudaError, KernelNodeParams

Printed = dict[str, Any]


def say(line: str) -> None:
    """A line for whoever waits for it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


GATE_MS = 60.0
"""What is submitted meanwhile starts together: a slow caller does not count."""


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


def order(*_: str) -> Printed:
    """What waits for what."""
    cuda = Cuda()
    x, blocking, free = cuda.allocate(4096), cuda.stream(flags=0), cuda.stream(flags=1)
    cuda.fill(blocking, x, 1, ms=5)
    cuda.chase(None, x, 7)
    cuda.chase(blocking, x, 9)
    legacy = cuda.word(x)
    cuda.fill(free, x, 1, ms=20)
    cuda.chase(None, x, 7)
    unordered = cuda.word(x)
    cuda.fill(free, x, 5, ms=10)
    cuda.call("cuStreamWaitEvent", blocking, cuda.record(free), 0)
    cuda.chase(blocking, x, 3)
    waited = cuda.word(x)
    early = cuda.record(free)
    cuda.spin(free, 30)
    late = cuda.record(free)
    states = [cuda.code("cuEventQuery", late), cuda.code("cuStreamQuery", free)]
    cuda.call("cuEventSynchronize", late)
    states += [cuda.code("cuEventQuery", early), cuda.code("cuStreamQuery", free)]
    return {"legacy": legacy, "unordered": unordered, "waited": waited, "states": states}


def host_functions(*_: str) -> Printed:
    """Host functions run in stream order and hold the stream meanwhile."""
    cuda = Cuda()
    stream, x, seen = cuda.stream(), cuda.allocate(4096), []
    host_type = ctypes.CFUNCTYPE(None, c_void_p)

    def note(_: int | None) -> None:
        seen.append(threading.current_thread() is not threading.main_thread())
        time.sleep(0.05)

    callback = host_type(note)
    began = time.monotonic()
    cuda.fill(stream, x, 3, ms=1)
    cuda.call("cuLaunchHostFunc", stream, callback, None)
    cuda.chase(stream, x, 1)
    cuda.synchronize(stream)
    return {"seen": seen, "seconds": time.monotonic() - began, "word": cuda.word(x)}


def memory(*_: str) -> Printed:
    """What allocations do to what is free."""
    cuda = Cuda()
    stream = cuda.stream()
    free = [cuda.free_bytes()]
    x = cuda.allocate(64 << 20)
    free.append(cuda.free_bytes())
    cuda.call("cuMemFree_v2", c_uint64(x))
    free.append(cuda.free_bytes())
    made = c_uint64()
    cuda.call("cuMemAllocAsync", byref(made), c_size_t(32 << 20), stream)
    free.append(cuda.free_bytes())
    cuda.spin(stream, 60)
    cuda.call("cuMemFreeAsync", made, stream)
    free.append(cuda.free_bytes())
    cuda.synchronize(stream)
    free.append(cuda.free_bytes())
    prop = (ctypes.c_ubyte * 32)()
    prop[0] = prop[8] = 1
    handle = c_uint64()
    cuda.call("cuCtxSetCurrent", None)
    cuda.call("cuMemCreate", byref(handle), c_size_t(16 << 20), byref(prop), c_uint64(0))
    cuda.call("cuCtxSetCurrent", cuda.context)
    free.append(cuda.free_bytes())
    cuda.call("cuMemRelease", handle)
    free.append(cuda.free_bytes())
    code = cuda.code("cuMemAlloc_v2", byref(made), c_size_t(1 << 45))
    managed = c_uint64()
    cuda.call("cuMemAllocManaged", byref(managed), c_size_t(4096), 1)
    cuda.fill(stream, managed.value, 77)
    cuda.synchronize(stream)
    word = ctypes.cast(c_void_p(managed.value), ctypes.POINTER(c_uint)).contents.value
    return {"free": free, "too_much": code, "managed": word}


def hold(mib: str) -> Printed:
    """Hold memory and run a long kernel until killed."""
    cuda = Cuda()
    cuda.allocate(int(mib) << 20)
    cuda.spin(cuda.stream(), 60_000)
    say("ready")
    time.sleep(60)
    return {}


def frozen(*_: str) -> Printed:
    """Says how long, in modelled time, a kernel took during which the process was stopped."""
    cuda = Cuda()
    stream, x = cuda.stream(), cuda.allocate(4096)
    begin = cuda.record(stream)
    cuda.fill(stream, x, 42, ms=100)
    end = cuda.record(stream)
    say("ready")
    os.kill(os.getpid(), 19)
    return {"kernel_ms": cuda.elapsed_ms(begin, end), "word": cuda.word(x)}


def until_error(seconds: str) -> Printed:
    """Short kernels until a call fails; its code, and that of the next calls."""
    cuda = Cuda()
    stream, end = cuda.stream(), time.monotonic() + float(seconds)
    say("ready")
    try:
        while time.monotonic() < end:
            cuda.spin(stream, 2)
            cuda.synchronize(stream)
    except CudaError as problem:
        after = [cuda.code("cuCtxSynchronize"), cuda.code("cuStreamQuery", stream)]
        return {"code": problem.code, "after": after}
    return {"code": 0}


def steps(seconds: str) -> Printed:
    """Prints a line for each finished kernel, for those who watch whether it goes on."""
    cuda = Cuda()
    stream, end, count = cuda.stream(), time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        cuda.spin(stream, 1)
        cuda.synchronize(stream)
        count += 1
        say(str(count))
    return {"count": count}


def lock(pid: str, held_s: str) -> Printed:
    """Lock, checkpoint, restore and unlock another process."""
    cuda, target = Cuda(), int(pid)
    states, refused = [cuda.state_of(target)], cuda.code("cuCheckpointProcessUnlock", target, None)
    before, began = cuda.free_bytes(), time.monotonic()
    cuda.call("cuCheckpointProcessLock", target, None)
    took, states = time.monotonic() - began, [*states, cuda.state_of(target)]
    say("locked")
    time.sleep(float(held_s))
    say("unlocking")
    cuda.call("cuCheckpointProcessCheckpoint", target, None)
    states, freed = [*states, cuda.state_of(target)], cuda.free_bytes() - before
    cuda.call("cuCheckpointProcessRestore", target, None)
    cuda.call("cuCheckpointProcessUnlock", target, None)
    states.append(cuda.state_of(target))
    unknown = cuda.code("cuCheckpointProcessLock", 1, None)
    return {
        "states": states,
        "refused": refused,
        "took_s": took,
        "freed": freed,
        "unknown": unknown,
    }


def capturing(*_: str) -> Printed:
    """What a capture forbids, and what becomes of it then."""
    cuda = Cuda()
    stream, side, blocking = cuda.stream(), cuda.stream(), cuda.stream(flags=0)
    graph, status, codes = c_void_p(), c_int(), {}
    event = cuda.event()

    def forbidden(name: str, on: c_void_p, mode: int, act: Callable[[], int]) -> None:
        cuda.capture(on, mode)
        cuda.spin(on, 1)
        cuda.call("cuEventRecord", event, on)
        codes[name] = [act(), cuda.code("cuStreamEndCapture", on, byref(graph))]
        cuda.call("cuStreamIsCapturing", on, byref(status))
        codes[name].append(status.value)

    made = c_uint64()
    forbidden("synchronize", stream, 1, lambda: cuda.code("cuStreamSynchronize", stream))
    forbidden("query", stream, 1, lambda: cuda.code("cuStreamQuery", stream))
    forbidden("event", stream, 1, lambda: cuda.code("cuEventQuery", event))
    forbidden("context", stream, 1, lambda: cuda.code("cuCtxSynchronize"))
    forbidden(
        "allocate", stream, 0, lambda: cuda.code("cuMemAlloc_v2", byref(made), c_size_t(4096))
    )
    forbidden("relaxed", stream, 2, lambda: cuda.code("cuMemAlloc_v2", byref(made), c_size_t(4096)))
    forbidden("legacy", blocking, 1, lambda: cuda.code("cuEventRecord", cuda.event(), None))
    cuda.capture(stream)
    cuda.call("cuEventRecord", event, stream)
    cuda.call("cuStreamWaitEvent", side, event, 0)
    cuda.spin(side, 1)
    codes["unjoined"] = [cuda.code("cuStreamEndCapture", stream, byref(graph))]
    codes["not capturing"] = [cuda.code("cuStreamEndCapture", stream, byref(graph))]
    x = cuda.allocate(4096)
    cuda.fill(stream, x, 1)
    cuda.synchronize(stream)
    cuda.capture(stream)
    cuda.chase(stream, x, 5)
    made_graph = cuda.end_capture(stream)
    before = cuda.word(x)
    ran = cuda.instantiate(made_graph)
    cuda.call("cuGraphLaunch", ran, stream)
    cuda.call("cuGraphLaunch", ran, stream)
    return {"codes": codes, "before": before, "after": cuda.word(x)}


def graphs(*_: str) -> Printed:
    """Graphs inside graphs, updates, and the order a graph's edges say."""
    cuda = Cuda()
    stream, x = cuda.stream(), cuda.allocate(4096)

    def captured(addends: tuple[int, ...]) -> c_void_p:
        cuda.capture(stream)
        for addend in addends:
            cuda.chase(stream, x, addend)
        return cuda.end_capture(stream)

    def run(ran: c_void_p) -> int:
        cuda.fill(stream, x, 1)
        cuda.call("cuGraphLaunch", ran, stream)
        return cuda.word(x)

    inner = cuda.instantiate(captured((2, 3)))
    cuda.capture(stream)
    cuda.chase(stream, x, 1)
    cuda.call("cuGraphLaunch", inner, stream)
    cuda.chase(stream, x, 4)
    outer = cuda.instantiate(cuda.end_capture(stream))
    words = [run(inner), run(outer)]
    info = (c_uint64 * 3)()
    cuda.call("cuGraphExecUpdate_v2", inner, captured((5, 6)), byref(info))
    words.append(run(inner))
    other_shape = cuda.code("cuGraphExecUpdate_v2", inner, captured((5,)), byref(info))
    return {"words": words, "other_shape": other_shape, "why": info[0] & 0xFFFFFFFF}


def rectangles(*_: str) -> Printed:
    """A copy of a rectangle out of a larger one."""
    cuda = Cuda()
    device, rows, pitch = cuda.allocate(4096), 4, 64
    source = (ctypes.c_ubyte * (rows * pitch))(*[i % 251 for i in range(rows * pitch)])
    cuda.call("cuMemcpyHtoD_v2", c_uint64(device), source, c_size_t(rows * pitch))
    out = (ctypes.c_ubyte * (2 * 8))()
    fields = (16, 1, 2, 0, device, 0, pitch, 0, 0, 1, ctypes.addressof(out), 0, 0, 8, 8, 2)
    copy = (c_uint64 * 16)(*fields)
    cuda.call("cuMemcpy2D_v2", byref(copy))
    return {"bytes": list(out)}


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


def resolving(*_: str) -> Printed:
    """Calls by name, version and kind of default stream."""
    library = ctypes.CDLL("libcuda.so.1")
    address = {
        name: ctypes.cast(getattr(library, name), c_void_p).value
        for name in (
            *("cuLaunchKernel", "cuLaunchKernel_ptsz", "cuMemAlloc_v2", "cuGetProcAddress"),
            *("cuGetProcAddress_v2", "cuGraphExecUpdate", "cuGraphExecUpdate_v2"),
        )
    }
    names = {value: name for name, value in address.items()}

    def ask(name: str, version: int, flags: int) -> tuple[int, int, str | None]:
        found, status = c_void_p(), c_int(-1)
        asked = (name.encode(), byref(found), version, c_uint64(flags), byref(status))
        code = library.cuGetProcAddress_v2(*asked)
        return code, status.value, names.get(found.value)

    return {
        "plain": ask("cuLaunchKernel", 13000, 0),
        "per_thread": ask("cuLaunchKernel", 13000, 2),
        "versioned": ask("cuMemAlloc", 12000, 0),
        "itself": ask("cuGetProcAddress", 12000, 0),
        "itself_before": ask("cuGetProcAddress", 11030, 0),
        "old": ask("cuGraphExecUpdate", 11000, 0),
        "new": ask("cuGraphExecUpdate", 13000, 0),
        "too_old": ask("cuGraphKernelNodeGetParams_v9", 13000, 0),
        "version_too_old": ask("cuGetProcAddress", 11000, 0),
    }


def devices(*_: str) -> Printed:
    """What the devices say of themselves, and what work on the second does to the first."""
    cuda = Cuda()
    count = c_int()
    cuda.call("cuDeviceGetCount", byref(count))
    uuids = []
    for index in range(count.value):
        uuid = (ctypes.c_ubyte * 16)()
        cuda.call("cuDeviceGetUuid_v2", byref(uuid), index)
        uuids.append(bytes(uuid).hex())
    sms, major = c_int(), c_int()
    cuda.call("cuDeviceGetAttribute", byref(sms), 16, 0)
    cuda.call("cuDeviceGetAttribute", byref(major), 75, 0)
    return {"count": count.value, "uuids": uuids, "sms": sms.value, "major": major.value}


def invalid(*_: str) -> Printed:
    """What wrong calls return."""
    library = ctypes.CDLL("libcuda.so.1")
    before = library.cuCtxSynchronize()
    cuda = Cuda()
    stream, event, made = cuda.stream(), cuda.event(), c_void_p()
    cuda.call("cuStreamDestroy_v2", stream)
    x = cuda.allocate(4096)
    cuda.call("cuMemFree_v2", c_uint64(x))
    node = cuda.code("cuModuleGetFunction", byref(made), cuda.module, b"nobody")
    offset, size = c_size_t(), c_size_t()
    info = ("cuFuncGetParamInfo", cuda.function("stranger"), c_size_t(2), byref(offset))
    cuda.call(*info, byref(size))
    return {
        "before_init": before,
        "freed_twice": cuda.code("cuMemFree_v2", c_uint64(x)),
        "no_such_function": node,
        "no_threads": cuda.code(
            "cuLaunchKernel", cuda.function("dure_spin"), *(1, 1, 1, 0, 1, 1, 0, None, None, None)
        ),
        "never_recorded": cuda.code("cuEventQuery", event),
        "not_text": cuda.code("cuModuleLoadData", byref(made), b"\x7fELF" + bytes(64)),
        "third_parameter": [offset.value, size.value],
    }


def words(*_: str) -> Printed:
    """A stream that waits for a word in registered memory, and one that writes it."""
    cuda = Cuda()
    page = mmap.mmap(-1, mmap.PAGESIZE)
    word = c_uint.from_buffer(page)
    word.value = 1
    at, size = c_void_p(ctypes.addressof(word)), c_size_t(mmap.PAGESIZE)
    there, unknown = c_uint64(), c_uint64()
    early = cuda.code("cuMemHostGetDevicePointer_v2", byref(unknown), at, 0)
    cuda.call("cuMemHostRegister_v2", at, size, 3)
    again = cuda.code("cuMemHostRegister_v2", at, size, 3)
    cuda.call("cuMemHostGetDevicePointer_v2", byref(there), at, 0)
    x, stream, other = cuda.allocate(256), cuda.stream(), cuda.stream()
    cuda.fill(stream, x, 1)
    cuda.call("cuStreamWaitValue32_v2", stream, there, 0, 1)
    cuda.chase(stream, x, 7)
    time.sleep(0.1)
    waits = cuda.code("cuStreamQuery", stream)
    word.value = 0
    cuda.synchronize(stream)
    once = cuda.word(x)
    cuda.call("cuStreamWaitValue32_v2", stream, c_uint64(there.value + 4), 5, 0)
    cuda.chase(stream, x, 9)
    cuda.spin(other, 5)
    cuda.call("cuStreamWriteValue32_v2", other, c_uint64(there.value + 4), 6, 0)
    cuda.synchronize(stream)
    written = c_uint.from_buffer(page, 4).value
    cuda.call("cuMemHostUnregister", at)
    late = cuda.code("cuStreamWaitValue32_v2", stream, there, 0, 1)
    codes = [early, again, waits, late]
    return {"codes": codes, "once": once, "twice": cuda.word(x), "written": written}


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


def busy(seconds: str) -> Printed:
    """Work all the time, renewed often, without an end in between."""
    cuda = Cuda()
    long, short = cuda.stream(), cuda.stream()
    end = time.monotonic() + float(seconds)
    cuda.spin(long, float(seconds) * 1000, blocks=1)
    cuda.spin(short, 0.1, blocks=1)
    say("busy")
    while time.monotonic() < end:
        cuda.spin(short, 2, blocks=1)
        cuda.synchronize(short)
    cuda.synchronize(long)
    return {"ended": time.monotonic()}


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


PROGRAMS: dict[str, Callable[..., Printed]] = {
    function.__name__: function
    for function in (
        *(durations, company, green, hold_green, order, host_functions, memory, hold, frozen),
        *(until_error, steps, lock, capturing, graphs, rectangles, far_ahead, resolving, devices),
        *(invalid, words, bursts, busy, waiting),
    )
}


def main() -> None:
    """Run the program named first with the arguments after it."""
    sys.stdout.write(json.dumps(PROGRAMS[sys.argv[1]](*sys.argv[2:])) + "\n")


if __name__ == "__main__":
    main()
