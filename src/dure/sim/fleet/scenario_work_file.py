"""What a fleet scenario file may say of work: workloads by name, and sources that bring many."""

import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dure.domain.fleet.profiles import DataType
from dure.domain.fleet.workloads import WhenCutOff, WorkloadKind
from dure.domain.units import GIB, NS_PER_S
from dure.sim.documents import (
    Count,
    Document,
    Duration,
    LongerThanZero,
    Misfit,
    Name,
    Share,
    Size,
    choice,
    short_form,
)
from dure.sim.fleet.azure import DEFAULT_FILE as AZURE_FILE
from dure.sim.fleet.philly import DEFAULT_FILE as PHILLY_FILE
from dure.sim.fleet.philly import MEASURED_ON, PHILLY_START_NS

MOST = 1e12
"""Largest number anything is given in: products of a few of them and their sums stay finite."""
LEAST_POSITIVE = 1e-6
AtLeastZero = Annotated[float, Field(ge=0, le=MOST)]
Positive = Annotated[float, Field(ge=LEAST_POSITIVE, le=MOST)]
_HOUR_NS = 3600 * NS_PER_S
_DATA_TYPES = tuple(each.value for each in DataType)
_DAY_HOURS = 24
FIRST_YEAR, LAST_YEAR = 1970, 2099
"""Years a run may begin in. Moments are 64-bit nanoseconds since 1970, which end in 2262, and
deadlines may lie more than a century after the start."""
Names = Annotated[list[str], Field(min_length=1)]


