"""What a simulated fleet run came to: plain figures, ready for tables, plots and JSON.

Money is in the fleet's currency, carbon in kilograms, time in seconds unless a name says otherwise.
"""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class MoneyTerms:
    """A sum of money by what it was paid for."""

    rent: float = 0.0
    """Node-hours of rented devices, by the tariff calendar."""
    energy: float = 0.0
    """Electricity of owned devices, powered but idle ones included."""
    transfers: float = 0.0
    """Egress of weights, data and checkpoints."""
    late_jobs: float = 0.0
    """Penalties of jobs that missed their deadline."""
    slow_services: float = 0.0
    """Penalties of services that answered later than their target."""
    unfinished: float = 0.0
    """What is left undone at the end, at the dearest on-demand price that could run it."""

    @property
    def total(self) -> float:
        """All of it."""
        return (
            self.rent
            + self.energy
            + self.transfers
            + self.late_jobs
            + self.slow_services
            + self.unfinished
        )


@dataclass(frozen=True, slots=True)
class JobFigures:
    """Training and batch jobs."""

    submitted: int = 0
    ended: int = 0
    unfinished: int = 0
    """Neither ended nor refused when the run was over."""
    refused: int = 0
    """Could never have fitted."""
    with_deadline: int = 0
    """Whose deadline lies within the run."""
    on_time_share: float = 1.0
    """Of those with a deadline within the run."""
    mean_completion_s: float = 0.0
    """From submission to end; unfinished jobs count as long as they have been around."""
    p95_completion_s: float = 0.0
    mean_wait_s: float = 0.0
    """From submission to the first start; those that never started count until the end."""
    p95_wait_s: float = 0.0
    lost_device_h: float = 0.0
    """Work done twice: progress since the last checkpoint when a job stopped or lost a node."""


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """Serving workloads, by the minute."""

    services: int = 0
    minutes: float = 0.0
    """Service-minutes with requests."""
    within_target_share: float = 1.0
    """Of those, answered within the target."""
    violated_minutes: float = 0.0
    mean_replicas: float = 0.0
    """Warm instances, mean over services and time."""
    requests: float = 0.0
    starts: int = 0
    """Instances started: by the autoscaler, moves and faults."""


@dataclass(frozen=True, slots=True)
class ActionFigures:
    """What the deciders did."""

    placements: int = 0
    moves: int = 0
    """Migrations between clusters that were carried out."""
    moves_abandoned: int = 0
    """Migrations that were overtaken: the job ended first, or its cluster was lost."""
    moves_proposed: int = 0
    """Dry-run migrations."""
    expected_saving: float = 0.0
    """What the migrations were expected to save, net."""
    realised_saving: float = 0.0
    """What they saved: the same work, or time, at the rate paid at the old place, less what was
    paid at the new one (rent, energy, a service's penalties) and for the move itself."""
    local_moves: int = 0
    """Instances moved within their cluster (defragmentation, compaction)."""
    preemptions: int = 0
    deferrals: int = 0
    turned_down: int = 0
    grown: int = 0
    """Workers added to elastic gangs."""
    shrunk: int = 0
    powered_down: int = 0
    warnings: int = 0
    right_sizes: int = 0
    """Of these, suggestions to ask for more or less."""
    transfers: int = 0
    moved_gb: float = 0.0


@dataclass(frozen=True, slots=True)
class ForecastFigures:
    """How far the centre's forecasts were off: prices and carbon six hours beyond what was
    published, the highest load of services an hour ahead.

    Sum of absolute errors over sum of values; None: there was nothing to judge. `…_as_now` is the
    same of expecting that all stays as it is: a forecast that is no better is of no use.
    """

    price: float | None = None
    price_as_now: float | None = None
    carbon: float | None = None
    carbon_as_now: float | None = None
    load: float | None = None
    load_as_now: float | None = None


@dataclass(frozen=True, slots=True)
class HourlySeries:
    """One value an hour, from the start of the run."""

    start_ns: int = 0
    money: tuple[float, ...] = ()
    """Spent in that hour: all terms but `unfinished`."""
    rent: tuple[float, ...] = ()
    energy: tuple[float, ...] = ()
    transfers: tuple[float, ...] = ()
    penalties: tuple[float, ...] = ()
    kg_co2: tuple[float, ...] = ()
    utilisation: tuple[float, ...] = ()
    """Share of all devices' compute that is held by instances, mean of the hour."""
    open_share: tuple[float, ...] = ()
    """Share of all devices on nodes in use, mean of the hour."""
    fragmentation: tuple[float, ...] = ()
    """Share of free capacity that expected demand could not use, weighted by free devices."""
    service_within_target: tuple[float, ...] = ()
    """Share of service-minutes of that hour."""
    jobs_on_time: tuple[float, ...] = ()
    """Share of the deadlines in that hour that were met; 1 where there was none."""
    waiting_jobs: tuple[int, ...] = ()
    """At the end of the hour."""
    running_jobs: tuple[int, ...] = ()
    congestion: tuple[float, ...] = ()
    """Mean congestion price over sites, per device-hour, at the end of the hour."""


