"""Tenant programs for the fault tests: `python -m tests.faults.programs NAME ARGUMENTS`."""

import ctypes
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.emulator.cuda import Cuda

KERNELS = 8
WORK_MS = 0.2
LONG_NS = 20_000_000


def say(line: str) -> None:
    """A line for whoever waits for it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def chased(word: int, addend: int) -> int:
    """What the kernel `chase` does to a word."""
    return (word * 1664525 + addend) & 0xFFFFFFFF


class Chain:
    """Steps of kernels each of which needs the one before; nothing lost or done twice passes."""

    def __init__(self, kernels: int = KERNELS) -> None:
        self._cuda = Cuda()
        self._stream = self._cuda.stream()
        self._words = self._cuda.allocate(4096)
        self._cuda.fill(self._stream, self._words, 1)
        self._cuda.synchronize(self._stream)
        self._kernels = kernels
        self._expected = 1
        self.steps = 0

    def step(self) -> None:
        """Launch, and wait for the end."""
        for number in range(self._kernels):
            self._cuda.chase(self._stream, self._words, number, WORK_MS)
            self._expected = chased(self._expected, number)
        self._cuda.synchronize(self._stream)
        self.steps += 1

    def correct(self) -> bool:
        """Whether the words are as they must be."""
        return self._cuda.word(self._words) == self._expected


def step(pause_ms: str) -> dict[str, Any]:
    """Steps until SIGTERM, with a pause after each; notes those that took long."""
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    chain = Chain()
    long = []
    chain.step()
    say("ready")
    while not stopped:
        began = time.monotonic_ns()
        chain.step()
        took = time.monotonic_ns() - began
        if took > LONG_NS:
            long.append((began, took))
        time.sleep(float(pause_ms) / 1e3)
    return {"steps": chain.steps, "long": long, "correct": chain.correct()}


def orphan(seconds: str) -> dict[str, Any]:
    """A child that does not use the GPU and outlives its parent."""
    chain = Chain()
    chain.step()
    child = os.fork()
    if child == 0:
        os.close(1)
        os.close(2)
        time.sleep(float(seconds))
        os._exit(0)
    say(f"child {child}")
    while True:
        chain.step()


def replaced(*command: str) -> dict[str, Any]:
    """Use the GPU, then become another program."""
    chain = Chain()
    for _ in range(5):
        chain.step()
    assert chain.correct()
    os.execv(command[0], list(command))


def another_user(uid: str, *command: str) -> dict[str, Any]:
    """Become another user, then another program."""
    os.setgid(int(uid))
    os.setuid(int(uid))
    os.execv(command[0], list(command))


def another_users_tenant(uid: str, name: str, *command: str) -> dict[str, Any]:
    """Become another user, declare a tenant, and become a program of it."""
    from dure.client.api import AgentClient
    from dure.client.places import own_places
    from dure.client.schema import TenantSpec

    os.setgid(int(uid))
    os.setuid(int(uid))
    with AgentClient(own_places()) as client:
        declared = client.declare(name, TenantSpec(keep=True))
    os.execve(command[0], list(command), {**os.environ, **declared.environment})


def scribble(what: str, seconds: str) -> dict[str, Any]:
    """Attach as a shim does, then write noise where a tenant can: its own words, the turn."""
    from dure.devices import layout
    from tests.agent.tenant import attach, hello_of

    hello = hello_of(os.environ["DURE_TENANT"], uuid())
    plane, code, reason = attach(os.environ["DURE_SOCKET"], hello)
    assert code == 0, reason
    noise = random.Random(what)
    slot = ctypes.addressof(plane.slot.contents)
    rotation = ctypes.addressof(plane.rotation.contents)
    places = {
        "counters": [(slot, layout.SLOT_BYTES)],
        "believed": [(slot, layout.SLOT_BYTES)],
        "turn": [(rotation, ctypes.sizeof(layout.Rotation))],
        "all": [(slot, layout.SLOT_BYTES), (rotation, ctypes.sizeof(layout.Rotation))],
    }[what]
    end = time.monotonic() + float(seconds)
    time.sleep(0.2)  # for the agent to have seen it in order
    say("ready")
    count = 0
    while time.monotonic() < end:
        for start, size in places:
            if count % 3 == 0:
                ctypes.memset(start, noise.choice((0, 0xFF, 0x7F, noise.randrange(256))), size)
            else:
                words = noise.randbytes(min(size, 65536))
                ctypes.memmove(start, words, len(words))
            if what == "believed":
                plane.slot.contents.magic = layout.MAGIC
        count += 1
        time.sleep(0.002)
    return {"count": count}


def uuid() -> str:
    """Of the first GPU, as NVML says it."""
    from dure.devices.nvml import Nvml

    nvml = Nvml()
    try:
        return nvml.gpus()[0].uuid
    finally:
        nvml.close()


PROGRAMS: dict[str, Callable[..., dict[str, Any]]] = {
    function.__name__: function
    for function in (*(step, orphan, replaced, another_user, another_users_tenant, scribble),)
}


def main() -> None:
    """Run the program named first with the arguments after it."""
    say(json.dumps(PROGRAMS[sys.argv[1]](*sys.argv[2:])))


if __name__ == "__main__":
    main()
