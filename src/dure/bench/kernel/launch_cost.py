"""Times launches of an empty kernel; the difference between plain and under Dure is Dure's cost.

    python -m dure.bench.kernel.launch_cost

Prints one JSON object. Calls the driver's library directly, so that nothing else is in the figure;
what the call from Python costs is in both runs and falls out of the difference.
"""

import ctypes
import json
import sys
import time

BATCHES = 400
LAUNCHES = 200  # of a batch: few enough that the queue never fills and the host never waits
WARM_BATCHES = 20

PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
"""


class DriverError(Exception):
    """The driver refused a call."""


def checked(what: str, code: int) -> None:
    """Refuse any code but success."""
    if code != 0:
        raise DriverError(f"{what} gave error {code}")


def first_context(driver: ctypes.CDLL) -> None:
    """Make the primary context of the first device current."""
    context, device = ctypes.c_void_p(), ctypes.c_int()
    checked("cuInit", driver.cuInit(0))
    checked("cuDeviceGet", driver.cuDeviceGet(ctypes.byref(device), 0))
    checked("retain", driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    checked("current", driver.cuCtxSetCurrent(context))


def _prepare(driver: ctypes.CDLL) -> ctypes.c_void_p:
    """A kernel that does nothing."""
    first_context(driver)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    checked("cuModuleLoadData", driver.cuModuleLoadData(ctypes.byref(module), PTX))
    checked("function", driver.cuModuleGetFunction(ctypes.byref(function), module, b"nothing"))
    return function


def launch_ns(driver: ctypes.CDLL) -> list[float]:
    """Host time of one launch, the mean of each batch."""
    function = _prepare(driver)
    launch = driver.cuLaunchKernel
    launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    arguments = (function, 1, 1, 1, 32, 1, 1, 0, None, None, None)
    found = []
    for batch in range(WARM_BATCHES + BATCHES):
        began_ns = time.perf_counter_ns()
        for _ in range(LAUNCHES):
            launch(*arguments)
        ended_ns = time.perf_counter_ns()
        checked("synchronize", driver.cuCtxSynchronize())
        if batch >= WARM_BATCHES:
            found.append((ended_ns - began_ns) / LAUNCHES)
    return found


def main() -> None:
    """The command line."""
    found = launch_ns(ctypes.CDLL("libcuda.so.1"))
    sys.stdout.write(json.dumps({"launch_ns": [round(value, 1) for value in found]}) + "\n")


if __name__ == "__main__":
    main()
