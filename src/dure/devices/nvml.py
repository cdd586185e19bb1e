"""The GPUs of this host as NVML tells them: what they are, how they are, which processes use them.

NVML's errors are translated here once. A fact that a driver does not offer is None; a call that a
driver does not support is no error.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import pynvml

from dure.domain.errors import DureError

_T = TypeVar("_T")

_CORES_PER_SM = {
    (7, 0): 64,
    (7, 5): 64,
    (8, 0): 64,
    (8, 6): 128,
    (8, 7): 128,
    (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128,
    (10, 3): 128,
    (12, 0): 128,
}
"""FP32 cores of one compute unit by compute capability, from the CUDA programming guide."""


class NoGpuError(DureError):
    """This host offers no GPU that NVML knows."""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What does not change about a GPU."""

    index: int
    uuid: str
    name: str
    memory_bytes: int
    sms: int | None
    compute_capability: tuple[int, int] | None
    driver: str | None = None
    minor: int | None = None
    """Number of its device node, /dev/nvidiaN."""

    @property
    def uuid_bytes(self) -> bytes:
        """The sixteen bytes that the CUDA driver gives as the device's UUID."""
        return uuid_bytes(self.uuid)


@dataclass(frozen=True, slots=True)
class GpuState:
    """What does."""

    memory_used_bytes: int | None = None
    utilization: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None


@dataclass(frozen=True, slots=True)
class GpuUser:
    """A process that holds a context on a GPU."""

    pid: int
    name: str
    memory_bytes: int | None
    kind: Literal["compute", "graphics"]


def uuid_bytes(uuid: str) -> bytes:
    """`GPU-1b2c…` as sixteen bytes."""
    digits = uuid.rpartition("GPU-")[2].replace("-", "")
    try:
        found = bytes.fromhex(digits)
    except ValueError:
        found = b""
    if len(found) != 16:
        raise DureError(f"'{uuid}' is not the UUID of a GPU", "update the driver")
    return found


class Nvml:
    """An open NVML library; close it at the end."""

    def __init__(self) -> None:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NoGpuError(
                f"NVML does not start ({error})",
                "install an NVIDIA driver, or put the emulator first in LD_LIBRARY_PATH",
            ) from error

    def close(self) -> None:
        """Give the library back."""
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()

    def gpus(self) -> list[GpuFacts]:
        """All GPUs of the host; raises where there is none."""
        count = asked(pynvml.nvmlDeviceGetCount) or 0
        found = [self._facts(index) for index in range(count)]
        if not found:
            raise NoGpuError("this host has no GPU", "attach one, or use the emulator")
        return found

    def _facts(self, index: int) -> GpuFacts:
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
            name = _text(pynvml.nvmlDeviceGetName(handle))
            memory_bytes = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
        except pynvml.NVMLError as error:
            raise DureError(
                f"GPU {index} does not say what it is ({error})", "check `nvidia-smi -L`"
            ) from error
        capability = asked(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
        driver = asked(pynvml.nvmlSystemGetDriverVersion)
        return GpuFacts(
            index=index,
            uuid=uuid,
            name=name,
            memory_bytes=memory_bytes,
            sms=_sms(handle, capability),
            compute_capability=(int(capability[0]), int(capability[1])) if capability else None,
            driver=_text(driver) if driver is not None else None,
            minor=asked(pynvml.nvmlDeviceGetMinorNumber, handle),
        )

    def state(self, index: int) -> GpuState:
        """How a GPU is now."""
        handle = asked(pynvml.nvmlDeviceGetHandleByIndex, index)
        if handle is None:
            return GpuState()
        memory = asked(pynvml.nvmlDeviceGetMemoryInfo, handle)
        rates = asked(pynvml.nvmlDeviceGetUtilizationRates, handle)
        temperature = asked(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
        power_mw = asked(pynvml.nvmlDeviceGetPowerUsage, handle)
        return GpuState(
            memory_used_bytes=int(memory.used) if memory is not None else None,
            utilization=rates.gpu / 100.0 if rates is not None else None,
            temperature_c=float(temperature) if temperature is not None else None,
            power_w=power_mw / 1000.0 if power_mw is not None else None,
        )

    def users(self, index: int) -> list[GpuUser]:
        """Processes with a context on a GPU, each once; also those under MPS."""
        handle = asked(pynvml.nvmlDeviceGetHandleByIndex, index)
        if handle is None:
            return []
        found: dict[int, GpuUser] = {}
        lists: tuple[tuple[Callable[..., Any], Literal["compute", "graphics"]], ...] = (
            (pynvml.nvmlDeviceGetComputeRunningProcesses, "compute"),
            (pynvml.nvmlDeviceGetMPSComputeRunningProcesses, "compute"),
            (pynvml.nvmlDeviceGetGraphicsRunningProcesses, "graphics"),
        )
        for ask, kind in lists:
            processes: Sequence[Any] = asked(ask, handle) or ()
            for process in processes:
                used = process.usedGpuMemory
                user = GpuUser(process.pid, _process_name(process.pid), used, kind)
                found.setdefault(process.pid, user)
        return sorted(found.values(), key=lambda user: user.pid)


def asked(function: Callable[..., _T], *arguments: object) -> _T | None:
    """What a call gives; None where this driver or device cannot say."""
    try:
        return function(*arguments)
    except (pynvml.NVMLError, AttributeError):
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _sms(handle: Any, capability: tuple[int, int] | None) -> int | None:
    """Compute units, counted from cores: NVML names them itself for slices of a GPU only."""
    cores = asked(pynvml.nvmlDeviceGetNumGpuCores, handle)
    per_sm = _CORES_PER_SM.get((capability[0], capability[1])) if capability else None
    return cores // per_sm if cores and per_sm else None


def _process_name(pid: int) -> str:
    """A process's name, as its host shows it."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
        if command:
            return Path(command.decode(errors="replace")).name
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        name = asked(pynvml.nvmlSystemGetProcessName, pid)
        return _text(name) if name is not None else "?"
