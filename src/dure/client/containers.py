"""What the agent's API says of containers on its host, as JSON; the part under /v1/containers.

Times are nanoseconds, sizes bytes, shares numbers from 0 to 1; names say so.
"""

from typing import Literal

from dure.client.messages import Answer, Message

PauseWith = Literal["docker", "cuda-lock", "auto"]
"""How containers are kept from the GPU; auto: by the lock where it works, else by Docker."""


class ContainerStatus(Answer):
    """One container, as `dure node ps` shows it."""

    id: str
    name: str
    state: str
    """idle, running, queued, waiting for memory, paused by a person, exempt, unmanaged."""
    reason: str
    """One sentence: why it is in this state."""
    queue_place: int | None = None
    """1 is next; None where it does not queue."""
    waited_ns: int = 0
    """In its present wait."""
    way: Literal["docker", "cuda-lock"] | None = None
    """How it is kept from the GPU, if it is."""
    resume_in_ns: int | None = None
    """Until it is let go whatever happens."""
    deadline_in_ns: int | None = None
    """Until the deadline its labels state; negative: past."""
    sm_share: float = 0.0
    """Of the GPU's compute, in the last window of NVML."""
    memory_bytes: int = 0
    expected_memory_bytes: int | None = None
    gpus: tuple[str, ...] = ()
    project: str | None = None
    """The compose project it is paused and let go with."""
    burst_ns: int | None = None
    """Learned length of its bursts of GPU work."""


class MonitorStatus(Answer):
    """The process that looks at the GPUs."""

    pid: int | None
    """None: it does not run at the moment."""
    period_ns: int
    """Asked for between two looks."""
    looks: int
    look_ns: int
    """How long the last one took."""
    cpu_ns: int
    """Processor time it used so far."""
    left_out: int
    """Processes that NVML named and that do not exist."""
    deaths: int


class ContainersStatus(Answer):
    """GET /v1/containers."""

    strategy: str
    ways: tuple[Literal["docker", "cuda-lock"], ...]
    """To keep a container from the GPU, best first."""
    dry_run: bool
    """Nothing is paused: states are those that would be."""
    troubles: tuple[str, ...]
    """Why nothing is paused at the moment, or nothing is known; empty: all is well."""
    monitor: MonitorStatus
    containers: tuple[ContainerStatus, ...]
    without_gpu: int = 0
    """Containers that have no GPU; they are not listed and never touched."""


class ContainerWhy(Answer):
    """GET /v1/containers/{container}/why."""

    id: str
    name: str
    sentences: tuple[str, ...]


class ExemptRequest(Message):
    """PUT /v1/containers/{container}/exempt."""

    exempt: bool = True
