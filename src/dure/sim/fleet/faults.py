"""Faults that can be injected into a simulated fleet: nodes, clusters, the centre."""

from dataclasses import dataclass
from enum import Enum

from dure.domain.ids import ClusterId


class ClusterFaultKind(Enum):
    """How a cluster fails."""

    UNREACHABLE = "unreachable"
    """It works on, but neither orders nor reports get through."""
    LOST = "lost"
    """All its nodes die, and it cannot be reached."""


@dataclass(frozen=True, slots=True)
class NodeFault:
    """One node dies and comes back empty."""

    at_ns: int
    duration_ns: int
    cluster: ClusterId
    node: int
    """Counted through the node groups of its cluster, in their order."""


@dataclass(frozen=True, slots=True)
class ClusterFault:
    """A whole cluster fails for a while."""

    at_ns: int
    duration_ns: int
    cluster: ClusterId
    kind: ClusterFaultKind = ClusterFaultKind.UNREACHABLE


@dataclass(frozen=True, slots=True)
class CentreFault:
    """The global stage is dead for a while: clusters go on alone.

    What happens meanwhile is told to it, in order, when it is back.
    """

    at_ns: int
    duration_ns: int


Fault = NodeFault | ClusterFault | CentreFault
