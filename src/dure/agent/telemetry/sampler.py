"""The loop that measures: takes a reading of each layer, hands it on, keeps the newest to show.

It runs in a thread of its own and asks each GPU's thread for copies of its sums. A layer that fails
says nothing until it works again; the others go on.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from dure.agent.telemetry.ports import Layer, Readings, SeriesKeeper
from dure.domain.metrics import own as m
from dure.domain.metrics.kinds import Reading, Spread
from dure.domain.series import Fault
from dure.stores.series.exposition import Sampling

_log = logging.getLogger(__name__)

_JOIN_S = 10.0
_FRESH_PERIODS = 3.0
"""A reading older than so many periods is not shown: the loop hangs."""


@dataclass(slots=True)
class Sampler:
    """Reads all layers again and again."""

    layers: tuple[Layer, ...]
    keeper: SeriesKeeper | None
    """None: nothing is kept, only shown."""
    period_s: float
    _sampling: Sampling = field(default_factory=Sampling)
    _failures: Counter[str] = field(default_factory=Counter)
    _failing: set[str] = field(default_factory=set)
    _took_s: dict[str, float] = field(default_factory=dict)
    _cpu_s: float = 0.0
    _newest: tuple[float, Readings] = (-1e9, ())
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._end.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def shown(self) -> Readings:
        """The newest readings, unless they are old; and how measuring itself does."""
        taken_s, readings = self._newest
        fresh = time.monotonic() - taken_s <= _FRESH_PERIODS * self.period_s
        return [*(readings if fresh else ()), *self._own()]

    def measure(self) -> None:
        """One reading of everything."""
        readings: list[Reading | Spread] = []
        for layer in self.layers:
            began_s = time.monotonic()
            try:
                readings += layer.read()
            except Exception as error:  # noqa: BLE001, no layer is worth the others
                self._failed(layer.name, error)
                continue
            self._failing.discard(layer.name)
            self._took_s[layer.name] = time.monotonic() - began_s
        self._newest = (time.monotonic(), readings)
        if self.keeper is not None:
            now_ms = time.time_ns() // 1_000_000
            self.keeper.add(self._sampling.samples([*readings, *self._own()], now_ms))

    def _failed(self, layer: str, error: Exception) -> None:
        self._failures[layer] += 1
        self._took_s.pop(layer, None)
        if layer not in self._failing:
            self._failing.add(layer)
            _log.warning("layer %s says nothing for now: %s", layer, error)

    def _own(self) -> Iterator[Reading]:
        for name, took_s in list(self._took_s.items()):
            yield Reading(m.READ_SECONDS, (name,), took_s)
        for layer in self.layers:
            yield Reading(m.READ_FAILURES, (layer.name,), float(self._failures[layer.name]))
        yield Reading(m.CPU, ("measure",), self._cpu_s)
        if self.keeper is None:
            return
        recorded = self.keeper.recorded()
        yield Reading(m.CPU, ("keep",), recorded.cpu_s)
        yield Reading(m.SAMPLES_WRITTEN, (), float(recorded.written))
        for fault in Fault:
            yield Reading(m.SAMPLES_LOST, (fault.value,), float(recorded.faults.get(fault, 0)))
        yield Reading(m.SAMPLES_WAITING, (), float(recorded.waiting))
        yield Reading(m.SERIES_KNOWN, (), float(recorded.series))
        yield Reading(m.STORE_UP, (), float(not recorded.trouble))

    def _run(self) -> None:
        next_s = time.monotonic()
        while not self._end.wait(max(0.0, next_s - time.monotonic())):
            self.measure()
            self._cpu_s = time.thread_time()
            next_s = max(next_s + self.period_s, time.monotonic())
