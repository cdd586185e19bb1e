"""Units: what is paused and let go as one, a container or a whole compose project."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NewType

from dure.domain.containers import Container, PauseWay
from dure.domain.ids import ContainerId, GpuUuid
from dure.node.activity import Activity, Phase
from dure.node.history import SAME_PEAK, History, ImageRecord
from dure.node.settings import NodeSettings
from dure.node.tracks import Grip, Track

UnitKey = NewType("UnitKey", str)
"""A compose project's or a container's name for the machine."""


def unit_key(container: Container) -> UnitKey:
    """The unit a container belongs to; those without a GPU stand alone."""
    if container.project is not None and container.gpus:
        return UnitKey(f"project {container.project}")
    return UnitKey(f"container {container.id}")


@dataclass(slots=True, eq=False)
class Unit:
    """Containers that only make sense together."""

    key: UnitKey
    members: dict[ContainerId, Track] = field(default_factory=dict)
    activity: Activity = field(default_factory=Activity)
    arrived_ns: int = 0
    """Its place in the queue: when its burst began, or its last turn ended."""
    wait_ns: int | None = None
    """Since when it waits; priming does not end a wait, a turn does."""
    memory_wait: bool = False
    """The wait is for memory."""
    carried_ns: int = 0
    """Waited already since its last turn, for memory or before a person let it go."""
    admitted: bool = False
    """Past its admission; never held for memory again in this life."""
    turn_ns: int | None = None
    """Since when it has its turn; None: it has none."""
    ahead_of: frozenset[UnitKey] = frozenset()
    """Whose end was near when its turn came: it may have to give that back."""
    waited_ns: int = 0
    """How long it had waited by then."""
    used_ns: int = 0
    """How long it has had turns since it queued up."""
    seen_ticks: int = 0
    """Start of the newest process it had when its last burst ended."""
    worked: bool = False
    """It has used about all of the GPU's time it could get: no service does."""
    heavy: bool = False
    """It has used most of the GPU's time while nobody else computed: it is a job."""
    turn_class: int = 0
    """Its class when its turn came, lifted by what it had waited."""
    primed: bool = False
    """Held with its input copied, so that it computes as soon as it is let go."""
    context_made: bool = False
    """A lock took effect on it, which waits for the making of a CUDA context."""
    must_go_until_ns: int = 0
    """Let go by a deadline: not held again until then or until its burst ends."""
    remark: str = ""
    """Why it goes though it might wait, for people."""

    # Facts of its members, taken from them by `refresh`

    tracks: tuple[Track, ...] = ()
    name: str = ""
    """As people know it."""
    gpus: frozenset[GpuUuid] = frozenset()
    """Every GPU it may use."""
    image: str = ""
    """What its history is kept under."""
    priority: int = 0
    """Its class: that of its most important member."""
    weight: float = 1.0
    """Its largest weight."""
    started_ns: int = 0
    """Wall clock of its first start, which orders units of one arrival."""
    deadline_ns: int | None = None
    """Its earliest deadline, as a moment of the machine's clock."""
    max_wait_ns: int | None = None
    """The shortest wait its labels allow."""
    expect_ns: int | None = None
    """The longest burst its labels state."""
    publishes: bool = False
    """All of it publishes ports."""

    def refresh(self) -> None:
        """Its members, or what is known of them, have changed."""
        tracks = self.tracks = tuple(self.members.values())
        if not tracks:
            return
        labels = [track.labels for track in tracks]
        first = tracks[0].container
        together = len(tracks) > 1 and first.project is not None
        self.name = first.project if together and first.project is not None else first.name
        self.gpus = frozenset(gpu for track in tracks for gpu in track.container.gpus)
        self.image = "+".join(sorted(track.container.image for track in tracks))
        self.priority = max(label.priority for label in labels)
        self.weight = max(label.weight for label in labels)
        self.publishes = all(track.container.publishes for track in tracks)
        self.started_ns = min(track.container.started_ns for track in tracks)
        self.deadline_ns = min(
            (t.seen_ns + t.labels.deadline_ns for t in tracks if t.labels.deadline_ns is not None),
            default=None,
        )
        waits = [label.max_wait_ns for label in labels if label.max_wait_ns is not None]
        self.max_wait_ns = min(waits, default=None)
        bursts = [label.expect_ns for label in labels if label.expect_ns is not None]
        self.expect_ns = max(bursts, default=None)

    def queue_up(self, now_ns: int) -> None:
        """Go to the end of the queue."""
        self.arrived_ns, self.used_ns = now_ns, 0

    def end_turn(self, now_ns: int) -> None:
        """Its turn is over, if it had one; its place stays."""
        if self.turn_ns is not None:
            self.used_ns += now_ns - self.turn_ns
            self.turn_ns = None

    def go_ahead_of(self, ending: Iterable["Unit"], now_ns: int) -> None:
        """Its turn comes while these others are about to end."""
        self.ahead_of = frozenset(
            each.key for each in ending if not each.gpus.isdisjoint(self.gpus)
        )
        self.waited_ns = now_ns - self.wait_ns if self.wait_ns is not None else self.carried_ns

    def went_ahead_of(self, other: "Unit") -> bool:
        """Whether it has its turn because another was about to end, which still has its own."""
        if other.key not in self.ahead_of or self.turn_ns is None or other.turn_ns is None:
            return False
        return other.turn_ns < self.turn_ns

    @property
    def gripped(self) -> bool:
        """Dure keeps all of it, or part of it, from the GPU."""
        for track in self.tracks:  # asked often: these loops are much faster than `any`
            grip = track.grip
            if (grip is Grip.HELD or grip is Grip.TAKING) and not track.by_person:
                return True
        return False

    @property
    def taking(self) -> bool:
        """Some pause that was asked for has not taken effect."""
        for track in self.tracks:  # noqa: SIM110, the same
            if track.grip is Grip.TAKING:
                return True
        return False

    @property
    def letting(self) -> bool:
        """Some of it was asked to be let go and is not yet."""
        return any(track.grip is Grip.LETTING for track in self.tracks)

    @property
    def kept(self) -> bool:
        """Anybody keeps it from the GPU."""
        for track in self.tracks:
            grip = track.grip
            if grip is Grip.HELD or grip is Grip.TAKING or track.held_by_person:
                return True
        return False

    @property
    def way(self) -> PauseWay | None:
        """How it is held."""
        for track in self.tracks:
            if track.gripped:
                return track.way
        return None

    @property
    def contends(self) -> bool:
        """It works on a GPU, or would if it were let."""
        return self.activity.active or self.gripped

    def start_order(self) -> tuple[int, int, str]:
        """Sorts units by the start of their GPU processes, then of their containers."""
        if len(self.tracks) == 1:
            return self.tracks[0].started_ticks, self.started_ns, self.key
        ticks = min((t.started_ticks for t in self.tracks if t.started_ticks), default=0)
        return ticks, self.started_ns, self.key

    def arrival_order(self) -> tuple[int, int, int, str]:
        """Sorts units by their place in the queue."""
        return self.arrived_ns, *self.start_order()

    def untouchable(self, now_ns: int) -> str | None:
        """Why it may not be paused now: whole jobs are paused, or none of it."""
        for track in self.tracks:
            reason = track.untouchable(now_ns)
            if reason is not None:
                alone = len(self.members) == 1
                return reason if alone else f"of '{track.container.name}' in it: {reason}"
        return None

    def record(self, history: History) -> ImageRecord | None:
        """What is remembered of tasks like this one, if that is clear by now."""
        record = history.find(self.image, self.activity.memory_bytes)
        computes = self.activity.phase is Phase.COMPUTE
        if record is not None and computes and self.activity.peak_bytes < _own(record):
            return None  # it computes with less memory than those, so it is none of them
        return record

    def burst_ns(self, history: History) -> int | None:
        """How long its bursts last, by its label or as learned."""
        if self.expect_ns is not None:
            return self.expect_ns
        record = self.record(history)
        return record.burst_ns if record is not None else None

    def share_alone(self, history: History) -> float | None:
        """Part of the GPU's time it uses when it may."""
        if self.activity.duty is not None:
            return self.activity.duty
        record = self.record(history)
        return record.share if record is not None else None

    def longest_wait_ns(self, way: PauseWay, settings: NodeSettings) -> int:
        """How long one wait may last at most."""
        if self.memory_wait:
            limit = settings.max_admission_ns
        elif way is PauseWay.CUDA_LOCK:
            limit = settings.max_pause_ns
        elif any(track.container.health_checked for track in self.tracks):
            limit = settings.max_freeze_checked_ns
        else:
            limit = settings.max_freeze_ns
        stated = self.max_wait_ns
        return limit if stated is None else min(limit, stated)


def _own(record: ImageRecord) -> float:
    """Memory that a task of this size has at least."""
    return SAME_PEAK * record.peak_bytes
