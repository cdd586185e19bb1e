"""Hands samples to a store from a thread of its own; whoever measures never waits for it.

A store that is away is asked again, less and less often, while what is measured is kept up to a
bound; past it the oldest goes first, which is said once and counted.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from dure.domain.errors import DureError
from dure.domain.series import Fault, Sample
from dure.kit.backoff import Backoff
from dure.stores.series.gate import Gate
from dure.stores.series.ports import SeriesStore

_log = logging.getLogger(__name__)

_JOIN_S = 10.0
_AT_ONCE = 50_000
"""Samples in one write: more would make a store that is back wait for a moment."""


class Tell(Protocol):
    """Where trouble and its end are said to people."""

    def __call__(self, text: str, /) -> None: ...


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """How often and how much."""

    flush_s: float = 1.0
    tend_s: float = 5.0
    most_waiting: int = 200_000
    """Samples in memory while the store is away: about 20 MB."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of samples so far."""

    written: int
    waiting: int
    series: int
    faults: dict[Fault, int]
    trouble: str
    """Why the store is away; empty: it is not."""
    cpu_s: float = 0.0
    """Processor time of writing and tending."""


@dataclass(slots=True)
class Recorder:
    """One store's writer. `add` may be called from any thread."""

    store: SeriesStore
    gate: Gate = field(default_factory=Gate)
    settings: RecorderSettings = field(default_factory=RecorderSettings)
    tell: Tell = _log.warning
    _waiting: deque[Sample] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _written: int = 0
    _faults: Counter[Fault] = field(default_factory=Counter)
    _trouble: str = ""
    _dropping: bool = False
    _cpu_s: float = 0.0

    def start(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._run, name="series", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, if the store takes it, and end."""
        self._end.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)
        self.store.close()

    def add(self, samples: Iterable[Sample]) -> None:
        """Take samples; never waits, never fails."""
        with self._lock:
            self._waiting.extend(self.gate.passed(samples))
            over = len(self._waiting) - self.settings.most_waiting
            for _ in range(over):
                self._waiting.popleft()
        if over > 0:
            self._faults[Fault.OVERFLOW] += over
            if not self._dropping:
                self._dropping = True
                self.tell(
                    f"series are lost, the oldest first: {self.settings.most_waiting:,} samples "
                    f"wait for a store that is away ({self._trouble or 'it is slow'})"
                )

    def recorded(self) -> Recorded:
        """How it stands."""
        with self._lock:
            faults = dict(self._faults + self.gate.faults)
            return Recorded(
                self._written,
                len(self._waiting),
                self.gate.series,
                faults,
                self._trouble,
                self._cpu_s,
            )

    def flush(self) -> None:
        """Hand over what waits; raises `SeriesError` where the store is away."""
        while True:
            with self._lock:
                count = min(len(self._waiting), _AT_ONCE)
                batch = [self._waiting.popleft() for _ in range(count)]
            if not batch:
                return
            try:
                lost = self.store.write(batch)
            except BaseException:
                self._take_back(batch)
                raise
            with self._lock:
                self._written += len(batch) - lost
                self._faults[Fault.TIME] += lost

    def _take_back(self, batch: list[Sample]) -> None:
        with self._lock:
            room = self.settings.most_waiting - len(self._waiting)
            kept = batch[max(0, len(batch) - room) :]
            self._faults[Fault.OVERFLOW] += len(batch) - len(kept)
            self._waiting.extendleft(reversed(kept))

    def _run(self) -> None:
        backoff = Backoff()
        since_tend_s, wait_s = 0.0, self.settings.flush_s
        while not self._end.wait(wait_s):
            since_tend_s += wait_s
            try:
                self.flush()
                if since_tend_s >= self.settings.tend_s:
                    since_tend_s = self.settings.tend_s if self.store.tend() else 0.0
            except DureError as error:
                self._is_away(str(error))
                wait_s = max(self.settings.flush_s, backoff.next_s())
            except Exception:  # noqa: BLE001, measuring must not end for a bug in keeping
                _log.exception("series are not kept for the moment")
                self._is_away("it failed; see the log")
                wait_s = max(self.settings.flush_s, backoff.next_s())
            else:
                self._is_back()
                backoff.reset()
                wait_s = self.settings.flush_s
            self._cpu_s = time.thread_time()
        self._finish(self.flush)

    def _finish(self, act: Callable[[], None]) -> None:
        try:
            act()
        except DureError as error:
            _log.warning("the last samples are lost: %s", error)

    def _is_away(self, why: str) -> None:
        if not self._trouble:
            self.tell(f"series wait in memory: {why}")
        self._trouble = why

    def _is_back(self) -> None:
        if self._trouble:
            self.tell("series are kept again")
        self._trouble, self._dropping = "", False
