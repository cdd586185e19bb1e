"""NVML as nvidia-ml-py sees it on the emulated machine."""

import json
import subprocess
import sys
from typing import Any

from tests.emulator.conftest import MakeMachine
from tests.emulator.driving import Emulator, finish, read_line, wait_for

READ = """
import json, sys, time, pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
seconds = float(sys.argv[1])
a, b = n.nvmlGpmSampleAlloc(), n.nvmlGpmSampleAlloc()
n.nvmlGpmSampleGet(h, a)
since = int(time.time() * 1e6)
time.sleep(seconds)
n.nvmlGpmSampleGet(h, b)
get = n.c_nvmlGpmMetricsGet_t()
get.version, get.numMetrics, get.sample1, get.sample2 = 1, 3, a, b
for i, metric in enumerate((n.NVML_GPM_METRIC_SM_UTIL, n.NVML_GPM_METRIC_DRAM_BW_UTIL, 400)):
    get.metrics[i].metricId = metric
n.nvmlGpmMetricsGet(get)
try:
    samples = [[s.pid, s.smUtil, s.timeStamp - since] for s in
               n.nvmlDeviceGetProcessUtilization(h, since)]
except n.NVMLError_NotFound:
    samples = []
memory, second = n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2)
processes = n.nvmlDeviceGetComputeRunningProcesses(h)
print(json.dumps({
    "count": n.nvmlDeviceGetCount(), "name": n.nvmlDeviceGetName(h),
    "uuid": n.nvmlDeviceGetUUID(h), "index": n.nvmlDeviceGetIndex(h),
    "by_uuid": n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(h))),
    "total": memory.total, "used": memory.used, "free": memory.free, "used_v2": second.used,
    "gpu": n.nvmlDeviceGetUtilizationRates(h).gpu, "power": n.nvmlDeviceGetPowerUsage(h),
    "processes": {p.pid: p.usedGpuMemory for p in processes},
    "names": [n.nvmlSystemGetProcessName(p.pid) for p in processes],
    "samples": samples, "gpm": [get.metrics[i].value for i in range(2)],
    "unknown_metric": get.metrics[2].nvmlReturn,
    "supported": n.nvmlGpmQueryDeviceSupport(h).isSupportedDevice,
    "mig": n.nvmlDeviceGetMigMode(h), "mode": n.nvmlDeviceGetComputeMode(h),
    "driver": n.nvmlSystemGetDriverVersion(),
    "clock": n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM),
    "temperature": n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU),
    "throttle": n.nvmlDeviceGetCurrentClocksThrottleReasons(h),
    "bus": n.nvmlDeviceGetPciInfo(h).busId,
    "link": n.nvmlDeviceGetCurrPcieLinkGeneration(h),
    "capability": n.nvmlDeviceGetCudaComputeCapability(h),
}))
n.nvmlShutdown()
"""


def read(machine: Emulator, seconds: float = 0.2) -> dict[str, Any]:
    """What NVML says, over so many seconds."""
    code, printed = finish(machine.start([sys.executable, "-c", READ, str(seconds)]))
    assert code == 0, printed
    return printed


def test_an_idle_machine_is_described(make_machine: MakeMachine) -> None:
    seen = read(make_machine(gpus=2, memory_mib=4096))
    assert (seen["count"], seen["index"], seen["by_uuid"]) == (2, 0, 0)
    assert "H200" in seen["name"]
    assert seen["uuid"].startswith("GPU-")
    assert (seen["total"], seen["used"], seen["free"]) == (4096 << 20, 0, 4096 << 20)
    assert (seen["gpu"], seen["processes"], seen["samples"]) == (0, {}, [])
    assert seen["gpm"] == [0, 0]
    assert (seen["unknown_metric"], seen["supported"]) == (3, 1)
    assert (seen["mig"], seen["mode"], seen["throttle"]) == ([0, 0], 0, 0)
    assert seen["driver"].startswith("580")
    assert seen["capability"] == [9, 0]
    assert (seen["clock"], seen["link"]) == (1980, 5)


def test_processes_their_memory_and_their_share_are_seen(mps: Emulator) -> None:
    command = ("train", "--seconds", 20, "--memory-mib", 256, "--sync-every", 20)
    half = mps.start_tenant(*command, "--blocks", 528, "--work-us", 500)
    idle = mps.start_tenant("idle", "--seconds", 20)
    assert read_line(idle) == "ready"
    seen = read(mps, 1.0)
    assert set(seen["processes"]) == {str(half.pid), str(idle.pid)}
    assert seen["processes"][str(half.pid)] >= (256 + 64) << 20
    assert seen["processes"][str(idle.pid)] == 64 << 20
    assert seen["used"] == seen["used_v2"] == sum(seen["processes"].values())
    assert all("dure-tenant" in name for name in seen["names"])
    assert 25 < seen["gpm"][0] < 60, "it uses half of the SMs"
    assert seen["gpu"] > 50, "but most of the time"
    assert seen["samples"]
    assert {pid for pid, share, _ in seen["samples"] if share > 0} == {half.pid}
    assert all(sm < 60 and late > 0 for _, sm, late in seen["samples"])
    assert seen["power"] > 200_000


def test_bandwidth_is_seen(emulator: Emulator) -> None:
    size = int(4.8e12 * 0.5 * 1e-3)
    emulator.start_tenant("train", "--seconds", 20, "--work-us", 1000, "--bytes", size)
    assert wait_for(lambda: read(emulator, 0.05)["processes"] != {})
    assert 25 < read(emulator, 0.6)["gpm"][1] < 60


def test_reading_does_not_make_a_process_a_cuda_client(emulator: Emulator) -> None:
    watcher = subprocess.run(
        [sys.executable, "-c", READ, "0.1"],
        env=emulator.environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(watcher.stdout)["processes"] == {}
