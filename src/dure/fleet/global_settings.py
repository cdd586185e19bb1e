"""What the global stage is started with; every number has its unit and its reason."""

from dataclasses import dataclass, field

from dure.domain.fleet.clusters import Fleet
from dure.domain.fleet.policy import HOUR_NS, MINUTE_NS, FleetPolicy


@dataclass(frozen=True, slots=True)
class GlobalSettings:
    """What a global machine is started with."""

    fleet: Fleet
    """Exchange rates, egress prices and latencies; its clusters join by event."""
    policy: FleetPolicy = field(default_factory=FleetPolicy)
    """Until another is set."""
    validate: bool = False
    """Check invariants after every event; for tests."""
    start_slots_h: tuple[int, ...] = (0, 1, 4, 12, 32, 72)
    """Hours from now at which delay-tolerant work may be planned to start, from 0, ascending.
    Whoever finds no room within the last of them rents: with three days, work that may wait two
    beyond its own length can wait for most of the devices that are owned and taken now."""
    review_ns: int = HOUR_NS
    """A job that waits is looked at again at least this often."""
    unserved_review_ns: int = 5 * MINUTE_NS
    """A service without any replica is looked at again at least this often."""
    unserved_warning_ns: int = 15 * MINUTE_NS
    """How long a service may be without any replica before somebody is told."""
    most_candidates: int = 512
    """Jobs weighed in one round; the rest, least urgent first, comes in the next."""
    hold_ns: int = HOUR_NS
    """A job that has waited so long and may wait no longer is sent where there are enough devices,
    if not on nodes as it needs them: the cluster keeps them for it and makes room."""
    avoid_ns: int = 15 * MINUTE_NS
    """How long a site that turned a job down is not asked again for it."""
    fence_ns: int = 10 * MINUTE_NS
    """When a cluster that was cut off has surely stopped what must be fenced."""
    patience_ns: int = 24 * HOUR_NS
    """How long delay-tolerant work without a deadline waits for something better."""
    wait_share_per_h: float = 0.001
    """What an hour of planned waiting must save at least, as a share of the cost of starting now:
    plans for later are less certain than a place that is free."""
    runtime_margin: float = 0.05
    """Expected overrun as a share of the predicted runtime; what deferral keeps as safety."""
    expected_fill: float = 0.8
    """Share of a rented node that is used while it is open, until summaries tell."""
    prices_ahead_ns: int = 24 * HOUR_NS
    """How far ahead electricity prices are published (day-ahead markets)."""
    carbon_ahead_ns: int = 0
    """The same of carbon intensity, which is known once it is over."""
    service_horizon_h: float = 24.0
    """Over how long a service's placement is weighed."""
    scan_ns: int = HOUR_NS
    """Between two looks for migrations, unless prices or carbon moved."""
    scan_change: float = 0.1
    """Share by which the rent, the electricity price or the carbon intensity of a cluster must
    differ from what it was at the last look for another one to be taken at once: less hardly makes
    a move worth its cost."""
    scan_least_ns: int = 5 * MINUTE_NS
    """Between two looks, however much prices move, and between two comparisons of prices."""
    budget_warning: float = 0.8
    """Used share of a budget at which its tenant is warned."""
