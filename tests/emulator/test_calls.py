"""Calls by name and version, devices, and what wrong calls return."""

from tests.emulator.conftest import MakeMachine
from tests.emulator.driving import Emulator


def test_calls_are_found_by_name_version_and_default_stream(emulator: Emulator) -> None:
    found = emulator.program("resolving")
    assert found["plain"] == [0, 0, "cuLaunchKernel"]
    assert found["per_thread"] == [0, 0, "cuLaunchKernel_ptsz"]
    assert found["versioned"] == [0, 0, "cuMemAlloc_v2"]
    assert found["itself"] == [0, 0, "cuGetProcAddress_v2"]
    assert found["itself_before"] == [0, 0, "cuGetProcAddress"]
    assert found["old"] == [0, 0, "cuGraphExecUpdate"]
    assert found["new"] == [0, 0, "cuGraphExecUpdate_v2"]
    assert found["too_old"] == [500, 1, None]
    assert found["version_too_old"] == [500, 2, None]


def test_wrong_calls_return_what_the_driver_returns(emulator: Emulator) -> None:
    seen = emulator.program("invalid")
    assert seen == {
        "before_init": 3,
        "freed_twice": 1,
        "no_such_function": 500,
        "no_threads": 1,
        "never_recorded": 0,
        "not_text": 200,
        "third_parameter": [32, 4],
    }


def test_a_machine_has_as_many_gpus_as_it_is_given(make_machine: MakeMachine) -> None:
    machine = make_machine(gpus=3, sms=64)
    seen = machine.program("devices")
    assert (seen["count"], seen["sms"], seen["major"]) == (3, 64, 9)
    assert len(set(seen["uuids"])) == 3
    chosen = machine.program("devices", CUDA_VISIBLE_DEVICES="2,0")
    assert chosen["uuids"] == [seen["uuids"][2], seen["uuids"][0]]
    code, _ = machine.tenant("train", "--count", 5, "--device", 2)
    assert code == 0


def test_a_rectangle_is_copied_row_by_row(emulator: Emulator) -> None:
    expected = [(64 * (1 + row) + 16 + column) % 251 for row in range(2) for column in range(8)]
    assert emulator.program("rectangles")["bytes"] == expected
