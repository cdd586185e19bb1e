"""What the local stage of one cluster is started with."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dure.domain.errors import InputError
from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.policy import HOUR_NS, MINUTE_NS
from dure.domain.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class QueueRules:
    """How long orders wait and who may pass whom."""

    patience_ns: int | None = 6 * HOUR_NS
    """How long an order waits here before it goes back to the centre; None: for ever."""
    most_passes: int = 16
    """Smaller orders that may be placed past a blocked one before nodes are kept for it."""
    hold_after_ns: int = HOUR_NS
    """How long an order is blocked before nodes are kept for it, however few have passed."""
    hold_renew_ns: int = HOUR_NS
    """How long the same nodes are kept before the choice is made anew."""
    most_failures: int = 5
    """Starts of an order that may come to nothing, one after another, before it goes back."""
    shun_ns: int = 5 * MINUTE_NS
    """How long other nodes come first after a start on one came to nothing."""


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """How the replicas of a service follow its load."""

    headroom: float = 1.1
    """Load that is provided for, as a factor on the observed rate."""
    shrink_headroom: float = 1.3
    """Load that fewer replicas must be able to carry before one is stopped, as a factor on the
    observed rate; more than `headroom`, so that a load that wavers does not stop and start."""
    mean_ns: int = HOUR_NS
    """Time over which a service's usual rate is averaged. Its replicas suffice for what may come
    before they can follow: that mean and a margin by how far rates were above it before."""
    spread_ns: int = 6 * HOUR_NS
    """Time over which it is remembered how far rates were above the mean."""
    first_margin: float = 1.3
    """Of a service that is new, in spreads: nine of ten rates are below."""
    most_margin: float = 2.3
    """The same at most, for 99 of 100."""
    learn_per_h: float = 6.0
    """Spreads by which the margin grows for each hour that answers were late by a burst."""
    least_late: float = 0.005
    """Share of time that answers may be late by bursts, where a replica costs little against the
    penalty of a violated minute."""
    most_late: float = 0.01
    """The same where it costs much, and where no penalty is stated."""
    most_factor: float = 3.0
    """Most load that is provided for beyond what is observed, as a factor on the usual rate."""
    drain_s: float = 60.0
    """Time in which a queue that has built up should be gone."""
    warn_share: float = 0.9
    """Share of the latency budget from which on a latency is a warning."""
    grow_share: float = 0.25
    """What a latency warning adds, as a share of the replicas there are; at least one."""
    grow_hold_ns: int = 10 * MINUTE_NS
    """How long growth by a warning is kept; the next warning starts the time anew."""
    most_growth: float = 1.0
    """Most replicas that warnings add, as a share of what the load itself needs."""
    shrink_hold_ns: int = 5 * MINUTE_NS
    """How long fewer replicas must be enough before any is stopped, and between two steps."""
    shrink_share: float = 0.25
    """Replicas stopped in one step, as a share of those there are; at least one."""
    zero_after_ns: int = 15 * MINUTE_NS
    """How long nothing must come before a service without a warm minimum is scaled to zero."""
    larger_slices: bool = True
    """Whether a service that may not have more replicas gets larger slices on a warning."""
    settle_ns: int = 10 * NS_PER_S
    """Where slices grow while they are in use: how long a step may take to show in the latency
    before the next one, or a replica, is added."""


@dataclass(frozen=True, slots=True)
class ElasticRules:
    """How elastic gangs use what is idle."""

    interval_ns: int = 10 * MINUTE_NS
    """Least time between two rounds of growth."""
    onto_empty_nodes: bool | None = None
    """Whether a gang may grow onto nodes that nobody uses; None: where they are owned."""
    reserve_devices: int = 0
    """Free devices of a group that growth leaves alone."""
    shrink_share: float = 0.5
    """Of its additional workers, how many a gang gives back at a checkpoint; at least one."""


@dataclass(frozen=True, slots=True)
class PowerRules:
    """When empty nodes are switched off."""

    idle_ns: int = 10 * MINUTE_NS
    """How long a node must be empty."""
    spare_nodes: int = 0
    """Empty nodes of each group that stay powered."""


@dataclass(frozen=True, slots=True)
class TidyRules:
    """How instances are moved to merge free slices and to empty nodes."""

    interval_ns: int = HOUR_NS
    """Time between two looks at the whole cluster."""
    most_moves: int = 8
    """Instances moved by one look."""
    most_at_once: int | None = None
    """Moves that are under way at a time: a service's whose new place is not warm yet, a job's
    that wait for a checkpoint; None: no bound. A policy may say otherwise."""
    most_per_hour: int | None = None
    """Moves that are begun within any hour; None: no bound. A policy may say otherwise."""
    blocked_ns: int = 10 * MINUTE_NS
    """How long an order must be blocked before others move to make room for it."""
    empty_ns: int = 5 * NS_PER_S
    """Time between two looks at nodes that somebody wants to be empty."""
    gain: float = 2.0
    """Devices that must be won (emptied with their node, or made usable for the blocked order)
    for each device whose holder is moved."""
    rest_ns: int = HOUR_NS
    """Least time between two moves of one instance."""
    worth_moving_ns: int = 30 * MINUTE_NS
    """What a job must still have to run for a move to pay; others leave by themselves."""


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Everything the local stage of one cluster knows before its first event."""

    cluster: Cluster
    queue: QueueRules = field(default_factory=QueueRules)
    scaling: ScalingRules = field(default_factory=ScalingRules)
    growth: ElasticRules = field(default_factory=ElasticRules)
    power: PowerRules = field(default_factory=PowerRules)
    tidy: TidyRules = field(default_factory=TidyRules)
    autoscale: bool = True
    """Whether replicas follow the load; else a service keeps what it was ordered with."""
    elastic: bool = True
    """Whether gangs that can grow and shrink do so."""
    power_down: bool = True
    """Whether empty nodes are switched off."""
    defragment: bool = True
    """Whether instances are moved to merge free slices and to empty nodes."""
    in_place: frozenset[str] = frozenset()
    """Node groups where the slice of an instance can be changed while it runs."""
    nodes_on_at_start: bool = True
    """Whether nodes are powered before the first event."""
    round_trip_ms: Mapping[str, float] = field(default_factory=dict)
    """From each user region to this cluster and back; a region not named is next door."""
    rates: ExchangeRates = field(default_factory=ExchangeRates)
    """Bring the cluster's prices to the currency of penalties."""
    validate: bool = False
    """Check every invariant after every event; for tests."""

    def __post_init__(self) -> None:
        names = [group.name for group in self.cluster.groups]
        if len(set(names)) != len(names):
            raise InputError(
                f"cluster '{self.cluster.id}' has two node groups of one name", "rename one"
            )
        for group in self.cluster.groups:
            if min(group.count, group.devices, group.cpu_milli, group.host_memory_bytes) < 0:
                raise InputError(
                    f"node group '{group.name}' of '{self.cluster.id}' has a negative capacity",
                    "use 0 or more",
                )
