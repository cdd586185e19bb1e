"""The heartbeat: a light thread that keeps tenants gated only while deciding is alive.

It beats whatever the deciding threads do, since a slow plan is no reason to open the gate. A GPU
whose thread has not come round for long gets its gate opened instead; when the process dies, so
does the beat, and tenants pass by themselves.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_log = logging.getLogger(__name__)

_BEAT_S = 0.01
STUCK_NS = 2_000_000_000
"""A tick that takes this long is taken for a hang."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """One GPU, as the heart sees it."""

    beat: Callable[[int], None]
    last_round_ns: Callable[[], int]
    open_gate: Callable[[], None]


@dataclass(slots=True)
class Heart:
    """Beats for all GPUs of an agent."""

    pulses: Sequence[Pulse]
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Beat once, so that nobody sees a cold page, and go on."""
        self._beat()
        self._thread = threading.Thread(target=self._run, name="heart", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Beat no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stop.wait(_BEAT_S):
            try:
                self._beat()
            except Exception:  # noqa: BLE001, logged with its trace
                _log.exception("the heartbeat met something unexpected and goes on")

    def _beat(self) -> None:
        now_ns = time.monotonic_ns()
        for pulse in self.pulses:
            if now_ns - pulse.last_round_ns() > STUCK_NS:
                pulse.open_gate()
            pulse.beat(now_ns)
