"""Starts the parts of the demo as a user would, and leaves none of them behind.

Members start programs that outlive them, agents start brokers of emulated GPUs. All of them are
descendants of this process: it adopts whoever loses its parent (`PR_SET_CHILD_SUBREAPER`), so that
at the end it finds every one of them in /proc, by itself or through its parents.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dure.domain.errors import DureError

DURE = (sys.executable, "-c", "from dure.cli.main import main; main()")
_SET_SUBREAPER = 36  # of prctl(2)
_LOOK_S = 0.05
_GRACE_S = 6.0
"""From the request to end until it is killed."""
_KILL_S = 10.0
_SHOWN_LINES = 5
_FULL_BYTES = 1 << 20


class DemoError(DureError):
    """A part of the demo did not come up, or a step of the story did not come."""


@dataclass(slots=True)
class Troupe:
    """Processes of the demo by name, each with a log in one folder."""

    folder: Path
    env: Mapping[str, str]
    _running: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        ctypes.CDLL(None).prctl(_SET_SUBREAPER, 1, 0, 0, 0)

    def start(
        self,
        name: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        out: Path | None = None,
        nice: int = 0,
    ) -> None:
        """A `dure` command; `out`: where it prints to, if not to its log."""
        line = ("nice", "-n", str(nice), *DURE) if nice else DURE
        with self.log(name).open("ab") as log, (out or self.log(name)).open("ab") as printed:
            self._running[name] = subprocess.Popen(
                [*line, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=log,
                start_new_session=True,
                env={**self.env, **(env or {})},
            )

    def log(self, name: str) -> Path:
        """What one wrote."""
        return self.folder / f"{name}.log"

    def exit_code(self, name: str) -> int | None:
        """How one ended; None: it runs."""
        return self._running[name].poll()

    def refuse_dead(self) -> None:
        """Raise where one that must go on has ended."""
        for name, process in list(self._running.items()):
            code = process.poll()
            if code:
                raise DemoError(f"`dure {name}` ended with exit code {code}: {self._reason(name)}")

    def _reason(self, name: str) -> str:
        if shutil.disk_usage(self.folder).free < _FULL_BYTES:
            return f"the disk of {self.folder.parent} is full"
        return self.words(name) or "it said nothing"

    def words(self, name: str) -> str:
        """The last of what one wrote, on one line."""
        with contextlib.suppress(OSError):
            lines = self.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
            return " | ".join(line.strip() for line in lines[-_SHOWN_LINES:])
        return ""

    def end(self) -> int:
        """End everything that was started, with all it started; how many had to be killed."""
        for process in self._running.values():
            if process.poll() is None:
                process.terminate()
        _wait_for(lambda: all(each.poll() is not None for each in self._running.values()), _GRACE_S)
        _signal(signal.SIGTERM)
        _wait_for(lambda: not _living(), _GRACE_S)
        killed = len(_living())
        _wait_for(lambda: not _signal(signal.SIGKILL), _KILL_S)
        self._running.clear()
        return killed


def _wait_for(check: Callable[[], bool], limit_s: float) -> bool:
    end = time.monotonic() + limit_s
    while not check():
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_S)
    return True


def _signal(number: int) -> int:
    """Send a signal to all descendants; how many there are."""
    found = _living()
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    return len(found)


def _living() -> list[int]:
    """Descendants of this process that run; those that have ended are buried."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found, ahead = [], [os.getpid()]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def _parents() -> Iterator[tuple[int, int]]:
    """Each process that has not ended, with its parent."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                words = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                if words[0] != "Z":
                    yield int(entry.name), int(words[1])