@dataclass(frozen=True, slots=True)
class TenantFigures:
    """One tenant's bill."""

    tenant: str
    money: MoneyTerms
    kg_co2: float
    device_h: float
    """Device-hours held (a slice counts as its share)."""
    jobs_ended: int | None = 0
    """None: it submitted none."""
    on_time_share: float | None = 1.0
    """Of its jobs with a deadline within the run; None: there are none."""


@dataclass(frozen=True, slots=True)
class BillFigures:
    """One line of a period's bill."""

    tenant: str
    team: str
    service: str
    rent: float
    energy: float
    transfers: float
    penalties: float
    kg_co2: float


@dataclass(frozen=True, slots=True)
class PeriodFigures:
    """The bill of one period of budgets; work that runs on is charged in each for its part."""

    start_ns: int
    end_ns: int
    lines: tuple[BillFigures, ...]


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """One cluster's use."""

    cluster: str
    region: str
    cluster_class: str
    devices: int
    device_h: float
    """Held by instances."""
    open_device_h: float
    """On nodes in use: what rent is paid for."""
    utilisation: float
    """Held over all there are."""
    money: float
    """Rent and energy."""
    kg_co2: float
    jobs: int
    """Jobs that ended there."""


@dataclass(frozen=True, slots=True)
class ExplanationSample:
    """One placement with its reasons."""

    workload: str
    kind: str
    tenant: str
    at_ns: int
    site: str
    terms: tuple[tuple[str, float], ...]
    money: float
    congestion: float
    kg_co2: float
    sla_risk: float
    runner_up: str
    """Site of the best alternative; empty: there was none."""
    runner_up_total: float
    note: str = ""
    runner_up_start_ns: int = 0
    """When it would have started there; `at_ns`: at once."""
    runner_up_why: str = ""
    """Why it was not taken, where it was not the sum alone."""


@dataclass(frozen=True, slots=True)
class WaitSample:
    """A time a workload spent without a place, and why."""

    workload: str
    kind: str
    tenant: str
    from_ns: int
    until_ns: int
    why: str
    at_end: bool = False
    """Whether it still waits when the run ends."""
    refused: bool = False
    """Whether it was turned away for good."""


@dataclass(frozen=True, slots=True)
class SpeedFigures:
    """What the run itself took."""

    wall_s: float = 0.0
    centre_s: float = 0.0
    """Inside the global stage."""
    local_s: float = 0.0
    """Inside all local stages."""
    rounds: int = 0
    events: int = 0
    centre_round_ms_median: float = 0.0
    centre_round_ms_p99: float = 0.0


@dataclass(frozen=True, slots=True)
class FleetResult:
    """One run of one mode."""

    mode: str
    scenario: str
    seed: int
    currency: str
    simulated_s: float
    devices: int
    money: MoneyTerms
    kg_co2: float
    kwh: float
    jobs: JobFigures
    services: ServiceFigures
    actions: ActionFigures
    slo_attainment: float
    """The worse of two shares: jobs on time, service-minutes within target."""
    utilisation: float
    """Share of all devices' compute held by instances, mean of the run."""
    open_share: float
    """Share of all devices on nodes in use, mean of the run."""
    fragmentation: float
    """Mean of the run."""
    forecasts: ForecastFigures = field(default_factory=ForecastFigures)
    hourly: HourlySeries = field(default_factory=HourlySeries)
    tenants: tuple[TenantFigures, ...] = ()
    periods: tuple[PeriodFigures, ...] = ()
    """Bills by period, in the order of time; the end of the run may cut the last one short."""
    clusters: tuple[ClusterFigures, ...] = ()
    explanations: tuple[ExplanationSample, ...] = ()
    waits: tuple[WaitSample, ...] = ()
    """Of workloads asked for: every one. Of others: some that wait when the run ends."""
    warnings: tuple[str, ...] = ()
    """The first few, as text."""
    speed: SpeedFigures = field(default_factory=SpeedFigures)

    def to_json(self) -> dict[str, Any]:
        """As nested plain data; sums are spelt out."""
        document = asdict(self)
        document["money"]["total"] = self.money.total
        for entry, tenant in zip(document["tenants"], self.tenants, strict=True):
            entry["money"]["total"] = tenant.money.total
        return document
