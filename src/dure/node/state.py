"""Everything a node machine knows: containers, units, GPUs, what it learned."""

from collections.abc import Callable
from dataclasses import dataclass, field

from dure.domain.containers import Container, GpuLoad, GpuTask, TaskTable
from dure.domain.ids import ContainerId, GpuUuid
from dure.domain.node_events import Missing
from dure.node.activity import RISE_BYTES, SATURATED, WORK_SHARE, Look, Phase
from dure.node.history import Burst, History
from dure.node.settings import NodeSettings
from dure.node.strain import Strains
from dure.node.strategies.base import GpuState
from dure.node.tracks import Track
from dure.node.units import Unit, UnitKey, unit_key

WAITING_POWER_SHARE = 0.35
"""Below this part of its power limit a GPU that looks busy hardly computes.

Ranks of a collective that wait for one another draw some 200 W of an H200's 700.
"""
HEAVY_SHARE = 0.75
"""Who shows this much in a window in which no other job did is one; services showed up to 0.5."""
FULL_SPAN_NS = 1_500_000_000
"""A GPU in use for this long without a gap has none; a training step may take a second."""


@dataclass(slots=True)
class Gpu:
    """One GPU over time."""

    load: GpuLoad
    outside_bytes: int = 0
    outside_works: bool = False
    """A program outside any container shows work on it."""
    slack_ns: int | None = None
    """Since when it has gaps in its use."""
    full_ns: int | None = None
    """Since when it has been in use without a gap."""
    still_ns: int | None = 0
    """Since when nothing happens on it and nobody was let go to it; None: something does."""

    def state(self) -> GpuState:
        """As strategies see it."""
        return GpuState(self.load, self.outside_bytes, self.slack_ns)


