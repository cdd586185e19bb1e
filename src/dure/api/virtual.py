"""Virtual clusters: what an operator declares, and how they are."""

from enum import Enum
from typing import Annotated

from pydantic import Field, model_validator

from dure.api.base import Document, LowerName, Name, Text
from dure.domain.fleet.virtual import SpacePhase, VirtualTier

Amount = Annotated[
    str, Field(pattern=r"^[0-9]{1,15}(\.[0-9]{1,9})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$", max_length=32)
]
"""A quantity as Kubernetes writes it: `500m`, `64Gi`, `8`."""
ResourceName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([a-z0-9./-]{0,250}[A-Za-z0-9.-]*)?$", max_length=253)
]
Amounts = Annotated[dict[ResourceName, Amount], Field(max_length=64)]
DEFAULTS = {"cpu": "100m", "memory": "128Mi"}
"""What a container counts for that does not say what it needs: little, but something."""


class ApiServer(Enum):
    """Whose the API server of a dedicated virtual cluster is."""

    MANAGED = "managed"
    """Started and kept by `dure vcluster run`."""
    GIVEN = "given"
    """Somebody's own, which `dure vcluster run --kubeconfig` is shown the way to."""


class VirtualClusterSpec(Document):
    """A tenant's own cluster over shared hardware."""

    tenant: LowerName
    tier: VirtualTier
    """`scoped`: a namespace in each of its clusters. `dedicated`: an API server of its own, in
    which the tenant's pools are nodes."""
    team: LowerName | None = None
    """Of a dedicated one: the team of the tenant that its work is billed to, and that may use
    it."""
    clusters: Annotated[list[LowerName], Field(min_length=1, max_length=1000)] | None = None
    """Of a scoped one: where it is; in all clusters of Kubernetes where this is left out."""
    pools: Annotated[list[Name], Field(max_length=1000)] = Field(default_factory=list)
    """Of a dedicated one: pools of the tenant, which become its nodes."""
    quota: Amounts = Field(default_factory=dict)
    """Of a scoped one: the most that its namespace may hold in each cluster, by the names of
    Kubernetes: `requests.cpu`, `requests.nvidia.com/gpu`, `pods`, …"""
    defaults: Amounts = Field(default_factory=lambda: dict(DEFAULTS))
    """Of a scoped one: what a container asks for that does not say it."""
    isolated: bool = True
    """Of a scoped one: whether nobody of other namespaces can connect to its Pods."""
    api_server: ApiServer = ApiServer.MANAGED
    """Of a dedicated one."""

    @model_validator(mode="after")
    def _fits(self) -> "VirtualClusterSpec":
        if self.tier is VirtualTier.SCOPED:
            if self.pools:
                raise ValueError("pools are nodes of a dedicated one; leave them out, or tier")
            if self.team is not None:
                raise ValueError(
                    "team: namespaces are of tenants; leave it out, or make it dedicated"
                )
            return self
        if not self.pools:
            raise ValueError("pools: it would have no nodes; name at least one pool of its tenant")
        if len(set(self.pools)) < len(self.pools):
            raise ValueError("pools: one is named twice; name each once")
        if self.clusters is not None or self.quota:
            raise ValueError(
                "clusters and quota are of scoped ones; say them in the pools, or leave them out"
            )
        return self


class SpaceDocument(Document):
    """How a scoped virtual cluster is in one cluster."""

    cluster: str
    namespace: str
    phase: SpacePhase
    reason: str
    pods: int
    """In its namespace, that have not ended, as its cluster last said."""


class VirtualStanding(Document):
    """What the process of a dedicated virtual cluster says of it."""

    phase: Annotated[str, Field(pattern="^(starting|ready|broken|ended)$", max_length=16)]
    message: Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")] = ""
    url: Annotated[str, Field(max_length=1024, pattern=r"^(https://[^\x00-\x20]+)?$")] = ""
    """Of its API server."""
    authority: Text = ""
    """Whom to trust about it, in PEM."""
    nodes: Annotated[int, Field(ge=0, le=1000)] = 0
    pods: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """That are bound to them and have not ended."""


class VirtualClusterDocument(Document):
    """A virtual cluster."""

    name: str
    spec: VirtualClusterSpec
    deleting: bool = False
    """Whether it shall go, and waits for its clusters to say that nothing of it is left."""
    spaces: list[SpaceDocument] = Field(default_factory=list)
    """Of a scoped one."""
    standing: VirtualStanding | None = None
    """Of a dedicated one, as its process last said."""
    said_at: str | None = None
    """When it did."""
    alive: bool = False
    """Whether it did so lately."""
    revision: int
    created_at: str


class NodeShare(Document):
    """A part of a virtual node in one cluster, in units of its pool."""

    cluster: str
    units: int
    """Of the pool's own that are kept here."""
    lent: int
    """Of those, how many others may use while they are idle."""
    used: int
    """By the pool's own jobs."""
    room: int
    """For more of them now."""


class VirtualNode(Document):
    """A pool as a node, as it is now."""

    pool: str
    profile: str
    slice: str
    """Empty: whole devices."""
    resource: str
    """What Pods ask for."""
    capacity: int
    """Units that are its own, or in use: those that are lent count."""
    allocatable: int
    """Units that its Pods have or could have now."""
    cpu_milli: int
    memory_bytes: int
    """Of hosts, that go with the allocatable units."""
    unit_memory_bytes: int
    """Of one unit's device."""
    missing: int = 0
    """Guaranteed units that no cluster has room for."""
    shares: list[NodeShare]


class VirtualNodes(Document):
    """The nodes of a dedicated virtual cluster."""

    name: str
    tenant: str
    team: str = ""
    nodes: list[VirtualNode]


class KubeconfigRequest(Document):
    """Access that somebody wants."""

    cluster: LowerName
    hours: Annotated[int, Field(ge=1, le=168)] = 12
    """How long its token shall hold."""


class IssuedAccess(Document):
    """How to reach the namespace of a scoped virtual cluster in one cluster."""

    url: str
    authority: str
    token: Annotated[str, Field(repr=False)]
    namespace: str
