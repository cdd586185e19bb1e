"""What objects of Dure's in a cluster show: documents that become parts of custom resources."""

from typing import Annotated

from pydantic import Field

from dure.api.base import Document, LowerName, Name

Sentence = Annotated[str, Field(max_length=4096)]
GRAMS_PER_HOUR = "gCO2PerHour"


class Condition(Document):
    """One thing that holds of an object, or does not, as Kubernetes words it."""

    type: Annotated[str, Field(max_length=316)]
    status: Annotated[str, Field(pattern="^(True|False|Unknown)$", max_length=7)]
    reason: Annotated[str, Field(min_length=1, max_length=1024)]
    message: Sentence
    last_transition_time: Annotated[str, Field(max_length=40)]
    observed_generation: Annotated[int, Field(ge=0)] | None = None


class AcceleratorJobStatus(Document):
    """What has become of a job."""

    observed_generation: int | None = None
    """The generation of the object that the centre has stored."""
    job_id: str | None = None
    """What the centre calls it; `dure jobs` takes it."""
    phase: str | None = None
    """Pending (the centre has not answered yet), Refused, Queued, Suspended, Placed, Running,
    Unknown (its cluster cannot be reached), Cancelling, Succeeded, Failed or Cancelled."""
    attempt: int | None = None
    cluster: str | None = None
    """Where it is."""
    slice: str | None = None
    """What its instances have of devices."""
    cost_per_hour: float | None = None
    """For what it holds now, in `currency`."""
    currency: str | None = None
    g_co2_per_hour: float | None = Field(default=None, alias="gCO2PerHour")
    priced_at: str | None = None
    """When cost and grams were last written: on a change of more than 5 %, or once a minute."""
    message: Sentence | None = None
    conditions: Annotated[list[Condition], Field(max_length=8)] | None = None


class PlacementSpec(Document):
    """One attempt of a job that is carried out in this cluster."""

    job: str
    attempt: int
    tenant: str
    kind: str
    """`training`, `batch` or `serving`."""
    cluster: str


class PlacedInstance(Document):
    """One instance of an attempt."""

    index: int
    node: str
    object: str
    """The Pod that carries it out."""
    slice: str
    devices: Annotated[list[int], Field(max_length=1024)]
    """Numbers of its devices within its node."""
    ready: bool


class PlacementStatus(Document):
    """Where it is, and what that costs."""

    state: str | None = None
    """waiting, starting, running, releasing or gone."""
    outcome: str | None = None
    message: Sentence | None = None
    node: str | None = None
    """The first instance's; `instances` has all."""
    slice: str | None = None
    device: str | None = None
    """Devices of the first instance within its node."""
    instances: Annotated[list[PlacedInstance], Field(max_length=4096)] | None = None
    cost_per_hour: float | None = None
    currency: str | None = None
    g_co2_per_hour: float | None = Field(default=None, alias="gCO2PerHour")
    priced_at: str | None = None


class ProfileStatus(Document):
    """What this cluster has of an accelerator, and what one costs here."""

    nodes: int | None = None
    devices: int | None = None
    cost_per_hour: float | None = None
    """Of one device, busy, in `currency`."""
    currency: str | None = None
    g_co2_per_hour: float | None = Field(default=None, alias="gCO2PerHour")


class PoolStatus(Document):
    """What of a pool is leased to this cluster."""

    name: str | None = None
    """As the centre calls it."""
    units: int | None = None
    lent: int | None = None
    revision: int | None = None


class VirtualClusterSpec(Document):
    """A tenant's own cluster over shared hardware."""

    tenant: LowerName
    tier: Annotated[str, Field(pattern="^(scoped|dedicated)$", max_length=9)]
    pools: Annotated[list[Name], Field(max_length=1000)] | None = None


class VirtualClusterStatus(Document):
    """How it is here."""

    phase: str | None = None
    namespace: str | None = None
    message: Sentence | None = None
