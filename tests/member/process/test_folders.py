"""What is left of a dead supervisor is ended, and strangers that have its number by now are not."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dure.member.process.folders import Folder
from tests.member.process.test_carrier import alive, until_dead

BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
LINE = "sleep 600 & echo $!; wait"


class Session:
    """A shell that leads a session, and a program of it."""

    def __init__(self) -> None:
        self.leader = subprocess.Popen(
            ("/bin/sh", "-c", LINE), stdout=subprocess.PIPE, start_new_session=True
        )
        assert self.leader.stdout is not None
        self.program = int(self.leader.stdout.readline())
        self.born = Path(f"/proc/{self.leader.pid}/stat").read_text().split()[21]

    def behead(self) -> None:
        self.leader.kill()
        self.leader.wait()

    def close(self) -> None:
        self.behead()
        assert self.leader.stdout is not None
        self.leader.stdout.close()
        if alive(self.program):
            os.kill(self.program, signal.SIGKILL)


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session()
    yield made
    made.close()


def left_over(path: Path, words: str) -> Folder:
    """The folder of an instance whose supervisor is dead and wrote this of itself."""
    (path / "lock").touch()
    (path / "begun").write_text(f"{words}\n")
    return Folder(path)


@pytest.mark.parametrize("led", [True, False])
def test_what_is_left_of_its_session_is_ended(tmp_path: Path, session: Session, led: bool) -> None:
    words = f"{session.leader.pid} {BOOT} {session.born}"
    if not led:
        session.behead()
    left_over(tmp_path, words).kill_left_over()
    asyncio.run(until_dead(session.program))


def test_a_stranger_who_has_its_number_by_now_is_left_alone(
    tmp_path: Path, session: Session
) -> None:
    pid, boot, born = session.leader.pid, BOOT, session.born
    for words in (
        f"{pid}",
        f"{pid} another-boot {born}",
        f"{pid} {boot} {int(born) - 1}",
        f"{pid} {boot}",
        "",
    ):
        folder = left_over(tmp_path, words)
        folder.kill_left_over()
        time.sleep(0.1)  # a signal takes its time
        assert alive(session.program), words
        assert folder.supervisor_pid() == (pid if words else None)
