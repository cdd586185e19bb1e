"""Processes of a fleet that a test kills, freezes and starts again, and when each is ready."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from tests.kube.programs import Program

DURE = (sys.executable, "-c", "from dure.cli.main import main; main()")
WAIT_S = 120.0
"""For what takes seconds on an idle machine."""
_LOOK_S = 0.05


def wait_for(what: str, holds: Callable[[], object], limit_s: float = WAIT_S) -> float:
    """Look again and again until it holds; how long that took."""
    began_s = time.monotonic()
    while not holds():
        assert time.monotonic() - began_s < limit_s, f"after {limit_s:.0f} s still not: {what}"
        time.sleep(_LOOK_S)
    return time.monotonic() - began_s


@dataclass(eq=False)
class Part:
    """One process that shall run, except while a fault has it."""

    program: Program
    ready: Callable[[], bool]
    """Whether it serves, once it runs."""
    name: str = ""
    """What people call it; empty: as its program."""
    wanted: bool = False
    frozen: bool = False
    logged_bytes: int = 0
    """Of its log before its present life."""
    deaths: list[str] = field(default_factory=list)
    """Ends that no fault brought about."""
    restless: bool = False
    """Whether it may end by itself after a kill and be started once more, as PostgreSQL does."""

    def __post_init__(self) -> None:
        self.name = self.name or self.program.name

    def start(self) -> None:
        """Start it, without a wait; from the main thread."""
        if self.program.runs:
            return
        file = self.program.log_file
        self.logged_bytes = file.stat().st_size if file.exists() else 0
        self.wanted = True
        self.program.start()

    def kill(self) -> None:
        """End it with -9."""
        self.wanted = False
        self.program.kill()
        self.frozen = False

    def freeze(self) -> None:
        """Stop it where it is."""
        if self.program.runs:
            self.program.freeze()
            self.frozen = True

    def thaw(self) -> None:
        """Let it go on."""
        if self.frozen and self.program.runs:
            self.program.thaw()
        self.frozen = False

    def tend(self) -> None:
        """Start it again where it ended by itself; that is noted unless it may."""
        if not self.wanted or self.program.runs:
            return
        if not self.restless:
            self.deaths.append(f"{self.name} ended by itself: {self.said()[-600:]}")
        self.start()

    def said(self) -> str:
        """What it wrote in its present life."""
        with self.program.log_file.open("rb") as log:
            log.seek(self.logged_bytes)
            return log.read().decode(errors="replace")

    @property
    def is_ready(self) -> bool:
        """Whether it runs and serves."""
        return self.program.runs and not self.frozen and self.ready()


def dure_part(
    name: str, folder: Path, words: Sequence[object], ready: Callable[[], bool], prefix: list[str]
) -> Part:
    """A `dure` command that goes on."""
    return Part(Program(name, [*prefix, *DURE, *words], folder), ready)


class Background:
    """A thread that does something again and again; what it raises fails the test."""

    def __init__(
        self, name: str, work: Callable[[], None], pause_s: float, *, once: bool = False
    ) -> None:
        self._work = work
        self._pause_s = pause_s
        self._once = once
        self._end = Event()
        self.error: BaseException | None = None
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                self._work()
            except BaseException as error:  # noqa: BLE001 - raised where the test waits
                self.error = error
                return
            if self._once:
                return
            self._end.wait(self._pause_s)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def finished(self) -> bool:
        """Whether it does nothing any more."""
        self.check()
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raise what it raised."""
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """End, and raise what it raised."""
        self._end.set()
        self._thread.join(WAIT_S)
        self.check()


@contextmanager
def background(
    name: str, work: Callable[[], None], pause_s: float, *, once: bool = False
) -> Iterator[Background]:
    """Work beside the test."""
    made = Background(name, work, pause_s, once=once)
    made.start()
    try:
        yield made
    finally:
        made.stop()
