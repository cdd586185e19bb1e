"""What waits for what: streams, events, host functions, words in memory."""

import ctypes
import mmap
import threading
import time
from ctypes import byref, c_size_t, c_uint, c_uint64, c_void_p

from tests.emulator.cuda import Cuda
from tests.emulator.programs.common import Printed


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
