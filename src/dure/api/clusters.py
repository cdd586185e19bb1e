"""Clusters: what an operator says of them, what their members report, what the centre wants."""

from enum import Enum
from typing import Annotated, Any

from pydantic import AfterValidator, Field, JsonValue, model_validator

from dure.api.base import (
    MOST,
    AtLeastZero,
    Currency,
    Document,
    Line,
    LowerName,
    Name,
    Size,
    Windows,
    short_form,
)
from dure.domain.fleet.clusters import HOURS_A_WEEK, ClusterClass
from dure.domain.fleet.lifecycle import AttemptState, ClusterState, PartitionPhase

NamespaceName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]


NodeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$", max_length=253)]
LayoutName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$", max_length=63)
]
"""As values of labels are in Kubernetes."""


class ClusterKind(Enum):
    """How a member carries work out."""

    KUBERNETES = "kubernetes"
    PROCESS = "process"
    """As processes of its own host."""


class Hourly(Document):
    """A quantity that may change by the hour; exactly one of the two."""

    constant: Annotated[float, Field(ge=-MOST, le=MOST)] | None = None
    feed: Name | None = None
    """Name of the feed that tells it."""

    @model_validator(mode="after")
    def _one(self) -> "Hourly":
        if (self.constant is None) == (self.feed is None):
            raise ValueError("names none or both of constant, feed; give exactly one of them")
        return self


HourlyOrNumber = Annotated[
    Hourly,
    short_form(
        lambda value: {"constant": value},
        Hourly | Annotated[float, Field(ge=-MOST, le=MOST)],
    ),
]


def _calendar(factors: list[float]) -> list[float]:
    if len(factors) not in (1, 24, HOURS_A_WEEK):
        raise ValueError(
            f"has {len(factors)} factors; give 1, 24 (hours of a day, UTC) or 168 (from Monday)"
        )
    return factors


def _expand_tariff(value: Any) -> Any:
    return {} if value == "owned" else value


class TariffSpec(Document):
    """What devices cost."""

    currency: Currency = "USD"
    device_hour: Annotated[dict[Name, AtLeastZero], Field(max_length=100)] = Field(
        default_factory=dict
    )
    """By accelerator; one without a price is owned: only its energy is paid."""
    calendar: Annotated[list[AtLeastZero], Field(max_length=168), AfterValidator(_calendar)] = (
        Field(default_factory=lambda: [1.0])
    )
    """Factors on the price by hour of the week (168, from Monday 00:00 UTC), of a day, or one."""


class ClusterSpec(Document):
    """What an operator says of a cluster; its nodes are what its member reports."""

    kind: ClusterKind = ClusterKind.KUBERNETES
    region: Line = ""
    provider: Line = ""
    cluster_class: ClusterClass = Field(
        default=ClusterClass.CLOUD, validation_alias="class", serialization_alias="class"
    )
    tariff: Annotated[TariffSpec, short_form(_expand_tariff, TariffSpec | str)] = TariffSpec()
    carbon: HourlyOrNumber = Hourly(constant=0.0)
    """Grams of CO2 per kilowatt-hour: a number, or a feed."""
    electricity: HourlyOrNumber = Hourly(constant=0.0)
    """Price of a megawatt-hour in the tariff's currency; paid for owned devices only."""
    pue: Annotated[float, Field(ge=1, le=5)] = 1.2
    """Energy of the whole site over energy of its computers."""
    namespaces: Annotated[dict[LowerName, NamespaceName], Field(max_length=10_000)] = Field(
        default_factory=dict
    )
    """Where a tenant's objects belong; `dure-TENANT` where it is not named."""
    artefacts: Annotated[dict[Name, Size], Field(max_length=10_000)] = Field(default_factory=dict)
    """Weights and data that lie there, with their sizes."""
    windows: Windows = Field(default_factory=list)
    """When jobs may be moved there or away by themselves; at any time where none is named."""


class DeviceCount(Document):
    """Devices of one kind, and how many of them nothing is on."""

    devices: int
    free_devices: int


class ClusterDocument(Document):
    """A member cluster."""

    name: str
    spec: ClusterSpec
    state: ClusterState
    connected: bool
    """Whether its member was heard of lately."""
    last_contact_at: str | None
    devices: int
    """As its member last reported; 0: nothing yet."""
    free_devices: int
    accelerators: dict[str, DeviceCount] = Field(default_factory=dict)
    """The same by accelerator."""
    desired_revision: int
    accepted_epoch: int
    accepted_revision: int
    revision: int
    created_at: str


class NodeDocument(Document):
    """A node of a cluster, as its member last reported."""

    name: str
    group: str
    up: bool
    why: str
    """Of one that takes nothing new."""


class PartitionRequest(Document):
    """How a node's devices shall be divided."""

    layout: LayoutName
    """Of a name that the node's own manager knows, such as `all-1g.10gb`."""
    drain: bool = False
    """Whether what uses its devices is moved elsewhere first, where it may be; else it is refused
    while anything does."""


class PartitionDocument(Document):
    """The last wish that a node's devices be divided anew."""

    node: str
    layout: str
    drain: bool = False
    """Whether what uses its devices is moved elsewhere first."""
    phase: PartitionPhase
    """`asked`, `under-way` (nothing new is placed there), `done`, `refused` (nothing was changed),
    `failed`."""
    reason: str
    asked_at: str
    ended_at: str | None


class WarningDocument(Document):
    """Something of a cluster that a person should know."""

    at: str
    what: str


class ClusterDetails(ClusterDocument):
    """A member cluster with what only those see who look after the fleet."""

    nodes: list[NodeDocument] = Field(default_factory=list)
    partitions: list[PartitionDocument] = Field(default_factory=list)
    warnings: list[WarningDocument] = Field(default_factory=list)
    """The last ones, newest first."""


class StateRequest(Document):
    """What shall become of a cluster."""

    state: ClusterState
    """`joined`, `cordoned` (nothing new is placed there), `draining` (and what runs there is moved
    away), `lost` (it will not come back: what ran there is started elsewhere)."""


class PlannedAttempt(Document):
    """One attempt of a cluster's desired set."""

    job: str
    attempt: int
    tenant: str
    state: AttemptState
    epoch: int
    desired_revision: int
    reason: str = ""
    spec: dict[str, JsonValue] = Field(default_factory=dict)
    """What the plan says about it."""


class PlanDocument(Document):
    """The desired set of a cluster, and how far its member has come."""

    cluster: str
    desired_epoch: int
    desired_revision: int
    accepted_epoch: int
    accepted_revision: int
    attempts: list[PlannedAttempt]
