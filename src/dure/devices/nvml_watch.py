"""NVML read many times a second: processes, their samples, memory, power, without its wrappers.

The Python binding builds an object for each process and each field; at two hundred processes that
alone takes longer than a whole look may. Here one buffer is filled and unpacked in place.
"""

import ctypes
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pynvml

from dure.devices.nvml import GpuFacts, Nvml
from dure.domain.errors import DureError

_LIBRARY = "libnvidia-ml.so.1"
_SUCCESS = 0
_NOT_SUPPORTED = 3
_NOT_FOUND = 6
_INSUFFICIENT_SIZE = 7
_FUNCTION_NOT_FOUND = 13
"""Of nvml.h, nvmlReturn_t."""
_PROCESS = struct.Struct("@I4xQII")
"""nvmlProcessInfo_t: pid, used bytes, instances."""
_SAMPLE = struct.Struct("@I4xQIIII")
"""nvmlProcessUtilizationSample_t: pid, stamp in µs, per cent of SM, memory, encoder, decoder."""
_MEMORY = struct.Struct("@QQQ")
_RATES = struct.Struct("@II")
_ROWS = 1024
"""Processes of one GPU in the first buffer; it grows where there are more."""
_MOST_ROWS = 65_536
_MW_PER_W = 1000.0


class NvmlLostError(DureError):
    """NVML stopped answering, as when a GPU falls off its bus."""


class NvmlWatch:
    """All GPUs of this host, for one thread that looks again and again."""

    def __init__(self) -> None:
        self._nvml = Nvml()
        self._library = ctypes.CDLL(_LIBRARY)
        self._handles: dict[int, Any] = {}
        self._processes = ctypes.create_string_buffer(_PROCESS.size * _ROWS)
        self._samples = ctypes.create_string_buffer(_SAMPLE.size * _ROWS)
        self._memory = ctypes.create_string_buffer(_MEMORY.size)
        self._rates = ctypes.create_string_buffer(_RATES.size)
        self._number = ctypes.c_uint()
        self._count = ctypes.c_uint()
        self._compute = self._newest("nvmlDeviceGetComputeRunningProcesses")
        self._mps = self._newest("nvmlDeviceGetMPSComputeRunningProcesses")

    def close(self) -> None:
        """Give the library back."""
        self._nvml.close()

    def gpus(self) -> list[GpuFacts]:
        """All of them; raises where there is none."""
        return self._nvml.gpus()

    def processes(self, index: int, *, mps: bool = False) -> list[tuple[int, int]]:
        """Pid and bytes of each process with a context; `mps`: clients of an MPS server."""
        ask = self._mps if mps else self._compute
        if ask is None:
            return []
        while True:
            room = len(self._processes) // _PROCESS.size
            self._count.value = room
            code = ask(self._handle(index), ctypes.byref(self._count), self._processes)
            if code != _INSUFFICIENT_SIZE or room >= _MOST_ROWS:
                break
            self._processes = ctypes.create_string_buffer(_PROCESS.size * room * 4)
        if not self._answered(code, "processes"):
            return []
        size = _PROCESS.size * min(self._count.value, room)
        rows = _PROCESS.iter_unpack(memoryview(self._processes)[:size])
        return [(row[0], row[1]) for row in rows]

    def samples(self, index: int, since_us: int) -> list[tuple[int, int, float]] | None:
        """Pid, stamp and share of the SMs of each sample newer than that stamp, on NVML's clock;
        none newer: nothing was used. None: this GPU keeps no such samples."""
        ask = self._library.nvmlDeviceGetProcessUtilization
        while True:
            room = len(self._samples) // _SAMPLE.size
            self._count.value = room
            code = ask(
                self._handle(index),
                self._samples,
                ctypes.byref(self._count),
                ctypes.c_ulonglong(max(0, since_us)),
            )
            # A buffer that is just full may have been too small: drivers fill it and say nothing.
            small = code == _INSUFFICIENT_SIZE or (code == _SUCCESS and self._count.value >= room)
            if not small or room >= _MOST_ROWS:
                break
            self._samples = ctypes.create_string_buffer(_SAMPLE.size * room * 4)
        if code == _NOT_FOUND:
            return []
        if not self._answered(code, "samples"):
            return None
        size = _SAMPLE.size * min(self._count.value, room)
        rows = _SAMPLE.iter_unpack(memoryview(self._samples)[:size])
        return [
            (row[0], row[1], row[2] / 100.0)
            for row in rows
            if row[0] and row[1] > since_us and row[2] <= 100
        ]

    def memory(self, index: int) -> tuple[int, int] | None:
        """Total and used bytes of a GPU."""
        code = self._library.nvmlDeviceGetMemoryInfo(self._handle(index), self._memory)
        if not self._answered(code, "memory"):
            return None
        total, _, used = _MEMORY.unpack(self._memory)
        return total, used

    def utilization(self, index: int) -> float:
        """Share of its last window in which any kernel ran; 0 where it does not say."""
        code = self._library.nvmlDeviceGetUtilizationRates(self._handle(index), self._rates)
        if not self._answered(code, "utilisation"):
            return 0.0
        return min(100, int(_RATES.unpack(self._rates)[0])) / 100.0

    def power_w(self, index: int) -> float | None:
        """What it draws now."""
        return self._watts(self._library.nvmlDeviceGetPowerUsage, index)

    def power_limit_w(self, index: int) -> float | None:
        """What it may draw at most."""
        return self._watts(self._library.nvmlDeviceGetEnforcedPowerLimit, index)

    def _watts(self, ask: Callable[..., int], index: int) -> float | None:
        code = ask(self._handle(index), ctypes.byref(self._number))
        return self._number.value / _MW_PER_W if self._answered(code, "power") else None

    def _newest(self, name: str) -> Callable[..., int] | None:
        """The newest of the calls that fill the same rows; drivers before 470 have none."""
        for version in ("_v3", "_v2"):
            with suppress(AttributeError):
                return getattr(self._library, name + version)  # type: ignore[no-any-return]
        return None

    def _handle(self, index: int) -> Any:
        known = self._handles.get(index)
        if known is None:
            try:
                found = pynvml.nvmlDeviceGetHandleByIndex(index)
            except pynvml.NVMLError as error:
                raise NvmlLostError(f"GPU {index} does not answer ({error})") from error
            known = ctypes.cast(found, ctypes.c_void_p)
            self._handles[index] = known
        return known

    def _answered(self, code: int, what: str) -> bool:
        """Whether there is an answer; none where the driver has no such thing. Raises where
        NVML is broken."""
        if code == _SUCCESS:
            return True
        if code in (_NOT_SUPPORTED, _NOT_FOUND, _FUNCTION_NOT_FOUND, _INSUFFICIENT_SIZE):
            return False
        raise NvmlLostError(f"NVML does not tell {what} (error {code})", "check `nvidia-smi`")
