"""What a container scenario may say, field by field; `docs/guide/sim-node.md` explains it."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dure.domain.units import NS_PER_S
from dure.node.strain import HEEDED
from dure.sim.documents import (
    Count,
    Document,
    Duration,
    Line,
    LongerThanZero,
    Misfit,
    MoreThanZero,
    Name,
    Positive,
    Size,
    choice,
    short_form,
)
from dure.sim.node.faults import Deed, FaultKind

MOST_GPUS = 64
MOST_ALIKE = 1_000
"""Containers of one entry."""
_LARGEST_SIDE = 1_000_000
_MOST_TIMES = 1_000_000


class GpusPart(Document):
    """The host's GPUs, all alike."""

    count: Annotated[int, Field(ge=1, le=MOST_GPUS)] = 1
    memory: MoreThanZero | None = None
    sample_window: LongerThanZero | None = None
    """NVML's."""
    context_memory: MoreThanZero | None = None


class HostPart(Document):
    """How fast the host pauses; what is not said is as measured."""

    docker_pause: Duration | None = None
    docker_resume: Duration | None = None
    lock: Duration | None = None
    unlock: Duration | None = None
    cuda_lock: bool = True
    """Whether the driver has it."""
    watchdog: Duration | None = None


class DurePart(Document):
    """Dure's settings; what is not said keeps its default."""

    experienced: bool = False
    """Whether it has seen these containers run before, and knows their images."""
    max_pause: LongerThanZero | None = None
    max_freeze: LongerThanZero | None = None
    max_freeze_checked: LongerThanZero | None = None
    max_admission: LongerThanZero | None = None
    hands_off: LongerThanZero | None = None
    turn: LongerThanZero | None = None
    ageing: LongerThanZero | None = None
    sharers: Count | None = None
    inputs: Count | None = None
    pays_times: Positive | None = None
    freeze_pays_times: Positive | None = None


def _expand_step(value: Any) -> Any:
    match value:
        case "close":
            return {"close": True}
        case "free":
            return {"free": "all"}
        case str():
            raise Misfit(f"'{value}' is no step by itself", f"write `{value}: …`")
    return value


def _size_or_all(value: Any) -> Any:
    return 0 if value == "all" else value


class LoopPart(Document):
    """Steps again and again."""

    times: Annotated[int, Field(ge=1, le=_MOST_TIMES)]
    steps: Annotated[list["Step"], Field(min_length=1)]


class ServePart(Document):
    """Requests from outside; `rate` for independent ones, `period` for regular ones."""

    requests: Annotated[int, Field(ge=1, le=_MOST_TIMES)]
    rate: Positive | None = None
    """Per second."""
    period: LongerThanZero | None = None
    steps: Annotated[list["Step"], Field(min_length=1)]


class StepPart(Document):
    """One thing a program does; exactly one field."""

    host: Duration | None = None
    allocate: MoreThanZero | None = None
    free: Annotated[Size, BeforeValidator(_size_or_all)] | None = None
    """0: all."""
    close: bool | None = None
    copy_in: MoreThanZero | None = None
    copy_out: MoreThanZero | None = None
    kernel: LongerThanZero | None = None
    meet: Name | None = None
    matmul: Annotated[int, Field(ge=1, le=_LARGEST_SIDE)] | None = None
    loop: LoopPart | None = None
    serve: ServePart | None = None


Step = Annotated[StepPart, short_form(_expand_step)]


class HealthPart(Document):
    """A health check."""

    interval: LongerThanZero = 10 * NS_PER_S
    retries: Count = 3
    restart: bool = False


class ContainerPart(Document):
    """A container, or several alike."""

    name: Name
    count: Annotated[int, Field(ge=1, le=MOST_ALIKE)] = 1
    at: Duration = 0
    every: Duration = 0
    release: Duration | None = None
    program: str | None = None
    steps: Annotated[list[Step], Field(min_length=1)] | None = None
    gpus: list[Annotated[int, Field(ge=0)]] = Field(default_factory=lambda: [0])
    image: Line | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    project: Name | None = None
    health: HealthPart | None = None
    restarts: Annotated[int, Field(ge=0, le=100)] = 0
    outside: bool = False


class FaultPart(Document):
    """Something is away for a while."""

    kind: Annotated[str, choice(*(kind.value for kind in FaultKind))]
    at: Duration
    length: LongerThanZero = Field(alias="for")


class PersonPart(Document):
    """A person does something to a container."""

    at: Duration
    container: str
    does: Annotated[str, choice(*(deed.value for deed in Deed))]


class RiskPart(Document):
    """Trouble is seen coming on a GPU."""

    kind: Annotated[str, choice(*sorted(kind.value for kind in HEEDED))]
    at: Duration
    length: LongerThanZero = Field(alias="for")
    gpu: Annotated[int, Field(ge=0)] = 0
    reason: Line | None = None


class ScenarioFile(Document):
    """The whole file."""

    title: Line | None = None
    gpus: Annotated[GpusPart, short_form(lambda value: {"count": value})] = GpusPart()
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1
    limit: LongerThanZero = 3600 * NS_PER_S
    modes: Annotated[list[str], Field(min_length=1)] | None = None
    host: HostPart = HostPart()
    dure: DurePart = DurePart()
    programs: dict[Name, Annotated[list[Step], Field(min_length=1)]] = Field(default_factory=dict)
    containers: Annotated[list[ContainerPart], Field(min_length=1)]
    faults: list[FaultPart] = Field(default_factory=list)
    people: list[PersonPart] = Field(default_factory=list)
    risks: list[RiskPart] = Field(default_factory=list)
