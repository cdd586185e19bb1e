"""What NVML measures, on an emulated GPU at work; what does not answer says nothing."""

import json
import sys

from tests.emulator.conftest import emulator, lib, make_machine  # noqa: F401
from tests.emulator.driving import Emulator, read_line

READ = """
import dataclasses, json, time
from dure.devices.nvml import Nvml
from dure.devices.nvml_gauges import NvmlGauges
nvml, gauges = Nvml(), NvmlGauges()
first = gauges.read(0)
end = time.monotonic() + 20
seen = gauges.read(0)
while (not (seen.sm_active or 0) > 0.3 or not seen.utilization) and time.monotonic() < end:
    time.sleep(0.2)
    seen = gauges.read(0)
absent = gauges.read(7)
gauges.close()
nvml.close()
print(json.dumps([dataclasses.asdict(each) for each in (first, seen, absent, gauges.read(0))]))
"""


def test_gauges_tell_what_the_gpu_does_and_nothing_of_one_that_is_not_there(
    emulator: Emulator,  # noqa: F811
) -> None:
    emulator.start_tenant("train", "--seconds", 60, "--memory-mib", 100, "--work-us", 1000)
    reader = emulator.start([sys.executable, "-c", READ])
    first, seen, absent, closed = json.loads(read_line(reader))
    assert first["sm_active"] is None, "counters need two looks"
    assert 0.3 < seen["sm_active"] <= 1.0
    assert 0.0 < seen["utilization"] <= 1.0
    assert 0 < seen["memory_used_bytes"] < seen["memory_bytes"]
    assert 0.0 < seen["power_w"] <= seen["power_limit_w"]
    assert seen["energy_j"] >= first["energy_j"] > 0.0
    assert seen["clocks_hz"]["sm"] > 1e8
    assert set(seen["throttled"]) == {
        "power-cap",
        "hardware",
        "thermal",
        "power-brake",
        "sync-boost",
    }
    assert seen["pcie_in_bytes_per_s"] >= 0.0
    for nothing in (absent, closed):
        assert not any(value for value in nothing.values())
