"""The tenant programs compute what they should on the emulator, however it is shared."""

from pathlib import Path

import pytest

from tests.emulator.conftest import MakeMachine
from tests.emulator.driving import Emulator, finish, wait_for

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


def test_a_training_that_is_asked_saves_waits_for_its_end_and_resumes_with_the_right_result(
    emulator: Emulator, tmp_path: Path
) -> None:
    saved, answer = tmp_path / "saved", tmp_path / "checkpoint-done"
    loop = ("train", "--work-us", 500, "--save", saved)
    first = emulator.start_tenant(*loop, "--seconds", 600, DURE_CONTROL=str(tmp_path))
    (tmp_path / "checkpoint").write_text("7\n")
    assert wait_for(lambda: answer.exists() and answer.read_text() == "7\n")
    steps = int(saved.read_text().split()[0])
    assert steps > 0
    first.terminate()
    assert first.communicate()[0] == f"saved at step {steps}\n"
    code, printed = emulator.tenant(*loop, "--count", steps + 40)
    assert code == 0, printed
    assert (printed["steps"], printed["correct"]) == (steps + 40, True)


def test_a_training_goes_on_where_a_checkpoint_is_called_off(
    emulator: Emulator, tmp_path: Path
) -> None:
    (tmp_path / "checkpoint").write_text("1\n")
    arguments = ("train", "--work-us", 500, "--save", tmp_path / "saved", "--count", 60, "--json")
    process = emulator.start_tenant(*arguments, DURE_CONTROL=str(tmp_path))
    assert wait_for((tmp_path / "checkpoint-done").exists)
    assert process.poll() is None
    (tmp_path / "checkpoint").unlink()
    code, printed = finish(process)
    assert (code, printed["steps"], printed["correct"]) == (0, 60, True)


def test_a_server_follows_the_rate_in_a_file(emulator: Emulator, tmp_path: Path) -> None:
    rate = tmp_path / "rate"
    rate.write_text("400\n")
    slow = ("serve", "--seconds", 1, "--kernels", 1, "--work-us", 10, "--rate", 5)
    _, without = emulator.tenant(*slow)
    _, followed = emulator.tenant(*slow, "--rate-file", rate)
    assert without["requests"] < 30
    assert followed["requests"] > 100
