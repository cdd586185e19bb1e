"""Modelled time: what work costs alone, beside other work, and on part of the SMs."""

import pytest

from tests.emulator.conftest import MakeMachine
from tests.emulator.driving import Emulator, finish, read_line

NEAR = 0.15
"""Modelled durations are exact; the rest is launch gaps and the like."""


def near(ms: float) -> object:
    return pytest.approx(ms, rel=NEAR)


def test_work_alone_takes_what_it_states(emulator: Emulator) -> None:
    took = emulator.program("durations")
    assert took["wide_ms"] == near(5)
    assert took["narrow_ms"] == near(5)
    assert took["bytes_ms"] == near(1), "a kernel cannot move bytes faster than memory can"
    assert took["copy_ms"] == near((64 << 20) / 5.5e10 * 1e3)


def test_kernels_of_one_process_share_sms_and_bandwidth(emulator: Emulator) -> None:
    took = emulator.program("company")
    assert took["wide_ms"] == near(20), "two that fill the device get half of it each"
    assert took["narrow_ms"] == near(10), "two halves fit beside one another"
    assert 12 < took["bandwidth_ms"] < 17, "two that want 80 % of the bandwidth slow each other"
    assert took["urgent_ms"] == near(10), "a more urgent stream goes first"


def test_sets_of_sms_confine_and_isolate_and_graphs_keep_theirs(emulator: Emulator) -> None:
    took = emulator.program("green")
    assert took["sms"] == [16, 8, 4]
    assert took["confined_ms"] == near(4 * 132 / 64)
    assert took["disjoint_ms"] == near(10 * 132 / 64), "as long as alone on 64 SMs"
    assert took["captured_wide_on_green_ms"] == near(4)
    assert took["captured_green_on_wide_ms"] == near(4 * 132 / 64)
    assert took["moved_ms"] == near(4 * 132 / 64), "a node's context decides where it runs"


def test_processes_on_disjoint_sms_do_not_slow_each_other_and_on_the_same_do(mps: Emulator) -> None:
    def medians(first: int, second: int) -> list[float]:
        processes = [mps.start_program("hold_green", index, 1.0) for index in (first, second)]
        assert [read_line(process) for process in processes] == ["ready", "ready"]
        return [finish(process)[1]["median_ms"] for process in processes]

    alone = 2 * 132 / 64
    assert all(took < 1.2 * alone for took in medians(0, 1))
    assert max(medians(1, 1)) > 1.6 * alone


MOST_STEPS_PER_S = 1000.0
"""A step is 20 kernels of 50 us; waiting for them can only make it fewer."""


def rates(machine: Emulator, blocks: int) -> list[float]:
    command = ("train", "--seconds", 1.0, "--blocks", blocks, "--sync-every", 20, "--json")
    both = [machine.start_tenant(*command) for _ in range(2)]
    return [float(finish(process)[1]["steps_per_s"]) for process in both]


def test_processes_in_time_slices_share_the_device_however_narrow_they_are(
    emulator: Emulator,
) -> None:
    for blocks in (1056, 264):
        both = rates(emulator, blocks)
        assert sum(both) < 1.05 * MOST_STEPS_PER_S
        assert min(both) > 0.15 * MOST_STEPS_PER_S


def test_narrow_processes_overlap_under_mps(mps: Emulator) -> None:
    assert sum(rates(mps, 264)) > 1.1 * MOST_STEPS_PER_S


def test_a_first_context_takes_as_long_as_configured(make_machine: MakeMachine) -> None:
    emulator = make_machine(context_ms=300)
    code, said = emulator.tenant("matmul", "--size", 64, "--work-us", 100)
    assert code == 0
    assert said["setup_s"] >= 0.3
