"""Looks ahead for all GPUs of an agent, in a thread of its own: readings in, risks to the GPUs.

A tick only leaves its readings in a short queue, and whoever reads a GPU's gauges does the same;
twice a second they are taken from there. A queue that overflowed loses the oldest, which a
detector takes for a pause. Whatever goes wrong here is logged and tried again: nothing waits
for it.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dure.agent.actor import Actor
from dure.agent.gpu import Gpu
from dure.agent.telemetry.ports import Gauges
from dure.devices.nvml_gauges import GpuGauges
from dure.domain.errors import DureError
from dure.domain.events import ReadingsTaken, RiskCleared, RiskRaised
from dure.telemetry.signs import DeviceReading
from dure.telemetry.watch import RiskEvent, RiskWatch

_log = logging.getLogger(__name__)

_ROUND_S = 0.5
_KEPT_GAUGES = 64
_HZ_PER_MHZ = 1e6


@dataclass(slots=True)
class Foresight:
    """Foresees risks on all GPUs of an agent."""

    actors: Sequence[Actor]
    clock: Callable[[], int] = time.monotonic_ns
    listeners: list[Callable[[str, ReadingsTaken | RiskRaised | RiskCleared], None]] = field(
        default_factory=list
    )
    """Who else hears of what was read and foreseen, by the GPU's UUID."""
    _watches: dict[str, RiskWatch] = field(default_factory=dict)
    _gauges: dict[int, deque[GpuGauges]] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._run, name="foresight", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)

    def listening(self, gauges: Gauges) -> Gauges:
        """The same gauges; what is read of them is heard here too."""
        for actor in self.actors:
            self._gauges[actor.gpu.identity.index] = deque(maxlen=_KEPT_GAUGES)
        return _Heard(gauges, self._gauges)

    def _run(self) -> None:
        while not self._stop.wait(_ROUND_S):
            for actor in self.actors:
                try:
                    self.look(actor)
                except Exception:  # noqa: BLE001, logged with its trace
                    _log.exception("GPU %d: looking ahead failed", actor.gpu.identity.index)

    def look(self, actor: Actor) -> None:
        """Take in what was read since last time, and tell the GPU what is foreseen."""
        gpu = actor.gpu
        watch = self._watches.get(actor.uuid)
        if watch is None:
            watch = RiskWatch(gpu.identity.profile.memory_bytes, actor.uuid)
            self._watches[actor.uuid] = watch
        tenants = {seat.tenant.id: seat.tenant for seat in tuple(gpu.seats.values())}
        for gone in set(watch.tenants) - set(tenants):
            watch.unfollow(gone)
        for tenant in tenants.values():
            self._tell(actor, watch.follow(self.clock(), tenant))
        while gpu.taken:
            event = gpu.taken.popleft()
            for listener in self.listeners:
                listener(actor.uuid, event)
            self._tell(actor, watch.observe(event.now_ns, event.readings))
        heard = self._gauges.get(gpu.identity.index, ())
        while heard:
            seen = heard.popleft()
            if seen.memory_used_bytes is not None and seen.memory_bytes is not None:
                memory = (seen.memory_used_bytes, seen.memory_bytes)
                self._tell(actor, watch.observe_memory(self.clock(), *memory))
            reading = _device_reading(seen)
            if reading is not None:
                self._tell(actor, watch.observe_device(self.clock(), reading))

    def _tell(self, actor: Actor, events: Iterable[RiskEvent]) -> None:
        for event in events:
            for listener in self.listeners:
                listener(actor.uuid, event)
            try:
                actor.call(_heeding(event))
            except DureError as error:
                _log.warning("a risk was not heeded: %s", error)


@dataclass(frozen=True, slots=True)
class _Heard:
    """Gauges that are overheard."""

    gauges: Gauges
    queues: dict[int, deque[GpuGauges]]

    def read(self, index: int) -> GpuGauges:
        """Look at one GPU."""
        seen = self.gauges.read(index)
        queue = self.queues.get(index)
        if queue is not None:
            queue.append(seen)
        return seen

    def close(self) -> None:
        """Give them back."""
        self.gauges.close()


def _device_reading(seen: GpuGauges) -> DeviceReading | None:
    """What signs are looked for in; None where the GPU does not say enough."""
    hertz = seen.clocks_hz.get("sm")
    if seen.utilization is None or hertz is None:
        return None
    copied = None
    if seen.pcie_in_bytes_per_s is not None and seen.pcie_out_bytes_per_s is not None:
        copied = seen.pcie_in_bytes_per_s + seen.pcie_out_bytes_per_s
    work = None
    if seen.sm_active is not None and seen.utilization > 0.0:
        work = seen.sm_active / seen.utilization
    held_back = any((seen.throttled or {}).values())
    return DeviceReading(seen.utilization, hertz / _HZ_PER_MHZ, held_back, work, copied)


def _heeding(event: RiskEvent) -> Callable[[Gpu], None]:
    return lambda gpu: gpu.heed(event)
