"""The first layer: what the GPUs of a host say of themselves."""

from dure.domain.metrics.kinds import counter, gauge

GPU_INFO = gauge("dure_gpu_info", "A GPU of this host; always 1.", "gpu", "index", "name", "driver")
GPU_UTILIZATION = gauge(
    "dure_gpu_utilization_ratio", "Share of NVML's last window in which any kernel ran.", "gpu"
)
GPU_SM_ACTIVE = gauge(
    "dure_gpu_sm_active_ratio",
    "Share of compute units that were busy, by hardware counters.",
    "gpu",
)
GPU_SM_OCCUPANCY = gauge(
    "dure_gpu_sm_occupancy_ratio", "Warps that were active, of those that could be.", "gpu"
)
GPU_DRAM_ACTIVE = gauge(
    "dure_gpu_dram_active_ratio", "Memory bandwidth in use, of what there is.", "gpu"
)
GPU_MEMORY_USED = gauge("dure_gpu_memory_used_bytes", "Memory in use.", "gpu")
GPU_MEMORY_TOTAL = gauge("dure_gpu_memory_bytes", "Memory there is.", "gpu")
GPU_POWER = gauge("dure_gpu_power_watts", "Power it draws.", "gpu")
GPU_POWER_LIMIT = gauge("dure_gpu_power_limit_watts", "Power it may draw.", "gpu")
GPU_ENERGY = counter("dure_gpu_energy_joules_total", "Energy it took.", "gpu")
GPU_TEMPERATURE = gauge("dure_gpu_temperature_celsius", "Temperature of the chip.", "gpu")
GPU_CLOCK = gauge("dure_gpu_clock_hertz", "Clock of a part: sm or memory.", "gpu", "clock")
GPU_CLOCK_MOST = gauge("dure_gpu_clock_limit_hertz", "Its highest clock.", "gpu", "clock")
GPU_THROTTLED = gauge(
    "dure_gpu_throttled", "1 while clocks are held down for this reason.", "gpu", "reason"
)
GPU_PCIE = gauge(
    "dure_gpu_pcie_bytes_per_second",
    "Traffic over PCIe: in to the GPU, out of it.",
    "gpu",
    "direction",
)
GPU_PCIE_GENERATION = gauge("dure_gpu_pcie_link_generation", "Of the link now.", "gpu")
GPU_PCIE_LANES = gauge("dure_gpu_pcie_link_lanes", "Of the link now.", "gpu")

HARDWARE = (
    *(GPU_INFO, GPU_UTILIZATION, GPU_SM_ACTIVE, GPU_SM_OCCUPANCY, GPU_DRAM_ACTIVE),
    *(GPU_MEMORY_USED, GPU_MEMORY_TOTAL, GPU_POWER, GPU_POWER_LIMIT, GPU_ENERGY),
    *(GPU_TEMPERATURE, GPU_CLOCK, GPU_CLOCK_MOST, GPU_THROTTLED),
    *(GPU_PCIE, GPU_PCIE_GENERATION, GPU_PCIE_LANES),
)
