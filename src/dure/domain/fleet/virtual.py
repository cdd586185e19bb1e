"""Virtual clusters: what a tenant has of its own over hardware that all share.

A *scoped* one is a namespace in each of its clusters, with what belongs around it. A *dedicated*
one is an API server of the tenant's own, in which its pools are nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from dure.domain.ids import PoolId, TenantId

FEATURE = "virtual"
"""Of a member that makes namespaces, and knows what `AccessRequest`s are."""


class VirtualTier(Enum):
    """How much of its own a virtual cluster has."""

    SCOPED = "scoped"
    DEDICATED = "dedicated"


class SpacePhase(Enum):
    """How a virtual cluster is in one member cluster."""

    ASKED = "asked"
    """The cluster has not said anything about it yet."""
    READY = "ready"
    REFUSED = "refused"
    """It is not, or not wholly, as it shall be, and its `why` says what to do."""
    LEAVING = "leaving"
    """It shall go, and something keeps it: its `why` says what."""
    GONE = "gone"
    """Nothing of it is left here."""


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    """A virtual cluster as a member needs to know it."""

    name: str
    tenant: TenantId
    tier: VirtualTier
    number: int
    """Of its document's revision: what is said of another one says nothing of this."""
    namespace: str = ""
    """Of a scoped one in this cluster."""
    pools: tuple[PoolId, ...] = ()
    quota: Mapping[str, str] = field(default_factory=dict)
    """Of a scoped one: amounts as Kubernetes writes them, by resource, in this cluster."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """What a container asks for that does not say it, by resource."""
    isolated: bool = True
    """Whether nobody of other namespaces can connect to its Pods."""
    leaving: bool = False
    """Whether it shall go."""
    forced: bool = False
    """Of one that shall go: whether Pods that run there are no reason to wait."""


@dataclass(frozen=True, slots=True)
class SpaceStatus:
    """How a virtual cluster is in one member cluster, as that says."""

    name: str
    number: int
    phase: SpacePhase
    why: str = ""
    pods: int = 0
    """In its namespace, that have not ended."""