@dataclass(slots=True)
class NodeState:
    """The host as it is known now."""

    settings: NodeSettings
    history: History
    now_ns: int = 0
    missing: Missing | None = Missing.WATCHDOG
    """Why nothing may be paused at all; None: it may."""
    tracks: dict[ContainerId, Track] = field(default_factory=dict)
    units: dict[UnitKey, Unit] = field(default_factory=dict)
    gpus: dict[GpuUuid, Gpu] = field(default_factory=dict)
    strains: Strains = field(default_factory=Strains)
    """Risks foreseen for each GPU."""
    freezes_ns: tuple[int, ...] = ()
    """How long the last freezes took to take effect."""

    def add(self, container: Container, found: bool) -> Track:
        """A container began to run, or was found."""
        self.drop(container.id)
        track = Track.start(container, self.now_ns, found)
        self.tracks[container.id] = track
        self._join(track)
        return track

    def retell(self, container: Container) -> None:
        """New facts; a changed project means another unit."""
        track = self.tracks[container.id]
        before = unit_key(track.container)
        track.retell(container)
        if unit_key(container) != before:
            self._leave(before, track)
            self._join(track)
        self.unit_of(track).refresh()

    def drop(self, container: ContainerId) -> None:
        """It ended."""
        track = self.tracks.pop(container, None)
        if track is not None:
            self._leave(unit_key(track.container), track)

    def _join(self, track: Track) -> None:
        key = unit_key(track.container)
        unit = self.units.setdefault(key, Unit(key, arrived_ns=self.now_ns))
        unit.members[track.id] = track
        unit.refresh()
        unit.admitted = unit.admitted or track.found

    def _leave(self, key: UnitKey, track: Track) -> None:
        unit = self.units[key]
        # The end of a container is the end of its burst, seen at once.
        track.memory_bytes.clear()
        track.share.clear()
        self._look(unit, self._crowds())
        del unit.members[track.id]
        unit.refresh()
        if not unit.members:
            del self.units[key]

    def unit_of(self, track: Track) -> Unit:
        """The unit a container belongs to."""
        return self.units[unit_key(track.container)]

    def count(self, counts: Callable[[Unit], bool]) -> Callable[[Unit], int]:
        """How many units of a kind share a GPU with one, itself left out, at most on one GPU."""
        found: dict[GpuUuid, int] = {}
        kind = {unit.key: counts(unit) for unit in self.units.values() if unit.gpus}
        for key, is_one in kind.items():
            if is_one:
                for gpu in self.units[key].gpus:
                    found[gpu] = found.get(gpu, 0) + 1

        def others(unit: Unit) -> int:
            own = kind.get(unit.key, False)
            return max((found.get(gpu, 0) - own for gpu in unit.gpus), default=0)

        return others

    # The monitor's tables

    def take(self, table: TaskTable) -> None:
        """Learn from one table."""
        for track in self.tracks.values():
            track.memory_bytes.clear()
            track.share.clear()
            track.oldest_ticks = 0
        moved = self._spread(table)
        for load in table.gpus:
            self._take_load(load, load.gpu in moved)
        for gone in self.gpus.keys() - {load.gpu for load in table.gpus}:
            del self.gpus[gone]
        crowds = self._crowds()
        rivals = self.count(lambda unit: unit.activity.phase is Phase.COMPUTE)
        lag_ns = max(0, self.now_ns - table.taken_ns)
        for unit in self.units.values():
            if unit.gpus:
                self._look(unit, crowds, rivals(unit), lag_ns)

    def _crowds(self) -> dict[GpuUuid, float]:
        """How many compute on each GPU; who uses only part of the time counts as that part."""
        crowds: dict[GpuUuid, float] = {}
        for unit in self.units.values():
            for gpu in unit.gpus:
                crowds[gpu] = crowds.get(gpu, 0.0) + _part(unit)
        return crowds

    def _spread(self, table: TaskTable) -> set[GpuUuid]:
        """Give each task to its container; returns the GPUs that tasks show life on."""
        total = {load.gpu: load.memory_total_bytes for load in table.gpus}
        outside: dict[GpuUuid, list[GpuTask]] = {}
        alive: set[GpuUuid] = set()
        for task in table.tasks:
            track = self.tracks.get(task.container) if task.container is not None else None
            if task.sm_share > WORK_SHARE and not (track is not None and track.gripped):
                alive.add(task.gpu)
            if track is None:
                outside.setdefault(task.gpu, []).append(task)
                continue
            # A driver that does not match its library reports more memory than there is.
            size = max(0, min(task.memory_bytes, total.get(task.gpu, task.memory_bytes)))
            track.memory_bytes[task.gpu] = track.memory_bytes.get(task.gpu, 0) + size
            track.share[task.gpu] = min(1.0, track.share.get(task.gpu, 0.0) + task.sm_share)
            track.shimmed = track.shimmed or task.tenant is not None
            started = task.started_ticks
            track.started_ticks = min(track.started_ticks or started, started)
            track.oldest_ticks = min(track.oldest_ticks or started, started)
            track.newest_ticks = max(track.newest_ticks, started)
        for gpu, known in self.gpus.items():
            tasks = outside.get(gpu, [])
            known.outside_bytes = sum(max(0, task.memory_bytes) for task in tasks)
            known.outside_works = any(task.sm_share > WORK_SHARE for task in tasks)
        return alive

    def _take_load(self, load: GpuLoad, alive: bool) -> None:
        known = self.gpus.get(load.gpu)
        if known is None:
            known = self.gpus[load.gpu] = Gpu(load, still_ns=self.now_ns)
        moved = abs(load.memory_used_bytes - known.load.memory_used_bytes) >= RISE_BYTES
        known.load = load
        waiting = _only_waits(load)
        if (alive or load.utilization > WORK_SHARE) and not waiting:
            known.still_ns = None
        elif moved or known.still_ns is None:
            known.still_ns = self.now_ns
        if load.utilization < SATURATED or waiting:
            known.full_ns = None
            known.slack_ns = known.slack_ns if known.slack_ns is not None else self.now_ns
            return
        known.full_ns = known.full_ns if known.full_ns is not None else self.now_ns
        if self.now_ns - known.full_ns >= FULL_SPAN_NS:
            known.slack_ns = None

    # Bursts

    def advance(self, now_ns: int) -> None:
        """Time has passed up to an event that comes now."""
        self.now_ns = now_ns
        for unit in self.units.values():
            kept = unit.kept
            unit.activity.advance(now_ns, held=kept and not unit.taking)
            if not kept and unit.activity.active:
                burst = unit.activity.listen(now_ns, self.settings)
                self._followed(unit, burst, was_active=True)

    def _look(
        self, unit: Unit, crowds: dict[GpuUuid, float], rivals: int = 0, lag_ns: int = 0
    ) -> None:
        """Follow the bursts of one unit."""
        activity = unit.activity
        was_active = activity.active
        crowd = utilization = 0.0
        for gpu in unit.gpus:
            crowd = max(crowd, crowds.get(gpu, 0.0))
            known = self.gpus.get(gpu)
            utilization = max(utilization, known.load.utilization) if known else utilization
        look = Look(
            self.now_ns,
            sum(sum(track.memory_bytes.values()) for track in unit.tracks),
            _share(unit),
            crowd - _part(unit),
            utilization,
            rivals,
            lag_ns,
        )
        burst = activity.look(look, self.settings, kept=unit.kept)
        if activity.gaps and activity.active:
            self.history.learn_gaps(unit.image, activity.memory_bytes)
        if activity.launch_ns is not None:
            # With no more memory than a context it says how long that took to make.
            if activity.memory_bytes >= self.settings.context_bytes:
                self.history.learn_input(unit.image, activity.memory_bytes, activity.launch_ns)
            activity.launch_ns = None
        if activity.share >= self.settings.light_share * activity.fair_share:
            unit.worked = True
        if activity.share >= HEAVY_SHARE and look.others < self.settings.light_share:
            unit.heavy = True
        self._followed(unit, burst, was_active=was_active)

    def _followed(self, unit: Unit, burst: Burst | None, *, was_active: bool) -> None:
        """Learn from a burst that ended, and keep places in the queue."""
        if burst is not None:
            self.history.learn(unit.image, burst)
        if unit.activity.active and not was_active:
            if not self._keeps_place(unit):
                unit.queue_up(self.now_ns)
        elif was_active and not unit.activity.active:
            unit.end_turn(self.now_ns)
            unit.primed, unit.must_go_until_ns = False, 0
            unit.carried_ns = 0
            unit.context_made = unit.context_made and unit.activity.memory_bytes > 0
            unit.seen_ticks = max(track.newest_ticks for track in unit.tracks)

    def _keeps_place(self, unit: Unit) -> bool:
        """Whether a burst goes on where the last one ended: soon after it, by the same program, and
        not for longer than one turn in all."""
        ended, settings = unit.activity.ended_ns, self.settings
        if ended is None or self.now_ns - ended > settings.grace_ns:
            return False
        if unit.used_ns >= settings.turn_ns * unit.weight:
            return False
        oldest = min((t.oldest_ticks for t in unit.tracks if t.oldest_ticks), default=0)
        return oldest <= unit.seen_ticks


def _only_waits(load: GpuLoad) -> bool:
    """Whether kernels that run draw too little power to compute: they wait for a frozen peer."""
    if load.power_w is None or not load.power_limit_w:
        return False
    return load.power_w < WAITING_POWER_SHARE * load.power_limit_w


def _part(unit: Unit) -> float:
    """For how many a unit counts among those who compute."""
    if not unit.activity.active or unit.kept:
        return 0.0
    return 1.0 if unit.turn_ns is not None else _share(unit)


def _share(unit: Unit) -> float:
    """Part of compute it used, on the GPU where it used most."""
    if len(unit.tracks) == 1:
        return max(unit.tracks[0].share.values(), default=0.0)
    shares: dict[GpuUuid, float] = {}
    for track in unit.tracks:
        for gpu, share in track.share.items():
            shares[gpu] = min(1.0, shares.get(gpu, 0.0) + share)
    return max(shares.values(), default=0.0)
