"""Admission by memory: a container waits to start until what it will need is free.

Pausing a container never frees its memory, so the only time to act is before it allocates: at its
start. What it will need comes from its label `dure.memory` or from earlier containers of its image.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dure.domain.containers import GpuLoad
from dure.domain.ids import GpuUuid
from dure.domain.units import format_bytes
from dure.node.history import History
from dure.node.tracks import Track
from dure.node.units import Unit


def expected_bytes(track: Track, history: History) -> int | None:
    """Memory a container will need, on each of its GPUs; None: nobody knows."""
    if track.labels.memory_bytes is not None:
        return track.labels.memory_bytes
    peak = history.peak_bytes(track.container.image)
    if peak is None or not track.container.gpus:
        return None
    return -(-peak // len(track.container.gpus))


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a unit cannot start now."""

    needed_bytes: int
    free_bytes: int

    def sentence(self) -> str:
        """For people."""
        return (
            f"it is expected to need {format_bytes(self.needed_bytes)} of GPU memory and "
            f"{format_bytes(max(0, self.free_bytes))} are free"
        )


class Rooms:
    """Memory not yet promised on each GPU."""

    def __init__(self, loads: Mapping[GpuUuid, GpuLoad], reserve_bytes: int) -> None:
        self._free: dict[GpuUuid, int] = {}
        self._total: dict[GpuUuid, int] = {}
        for gpu, load in loads.items():
            if load.memory_used_bytes <= load.memory_total_bytes:
                self._total[gpu] = load.memory_total_bytes - reserve_bytes
                self._free[gpu] = self._total[gpu] - load.memory_used_bytes

    def promise(self, unit: Unit, history: History) -> None:
        """Set aside what a unit that runs has not taken yet."""
        for gpu, needed in self._still_needed(unit, history).items():
            self._free[gpu] -= needed

    def shortage(self, unit: Unit, history: History) -> Shortage | None:
        """What a unit lacks to start; None: it fits, or would not even fit alone."""
        worst: Shortage | None = None
        for gpu, needed in self._still_needed(unit, history).items():
            if needed > self._total[gpu]:
                return None
            free = self._free[gpu]
            if needed > free and (worst is None or needed - free > _lack(worst)):
                worst = Shortage(needed, free)
        return worst

    def _still_needed(self, unit: Unit, history: History) -> dict[GpuUuid, int]:
        """Expected memory beyond what a unit has, on each GPU known."""
        needed: dict[GpuUuid, int] = {}
        for track in unit.tracks:
            expected = expected_bytes(track, history)
            if expected is None:
                continue
            for gpu in track.container.gpus:
                if gpu in self._free:
                    missing = max(0, expected - track.memory_bytes.get(gpu, 0))
                    needed[gpu] = needed.get(gpu, 0) + missing
        return needed


def _lack(shortage: Shortage) -> int:
    return shortage.needed_bytes - shortage.free_bytes


def will_take(unit: Unit, now_ns: int, grace_ns: int, promise_ns: int) -> bool:
    """Whether a unit may still take the memory it is expected to need."""
    ended_ns = unit.activity.ended_ns
    if unit.activity.active:
        return True
    if ended_ns is not None:
        return now_ns - ended_ns < grace_ns
    started_ns = max(track.seen_ns for track in unit.tracks)
    return unit.activity.memory_bytes == 0 and now_ns - started_ns < promise_ns
