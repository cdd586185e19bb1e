"""Processes by pid: only those that exist, each life of a pid its own, asked for once."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dure.agent.containers.processes import ProcessBook, container_finder
from dure.domain.ids import ContainerId
from dure.runtimes.cgroups import started_ticks

A, B = "a" * 64, "b" * 64


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


class Asked:
    """Counts the questions."""

    def __init__(self, answer: str | None = A) -> None:
        self.answer = answer
        self.pids: list[int] = []

    def __call__(self, pid: int) -> ContainerId | None:
        self.pids.append(pid)
        return ContainerId(self.answer) if self.answer is not None else None


def test_a_process_is_known_by_pid_and_start_time(sleeper: "subprocess.Popen[bytes]") -> None:
    book = ProcessBook(Asked())
    found = book.look_up([sleeper.pid], 0)[sleeper.pid]
    assert (found.started_ticks, found.container) == (started_ticks(sleeper.pid), A)
    book.close()


def test_pids_that_do_not_exist_are_left_out() -> None:
    asked = Asked()
    book = ProcessBook(asked)
    assert book.look_up([0, -5, 2**22 - 1, 2**31, 4_000_000_000], 0) == {}
    assert asked.pids == []
    book.close()


def test_a_container_is_asked_for_once_in_a_life(sleeper: "subprocess.Popen[bytes]") -> None:
    asked = Asked()
    book = ProcessBook(asked)
    for moment in range(5):
        book.look_up([sleeper.pid], moment * 10**10)
    assert asked.pids == [sleeper.pid]
    book.close()


def test_who_is_in_no_container_may_be_moved_into_one(sleeper: "subprocess.Popen[bytes]") -> None:
    asked = Asked(None)
    book = ProcessBook(asked)
    assert book.look_up([sleeper.pid], 0)[sleeper.pid].container is None
    asked.answer = B
    assert book.look_up([sleeper.pid], 10)[sleeper.pid].container is None
    assert book.look_up([sleeper.pid], 2 * 10**9)[sleeper.pid].container == B
    book.close()


def test_a_process_that_ended_is_gone_even_before_it_is_reaped() -> None:
    process = subprocess.Popen(["sleep", "60"])
    asked = Asked()
    book = ProcessBook(asked)
    assert process.pid in book.look_up([process.pid], 0)
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert book.look_up([process.pid], 1) == {}
    process.wait()
    assert book.look_up([process.pid], 2) == {}
    book.close()


def test_descriptors_go_back_when_a_process_is_not_named_any_more(
    sleeper: "subprocess.Popen[bytes]",
) -> None:
    book = ProcessBook(Asked())
    before = len(list(Path("/proc/self/fd").iterdir()))
    book.look_up([sleeper.pid], 0)
    book.look_up([], 1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    book.close()


def cgroups(proc: Path, own: str, pids: dict[int, str]) -> None:
    for name, path in {"self": own, **{str(pid): path for pid, path in pids.items()}}.items():
        (proc / name).mkdir()
        (proc / name / "cgroup").write_text(f"0::{path}\n", encoding="utf-8")


def test_the_container_is_the_one_that_a_runtime_beside_us_knows(tmp_path: Path) -> None:
    inner = f"/system.slice/docker-{A}.scope/docker/{B}"
    cgroups(tmp_path, "/user.slice", {1: inner, 2: f"/system.slice/docker-{A}.scope", 3: "/"})
    of = container_finder(tmp_path)
    assert [of(1), of(2), of(3), of(4)] == [A, A, None, None]


def test_a_container_around_us_is_not_the_one_looked_for(tmp_path: Path) -> None:
    around = f"/docker/{A}"
    cgroups(tmp_path, around, {1: f"{around}/docker/{B}", 2: around})
    of = container_finder(tmp_path)
    assert [of(1), of(2)] == [B, None]
