"""The card's memory: what is taken, what is left, and who gets it back."""

import signal

import pytest

from tests.emulator.conftest import MakeMachine
from tests.emulator.driving import Emulator, finish, read_line, wait_for

MIB = 1 << 20


def test_every_kind_of_allocation_is_counted(emulator: Emulator) -> None:
    seen = emulator.program("memory")
    start, *rest = seen["free"]
    assert [(start - left) // MIB for left in rest] == [64, 0, 32, 32, 0, 16, 0], (
        "allocated, freed, in stream order: taken, still taken, given back; created, released"
    )
    assert seen["too_much"] == 2
    assert seen["managed"] == 77, "managed memory is the host's too"


def test_a_hog_gets_all_that_is_free_and_no_more(make_machine: MakeMachine) -> None:
    machine = make_machine(memory_mib=2048, context_mib=128)
    code, printed = machine.tenant("hog", "--seconds", 0)
    assert code == 0
    assert printed["got_bytes"] == printed["free_before_bytes"] == 1920 * MIB
    assert (printed["free_after_bytes"], printed["last_result"]) == (0, 2)


def test_what_one_process_holds_another_cannot_get(make_machine: MakeMachine) -> None:
    machine = make_machine(memory_mib=2048, context_mib=0)
    holder = machine.start_tenant("idle", "--memory-mib", 1500, "--seconds", 30)
    assert read_line(holder) == "ready"
    _, printed = machine.tenant("hog", "--seconds", 0, "--chunk-mib", 16)
    assert printed["got_bytes"] == 548 * MIB
    code, refused = finish(machine.start_tenant("idle", "--memory-mib", 600, "--seconds", 0))
    assert code == 1
    assert "CUDA_ERROR_OUT_OF_MEMORY" in refused["error"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_dead_process_leaves_nothing_behind(emulator: Emulator, how: signal.Signals) -> None:
    watcher = emulator.start_tenant("idle", "--seconds", 30)
    assert read_line(watcher) == "ready"
    before = emulator.program("memory")["free"][0]
    holder = emulator.start_program("hold", 512)
    assert read_line(holder) == "ready"
    assert emulator.program("memory")["free"][0] <= before - 512 * MIB
    holder.send_signal(how)
    holder.wait(60)
    assert wait_for(lambda: emulator.program("memory")["free"][0] == before, 10)
    code, _ = emulator.tenant("train", "--count", 5)
    assert code == 0, "and its endless kernel is off the device"
