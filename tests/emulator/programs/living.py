"""Programs that go on while something is done to them, and one that does it."""

import os
import time

from tests.emulator.cuda import Cuda, CudaError
from tests.emulator.programs.common import Printed, say


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
