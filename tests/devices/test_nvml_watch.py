"""NVML read without its wrappers says what the wrappers say, on an emulated GPU."""

import sys
from typing import Any

from tests.emulator.conftest import emulator, lib, make_machine  # noqa: F401
from tests.emulator.driving import Emulator, finish, read_line

READ = """
import json, time, pynvml
from dure.devices import nvml_watch
nvml_watch._ROWS = 1
watch = nvml_watch.NvmlWatch()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
plain = {p.pid: p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
end = time.monotonic() + 20
samples = []
while not any(share > 0.3 for *_, share in samples) and time.monotonic() < end:
    samples = watch.samples(0, 0)
    time.sleep(0.05)
newest = max((stamp for _, stamp, _ in samples), default=0)
print(json.dumps({
    "uuid": watch.gpus()[0].uuid, "minor": watch.gpus()[0].minor,
    "plain": plain, "processes": dict(watch.processes(0)), "mps": watch.processes(0, mps=True),
    "memory": watch.memory(0), "plain_memory": [memory.total, memory.used],
    "samples": samples, "newer": watch.samples(0, newest + 10**12),
    "utilization": watch.utilization(0), "power": watch.power_w(0), "limit": watch.power_limit_w(0),
}))
watch.close()
"""
BUSY = 0.3
LOST = """
from dure.devices.nvml_watch import NvmlLostError, NvmlWatch
watch = NvmlWatch()
watch.processes(0)
watch.close()
try:
    watch.processes(0)
except NvmlLostError as error:
    print('{"error": "%s"}' % error)
"""


def run(machine: Emulator, text: str) -> dict[str, Any]:
    code, printed = finish(machine.start([sys.executable, "-c", text]))
    assert code == 0, printed
    return printed


def test_processes_memory_samples_and_power_are_read(emulator: Emulator) -> None:  # noqa: F811
    job = emulator.start_tenant("train", "--seconds", 60, "--memory-mib", 100, "--work-us", 1000)
    idle = [emulator.start_tenant("idle", "--seconds", 60) for _ in range(2)]
    assert [read_line(each) for each in idle] == ["ready", "ready"]
    seen = run(emulator, READ)
    assert seen["processes"] == seen["plain"]
    assert set(seen["processes"]) == {str(each.pid) for each in (job, *idle)}
    assert seen["memory"] == seen["plain_memory"]
    assert {pid for pid, _, share in seen["samples"] if share > BUSY} == {job.pid}
    assert seen["newer"] == [], "no newer sample is no use, and no error"
    assert seen["mps"] == []
    assert seen["utilization"] > BUSY
    assert (seen["limit"], seen["minor"]) == (700.0, 0)
    assert seen["power"] > 100


def test_an_nvml_that_stops_answering_is_told_apart_from_an_empty_gpu(
    emulator: Emulator,  # noqa: F811
) -> None:
    assert "NVML does not tell processes" in run(emulator, LOST)["error"]
