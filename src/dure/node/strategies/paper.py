"""Strategies `paper` and `paper-window`: Algorithm 2 of the paper, read as ADR 14 says.

First come, first served by the start of the GPU process. The first goes, the others are paused when
their memory rises above 0; while the GPU is used below 100 % one more is let in each round of the
loop; above 95 % of memory the last one let in is paused. `paper` takes the paper's 60 ms for a
round, `paper-window` waits for one window of NVML's samples, so that it sees what the last one did.
"""

from dataclasses import dataclass, field

from dure.domain.containers import PauseWay
from dure.domain.ids import GpuUuid
from dure.node.strategies.base import GpuState, Plan, Say, Scene, Verdict
from dure.node.units import Unit, UnitKey

FULL = 0.995
"""NVML counts whole percents: this reads 100 %."""


@dataclass(slots=True)
class PaperStrategy:
    """The paper's manager; `whole_window` is the variant that waits between unpauses."""

    name: str = "paper"
    whole_window: bool = False
    prefers: PauseWay | None = PauseWay.DOCKER
    _running: dict[GpuUuid, list[UnitKey]] = field(default_factory=dict)
    """Tasks let in on each GPU, in that order: the paper's `num of running task`."""
    _unpaused_ns: dict[GpuUuid, int] = field(default_factory=dict)
    _last: dict[GpuUuid, UnitKey] = field(default_factory=dict)
    """Paused again for memory: the last one that was let in."""

    def plan(self, scene: Scene) -> Plan:
        """Let in or pause on each GPU apart; who must wait on one of its GPUs waits."""
        verdicts: dict[UnitKey, Verdict] = {}
        wakes: list[int] = []
        for gpu, state in scene.gpus.items():
            tasks = [unit for unit in scene.units if gpu in unit.gpus and _is_in(unit, gpu)]
            opening = not any(unit.key in self._running.get(gpu, ()) for unit in tasks)
            wake_ns = self._manage(scene, gpu, state, tasks)
            if wake_ns is not None:
                wakes.append(wake_ns)
            pausing = opening or state.load.utilization >= FULL
            for unit in tasks:
                verdict = self._verdict(gpu, unit, pausing)
                if verdict is not None and (unit.key not in verdicts or verdict.say.holds):
                    verdicts[unit.key] = verdict
        waiting = [unit for unit in scene.units if _waits(verdicts.get(unit.key))]
        waiting.sort(key=Unit.start_order)
        return Plan(verdicts, tuple(unit.key for unit in waiting), min(wakes, default=None))

    def _manage(self, scene: Scene, gpu: GpuUuid, state: GpuState, tasks: list[Unit]) -> int | None:
        """One round for one GPU (lines 3 to 22); returns when the next one is due."""
        tasks.sort(key=Unit.start_order)
        present = {unit.key for unit in tasks}
        running = [key for key in self._running.get(gpu, []) if key in present]
        self._running[gpu] = running
        outside = [unit.key for unit in tasks if unit.key not in running]
        if not outside:
            return None
        if not running:
            running.append(outside.pop(0))
            self._unpaused_ns[gpu] = scene.now_ns
        if state.load.utilization >= FULL or not outside:
            return None
        settings = scene.settings
        between_ns = settings.window_ns if self.whole_window else settings.paper_loop_ns
        due_ns = self._unpaused_ns.get(gpu, scene.now_ns) + between_ns
        if scene.now_ns < due_ns:
            return due_ns
        self._unpaused_ns[gpu] = scene.now_ns
        load = state.load
        if load.memory_used_bytes > settings.paper_memory_share * load.memory_total_bytes:
            if len(running) > 1:
                self._last[gpu] = running.pop()
            return None
        running.append(outside.pop(0))
        return scene.now_ns + between_ns if outside else None

    def _verdict(self, gpu: GpuUuid, unit: Unit, pausing: bool) -> Verdict | None:
        running = self._running[gpu]
        if unit.key in running:
            place = running.index(unit.key) + 1
            return Verdict(Say.GO, f"number {place} of those let in, first come, first served")
        if pausing or unit.gripped or self._last.get(gpu) == unit.key:
            return Verdict(Say.WAIT, "others came before it and the GPU is in use")
        # Lines 5 and 15 pause newcomers at 100 % or when nobody ran: else they run until then.
        return None


def _is_in(unit: Unit, gpu: GpuUuid) -> bool:
    """The paper's sign of work: memory above 0."""
    return any(track.memory_bytes.get(gpu, 0) > 0 for track in unit.tracks)


def _waits(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.say.holds
