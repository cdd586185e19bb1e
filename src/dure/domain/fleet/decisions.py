"""Decisions of the fleet as values: orders, placements, and the reasons they carry with them."""

from dataclasses import dataclass, field

from dure.domain.fleet.workloads import Workload
from dure.domain.ids import ClusterId, WorkloadId


@dataclass(frozen=True, slots=True)
class Site:
    """A node group of a cluster: what the global stage chooses."""

    cluster: ClusterId
    group: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.group}"


@dataclass(frozen=True, slots=True)
class Alternative:
    """A place that was not taken."""

    site: Site
    start_ns: int
    total: float
    """What it would have cost by the same sum, congestion included."""
    why: str = ""
    """Why not, where it was not the sum alone."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a workload is where it is. Money in the fleet's currency, over the expected run."""

    terms: tuple[tuple[str, float], ...]
    """Every term of the objective by name, signed: costs above zero, savings below."""
    g_co2: float = 0.0
    sla_risk: float = 0.0
    """Expected penalty, before weights."""
    congestion: float = 0.0
    """What it pays for being where others want to be."""
    runner_up: Alternative | None = None
    note: str = ""

    @property
    def money(self) -> float:
        """All terms."""
        return sum(value for _, value in self.terms)

    @property
    def total(self) -> float:
        """What was compared: all terms and the congestion price."""
        return self.money + self.congestion


@dataclass(frozen=True, slots=True)
class Order:
    """A workload (or some instances of a service) that a cluster is to run."""

    workload: Workload
    site: Site
    attempt: int
    """Counts placements of this workload; a cluster ignores what is older than it knows."""
    instances: int
    """Workers of a gang, warm replicas of a service in this cluster."""
    resume_share: float = 0.0
    """Part of the work that is already done."""
    start_ns: int = 0
    """Not before this moment."""
    explanation: Explanation = field(default_factory=lambda: Explanation(()))
    makes_room: bool = False
    """Of a service that has no replica anywhere: replicas that others can spare give way to its
    first."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one instance sits in its cluster."""

    node: int
    devices: tuple[int, ...]
    """Device numbers within the cluster."""
    masks: tuple[int, ...] = ()
    """Slots taken on each device, where it is divided in slots."""
    template: str = ""
    """Slice template on each device; empty: whole devices."""
    compute_milli: int = 1000
    """Share of each device."""


@dataclass(frozen=True, slots=True)
class InstanceId:
    """One instance of a workload in a cluster."""

    workload: WorkloadId
    attempt: int
    index: int


@dataclass(frozen=True, slots=True)
class SiteSummary:
    """What the global stage knows of a site: capacity, not devices."""

    site: Site
    profile: str
    nodes: int
    """Nodes that are up, powered or not."""
    nodes_in_use: int
    """Nodes with at least one instance: these are billed."""
    devices: int
    free_devices: int
    """Devices with nothing on them."""
    free_on_used_nodes: int
    """Of those, on nodes that are billed anyway."""
    free_compute_milli: int
    free_memory_bytes: int
    free_cpu_milli: int
    free_host_memory_bytes: int
    largest_node_free: int
    """Most free devices on one node."""
    free_slices: tuple[tuple[str, int], ...] = ()
    """How many more of each slice template would fit."""
    waiting_devices: int = 0
    """Asked for by orders that wait here."""
    fragmentation: float = 0.0
    """Share of free capacity that expected demand could not use."""
    revision: int = 0
    free_bandwidth_milli: int | None = None
    """Of device memory, in thousandths of a device; None: not known."""
    nodes_by_free: tuple[int, ...] = ()
    """How many nodes have 0, 1, 2, … free devices; empty: not known."""
