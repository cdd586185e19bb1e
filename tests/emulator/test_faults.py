"""Processes that stop, die or are locked: who is harmed, and what goes on."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.emulator.conftest import MakeMachine
from tests.emulator.driving import Emulator, finish, read_line, wait_for

ILLEGAL_ADDRESS = 700
CLIENT_TERMINATED = 810


def stopped(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return stat.rpartition(")")[2].split()[0] == "T"


def stamp_lines(process: subprocess.Popen[str], stamps: list[float]) -> None:
    """When each line of a program came."""
    assert process.stdout is not None
    stamps.extend(time.monotonic() for _ in process.stdout)


def test_work_of_a_stopped_process_goes_on(emulator: Emulator) -> None:
    process = emulator.start_program("frozen")
    assert read_line(process) == "ready"
    assert wait_for(lambda: stopped(process.pid))
    time.sleep(0.5)
    process.send_signal(signal.SIGCONT)
    code, printed = finish(process)
    assert code == 0
    assert printed["word"] == 42
    assert 100 <= printed["kernel_ms"] < 300, "it ended while its process was stopped"


def test_a_kill_in_mid_kernel_harms_nobody_in_time_slices(emulator: Emulator) -> None:
    survivor = emulator.start_program("until_error", 1.0)
    assert read_line(survivor) == "ready"
    assert emulator.start_tenant("crash", "--how", "kill").wait(60) == -signal.SIGKILL
    assert finish(survivor)[1] == {"code": 0}


def test_a_kill_in_mid_kernel_takes_the_others_along_under_mps(make_machine: MakeMachine) -> None:
    machine = make_machine(mode="mps", unavailable_ms=2000)
    survivor = machine.start_program("until_error", 20)
    assert read_line(survivor) == "ready"
    assert machine.start_tenant("crash", "--how", "kill").wait(60) == -signal.SIGKILL
    code, refused = finish(machine.start_tenant("idle", "--seconds", 0))
    assert (code, "CUDA_ERROR_DEVICE_UNAVAILABLE" in refused["error"]) == (1, True)
    harmed = finish(survivor)[1]
    assert harmed["code"] == ILLEGAL_ADDRESS
    assert harmed["after"] == [ILLEGAL_ADDRESS, ILLEGAL_ADDRESS], "the error stays"
    assert wait_for(lambda: machine.tenant("train", "--count", 5)[0] == 0), "it comes back"


def test_a_client_ended_by_the_control_program_first_harms_nobody(mps: Emulator) -> None:
    survivor = mps.start_program("until_error", 1.5)
    victim = mps.start_program("until_error", 30)
    assert [read_line(survivor), read_line(victim)] == ["ready", "ready"]
    server = mps.control("get_server_list\n").strip()
    listed = set(map(int, mps.control(f"get_client_list {server}\n").split()))
    assert listed == {survivor.pid, victim.pid}
    mps.control(f"terminate_client {server} {victim.pid}\n")
    assert finish(victim)[1]["code"] == CLIENT_TERMINATED
    assert finish(survivor)[1] == {"code": 0}


def test_a_program_that_ends_in_order_in_mid_kernel_harms_nobody(mps: Emulator) -> None:
    survivor = mps.start_program("until_error", 0.8)
    assert read_line(survivor) == "ready"
    assert mps.start_tenant("crash", "--how", "exit").wait(60) == 7
    assert finish(survivor)[1] == {"code": 0}


def test_without_shared_fate_a_kill_harms_nobody_under_mps(make_machine: MakeMachine) -> None:
    machine = make_machine(mode="mps", shared_fate=0)
    survivor = machine.start_program("until_error", 0.8)
    assert read_line(survivor) == "ready"
    assert machine.start_tenant("crash", "--how", "kill").wait(60) == -signal.SIGKILL
    assert finish(survivor)[1] == {"code": 0}


def test_a_locked_process_stands_still_until_it_is_unlocked(emulator: Emulator) -> None:
    target = emulator.start_program("steps", 30)
    assert read_line(target) == "1"
    stamps: list[float] = []
    watcher = threading.Thread(target=stamp_lines, args=(target, stamps))
    watcher.start()
    command = emulator.start_program("lock", target.pid, 0.6)
    assert read_line(command) == "locked"
    locked = time.monotonic() + 0.2
    assert read_line(command) == "unlocking"
    unlocked = time.monotonic()
    code, printed = finish(command)
    assert code == 0
    assert wait_for(lambda: stamps[-1] > unlocked)
    target.kill()
    watcher.join()
    assert not [stamp for stamp in stamps if locked < stamp < unlocked]
    assert printed["states"] == [0, 1, 2, 0]
    assert printed["refused"] == 401, "what is not locked cannot be unlocked"
    assert printed["unknown"] == 1
    assert printed["freed"] > 0, "a checkpoint gives the device's memory back"
    assert printed["took_s"] < 1


@pytest.mark.parametrize("number", [8])
def test_many_first_clients_at_once_start_one_broker(emulator: Emulator, number: int) -> None:
    started = [emulator.start_tenant("train", "--count", 2, "--json") for _ in range(number)]
    assert [finish(process)[0] for process in started] == [0] * number
    assert len(emulator.broker_pids()) == 1


def test_the_broker_ends_when_its_last_client_is_gone(make_machine: MakeMachine) -> None:
    machine = make_machine(idle_exit_s=0.3)
    assert machine.tenant("train", "--count", 2)[0] == 0
    assert wait_for(lambda: machine.broker_pids() == [], 20)
    assert machine.tenant("train", "--count", 2)[0] == 0, "and the next one starts another"


def test_a_client_whose_broker_dies_gets_an_error_and_does_not_hang(emulator: Emulator) -> None:
    client = emulator.start_program("until_error", 30)
    assert read_line(client) == "ready"
    (broker,) = emulator.broker_pids()
    os.kill(broker, signal.SIGKILL)
    assert finish(client)[1]["code"] == 999


def test_the_control_program_turns_mps_on_and_off(emulator: Emulator) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        emulator.control("get_server_list\n")
    emulator.control("", "-d")
    assert emulator.control("get_server_list\n").strip().isdigit()
    emulator.control("quit\n")
    with pytest.raises(subprocess.CalledProcessError):
        emulator.control("get_server_list\n")


def test_a_mode_written_to_the_settings_takes_effect_at_the_next_call(emulator: Emulator) -> None:
    holder = emulator.start_tenant("idle", "--seconds", 30)
    assert read_line(holder) == "ready"
    emulator.configure(mode="mps", idle_exit_s=2)
    assert emulator.control("get_server_list\n").strip().isdigit()


@pytest.mark.faults
def test_two_hundred_clients_that_die_leave_no_descriptor_in_the_broker(emulator: Emulator) -> None:
    holder = emulator.start_tenant("idle", "--seconds", 300)
    assert read_line(holder) == "ready"
    (broker,) = emulator.broker_pids()

    def descriptors() -> int:
        return len(list(Path(f"/proc/{broker}/fd").iterdir()))

    before = descriptors()
    for number in range(200):
        client = emulator.start_tenant("train", "--seconds", 30)
        time.sleep(0.002 * (number % 20))
        client.kill()
        client.wait(60)
    assert wait_for(lambda: descriptors() == before, 10)
    assert emulator.tenant("train", "--count", 5)[0] == 0
