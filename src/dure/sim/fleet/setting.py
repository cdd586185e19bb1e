"""What a simulated fleet run takes place in: the same setting for every mode that is compared.

The fleet's clock counts nanoseconds since the Unix epoch, so that hours of the week in tariffs and
the hours of price and carbon series mean what they say.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dure.domain.errors import InputError
from dure.domain.fleet.clusters import Fleet
from dure.domain.fleet.policy import MINUTE_NS, FleetPolicy
from dure.domain.fleet.tenancy import FleetTenant, VNodePool
from dure.domain.fleet.workloads import Artefact, Workload
from dure.domain.ids import ClusterId, WorkloadId
from dure.sim.fleet.faults import CentreFault, ClusterFault, Fault, NodeFault


@dataclass(frozen=True, slots=True)
class LoadCurves:
    """True request rates of all services, in columns. After the end the last value holds."""

    services: tuple[WorkloadId, ...]
    """Row by row."""
    requests_per_s: NDArray[np.float64]
    """By service and step."""
    start_ns: int
    step_ns: int = 5 * MINUTE_NS

    def __post_init__(self) -> None:
        shape = self.requests_per_s.shape
        if len(shape) != 2 or shape[0] != len(self.services) or (shape[0] and not shape[1]):
            raise InputError(
                f"load curves of {len(self.services)} services have the shape {shape}",
                "give one row a service and one column a step",
            )
        if not np.isfinite(self.requests_per_s).all() or (self.requests_per_s < 0).any():
            raise InputError("a load curve has a gap or a rate below zero", "fill it in the data")

    @classmethod
    def none(cls) -> "LoadCurves":
        """No services."""
        return cls((), np.zeros((0, 1)), 0)

    def step(self, now_ns: int) -> int:
        """The column that holds at a moment."""
        return min(max(0, (now_ns - self.start_ns) // self.step_ns), self.steps - 1)

    def at(self, now_ns: int) -> NDArray[np.float64]:
        """Every service's rate at a moment, requests a second."""
        column: NDArray[np.float64] = self.requests_per_s[:, self.step(now_ns)]
        return column

    @property
    def steps(self) -> int:
        """Columns."""
        return int(self.requests_per_s.shape[1])


@dataclass(frozen=True, slots=True)
class LocalFeatures:
    """What the local stage of every cluster may do beside placing what it is given."""

    defragment: bool = True
    """Merge free slices and compact nodes from time to time."""
    elastic: bool = True
    """Grow elastic gangs into idle devices, shrink them again."""
    power_down: bool = True
    """Switch empty nodes off."""
    autoscale: bool = True
    """Follow the load of services between the warm minimum and the most replicas."""


