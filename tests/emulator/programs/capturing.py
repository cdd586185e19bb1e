"""Work that is captured and replayed: what a capture forbids, and graphs."""

from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

from tests.emulator.cuda import Cuda
from tests.emulator.programs.common import Printed


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
