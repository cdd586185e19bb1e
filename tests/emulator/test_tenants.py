"""The tenant programs compute what they should on the emulator, however it is shared."""

import pytest

from tests.emulator.conftest import MakeMachine
from tests.emulator.driving import Emulator, finish

WRONG = 3


@pytest.mark.parametrize("mode", ["timeslice", "mps"])
def test_programs_that_share_a_gpu_all_compute_the_right_results(
    make_machine: MakeMachine, mode: str
) -> None:
    machine = make_machine(mode=mode)
    started = [
        machine.start_tenant(*arguments, "--json")
        for arguments in (
            ("train", "--count", 60),
            ("train", "--count", 60, "--legacy"),
            ("serve", "--count", 20, "--kernels", 5),
            ("graph", "--count", 20, "--kernels", 8),
            ("streams", "--count", 20),
            ("threads", "--count", 20, "--streams", 3),
        )
    ]
    done = [finish(process) for process in started]
    assert [code for code, _ in done] == [0] * len(done), done
    assert done[0][1]["checksum"] == done[1][1]["checksum"]


@pytest.mark.parametrize("program", ["streams", "graph"])
def test_a_missing_dependency_changes_the_result(emulator: Emulator, program: str) -> None:
    right, _ = emulator.tenant(program, "--count", 3, "--work-us", 2000)
    wrong, printed = emulator.tenant(program, "--count", 3, "--work-us", 2000, "--wrong")
    assert right == 0
    assert wrong == WRONG
    assert printed["errors"] > 0


def test_children_with_and_without_exec_do_not_disturb_their_parent(emulator: Emulator) -> None:
    code, printed = emulator.tenant("fork", "--children", 6)
    assert (code, printed["errors"]) == (0, 0)


def test_the_same_seed_brings_the_same_number_of_requests(emulator: Emulator) -> None:
    runs = [emulator.tenant("serve", "--seconds", 0.3, "--seed", 7, "--rate", 50) for _ in range(2)]
    assert runs[0][1]["requests"] == runs[1][1]["requests"] > 0


def test_an_illegal_address_is_an_error_that_stays(emulator: Emulator) -> None:
    assert emulator.start_tenant("crash", "--how", "address").wait(60) == 0


@pytest.mark.parametrize("bad", [("dance",), ("train", "--kernels"), ("train", "--rate", "fast")])
def test_bad_arguments_end_with_2(emulator: Emulator, bad: tuple[str, ...]) -> None:
    assert emulator.start_tenant(*bad).wait(60) == 2


def test_without_a_driver_the_program_says_so(emulator: Emulator) -> None:
    process = emulator.start_tenant("train", LD_LIBRARY_PATH="/nonexistent")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "no CUDA driver" in err
