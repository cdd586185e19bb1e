"""The product program and its rounds, on the emulator."""

import json
from pathlib import Path

import pytest

from dure.bench.node.barrier import Barrier, BarrierError
from tests.emulator.conftest import MakeMachine
from tests.emulator.driving import Emulator, wait_for

LIMIT_S = 60.0


def test_a_product_is_right_and_its_phases_add_up(emulator: Emulator) -> None:
    code, said = emulator.tenant("matmul", "--size", 128, "--work-us", 50_000)
    assert code == 0
    assert said["correct"] is True
    assert said["kernel_s"] >= 0.05
    phases = ("setup_s", "allocate_s", "input_s", "kernel_s", "output_s", "free_s")
    whole_s = (said["done_ns"] - said["begin_ns"]) / 1e9
    assert sum(said[phase] for phase in phases) == pytest.approx(whole_s, abs=0.01)


def test_without_a_stated_time_a_product_lasts_as_long_as_on_an_h200(emulator: Emulator) -> None:
    code, said = emulator.tenant("matmul", "--size", 1024)
    assert code == 0
    assert said["kernel_s"] >= 2 * 1024**3 / 5.1e12
    assert said["kernel_s"] < 0.1


def test_a_looper_gives_its_memory_back_every_time(make_machine: MakeMachine) -> None:
    emulator = make_machine(memory_mib=1024, context_mib=100)
    code, said = emulator.tenant(
        "matmul", "--size", 64, "--memory-mib", 700, "--count", 3, "--work-us", 10_000
    )
    assert (code, said["runs"], said["correct"]) == (0, 3, True)
    assert said["kernel_s"] >= 0.03


def test_what_does_not_fit_fails_with_out_of_memory(make_machine: MakeMachine) -> None:
    emulator = make_machine(memory_mib=512, context_mib=100)
    process = emulator.start_tenant("matmul", "--size", 64, "--memory-mib", 700)
    _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert "OUT_OF_MEMORY" in errors


@pytest.mark.parametrize("size", [0, 66, 70_000])
def test_a_size_the_kernel_cannot_do_is_refused(emulator: Emulator, size: int) -> None:
    process = emulator.start_tenant("matmul", "--size", size)
    _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 2
    assert "multiple of 8" in errors


def test_members_start_when_they_are_released_and_in_each_round_anew(
    emulator: Emulator, tmp_path: Path
) -> None:
    folder = tmp_path / "barrier"
    folder.mkdir()
    barrier = Barrier(folder)
    words = ("--barrier", folder, "--json")
    matmul = ("matmul", "--size", 64, "--work-us", 20_000, *words)
    members = [emulator.start_tenant(*matmul, "--index", index) for index in range(2)]
    members.append(emulator.start_tenant("serve", "--seconds", 0.2, *words, "--index", 2))
    barrier.await_ready(range(3), LIMIT_S)
    assert not list(folder.glob("done-*"))
    release = barrier.release(range(3))
    results = barrier.results([release], LIMIT_S)
    assert [result["exit"] for result in results] == [0, 0, 0]
    assert all(result["release_ns"] == release.at_ns for result in results)
    assert all(result["said"]["begin_ns"] > release.at_ns for result in results[:2])
    assert results[2]["said"]["requests"] > 0

    barrier.await_ready(range(3), LIMIT_S)
    (alone,) = barrier.results([barrier.release(range(1, 2))], LIMIT_S)
    assert (alone["round"], alone["index"]) == (2, 1)
    assert not (folder / "done-2-0").exists()
    barrier.quit()
    assert [process.wait(LIMIT_S) for process in members] == [0, 0, 0]


def test_a_member_that_fails_says_so_and_stands_there_again(
    make_machine: MakeMachine, tmp_path: Path
) -> None:
    emulator = make_machine(memory_mib=512, context_mib=100)
    barrier = Barrier(tmp_path)
    words = ("--memory-mib", 700, "--barrier", tmp_path, "--index", 0)
    member = emulator.start_tenant("matmul", "--size", 64, *words, "--json")
    barrier.await_ready([0], LIMIT_S)
    (result,) = barrier.results([barrier.release(range(1))], LIMIT_S)
    assert (result["exit"], result["said"]) == (1, None)
    barrier.await_ready([0], LIMIT_S)
    barrier.quit()
    assert member.wait(LIMIT_S) == 0


def test_who_does_not_come_is_counted(tmp_path: Path) -> None:
    barrier = Barrier(tmp_path)
    (tmp_path / "ready-0").touch()
    with pytest.raises(BarrierError, match="1 containers did not come"):
        barrier.await_ready([0, 1], limit_s=0.05)
    release = barrier.release(range(2))
    (tmp_path / "done-1-0").write_text(json.dumps({"exit": 0}), encoding="utf-8")
    with pytest.raises(BarrierError, match="1 of 2 containers were not done"):
        barrier.results([release], limit_s=0.05)


def test_a_calibration_is_a_positive_speed(emulator: Emulator) -> None:
    code, said = emulator.tenant("calibrate")
    assert code == 0
    assert said["turns_per_us"] > 0


def test_a_member_leaves_with_its_parent(emulator: Emulator, tmp_path: Path) -> None:
    member = emulator.start_tenant("matmul", "--size", 64, "--barrier", tmp_path, "--index", 0)
    Barrier(tmp_path).await_ready([0], LIMIT_S)
    children = Path(f"/proc/{member.pid}/task/{member.pid}/children")
    child = Path("/proc", children.read_text(encoding="utf-8").split()[0])
    member.kill()
    member.wait(LIMIT_S)
    assert wait_for(lambda: not child.exists())
