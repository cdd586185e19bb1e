"""The Protocol of strategies: shown a scene, they say who goes and who waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from dure.domain.containers import GpuLoad, PauseWay
from dure.domain.ids import GpuUuid
from dure.node.history import History
from dure.node.settings import NodeSettings
from dure.node.units import Unit, UnitKey


class Say(Enum):
    """What a strategy says of a unit."""

    GO = "has its turn"
    BESIDE = "runs beside others, outside the queue"
    PRIME = "brings its input while another computes"
    WAIT = "waits for its turn"
    MEMORY = "waits for memory"

    @property
    def holds(self) -> bool:
        """Whether the unit is kept from the GPU."""
        return self in (Say.WAIT, Say.MEMORY)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done with one unit, and why in a sentence."""

    say: Say
    reason: str
    primed: bool = False
    """Held at the end of its input copy, not before."""
    way: PauseWay | None = None
    """How it is to be held, where that matters and the host can."""
    to_tail: bool = False
    """Its turn is over: it queues up anew."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a strategy wants now."""

    verdicts: Mapping[UnitKey, Verdict] = field(default_factory=dict)
    """Units not named run as they like."""
    queue: tuple[UnitKey, ...] = ()
    """Those who wait, next one first."""
    wake_ns: int | None = None
    """When to ask again though nothing has happened."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """One GPU as the last table showed it."""

    load: GpuLoad
    outside_bytes: int = 0
    """Memory of programs that belong to no known container."""
    slack_ns: int | None = None
    """Since when it has not been busy all the time; None: it is."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything a strategy may look at."""

    now_ns: int
    updated: bool
    """A new table has come; else time passed or something else happened."""
    units: tuple[Unit, ...]
    """Those that may be paused; the others are nobody's business."""
    bystanders: tuple[Unit, ...]
    """Those with a GPU that may not be paused now."""
    gpus: Mapping[GpuUuid, GpuState]
    history: History
    settings: NodeSettings
    crowded: Mapping[GpuUuid, str] = field(default_factory=dict)
    """GPUs for which a risk is foreseen that a smaller crowd helps, and why."""
    filling: Mapping[GpuUuid, str] = field(default_factory=dict)
    """GPUs whose memory is foreseen to be full, and why."""
    freeze_ns: int | None = None
    """How long a freeze takes to take effect here; None: there was none yet."""


class Strategy(Protocol):
    """Decides who waits."""

    @property
    def name(self) -> str:
        """As people choose it."""
        ...

    @property
    def prefers(self) -> PauseWay | None:
        """The way to pause it was made for, where a host offers several."""
        ...

    def plan(self, scene: Scene) -> Plan:
        """Who goes and who waits; called after every event."""
        ...
