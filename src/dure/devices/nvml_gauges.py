"""What NVML measures of each GPU, for whoever looks about once a second.

What a driver or card does not offer is None and costs one call. Where the card has hardware
counters (GPM, since Hopper) shares of compute units and of memory bandwidth and PCIe traffic come
from the difference of two samples, taken at two looks.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pynvml

from dure.devices.nvml import asked
from dure.domain.units import KIB, MIB

_MW_PER_W = 1000.0
_MJ_PER_J = 1000.0
_HZ_PER_MHZ = 1e6
_PERCENT = 100.0
_REASONS = {
    "power-cap": pynvml.nvmlClocksThrottleReasonSwPowerCap,
    "hardware": pynvml.nvmlClocksThrottleReasonHwSlowdown,
    "thermal": pynvml.nvmlClocksThrottleReasonSwThermalSlowdown
    | pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "power-brake": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
    "sync-boost": pynvml.nvmlClocksThrottleReasonSyncBoost,
}
"""Only those that cost speed: an idle card has low clocks too, for reasons of its own."""
_CLOCKS = {"sm": pynvml.NVML_CLOCK_SM, "memory": pynvml.NVML_CLOCK_MEM}
_COUNTED = (
    pynvml.NVML_GPM_METRIC_SM_UTIL,
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
    pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
    pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC,
)


@dataclass(frozen=True, slots=True)
class GpuGauges:
    """One look at one GPU; None: it does not say."""

    utilization: float | None = None
    sm_active: float | None = None
    sm_occupancy: float | None = None
    dram_active: float | None = None
    memory_used_bytes: int | None = None
    memory_bytes: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    energy_j: float | None = None
    temperature_c: float | None = None
    clocks_hz: dict[str, float] = field(default_factory=dict)
    clock_limits_hz: dict[str, float] = field(default_factory=dict)
    throttled: dict[str, bool] | None = None
    """By reason."""
    pcie_in_bytes_per_s: float | None = None
    pcie_out_bytes_per_s: float | None = None
    pcie_generation: int | None = None
    pcie_lanes: int | None = None


class NvmlGauges:
    """For one thread; NVML is open already."""

    def __init__(self) -> None:
        self._counters: dict[int, _Counters | None] = {}

    def read(self, index: int) -> GpuGauges:
        """Look at one GPU; one that does not answer says nothing."""
        handle = asked(pynvml.nvmlDeviceGetHandleByIndex, index)
        if handle is None:
            self._counters.pop(index, None)
            return GpuGauges()
        memory = asked(pynvml.nvmlDeviceGetMemoryInfo, handle)
        rates = asked(pynvml.nvmlDeviceGetUtilizationRates, handle)
        counted = self._counted(index, handle)
        traffic = (
            (_scaled(counted[3], MIB), _scaled(counted[4], MIB))
            if counted
            else (
                _scaled(asked(_throughput, handle, pynvml.NVML_PCIE_UTIL_RX_BYTES), KIB),
                _scaled(asked(_throughput, handle, pynvml.NVML_PCIE_UTIL_TX_BYTES), KIB),
            )
        )
        return GpuGauges(
            utilization=_scaled(rates.gpu, 1 / _PERCENT) if rates is not None else None,
            sm_active=_scaled(counted[0], 1 / _PERCENT) if counted else None,
            sm_occupancy=_scaled(counted[1], 1 / _PERCENT) if counted else None,
            dram_active=_scaled(counted[2], 1 / _PERCENT) if counted else None,
            memory_used_bytes=int(memory.used) if memory is not None else None,
            memory_bytes=int(memory.total) if memory is not None else None,
            power_w=_scaled(asked(pynvml.nvmlDeviceGetPowerUsage, handle), 1 / _MW_PER_W),
            power_limit_w=_scaled(
                asked(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle), 1 / _MW_PER_W
            ),
            energy_j=_scaled(
                asked(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle), 1 / _MJ_PER_J
            ),
            temperature_c=_scaled(
                asked(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU), 1
            ),
            clocks_hz=_clocks(pynvml.nvmlDeviceGetClockInfo, handle),
            clock_limits_hz=_clocks(pynvml.nvmlDeviceGetMaxClockInfo, handle),
            throttled=_throttled(handle),
            pcie_in_bytes_per_s=traffic[0],
            pcie_out_bytes_per_s=traffic[1],
            pcie_generation=asked(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
            pcie_lanes=asked(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        )

    def _counted(self, index: int, handle: Any) -> list[float | None] | None:
        """Hardware counters since the look before; None at the first, or where there are none."""
        if index not in self._counters:
            self._counters[index] = _counters_of(handle)
        counters = self._counters[index]
        return counters.take(handle) if counters is not None else None

    def close(self) -> None:
        """Give the samples back."""
        for counters in self._counters.values():
            if counters is not None:
                counters.close()
        self._counters.clear()


class _Counters:
    """Two samples of the hardware counters of one GPU."""

    def __init__(self) -> None:
        self._before = pynvml.nvmlGpmSampleAlloc()
        self._now = pynvml.nvmlGpmSampleAlloc()
        self._ask = pynvml.c_nvmlGpmMetricsGet_t()
        self._taken = False

    def take(self, handle: Any) -> list[float | None] | None:
        try:
            pynvml.nvmlGpmSampleGet(handle, self._now)
            found = self._between() if self._taken else None
        except pynvml.NVMLError:
            self._taken = False
            return None
        self._taken = True
        self._before, self._now = self._now, self._before
        return found

    def _between(self) -> list[float | None]:
        ask = self._ask
        ask.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        ask.numMetrics = len(_COUNTED)
        ask.sample1, ask.sample2 = self._before, self._now
        for place, metric in enumerate(_COUNTED):
            ask.metrics[place].metricId = metric
        pynvml.nvmlGpmMetricsGet(ask)
        rows = (ask.metrics[place] for place in range(len(_COUNTED)))
        return [float(row.value) if row.nvmlReturn == 0 else None for row in rows]

    def close(self) -> None:
        for sample in (self._before, self._now):
            with suppress(pynvml.NVMLError):
                pynvml.nvmlGpmSampleFree(sample)


def _counters_of(handle: Any) -> _Counters | None:
    support = asked(pynvml.nvmlGpmQueryDeviceSupport, handle)
    if support is None or not support.isSupportedDevice:
        return None
    return asked(_Counters)


def _throughput(handle: Any, which: int) -> float:
    """Over 20 ms, for which the call sleeps; only asked where there are no counters."""
    return float(pynvml.nvmlDeviceGetPcieThroughput(handle, which))


def _scaled(value: float | None, by: float) -> float | None:
    return float(value) * by if value is not None else None


def _clocks(ask: Callable[..., float], handle: Any) -> dict[str, float]:
    found = {name: asked(ask, handle, kind) for name, kind in _CLOCKS.items()}
    return {name: mhz * _HZ_PER_MHZ for name, mhz in found.items() if mhz is not None}


def _throttled(handle: Any) -> dict[str, bool] | None:
    mask = asked(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    if mask is None:
        return None
    return {name: bool(int(mask) & bits) for name, bits in _REASONS.items()}
