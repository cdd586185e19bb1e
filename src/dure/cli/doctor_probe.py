"""Ask the CUDA driver and NVML what they can do; run as a process of its own by `dure doctor`.

A broken driver may crash or hang whoever loads it, so nothing else happens in this process. Prints
one JSON object; what could not be learned is an error code or a sentence in it.
"""

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

_NAME_BYTES = 256
_SM_COUNT = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
_RESOURCE_BYTES = 144  # sizeof(CUdevResource)
_RESOURCE_SM = 1  # CU_DEV_RESOURCE_TYPE_SM
_DEFAULT_STREAM = 1  # CU_GREEN_CTX_DEFAULT_STREAM
_LEAST_SMS = 8
_COMPUTE_MODES = {0: "default", 2: "prohibited", 3: "exclusive-process"}


def main() -> None:
    """Probe what the first argument names."""
    found = {"cuda": probe_cuda, "nvml": probe_nvml}[sys.argv[1]]()
    sys.stdout.write(json.dumps(found))


def probe_cuda() -> dict[str, Any]:
    """The driver: where it is, whether it starts, its devices, green contexts on the first."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"missing": str(error)}
    found: dict[str, Any] = {"library": _library_path(), "init": cuda.cuInit(0), "devices": []}
    version = ctypes.c_int()
    if cuda.cuDriverGetVersion(ctypes.byref(version)) == 0:
        found["version"] = f"{version.value // 1000}.{version.value % 1000 // 10}"
    if found["init"] != 0:
        return found
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    found["devices"] = [_device(cuda, index) for index in range(count.value)]
    if count.value:
        found["green"] = _green(cuda)
    return found


def _library_path() -> str:
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        path = line.partition("/")[2]
        if "libcuda.so" in path:
            return f"/{path}"
    return ""


def _device(cuda: ctypes.CDLL, index: int) -> dict[str, Any]:
    device = ctypes.c_int()
    name = ctypes.create_string_buffer(_NAME_BYTES)
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetName(name, _NAME_BYTES, device)

    def attribute(which: int) -> int:
        value = ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(value), which, device)
        return value.value

    return {
        "index": index,
        "name": name.value.decode("utf-8", "replace"),
        "sms": attribute(_SM_COUNT),
        "capability": [attribute(_MAJOR), attribute(_MINOR)],
    }


def _green(cuda: ctypes.CDLL) -> dict[str, Any]:
    """Make one green context of the smallest set of compute units, and say which step failed."""
    device, groups = ctypes.c_int(), ctypes.c_uint(1)
    whole = ctypes.create_string_buffer(_RESOURCE_BYTES)
    part = ctypes.create_string_buffer(_RESOURCE_BYTES)
    rest = ctypes.create_string_buffer(_RESOURCE_BYTES)
    primary, description, green = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    ref = ctypes.byref
    steps = (
        ("cuDeviceGet", (ref(device), 0)),
        ("cuDevicePrimaryCtxRetain", (ref(primary), device)),
        ("cuDeviceGetDevResource", (device, whole, _RESOURCE_SM)),
        ("cuDevSmResourceSplitByCount", (part, ref(groups), whole, rest, 0, _LEAST_SMS)),
        ("cuDevResourceGenerateDesc", (ref(description), part, 1)),
        ("cuGreenCtxCreate", (ref(green), description, device, _DEFAULT_STREAM)),
        ("cuGreenCtxDestroy", (green,)),
    )
    for name, arguments in steps:
        try:
            function = getattr(cuda, name)
        except AttributeError:
            return {"works": False, "step": name, "code": None}
        code = function(*arguments)
        if code != 0:
            return {"works": False, "step": name, "code": code}
    return {"works": True}


def probe_nvml() -> dict[str, Any]:
    """NVML: driver version, modes of each GPU, and the processes on it."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return {"missing": str(error)}
    gpus = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        gpus.append(
            {
                "index": index,
                "uuid": _asked(pynvml, "nvmlDeviceGetUUID", handle),
                "name": _asked(pynvml, "nvmlDeviceGetName", handle),
                "memory_bytes": getattr(
                    _asked(pynvml, "nvmlDeviceGetMemoryInfo", handle), "total", None
                ),
                "compute_mode": _COMPUTE_MODES.get(
                    _asked(pynvml, "nvmlDeviceGetComputeMode", handle)
                ),
                "persistence": _asked(pynvml, "nvmlDeviceGetPersistenceMode", handle),
                "mig": (_asked(pynvml, "nvmlDeviceGetMigMode", handle) or [0])[0],
                "processes": [
                    each.pid
                    for each in _asked(pynvml, "nvmlDeviceGetComputeRunningProcesses", handle) or []
                ],
            }
        )
    return {"driver": _asked(pynvml, "nvmlSystemGetDriverVersion"), "gpus": gpus}


def _asked(pynvml: Any, function: str, *arguments: Any) -> Any:
    """An answer, or None where this driver or GPU has none."""
    try:
        return getattr(pynvml, function)(*arguments)
    except pynvml.NVMLError:
        return None


if __name__ == "__main__":
    main()
