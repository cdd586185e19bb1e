"""The programs of a Kubernetes cluster: found, started, killed, started again."""

import functools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REQUIRE_VARIABLE = "DURE_REQUIRE_KUBE"
"""Set to 1 where no test may be left out for want of Kubernetes, as in CI; to `all`: nor for want
of Helm or Kueue, which take long to build."""

LIMIT_S = 300.0
"""Generous: a cluster starts in ten seconds, on a machine with ten times the work in 100."""
_LOOK_S = 0.05


@functools.cache
def _search() -> tuple[dict[str, Path], str]:
    found = subprocess.run(
        [str(ROOT / "tools" / "build_kube"), "--find"],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    if found.returncode != 0:
        return {}, found.stderr.strip().splitlines()[-1]
    return {Path(line).name: Path(line) for line in found.stdout.splitlines()}, ""


def kube_programs() -> dict[str, Path]:
    """Every program by name; skips the test, or fails it where they are required."""
    programs, reason = _search()
    if reason and os.environ.get(REQUIRE_VARIABLE):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    return programs


def wait_until(what: str, holds: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Look again and again until it holds; fails past the limit."""
    until = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < until, f"after {limit_s:.0f} s still not: {what}"
        time.sleep(_LOOK_S)


class Program:
    """One process of a cluster, with its log; the same again after it was killed."""

    def __init__(self, name: str, command: Sequence[object], folder: Path) -> None:
        self.name = name
        self.command = [str(word) for word in command]
        self.log_file = folder / f"{name}.log"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, from the main thread: it dies with the thread. Does nothing where it runs."""
        if self.runs:
            return
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                # So that a killed test leaves no cluster behind.
                ["setpriv", "--pdeathsig", "KILL", *self.command],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of its process, which must run."""
        assert self._process is not None
        assert self.runs, f"{self.name} has ended: {self.log()[-2000:]}"
        return self._process.pid

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it by a signal and wait until it is gone; does nothing where it is."""
        if self._process is None:
            return
        if self.runs:
            self._process.send_signal(number)
        self._process.wait(LIMIT_S)

    def freeze(self) -> None:
        """Stop it where it is, as a machine that hangs would."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen one go on."""
        os.kill(self.pid, signal.SIGCONT)

    def rss_bytes(self) -> int:
        """Memory it holds now."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"{self.name} has no memory to speak of")

    def log(self) -> str:
        """What it wrote, over all its lives."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")
