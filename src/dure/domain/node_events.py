"""Events: everything a node machine ever learns, with the time it learned it."""

from dataclasses import dataclass
from enum import Enum

from dure.domain.containers import Container, PauseWay, TaskTable
from dure.domain.ids import ContainerId, GpuUuid
from dure.domain.risks import Risk, RiskKind


class Missing(Enum):
    """Without one of these nothing is paused; each with the words for its absence."""

    WATCHDOG = "the watchdog is not there"
    MONITOR = "the monitor does not look at the GPUs"


@dataclass(frozen=True, slots=True)
class ContainerStarted:
    """A container began to run, or was found running."""

    now_ns: int
    container: Container
    found: bool = False
    """It ran already when the agent came: it is past its admission."""


@dataclass(frozen=True, slots=True)
class ContainerChanged:
    """Its name or another of its facts changed."""

    now_ns: int
    container: Container


@dataclass(frozen=True, slots=True)
class ContainerEnded:
    """It stopped, died or was removed."""

    now_ns: int
    container: ContainerId


@dataclass(frozen=True, slots=True)
class ContainerStopping:
    """Somebody asked it to stop: whatever keeps it from the GPU keeps it from ending, too."""

    now_ns: int
    container: ContainerId


@dataclass(frozen=True, slots=True)
class PausedByOthers:
    """Somebody else paused it: that stays as it is."""

    now_ns: int
    container: ContainerId


@dataclass(frozen=True, slots=True)
class ResumedByOthers:
    """Somebody else unpaused it, also what Dure had paused: hands off for a while."""

    now_ns: int
    container: ContainerId


@dataclass(frozen=True, slots=True)
class TableTaken:
    """The monitor looked: the tick of the control loop."""

    now_ns: int
    table: TaskTable


@dataclass(frozen=True, slots=True)
class PauseEnded:
    """A pause that was asked for took effect, or failed."""

    now_ns: int
    container: ContainerId
    way: PauseWay
    """The way that was really used; another than asked for where that one failed."""
    error: str | None = None
    """Why it did not work; None: the container is paused now."""
    still_held: bool = False
    """It did not work, and an earlier pause, or half of this one, is in effect all the same."""
    restless: bool = False
    """It did not work as the container did not come to rest in time: it may soon."""


@dataclass(frozen=True, slots=True)
class ResumeEnded:
    """A container that was to be let go runs, or could not be let go."""

    now_ns: int
    container: ContainerId
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PersonPaused:
    """`dure node pause`: kept from the GPU until `dure node resume`."""

    now_ns: int
    container: ContainerId


@dataclass(frozen=True, slots=True)
class PersonResumed:
    """`dure node resume`: go now, and be left alone for a while."""

    now_ns: int
    container: ContainerId


@dataclass(frozen=True, slots=True)
class PersonExempted:
    """`dure node exempt`: never touched (or touched again)."""

    now_ns: int
    container: ContainerId
    exempt: bool


@dataclass(frozen=True, slots=True)
class GuardChanged:
    """Whether everything is there that nothing is paused without."""

    now_ns: int
    missing: Missing | None
    """What is not there; None: nothing is missing."""


@dataclass(frozen=True, slots=True)
class GpuRiskRaised:
    """Trouble is seen coming on a GPU: for a promise, its memory, or the device itself."""

    now_ns: int
    gpu: GpuUuid
    risk: Risk


@dataclass(frozen=True, slots=True)
class GpuRiskCleared:
    """A risk that was raised is over."""

    now_ns: int
    gpu: GpuUuid
    series: str
    risk_kind: RiskKind


@dataclass(frozen=True, slots=True)
class TimePassed:
    """A moment the machine asked to be woken at."""

    now_ns: int


NodeEvent = (
    ContainerStarted
    | ContainerChanged
    | ContainerEnded
    | ContainerStopping
    | PausedByOthers
    | ResumedByOthers
    | TableTaken
    | PauseEnded
    | ResumeEnded
    | PersonPaused
    | PersonResumed
    | PersonExempted
    | GuardChanged
    | GpuRiskRaised
    | GpuRiskCleared
    | TimePassed
)
