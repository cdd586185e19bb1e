"""The monitor's process on an emulated GPU: what it sees, how it is told, how it is replaced."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dure.agent.containers.monitor_process import MonitorProcess
from dure.domain.containers import TaskTable
from dure.domain.units import MIB, NS_PER_MS
from tests.agent.containers.stand import wait_for
from tests.emulator.conftest import emulator, lib, make_machine  # noqa: F401
from tests.emulator.driving import Emulator, read_line


class Watched:
    """A monitor, and what it told."""

    def __init__(self) -> None:
        self.tables: list[TaskTable] = []
        self.news: list[str | None] = []
        self.monitor = MonitorProcess(self.tables.append, self.news.append)

    def last(self) -> TaskTable | None:
        return self.tables[-1] if self.tables else None

    def sees(self, pid: int) -> bool:
        table = self.last()
        return table is not None and any(task.pid == pid for task in table.tasks)

    def busy(self, pid: int) -> bool:
        table = self.last()
        return table is not None and any(
            task.pid == pid and task.sm_share > 0.3 for task in table.tasks
        )


@pytest.fixture
def watched(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:  # noqa: F811
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    made = Watched()
    made.monitor.start()
    yield made
    made.monitor.stop()
    assert made.monitor.process is not None
    assert made.monitor.process.poll() is not None, "it ends with its agent"


def test_processes_come_compute_and_go(watched: Watched, emulator: Emulator) -> None:  # noqa: F811
    wait_for("a first look", lambda: watched.last() is not None)
    assert watched.news == [None]
    job = emulator.start_tenant(
        "train", "--seconds", 30, "--memory-mib", 300, "--work-us", 1000, "--kernels", 10
    )
    wait_for("the process", lambda: watched.sees(job.pid))
    wait_for("its work", lambda: watched.busy(job.pid))
    table = watched.last()
    assert table is not None
    (task,) = table.tasks
    assert task.memory_bytes >= 300 * MIB
    assert table.gpus[0].memory_used_bytes == task.memory_bytes
    assert table.gpus[0].power_limit_w == 700.0
    job.kill()
    wait_for("its end", lambda: not watched.sees(job.pid))


def test_it_looks_as_often_as_it_is_told(watched: Watched) -> None:
    wait_for("a first look", lambda: watched.monitor.pulse().looks > 0)
    watched.monitor.look_every(5 * NS_PER_MS)
    before = watched.monitor.pulse().looks
    wait_for("many looks", lambda: watched.monitor.pulse().looks > before + 100, 15.0)


def test_an_unchanged_table_is_not_written_again(
    watched: Watched,
    emulator: Emulator,  # noqa: F811
) -> None:
    idle = emulator.start_tenant("idle", "--seconds", 30)
    assert read_line(idle) == "ready"
    wait_for("the process", lambda: watched.sees(idle.pid))
    watched.monitor.look_every(5 * NS_PER_MS)
    before = watched.monitor.pulse()
    wait_for("many looks", lambda: watched.monitor.pulse().looks > before.looks + 100)
    assert watched.monitor.pulse().changes <= before.changes + 2


def test_a_monitor_that_dies_is_no_information_until_the_next_one_looks(watched: Watched) -> None:
    wait_for("a first look", lambda: watched.news == [None])
    first = watched.monitor.process
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    wait_for("the news", lambda: len(watched.news) >= 2)
    assert watched.news[1] is not None
    assert "the monitor ended (signal 9)" in watched.news[1]
    wait_for("the next one", lambda: watched.news[-1] is None and len(watched.news) == 3)
    assert watched.monitor.process is not first
    assert watched.monitor.deaths == 1


def test_a_monitor_that_hangs_is_no_information_and_is_replaced(watched: Watched) -> None:
    wait_for("a first look", lambda: watched.news == [None])
    first = watched.monitor.process
    assert first is not None
    os.kill(first.pid, signal.SIGSTOP)
    wait_for("the news", lambda: len(watched.news) >= 2)
    wait_for("the next one", lambda: watched.news[-1] is None and len(watched.news) >= 3)
    assert first.poll() is not None


def test_without_nvml_a_monitor_says_so_and_is_tried_again(tmp_path: Path) -> None:
    watched = Watched()
    watched.monitor.command = (
        *("env", "LD_LIBRARY_PATH=", "DURE_EMULATOR_DIR="),
        *(sys.executable, "-m", "dure.agent.containers.monitor"),
    )
    watched.monitor.start()
    wait_for("two deaths", lambda: watched.monitor.deaths >= 2)
    watched.monitor.stop()
    assert watched.news == ["the monitor ended (exit code 1)"]
    assert watched.tables == []


def test_a_monitor_whose_agent_dies_ends_by_itself(emulator: Emulator) -> None:  # noqa: F811
    agent = emulator.start(
        [
            sys.executable,
            "-c",
            "import time\n"
            "from dure.agent.containers.monitor_process import MonitorProcess\n"
            "monitor = MonitorProcess()\n"
            "monitor.start()\n"
            "while monitor.pulse().looks == 0: time.sleep(0.01)\n"
            "print(monitor.process.pid, flush=True)\n"
            "time.sleep(60)",
        ]
    )
    pid = int(read_line(agent))
    agent.kill()
    wait_for("its end", lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_its_own_words_are_usage_where_it_is_started_by_hand() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dure.agent.containers.monitor"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "--table" in done.stderr