@dataclass(frozen=True, slots=True)
class Physics:
    """Delays of the simulated world that no part of the fleet model states."""

    container_start_s: float = 8.0
    """From a node that is ready to a running container: image present, device plug-in, process
    start. Kubernetes' own objective for pod start without image pulls is 5 s at the 99th
    percentile; accelerator runtimes add seconds."""
    nodes_on_at_start: bool = False
    """Whether empty nodes are powered when a run begins."""
    service_report_ns: int = 15 * MINUTE_NS
    """How often the centre hears of each service."""
    report_change: float = 0.05
    """Least relative change of a load that is reported before its time."""
    progress_report_ns: int = 60 * MINUTE_NS
    """How often the centre hears how far a long job is."""
    first_use_report_ns: int = 60 * MINUTE_NS
    """When the centre first hears what a workload really uses; shorter ones are not worth it."""
    use_report_ns: int = 24 * 60 * MINUTE_NS
    """How often it hears it from then on."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything outside the deciders: hardware, prices, work, faults, clocks."""

    fleet: Fleet
    workloads: tuple[Workload, ...]
    """In the order of their submission; services among them."""
    start_ns: int
    """Nanoseconds since the Unix epoch."""
    duration_ns: int
    loads: LoadCurves = field(default_factory=LoadCurves.none)
    """A service without a row gets its expected rate throughout."""
    tenants: tuple[FleetTenant, ...] = ()
    pools: tuple[VNodePool, ...] = ()
    artefacts: tuple[Artefact, ...] = ()
    policy: FleetPolicy = field(default_factory=FleetPolicy)
    switches: tuple[tuple[int, FleetPolicy], ...] = ()
    """Changes of the policy while work runs, in order of time."""
    round_ns: int = MINUTE_NS
    """Time between two rounds of both stages."""
    faults: tuple[Fault, ...] = ()
    local: LocalFeatures = field(default_factory=LocalFeatures)
    physics: Physics = field(default_factory=Physics)
    seed: int = 0
    """Of whatever a mode draws by lot (the race's finish, for one)."""
    prices_known_ahead_ns: int = 24 * 60 * MINUTE_NS
    """How far ahead electricity prices are published (day-ahead markets); what lies beyond must be
    forecast."""
    carbon_known_ahead_ns: int = 0
    """The same of carbon intensity, which is only known once it is over."""
    name: str = ""
    explain: frozenset[str] = frozenset()
    """Workloads of which the reasons of every placement are kept, not of a sample."""
    never_fitting: frozenset[WorkloadId] = frozenset()
    """Workloads of which it has been said that they can never run: not to be said again."""
    signals: bool = False
    """Whether weights of the centre follow signals of trouble that is seen coming."""
    validate: bool = False
    """Check every invariant after every event; slow."""

    def __post_init__(self) -> None:
        if self.round_ns <= 0 or self.duration_ns <= 0:
            raise InputError("a run needs a duration and a time between rounds", "use > 0")
        times = [workload.submitted_ns for workload in self.workloads]
        if any(later < earlier for earlier, later in itertools.pairwise(times)):
            raise InputError("workloads are not in the order of submission", "sort them")
        names = [workload.id for workload in self.workloads]
        if len(set(names)) != len(names):
            raise InputError("two workloads have the same id", "give each its own")
        self._check_references()

    @property
    def end_ns(self) -> int:
        """When the run is over."""
        return self.start_ns + self.duration_ns

    def _check_references(self) -> None:
        """Everything that is named exists."""
        tenants = {tenant.id for tenant in self.tenants}
        artefacts = {artefact.id for artefact in self.artefacts}
        clusters = {cluster.id for cluster in self.fleet.clusters}
        for workload in self.workloads:
            if tenants and workload.tenant not in tenants:
                raise InputError(
                    f"workload '{workload.id}' belongs to '{workload.tenant}', which is no tenant",
                    f"use one of {_some(tenants)}",
                )
            for artefact in (workload.weights, *workload.data):
                if artefact is not None and artefact not in artefacts:
                    raise InputError(
                        f"workload '{workload.id}' uses '{artefact}', which is no artefact",
                        f"use one of {_some(artefacts)}",
                    )
        for fault in self.faults:
            if isinstance(fault, NodeFault | ClusterFault) and fault.cluster not in clusters:
                raise InputError(
                    f"a fault names '{fault.cluster}', which is no cluster",
                    f"use one of {_some(clusters)}",
                )
            if isinstance(fault, NodeFault):
                nodes = self._nodes()[fault.cluster]
                if not 0 <= fault.node < nodes:
                    raise InputError(
                        f"a fault names node {fault.node} of '{fault.cluster}'",
                        f"it has the nodes 0 to {nodes - 1}",
                    )

    def _nodes(self) -> Mapping[ClusterId, int]:
        return {
            cluster.id: sum(group.count for group in cluster.groups)
            for cluster in self.fleet.clusters
        }


def _some(names: Iterable[str]) -> str:
    """A readable part of a set of names."""
    ordered = sorted(names)
    return ", ".join(ordered[:8]) + (", …" if len(ordered) > 8 else "")


__all__ = [
    "CentreFault",
    "ClusterFault",
    "Fault",
    "LoadCurves",
    "LocalFeatures",
    "NodeFault",
    "Physics",
    "Setting",
]
