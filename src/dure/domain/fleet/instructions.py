"""Instructions of the fleet: everything its two machines ever ask to be done."""

from dataclasses import dataclass
from enum import Enum

from dure.domain.fleet.decisions import InstanceId, Order, Placement, SiteSummary
from dure.domain.fleet.tenancy import Allotment
from dure.domain.ids import ClusterId, WorkloadId

# --- of the global stage -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlaceWorkload:
    """Give this order to its cluster."""

    order: Order


@dataclass(frozen=True, slots=True)
class DeferWorkload:
    """Leave it waiting: later is better."""

    workload: WorkloadId
    until_ns: int
    why: str


@dataclass(frozen=True, slots=True)
class MoveWorkload:
    """Bring it to another cluster: a service warm first, a job at its next checkpoint."""

    workload: WorkloadId
    source: ClusterId
    order: Order
    expected_saving: float
    """Net of all costs of the move."""
    dry_run: bool = False
    egress: float = 0.0
    """What carrying checkpoint, weights and data costs."""
    carbon_saved_g: float = 0.0


@dataclass(frozen=True, slots=True)
class RefuseMove:
    """A move that somebody asked for cannot be made."""

    workload: WorkloadId
    why: str


@dataclass(frozen=True, slots=True)
class PreemptWorkload:
    """Stop it for something that comes first; it waits for another place."""

    workload: WorkloadId
    cluster: ClusterId
    attempt: int
    wanted_by: WorkloadId
    cost: float
    """What displacing it costs: work lost, lateness, transfers."""
    why: str = ""
    """By what right, where that is not its priority."""


@dataclass(frozen=True, slots=True)
class SetAllotments:
    """Leases of one cluster, all of them."""

    cluster: ClusterId
    allotments: tuple[Allotment, ...]


@dataclass(frozen=True, slots=True)
class RefuseWorkload:
    """It can never run as described."""

    workload: WorkloadId
    why: str
    nearest: str
    """The nearest thing that would fit."""


@dataclass(frozen=True, slots=True)
class PublishPrices:
    """Congestion prices per device-hour that changed in this round."""

    prices: tuple[tuple[str, float], ...]
    """By site."""


class WarnKind(Enum):
    """What a warning is about."""

    GENERAL = "general"
    RIGHT_SIZE = "right-size"
    """A workload should ask for more or less than it does."""
    ADAPTED = "adapted"
    """A weight of the objective follows a signal."""


@dataclass(frozen=True, slots=True)
class Warn:
    """Tell whoever listens: a budget near its end, a deadline that cannot hold, a right size."""

    about: str
    what: str
    remedy: str = ""
    kind: WarnKind = WarnKind.GENERAL


# --- of the local stage --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartInstance:
    """Run an instance there."""

    instance: InstanceId
    order: Order
    placement: Placement


@dataclass(frozen=True, slots=True)
class StopInstance:
    """End an instance."""

    instance: InstanceId
    why: str


@dataclass(frozen=True, slots=True)
class MoveInstance:
    """Put an instance elsewhere in its cluster."""

    instance: InstanceId
    placement: Placement
    why: str
    warm_first: bool
    """Start the new one before the old one ends."""


@dataclass(frozen=True, slots=True)
class ResizeInstance:
    """Give an instance more or less of the very devices it has, while it runs."""

    instance: InstanceId
    placement: Placement
    why: str


@dataclass(frozen=True, slots=True)
class SizeService:
    """Let so many instances of a service take requests, and keep others warm beside them."""

    workload: WorkloadId
    attempt: int
    serving: int
    """Those that are ready, in the order of their indices."""
    standby: int
    level: int
    """Steps by which slices are larger than asked for."""
    why: str


@dataclass(frozen=True, slots=True)
class PowerNode:
    """Switch an empty node off, or on again."""

    node: int
    on: bool


@dataclass(frozen=True, slots=True)
class TurnDownOrder:
    """This cluster cannot run it and no longer tries."""

    workload: WorkloadId
    attempt: int
    why: str


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """Tell the centre what is left."""

    sites: tuple[SiteSummary, ...]


GlobalInstruction = (
    PlaceWorkload
    | DeferWorkload
    | MoveWorkload
    | RefuseMove
    | PreemptWorkload
    | SetAllotments
    | RefuseWorkload
    | PublishPrices
    | Warn
)
LocalInstruction = (
    StartInstance
    | StopInstance
    | MoveInstance
    | ResizeInstance
    | SizeService
    | PowerNode
    | TurnDownOrder
    | ReportSummary
    | Warn
)
