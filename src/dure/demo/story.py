"""The story as it happens: who said what when, and what was measured meanwhile."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from rich.console import Console
from rich.text import Text

from dure.demo.processes import DemoError

_LOOK_S = 0.2


class Level(Enum):
    """Of what a line tells."""

    KERNEL = "kernel"
    NODE = "node"
    FLEET = "fleet"
    DEMO = "demo"


_STYLES = {
    Level.KERNEL: "magenta",
    Level.NODE: "yellow",
    Level.FLEET: "cyan",
    Level.DEMO: "dim",
}


@dataclass(frozen=True, slots=True)
class Beat:
    """One thing that happened, with its reason."""

    at_s: float
    level: Level
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured at one moment; None: not known."""

    at_s: float
    asked_per_s: float
    latency_ms: float | None
    """Of the service, at the percentile that is promised."""
    worst_ms: float | None
    """The same at the 99th percentile, of the last seconds alone."""
    on_time: float | None
    policy: str
    train_at: str
    prices: dict[str, float]
    """Of a device for an hour, by cluster."""


@dataclass(slots=True)
class Story:
    """Told on the terminal line by line, and kept for the report."""

    console: Console
    beats: list[Beat] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    _began_s: float = field(default_factory=time.monotonic)

    @property
    def now_s(self) -> float:
        """Since the begin."""
        return time.monotonic() - self._began_s

    def tell(self, level: Level, what: str, why: str = "") -> None:
        """One line, at once."""
        beat = Beat(self.now_s, level, what, why)
        self.beats.append(beat)
        line = Text(f"{beat.at_s:6.1f} s  ", "dim")
        line.append(f"{level.value:<7}", _STYLES[level])
        line.append(what, "" if level is Level.DEMO else "bold")
        if why:
            line.append(f": {why}", "dim" if level is Level.DEMO else "")
        self.console.print(line, soft_wrap=True, highlight=False)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show that something is waited for, where there is a terminal to show it on."""
        if not self.console.is_terminal:
            yield
            return
        with self.console.status(what):
            yield

    def until(self, what: str, check: Callable[[], bool], limit_s: float) -> None:
        """Wait for something, not longer than a limit; else the demo has failed and says so."""
        end = time.monotonic() + limit_s
        with self.waiting(f"waiting for {what}"):
            while not check():
                if time.monotonic() > end:
                    raise DemoError(
                        f"{what} did not come within {limit_s:g} s",
                        "run it again on a machine with less to do; --keep leaves the logs",
                    )
                time.sleep(_LOOK_S)


@dataclass(slots=True)
class Sampler:
    """Measures twice a second, in a thread of its own, until it is stopped."""

    take: Callable[[], Sample | None]
    into: list[Sample]
    period_s: float = 0.5
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> "Sampler":
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self.period_s + 5.0)

    def _run(self) -> None:
        while not self._stop.wait(self.period_s):
            sample = self.take()
            if sample is not None:
                self.into.append(sample)
