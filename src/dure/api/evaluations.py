"""Evaluations: which clusters would take jobs now, in which order and why, without storing them."""

from typing import Annotated

from pydantic import Field, model_validator

from dure.api.base import AtLeastZero, Count, Document, Line, LowerName, Name, Size, WholeFromZero
from dure.api.clusters import TariffSpec
from dure.api.job_views import ExplanationDocument
from dure.api.jobs import JobSpec, Profile
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import WorkloadKind

MOST_JOBS = 200
"""Of one evaluation: they are weighed together, and nobody waits long for it."""
MOST_ASSUMED = 2000
MOST_GUESTS = 100


class GuestGroup(Document):
    """Equal nodes of a cluster that Dure has no member in."""

    name: Name
    profile: Profile
    """Of the catalogue: `dure fleet catalogue`."""
    devices: Annotated[int, Field(ge=1, le=64)] = 1
    """Of each node."""
    nodes: Count = 1
    free_devices: WholeFromZero
    cpu: AtLeastZero = 0.0
    """Cores of each node; 0: not known, any number will do."""
    host_memory: Size = "0B"
    """Of each node; 0B: not known, any size will do."""
    mode: ShareMode = ShareMode.WHOLE

    @model_validator(mode="after")
    def _has_them(self) -> "GuestGroup":
        if self.free_devices > self.devices * self.nodes:
            raise ValueError(
                f"freeDevices of {self.free_devices} is more than the "
                f"{self.devices * self.nodes} there are; correct one of them"
            )
        return self


class GuestCluster(Document):
    """A cluster that Dure has no member in, as whoever asks knows it."""

    name: LowerName
    region: Line = ""
    tariff: TariffSpec = TariffSpec()
    carbon: AtLeastZero = 0.0
    """Grams of CO2 per kilowatt-hour."""
    electricity: AtLeastZero = 0.0
    """Price of a megawatt-hour in the tariff's currency; paid for owned devices only."""
    pue: Annotated[float, Field(ge=1, le=5)] = 1.2
    groups: Annotated[list[GuestGroup], Field(min_length=1, max_length=64)]


class AssumedPlace(Document):
    """A job that somebody else placed, where no member has reported it yet."""

    job: JobSpec
    cluster: LowerName


class EvaluationRequest(Document):
    """What would be done with these jobs if they came now?"""

    jobs: Annotated[list[JobSpec], Field(min_length=1, max_length=MOST_JOBS)]
    """Weighed together, as in one round. An `array` counts as one job."""
    assuming: Annotated[list[AssumedPlace], Field(max_length=MOST_ASSUMED)] = Field(
        default_factory=list
    )
    """Taken as placed already."""
    guests: Annotated[list[GuestCluster], Field(max_length=MOST_GUESTS)] = Field(
        default_factory=list
    )
    """Clusters beside those that have joined."""


class ClusterOption(Document):
    """What a cluster would be to a job."""

    cluster: str
    site: str
    """Its node group that is best for the job."""
    has_room: bool
    """Whether the job could start there now."""
    delay_hours: float
    """From the order to the start."""
    run_hours: float
    explanation: ExplanationDocument


class ClusterRefusal(Document):
    """Why a cluster could not take a job as both are."""

    cluster: str
    why: str


class JobEvaluation(Document):
    """What would be done with one job."""

    name: str
    tenant: str
    kind: WorkloadKind
    cluster: str | None
    """Where it would go; null: it would wait."""
    start_at: str
    """When it would start, where waiting is worth it or it has a place at once."""
    reason: str
    """What it would wait for."""
    options: list[ClusterOption]
    """Best first: the chosen cluster, those with room, the rest."""
    refusals: list[ClusterRefusal]


class EvaluationDocument(Document):
    """Answers, one for each job asked about."""

    at: str
    """The moment of the state that was asked."""
    jobs: list[JobEvaluation]
