"""A watchdog, something that pauses, and containers whose standing still is seen."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from dure.runtimes.journal_records import Owed, read
from tests.docker_bed import Bed, Ticker


class Container(Protocol):
    """Anything with a container's id."""

    @property
    def id(self) -> str: ...


ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120.0


class ThawWorld:
    """Processes over one folder."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        self.bed = bed
        self.folder = folder
        self.environment: dict[str, str] = {}
        self.running: list[subprocess.Popen[str]] = []

    def start_watchdog(self, *options: str) -> subprocess.Popen[str]:
        """A watchdog that is ready."""
        process = self._start("dure.agent.containers.watchdog", str(self.folder), *options)
        wait_for("the watchdog", (self.folder / "watchdog.sock").exists)
        return process

    def start_pausing(
        self, tickers: Sequence[Container], ways: str = "docker", **more: str
    ) -> subprocess.Popen[str]:
        """A pauser that says "ready" before its first pause."""
        process = self._start(
            "tests.faults.pausing",
            *(str(self.folder), self.bed.url, ways),
            *(ticker.id for ticker in tickers),
            **more,
        )
        said = self.next_line(process)
        assert said == "ready", said
        return process

    def start_holding(
        self, tickers: Sequence[Container], ways: str = "docker", **more: str
    ) -> subprocess.Popen[str]:
        """A pauser that has paused everything and waits."""
        process = self.start_pausing(tickers, ways, HOLD="1", **more)
        assert self.next_line(process) == "held"
        return process

    def owed(self) -> tuple[Owed, ...]:
        """What the journal owes."""
        return read(self.folder / "journal")

    def next_line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def _start(self, module: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
        with (self.folder / f"{module.rpartition('.')[2]}.err").open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env=os.environ | {"PYTHONPATH": str(ROOT)} | self.environment | more,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def errors(self) -> str:
        """What the processes wrote to standard error."""
        return "".join(
            file.read_text(encoding="utf-8", errors="replace")
            for file in sorted(self.folder.glob("*.err"))
        )

    def close(self) -> None:
        """End everything started here."""
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            if process.stdout is not None and not process.stdout.closed:
                process.communicate()


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL, and gone."""
    process.kill()
    process.communicate(timeout=LIMIT_S)


def wait_for(what: str, check: Callable[[], object], limit_s: float = LIMIT_S) -> float:
    """Seconds until a check came true; fails with words after the limit."""
    began = time.monotonic()
    while not check():
        if time.monotonic() - began > limit_s:
            raise AssertionError(f"{what} did not happen within {limit_s:g} s")
        time.sleep(0.01)
    return time.monotonic() - began


def frozen(ticker: Ticker) -> bool:
    """Whether its cgroup is frozen: what the kernel says, not Docker."""
    state = Path(f"/sys/fs/cgroup/freezer/docker/{ticker.id}/freezer.state")
    if state.exists():
        return state.read_text(encoding="ascii").strip() != "THAWED"
    freeze = next(Path("/sys/fs/cgroup").glob(f"**/*{ticker.id}*/cgroup.freeze"))
    return freeze.read_text(encoding="ascii").strip() != "0"


def docker_says(ticker: Ticker) -> str:
    """Docker's word for its state."""
    ticker.container.reload()
    return str(ticker.container.status)
