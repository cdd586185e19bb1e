"""The first layer: the GPUs of this host, as NVML and their hardware counters tell them."""

from collections.abc import Iterator
from dataclasses import dataclass

from dure.agent.telemetry.ports import Gauges, Readings
from dure.devices.nvml import GpuFacts
from dure.devices.nvml_gauges import GpuGauges
from dure.domain.metrics import hardware as m
from dure.domain.metrics.kinds import Reading


@dataclass(slots=True)
class HardwareLayer:
    """All GPUs the agent looks after."""

    gpus: tuple[GpuFacts, ...]
    gauges: Gauges
    name: str = "hardware"

    def read(self) -> Readings:
        """What each GPU says now."""
        return [reading for gpu in self.gpus for reading in self._of(gpu)]

    def _of(self, gpu: GpuFacts) -> Iterator[Reading]:
        seen = self.gauges.read(gpu.index)
        uuid = (gpu.uuid,)
        if seen != GpuGauges():
            info = (gpu.uuid, str(gpu.index), gpu.name, gpu.driver or "")
            yield Reading(m.GPU_INFO, info, 1.0)
        for metric, value in (
            (m.GPU_UTILIZATION, seen.utilization),
            (m.GPU_SM_ACTIVE, seen.sm_active),
            (m.GPU_SM_OCCUPANCY, seen.sm_occupancy),
            (m.GPU_DRAM_ACTIVE, seen.dram_active),
            (m.GPU_MEMORY_USED, seen.memory_used_bytes),
            (m.GPU_MEMORY_TOTAL, seen.memory_bytes),
            (m.GPU_POWER, seen.power_w),
            (m.GPU_POWER_LIMIT, seen.power_limit_w),
            (m.GPU_ENERGY, seen.energy_j),
            (m.GPU_TEMPERATURE, seen.temperature_c),
            (m.GPU_PCIE_GENERATION, seen.pcie_generation),
            (m.GPU_PCIE_LANES, seen.pcie_lanes),
        ):
            if value is not None:
                yield Reading(metric, uuid, float(value))
        for clock, hertz in seen.clocks_hz.items():
            yield Reading(m.GPU_CLOCK, (gpu.uuid, clock), hertz)
        for clock, hertz in seen.clock_limits_hz.items():
            yield Reading(m.GPU_CLOCK_MOST, (gpu.uuid, clock), hertz)
        for reason, throttled in (seen.throttled or {}).items():
            yield Reading(m.GPU_THROTTLED, (gpu.uuid, reason), float(throttled))
        for direction, rate in (
            ("in", seen.pcie_in_bytes_per_s),
            ("out", seen.pcie_out_bytes_per_s),
        ):
            if rate is not None:
                yield Reading(m.GPU_PCIE, (gpu.uuid, direction), rate)
