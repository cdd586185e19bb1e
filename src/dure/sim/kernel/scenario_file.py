"""What a scenario file may say, field by field; `docs/guide/scenarios.md` explains it to users."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from dure.domain.risks import WeightsBy
from dure.domain.tenant import Goal, TenantClass
from dure.sim.documents import (
    Count,
    Document,
    Duration,
    LongerThanZero,
    Misfit,
    Name,
    Positive,
    Share,
    Size,
    choice,
    short_form,
)

MOST_TENANTS = 63
"""Tenants are bits of one machine word in the data plane."""

_MOST_REPEATS = 100_000
_WIDEST_BLOCK = 1024
"""Threads a block may have, by the CUDA programming guide."""


class GpuPart(Document):
    """A GPU by name, with parts of it changed."""

    name: str
    memory: Size | None = None
    sms: Annotated[Count, Field(le=4096)] | None = None
    bandwidth: Size | None = None
    """Per second."""


class KernelPart(Document):
    """One kernel, as it runs alone on the whole GPU."""

    name: str | None = None
    blocks: Count
    threads: Annotated[int, Field(ge=1, le=_WIDEST_BLOCK)] = 256
    registers: Annotated[int, Field(ge=0)] = 0
    """Per thread."""
    shared_memory: Size = 0
    """Per block."""
    resident: Count | None = None
    """Blocks one compute unit holds, instead of registers and shared memory."""
    duration: LongerThanZero
    bandwidth: Share = 0.3
    gap: Duration = 1_000
    host: Duration = 5_000
    repeat: Annotated[int, Field(ge=1, le=_MOST_REPEATS)] = 1


class ClosedPart(Document):
    """The next work starts when the last is done."""

    think: Duration = 0
    iterations: Count = 1


class LoadChangePart(Document):
    """A ramp of the rate, or a step."""

    at: Duration
    over: Duration = 0
    factor: Annotated[float, Field(ge=0, le=1000)]
    """Of the rate at first."""


class PoissonPart(Document):
    """Independent requests at a mean rate."""

    rate: Positive | None = None
    load: Annotated[float, Field(gt=0, le=10)] | None = None
    iterations: Count = 1
    changes: list[LoadChangePart] = Field(default_factory=list)


class PeriodicPart(Document):
    """Requests at a fixed interval."""

    period: LongerThanZero
    iterations: Count = 1


class TracePart(Document):
    """Requests from a file."""

    file: str
    iterations: Count = 1
    """Of a request, where the file does not say."""


class JobPart(Document):
    """One job of a list."""

    at: Duration
    iterations: Count


def _expand_arrivals(value: Any) -> Any:
    if isinstance(value, str) and value != "closed":
        raise Misfit(f"'{value}' is not a complete description", f"write `{value}: …` below it")
    return {"closed": {}} if value == "closed" else value


class ArrivalsPart(Document):
    """How work comes; exactly one kind."""

    closed: ClosedPart | None = None
    poisson: PoissonPart | None = None
    periodic: Annotated[PeriodicPart, short_form(lambda value: {"period": value})] | None = None
    trace: Annotated[TracePart, short_form(lambda value: {"file": value})] | None = None
    jobs: Annotated[list[JobPart], Field(min_length=1)] | None = None


_PERCENTILE_AND_TARGET = re.compile(r"\s*p([0-9]+(?:\.[0-9]+)?)\s*(?:=|<=|<|≤)\s*(.+)")


def _expand_latency(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    match = _PERCENTILE_AND_TARGET.fullmatch(value)
    if match:
        return {"percentile": float(match.group(1)), "target": match.group(2)}
    return {"target": value}


class LatencyPart(Document):
    """A percentile of request latency stays below a target."""

    target: LongerThanZero
    percentile: Annotated[float, Field(gt=0, lt=100)] = 99.0


class ThroughputPart(Document):
    """Requests finished per second, over a window."""

    rate: Positive
    window: LongerThanZero = 1_000_000_000


class AvailabilityPart(Document):
    """Share of seconds with demand in which the tenant got its floor and was not held long."""

    share: Annotated[float, Field(gt=0, le=1)]
    floor: Share = 0.1
    hold: LongerThanZero = 100_000_000


class SloPart(Document):
    """What a tenant was promised."""

    latency: Annotated[LatencyPart, short_form(_expand_latency)] | None = None
    throughput: Annotated[ThroughputPart, short_form(lambda value: {"rate": value})] | None = None
    availability: Annotated[AvailabilityPart, short_form(lambda value: {"share": value})] | None = (
        None
    )


class MemoryPart(Document):
    """Device memory of a tenant."""

    limit: Size | None = None
    reserve: Size = 0
    use: Size = 0


class ReportsPart(Document):
    """What the tenant's program tells by itself."""

    latency: bool = False
    progress: bool = False


class TenantPart(Document):
    """One tenant."""

    name: Name
    model: str | None = None
    kernels: Annotated[list[KernelPart], Field(min_length=1)] | None = None
    graph: bool | None = None
    sync_every: Count | None = None
    arrivals: Annotated[ArrivalsPart, short_form(_expand_arrivals)] = ArrivalsPart(
        closed=ClosedPart()
    )
    slo: SloPart = SloPart()
    weight: Annotated[float, Field(ge=1e-3, le=1e6)] = 1.0
    tenant_class: Annotated[str, choice(*(kind.value for kind in TenantClass))] = Field(
        default=TenantClass.STANDARD.value, alias="class"
    )
    goal: Annotated[str, choice(*(goal.value for goal in Goal))] | None = None
    floor: Annotated[float, Field(ge=0, lt=1)] = 0.0
    expect: LongerThanZero | None = None
    deadline: LongerThanZero | None = None
    memory: MemoryPart = MemoryPart()
    joins: Duration = 0
    leaves: Duration | None = None
    reports: ReportsPart = ReportsPart()


Parameters = dict[str, float]
"""Numbers a policy is set up with."""


class ModePart(Document):
    """One row of the comparison."""

    mode: str
    name: Name | None = None
    parameters: Parameters = Field(default_factory=dict)
    weights: Annotated[str, choice(*(by.value for by in WeightsBy))] | None = None


class SwitchPart(Document):
    """A change of policy while work runs."""

    at: Duration
    policy: str
    parameters: Parameters = Field(default_factory=dict)


class PicturePart(Document):
    """Window of the timeline in the HTML report."""

    start: Duration = Field(alias="from")
    end: Duration = Field(alias="to")


def _not_crowded(tenants: list[TenantPart]) -> list[TenantPart]:
    if len(tenants) > MOST_TENANTS:
        raise Misfit(f"has {len(tenants)} tenants", f"use at most {MOST_TENANTS}")
    return tenants


class ScenarioFile(Document):
    """The whole file."""

    title: str | None = None
    gpu: Annotated[GpuPart, short_form(lambda value: {"name": value})]
    duration: LongerThanZero
    drain: Duration = 0
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 1
    sharing: Annotated[str, choice("isolated", "mps")] = "mps"
    modes: (
        Annotated[
            list[Annotated[ModePart, short_form(lambda value: {"mode": value})]],
            Field(min_length=1),
        ]
        | None
    ) = None
    policy: str = "hybrid"
    parameters: Parameters = Field(default_factory=dict)
    switches: list[SwitchPart] = Field(default_factory=list)
    picture: PicturePart | None = None
    tenants: Annotated[list[TenantPart], Field(min_length=1), AfterValidator(_not_crowded)]
