"""Containers on a host and what they do on its GPUs, as the node level sees them."""

from dataclasses import dataclass, field
from enum import Enum

from dure.domain.ids import ContainerId, GpuUuid


class PauseWay(Enum):
    """How a container is kept from the GPU."""

    DOCKER = "docker"
    """All its processes are frozen by the runtime: health checks stop too."""
    CUDA_LOCK = "cuda-lock"
    """Its CUDA calls wait in the driver; everything else goes on."""


@dataclass(frozen=True, slots=True)
class Container:
    """What its runtime says of a container."""

    id: ContainerId
    name: str
    image: str
    started_ns: int
    """Wall clock of its last start; tells two lives of one id apart."""
    gpus: tuple[GpuUuid, ...]
    """GPUs it was given, proved from its inspection; none: it is never touched."""
    labels: tuple[tuple[str, str], ...] = ()
    project: str | None = None
    """The compose project it belongs to; its GPU containers are paused as one."""
    paused: bool = False
    """Frozen by the runtime right now, whoever asked for it."""
    health_checked: bool = False
    publishes: bool = False
    """It publishes ports: people run it to answer, until its use of the GPU says otherwise."""
    unmanaged: str | None = None
    """Why it cannot be managed whatever it does, such as a runtime that cannot pause."""


@dataclass(frozen=True, slots=True)
class GpuTask:
    """One process on one GPU: a row of the paper's task table."""

    gpu: GpuUuid
    pid: int
    started_ticks: int
    """The kernel's start time of the process; with the pid it names it for good."""
    container: ContainerId | None
    """None: a program of the host, outside any container."""
    memory_bytes: int
    sm_share: float
    """Part of the GPU's compute it used in the last window of samples, 0 to 1."""
    tenant: str | None = None
    """The level-1 tenant it runs as, if it runs under the shim."""


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """One GPU as a whole."""

    gpu: GpuUuid
    memory_total_bytes: int
    memory_used_bytes: int
    utilization: float
    """Share of NVML's last window in which any kernel ran; its window is 1/6 to 1 s."""
    power_w: float | None = None
    power_limit_w: float | None = None


@dataclass(frozen=True, slots=True)
class TaskTable:
    """What the monitor saw at one moment."""

    taken_ns: int
    gpus: tuple[GpuLoad, ...]
    tasks: tuple[GpuTask, ...]


class WorkState(Enum):
    """Where a managed container stands, in the words shown to people."""

    IDLE = "idle"
    """Runs, and does nothing on a GPU."""
    RUNNING = "running"
    """Runs and uses the GPU."""
    QUEUED = "queued"
    """Kept from the GPU until its turn comes."""
    ADMISSION = "waiting for memory"
    """Kept from starting until its memory is free."""
    HELD = "paused by a person"
    EXEMPT = "exempt"
    UNMANAGED = "unmanaged"


@dataclass(frozen=True, slots=True)
class ContainerView:
    """One container as `dure node ps` shows it."""

    id: ContainerId
    name: str
    state: WorkState
    reason: str
    """One sentence: why it is in this state."""
    queue_place: int | None
    """1 is next; None where it does not queue."""
    waited_ns: int
    """In its present wait; 0 where it does not wait."""
    way: PauseWay | None
    """How it is kept from the GPU, if it is."""
    resume_by_ns: int | None
    """When it is let go whatever happens."""
    deadline_ns: int | None
    """The deadline its labels state, as a moment of the machine's clock."""
    sm_share: float
    memory_bytes: int
    expected_memory_bytes: int | None
    gpus: tuple[GpuUuid, ...]
    project: str | None
    burst_ns: int | None
    """Learned length of its bursts of GPU work."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """Everything `dure node ps` shows."""

    now_ns: int
    strategy: str
    containers: tuple[ContainerView, ...] = field(default=())
