"""What happened lately, for people: a bounded list that any thread may add to, also logged."""

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from dure.client.schema import EventLine
from dure.domain.signals import Signal, SignalKind
from dure.domain.units import format_bytes, format_duration
from dure.kernel.goal_words import share_words

_log = logging.getLogger("dure.agent")

_KEPT = 300


@dataclass(slots=True)
class EventLog:
    """The newest few hundred events."""

    _lines: deque[EventLine] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(
        self, kind: str, text: str, *, gpu: str | None = None, tenant: str | None = None
    ) -> None:
        """Note something, now."""
        line = EventLine(at_unix_s=time.time(), kind=kind, gpu=gpu, tenant=tenant, text=text)
        with self._lock:
            self._lines.append(line)
        _log.info("%s: %s", kind, text)

    def lines(self) -> tuple[EventLine, ...]:
        """Oldest first."""
        with self._lock:
            return tuple(self._lines)


def signal_words(signal: Signal) -> str:
    """What a machine noticed, with its figures in the units people use."""
    measured, expected = signal.measured, signal.expected
    match signal.kind:
        case SignalKind.LATENCY_AT_RISK:
            what = f"latency at risk, {format_duration(measured)} of {format_duration(expected)}"
        case SignalKind.THROUGHPUT_AT_RISK:
            what = f"throughput at risk, {share_words(round(measured, 3))} of what was promised"
        case SignalKind.AVAILABILITY_AT_RISK:
            what = (
                f"availability at risk, {share_words(round(measured, 4))} "
                f"of {share_words(round(expected, 4))}"
            )
        case SignalKind.DEADLINE_AT_RISK:
            what = (
                f"deadline at risk, {format_duration(measured)} of work left "
                f"and {format_duration(expected)} of time"
            )
        case _:
            what = (
                f"a memory limit of {format_bytes(measured)} would do, "
                f"it may take {format_bytes(expected)}"
            )
    return f"{signal.tenant}: {what}"