def _moment(value: Any) -> int:
    """A date or a moment in UTC, as nanoseconds since the Unix epoch."""
    if not isinstance(value, str):
        raise Misfit(f"{value} is not a date", "write it as '2023-10-01' or '2023-10-01T06:00'")
    try:
        moment = datetime.datetime.fromisoformat(value)
    except ValueError:
        raise Misfit(
            f"'{value}' is not a date", "write it as '2023-10-01' or '2023-10-01T06:00'"
        ) from None
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise Misfit(
            f"'{value}' cannot be told in nanoseconds since {FIRST_YEAR}",
            f"write a year from {FIRST_YEAR} to {LAST_YEAR}",
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return round(moment.timestamp()) * NS_PER_S


Moment = Annotated[int, BeforeValidator(_moment)]
"""Nanoseconds since the Unix epoch, written as a date or a moment in UTC."""


class DemandPart(Document):
    """What one instance needs."""

    memory: Size = 0
    tops: AtLeastZero = 0.0
    bandwidth: Size = 0
    """Per second."""
    cpu: AtLeastZero = 0.0
    host_memory: Size = 0
    data_type: Annotated[str, choice(*_DATA_TYPES)] = DataType.FP16.value
    devices: Annotated[int, Field(ge=1, le=64)] = 1
    whole: bool = False


class WorkPart(Document):
    """How long a job takes."""

    time: LongerThanZero
    reference: str = "v100"
    compute_bound: Share = 0.6


class GangPart(Document):
    """Workers that run together."""

    workers: Count = 1
    most_workers: Count | None = None
    growth: Annotated[float, Field(gt=0, le=1)] = 0.9
    checkpoint: Duration | None = 1800 * NS_PER_S
    checkpoint_size: Size = 0


class LoadPart(Document):
    """How a service's requests vary."""

    swing: Share = 0.5
    peak_hour: Annotated[float, Field(ge=0, lt=_DAY_HOURS)] = 13.0
    weekend: AtLeastZero = 1.0
    bursts: AtLeastZero = 1.0
    trace: str | None = None
    """File below the data folder to take the bursts from."""


def _expand_load(value: Any) -> Any:
    match value:
        case "flat":
            return {"swing": 0.0, "bursts": 0.0}
        case "azure":
            return {"trace": AZURE_FILE}
        case str():
            raise Misfit(f"'{value}' is no kind of load", "write `flat`, `azure` or a mapping")
    return value


class ServicePart(Document):
    """What a service promises and expects."""

    requests_per_s: AtLeastZero
    replica_requests_per_s: Positive
    latency: LongerThanZero
    service_time: LongerThanZero
    warm: Annotated[int, Field(ge=0)] = 1
    most: Count = 64
    spread: Count = 1
    users: dict[str, Positive] = Field(default_factory=dict)
    reference: str = "v100"
    load_time: Duration = 30 * NS_PER_S
    load: Annotated[LoadPart, short_form(_expand_load)] = LoadPart()
    size_spread: AtLeastZero = 0.0
    """Of several alike: of the logarithm of their mean rates."""


class SlaPart(Document):
    """What a broken promise costs."""

    deadline: LongerThanZero | None = None
    """From submission."""
    penalty_per_hour: AtLeastZero = 0.0
    penalty_per_minute: AtLeastZero = 0.0
    cap: AtLeastZero | None = None


class WorkloadPart(Document):
    """One workload, or several alike."""

    name: Name
    tenant: str
    team: str = ""
    kind: Annotated[str, choice(*(kind.value for kind in WorkloadKind))]
    at: Duration = 0
    count: Annotated[int, Field(ge=1, le=100_000)] = 1
    every: Duration = 0
    demand: DemandPart = DemandPart()
    work: Annotated[WorkPart, short_form(lambda value: {"time": value})] | None = None
    gang: Annotated[GangPart, short_form(lambda value: {"workers": value})] = GangPart()
    service: ServicePart | None = None
    sla: SlaPart = SlaPart()
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    pool: str | None = None
    weights: str | None = None
    data: list[str] = Field(default_factory=list)
    clusters: Names | None = None
    profiles: Names | None = None
    delay_tolerant: bool = False
    preemptible: bool = True
    when_cut_off: Annotated[str, choice(*(each.value for each in WhenCutOff))] = (
        WhenCutOff.WAIT.value
    )


class PhillyPart(Document):
    """Jobs of the Philly trace."""

    file: str = PHILLY_FILE
    start: Moment = Field(default=PHILLY_START_NS, alias="from")
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0


class GeneratedJobsPart(Document):
    """Jobs drawn with the shape of the Philly trace."""

    jobs_per_day: Positive


class JobRulesPart(Document):
    """How rows of a trace become workloads."""

    tenants: dict[str, Positive] = Field(default_factory=dict)
    """Shares; a group of the trace belongs to one tenant. Empty: the first tenant."""
    shapes: Annotated[str, choice("trace", "openb-like", "openb")] = "trace"
    openb_list: str = "openb/openb_pod_list_default.csv"
    worker_devices: Annotated[int, Field(ge=1, le=64)] = 8
    memory: Annotated[list[Size], Field(min_length=1)] = Field(default_factory=lambda: [12 * GIB])
    cpu_per_device: AtLeastZero = 6.0
    host_memory_per_device: Size = 32 * GIB
    data_type: Annotated[str, choice(*_DATA_TYPES)] = DataType.FP16.value
    profiles: Names | None = None
    reference: str = MEASURED_ON
    compute_bound: Share = 0.6
    time_factor: Positive = 1.0
    longest: LongerThanZero | None = None
    batch: Share = 0.0
    delay_tolerant: Share = 0.0
    elastic: Share = 0.0
    growth_factor: Annotated[float, Field(ge=1)] = 2.0
    priorities: dict[str, Share] = Field(default_factory=dict)
    """Share of jobs by priority; the rest has 0."""
    slack_factor: Annotated[float, Field(ge=0, le=100)] = 1.0
    slack: Duration = 4 * _HOUR_NS
    patient_slack: Duration = 24 * _HOUR_NS
    """Of delay-tolerant jobs."""
    penalty_per_device_hour: AtLeastZero = 0.0
    cap_factor: AtLeastZero = 10.0
    checkpoint: Duration = 1800 * NS_PER_S
    checkpoint_size: Size = 0
    data: list[str] = Field(default_factory=list)
    """Each job reads one of these."""


class SourcePart(Document):
    """Many jobs at once; exactly one of `philly` and `generated`."""

    name: Name
    length: LongerThanZero | None = Field(default=None, alias="for")
    """How long jobs are submitted; None: as long as the run."""
    philly: PhillyPart | None = None
    generated: (
        Annotated[GeneratedJobsPart, short_form(lambda value: {"jobs_per_day": value})] | None
    ) = None
    jobs: JobRulesPart = JobRulesPart()
