"""A tenant program that speaks to the data plane itself: registers, then launches work on paper.

Usage: tenant.py SOCKET TENANT UUID MODE [KERNEL_US]. It prints `ready` once registered, or
`refused CODE REASON`. Modes: idle, train (always busy), serve (a burst every
20 ms), scribble (writes noise all over its own words).
"""

import ctypes
import os
import random
import sys
import time

from dure.devices import layout
from dure.devices.nvml import uuid_bytes
from dure.devices.plane_library import Launch, Plane, plane_library


def hello_of(tenant: str, uuid: str, version: int = layout.VERSION) -> layout.Hello:
    hello = layout.Hello()
    hello.magic = layout.MAGIC
    hello.version = version
    hello.plan_bytes = layout.CONTROL_BYTES
    hello.slot_bytes = layout.SLOT_BYTES
    hello.uuid[:] = list(uuid_bytes(uuid))
    hello.tenant = tenant.encode()
    hello.program = b"tenant.py"
    return hello


def attach(socket: str, hello: layout.Hello) -> tuple[Plane, int, str]:
    """A registered plane, the code and the reason."""
    plane = Plane()
    reason = ctypes.create_string_buffer(128)
    code = plane_library().dure_attach(plane, socket.encode(), hello, reason)
    return plane, code, reason.value.decode()


class Work:
    """Kernels on paper: each takes its predicted time, in order, nothing computes."""

    def __init__(self, plane: Plane, kernel_us: int) -> None:
        self._plane = plane
        self._library = plane_library()
        self._launch = Launch(0, kernel_us * 1000)

    def burst(self, kernels: int) -> None:
        """Launch, wait for the end of, and account for so many kernels."""
        library, plane, launch = self._library, self._plane, self._launch
        for _ in range(kernels):
            library.dure_hold(plane, launch, None, None)
            began = time.monotonic_ns()
            library.dure_launched(plane, launch, began)
            time.sleep(launch.predicted_ns / 1e9)
            now = time.monotonic_ns()
            library.dure_finished(plane, launch.predicted_ns, launch.predicted_ns, now)
        library.dure_drained(plane, time.monotonic_ns())


def main() -> None:
    socket, tenant, uuid, mode, *rest = sys.argv[1:]
    hello = hello_of(tenant, uuid, int(os.environ.get("TEST_ABI_VERSION", layout.VERSION)))
    plane, code, reason = attach(socket, hello)
    if code != 0:
        print(f"refused {code} {reason}", flush=True)  # noqa: T201
        return
    print(f"ready {plane.client} {plane.tenant}", flush=True)  # noqa: T201
    work = Work(plane, int(rest[0]) if rest else 1000)
    while True:
        if mode == "idle":
            time.sleep(0.1)
        elif mode == "scribble":
            ctypes.memset(plane.slot, random.randrange(256), 4096 * 3)
            time.sleep(0.005)
        elif mode == "train":
            work.burst(20)
        else:
            work.burst(2)
            time.sleep(0.02)


if __name__ == "__main__":
    main()
