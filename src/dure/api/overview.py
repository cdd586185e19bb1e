"""The fleet at a glance: what each cluster costs, emits, holds and has free, and where work is."""

from pydantic import Field

from dure.api.base import Document
from dure.api.clusters import ClusterKind
from dure.domain.fleet.clusters import ClusterClass
from dure.domain.fleet.lifecycle import ClusterState


class AcceleratorPlace(Document):
    """One kind of accelerator in a cluster."""

    profile: str
    devices: int
    free_devices: int
    owned: bool
    """Whether only its energy is paid."""
    price: float
    """Of a busy device for an hour, now, in the fleet's currency."""
    g_co2: float
    """Of a busy device in an hour, now."""


class ClusterPlace(Document):
    """One cluster at a glance."""

    name: str
    region: str
    provider: str
    cluster_class: ClusterClass = Field(validation_alias="class", serialization_alias="class")
    kind: ClusterKind
    state: ClusterState
    connected: bool
    last_contact_at: str | None
    devices: int
    free_devices: int
    waiting_devices: int
    """Asked for by orders that wait there."""
    utilisation: float | None
    """Share of its devices' compute that is held; null: it has not said what it has."""
    fragmentation: float | None
    """Share of its free capacity that expected demand cannot use."""
    price: float | None
    """Of a busy device for an hour, mean over its devices, in the fleet's currency."""
    congestion: float
    """What others' wish adds to that, mean over its sites."""
    carbon: float
    """Grams of CO2 per kilowatt-hour, now."""
    electricity: float
    """Price of a megawatt-hour, now, in its tariff's currency."""
    running: int | None
    """Attempts that run there; null: not for this asker."""
    accelerators: list[AcceleratorPlace]


class OverviewDocument(Document):
    """GET /v1/overview."""

    at: str
    currency: str
    policy: str | None
    """In force; null: the defaults."""
    jobs: dict[str, int]
    """Jobs by phase, of those that the asker may see."""
    clusters: list[ClusterPlace]
