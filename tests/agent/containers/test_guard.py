"""Agent and watchdog, connected: who notices what, and how soon."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dure.agent.containers.guard import Guard

pytestmark = pytest.mark.faults

ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 30.0


def _until(what: str, check: Callable[[], object], limit_s: float = LIMIT_S) -> float:
    began = time.monotonic()
    while not check():
        assert time.monotonic() - began < limit_s, what
        time.sleep(0.01)
    return time.monotonic() - began


class Folder:
    """A folder with watchdogs."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.log = place / "log"
        self.running: list[subprocess.Popen[bytes]] = []

    def watchdog(self) -> subprocess.Popen[bytes]:
        process = self.start("-m", "dure.agent.containers.watchdog", str(self.place))
        _until("the watchdog is there", (self.place / "watchdog.sock").exists)
        return process

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
                stdout=log,
                stderr=log,
            )
        self.running.append(process)
        return process

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""

    def close(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()


@pytest.fixture
def folder() -> Iterator[Folder]:
    with tempfile.TemporaryDirectory(prefix="dure-guard-") as place:  # sockets want short paths
        made = Folder(Path(place))
        yield made
        made.close()


class Agent:
    """The agent's end, with deciding that can be made to hang."""

    def __init__(self, folder: Folder, *, start_one: bool = False) -> None:
        self.hangs_since_ns: int | None = None
        self.changes: list[bool] = []
        self.guard = Guard(
            folder.place, self._last_round_ns, self.changes.append, start_one=start_one
        )
        self.guard.start()

    def _last_round_ns(self) -> int:
        return self.hangs_since_ns or time.monotonic_ns()


def test_a_watchdog_is_there_from_its_first_answer_until_it_dies(folder: Folder) -> None:
    agent = Agent(folder)
    time.sleep(0.3)
    assert agent.changes == []
    first = folder.watchdog()
    _until("it is seen", lambda: agent.guard.present)
    first.kill()
    first.wait()
    assert _until("its death is seen", lambda: not agent.guard.present) < 5
    folder.watchdog()
    _until("the next one is seen", lambda: agent.guard.present)
    agent.guard.stop()
    assert agent.changes == [True, False, True]
    _until("the agent's end is seen", lambda: folder.said().count("the agent is gone") == 1)


def test_a_watchdog_that_hangs_does_not_count_as_there(folder: Folder) -> None:
    agent = Agent(folder)
    watchdog = folder.watchdog()
    _until("it is seen", lambda: agent.guard.present)
    watchdog.send_signal(signal.SIGSTOP)
    _until("its hang is seen", lambda: not agent.guard.present)
    watchdog.send_signal(signal.SIGCONT)
    _until("it is back", lambda: agent.guard.present)
    agent.guard.stop()


def test_an_agent_whose_deciding_hangs_is_dropped_though_its_threads_live(folder: Folder) -> None:
    agent = Agent(folder)
    folder.watchdog()
    _until("it is seen", lambda: agent.guard.present)
    agent.hangs_since_ns = time.monotonic_ns()
    _until("the hang is seen", lambda: "the agent hangs" in folder.said())
    agent.hangs_since_ns = None
    _until("all is well again", lambda: agent.guard.present)
    agent.guard.stop()


def test_the_agents_death_is_seen_at_once_though_a_child_of_it_lives_on(folder: Folder) -> None:
    folder.watchdog()
    program = (
        "import pathlib, subprocess, sys, time\n"
        "from dure.agent.containers.guard import Guard\n"
        "guard = Guard(pathlib.Path(sys.argv[1]), time.monotonic_ns, lambda _: None)\n"
        "guard.start()\n"
        "while not guard.present: time.sleep(0.01)\n"
        "child = subprocess.Popen(['sleep', '60'], close_fds=False)\n"
        "pathlib.Path(sys.argv[1], 'child').write_text(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    agent = folder.start("-c", program, str(folder.place))
    note = folder.place / "child"
    _until("the child is there", lambda: note.exists() and note.read_text())
    try:
        agent.kill()
        agent.wait()
        assert _until("it is noticed", lambda: "the agent is gone" in folder.said()) < 2
    finally:
        os.kill(int(note.read_text()), signal.SIGKILL)


def test_a_second_watchdog_of_a_folder_says_that_one_runs(folder: Folder) -> None:
    first = folder.watchdog()
    second = folder.start("-m", "dure.agent.containers.watchdog", str(folder.place))
    assert second.wait(LIMIT_S) == 1
    assert f"a watchdog (process {first.pid}) already runs" in folder.said()
    assert first.poll() is None
    assert (folder.place / "watchdog.sock").exists()


def test_a_watchdog_told_to_end_ends_and_leaves_no_socket(folder: Folder) -> None:
    watchdog = folder.watchdog()
    watchdog.terminate()
    assert watchdog.wait(LIMIT_S) == 0
    assert not (folder.place / "watchdog.sock").exists()


@pytest.mark.parametrize("leave", [(), ("--leave",)])
def test_a_watchdog_whose_folder_is_removed_ends_with_one_clear_line(
    folder: Folder, leave: tuple[str, ...]
) -> None:
    place = folder.place / "run"
    place.mkdir()
    folder.start("-m", "dure.agent.containers.watchdog", str(place), *leave)
    note = place / "watchdog.pid"
    _until("it watches", lambda: "watching over" in folder.said())
    pid = int(note.read_text())
    shutil.rmtree(place)
    _until("it ends", lambda: _ended(pid))
    said = [line for line in folder.said().splitlines() if "watching over" not in line]
    assert len(said) == 1, said
    assert f"{place} or its journal was removed" in said[0]


def _ended(pid: int) -> bool:
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_an_agent_may_start_its_own_watchdog_which_outlives_a_kill(folder: Folder) -> None:
    agent = Agent(folder, start_one=True)
    try:
        _until("it is seen", lambda: agent.guard.present)
        pid = int((folder.place / "watchdog.pid").read_text())
        assert os.getsid(pid) == pid, "a signal to the agent's terminal would reach it, too"
        os.kill(pid, signal.SIGKILL)
        _until("its death is seen", lambda: not agent.guard.present)
        _until("another one is started", lambda: agent.guard.present)
    finally:
        agent.guard.stop()
        os.kill(int((folder.place / "watchdog.pid").read_text()), signal.SIGKILL)
