"""What an operator chooses: weights, thresholds and rules for each class of work."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.units import NS_PER_S

MINUTE_NS = 60 * NS_PER_S
HOUR_NS = 60 * MINUTE_NS


@dataclass(frozen=True, slots=True)
class ClassPolicy:
    """How one class of work is placed."""

    cost_weight: float = 1.0
    """On rent, energy and transfers."""
    carbon_per_tonne: float = 50.0
    """Shadow price of a tonne of CO2, in the fleet's currency."""
    sla_weight: float = 1.0
    """On expected penalties; observed violations raise it on line."""
    locality_weight: float = 1.0
    """On savings by weights and data that are already there; frequent reuse raises it."""
    defer: bool = True
    """Whether delay-tolerant work may wait for a better hour."""
    migrate: bool = True
    preempt: bool = True
    """Whether it may displace work of lower priority."""
    migration_threshold: float = 1.0
    """Least expected saving of a move, net of all its costs, in the fleet's currency."""
    migration_share: float = 0.05
    """Least expected saving of a move as a share of what staying would still cost."""
    cool_down_ns: int = HOUR_NS
    """Least time between two moves of one workload."""
    minimum_runtime_ns: int = 10 * MINUTE_NS
    """What a job may run before it can be displaced."""


@dataclass(frozen=True, slots=True)
class CongestionRules:
    """How the price of a busy cluster moves."""

    damping: float = 0.3
    """Share of the way to the newly found price that is gone in one round."""
    most_change: float = 0.5
    """Largest change in one round, as a share of the device's own price."""
    pinned: Mapping[str, float] = field(default_factory=dict)
    """Prices held by hand, per device-hour, by cluster."""
    frozen: bool = False
    """Whether all prices stay as they are."""
    enabled: bool = True
    """Whether decisions feel the prices of earlier rounds at all."""


@dataclass(frozen=True, slots=True)
class FleetPolicy:
    """Everything the global stage weighs by."""

    training: ClassPolicy = field(default_factory=ClassPolicy)
    batch: ClassPolicy = field(default_factory=ClassPolicy)
    serving: ClassPolicy = field(default_factory=lambda: ClassPolicy(defer=False))
    congestion: CongestionRules = field(default_factory=CongestionRules)
    adapt_latency: bool = True
    """Whether broken promises make lateness count more for a while."""
    adapt_locality: bool = True
    """Whether weights and data that are used often make places near them worth more."""
    locality: bool = True
    """Whether it counts where weights and data already lie."""
    defer: bool = True
    """Whether any work may wait for a better hour; classes can refuse it for themselves."""
    migrate: bool = True
    """Whether anything may move; classes can refuse it for themselves."""
    forecast: bool = True
    """Whether the future is predicted; else the present is expected to last."""
    carbon_budget_g: float | None = None
    """For the whole fleet and period; None: the shadow price alone."""
    period_ns: int = 744 * HOUR_NS
    """Of budgets."""
    period_start_ns: int | None = None
    """When one of the periods began; they follow one another without a gap. None: with the first
    that is heard of the fleet."""
    submissions_ns: int | None = None
    """How long from the start of a period new work is expected to come; None: all of it. What
    paces a budget looks no further ahead for work that is not known yet."""
    most_moves: int = 20
    """Migrations in flight and per round."""
    most_preemptions: int = 50
    """Displaced workloads per round."""
    local_moves_at_once: int | None = None
    """Moves inside one cluster, to merge free slices and empty nodes, that are under way at a time;
    None: as its local stage does."""
    local_moves_per_hour: int | None = None
    """The same that are begun within any hour."""
    reclaim_after_ns: int | None = 10 * MINUTE_NS
    """How long a job that fits nowhere waits before its tenant, if below its share, may take back
    what tenants above theirs have borrowed; sooner where its deadline asks for it. None: never."""
    dry_run: bool = False
    """Say which migrations would be made, make none."""

    def period_of(self, now_ns: int) -> int:
        """When the period that a moment lies in began."""
        if self.period_start_ns is None:
            return now_ns
        return now_ns - (now_ns - self.period_start_ns) % self.period_ns

    def of(self, kind: WorkloadKind) -> ClassPolicy:
        """The rules of one class."""
        match kind:
            case WorkloadKind.TRAINING:
                return self.training
            case WorkloadKind.BATCH:
                return self.batch
            case WorkloadKind.SERVING:
                return self.serving
