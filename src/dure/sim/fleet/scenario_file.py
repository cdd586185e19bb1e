"""What a fleet scenario file may say; `docs/guide/fleet-scenarios.md` explains it to users.

Clusters, tenants and rules are here; what runs is in `scenario_work_file`.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidatorFunctionWrapHandler, WrapValidator

from dure.domain.fleet.clusters import HOURS_A_WEEK, ClusterClass
from dure.domain.fleet.slices import ShareMode
from dure.domain.units import NS_PER_S
from dure.sim.documents import (
    Count,
    Document,
    Duration,
    Line,
    LongerThanZero,
    Misfit,
    MoreThanZero,
    Name,
    Share,
    Size,
    choice,
    short_form,
)
from dure.sim.fleet.faults import ClusterFaultKind
from dure.sim.fleet.generators import CURVES
from dure.sim.fleet.scenario_work_file import (
    MOST,
    AtLeastZero,
    Moment,
    Positive,
    SourcePart,
    WorkloadPart,
)

WholeFromZero = Annotated[int, Field(ge=0)]


def _currency(code: str) -> str:
    if not (len(code) == 3 and code.isascii() and code.isalpha() and code.isupper()):
        raise Misfit(f"'{code}' is no currency", "write its code of three capitals, as 'USD'")
    return code


Currency = Annotated[str, AfterValidator(_currency)]


NEVER = -1
"""Of a `Patience` without an end."""


def _or_never(value: Any, convert: ValidatorFunctionWrapHandler) -> int:
    return NEVER if value == "never" else int(convert(value))


Patience = Annotated[Duration, WrapValidator(_or_never)]
"""Nanoseconds, or `never`."""


class CurvePart(Document):
    """A made hourly curve."""

    mean: AtLeastZero
    shape: Annotated[str, choice(*CURVES)] = "flat"
    swing: Share = 0.2
    noise: Share = 0.05
    utc_offset: Annotated[float, Field(ge=-12, le=14)] = 0.0


class SeriesPart(Document):
    """A quantity by the hour; exactly one kind."""

    constant: Annotated[float, Field(ge=-MOST, le=MOST)] | None = None
    zone: str | None = None
    """Column of a table below the data folder."""
    generated: CurvePart | None = None


Hourly = Annotated[SeriesPart, short_form(lambda value: {"constant": value})]


class GroupPart(Document):
    """Equal nodes."""

    name: Name | None = None
    profile: str
    nodes: Count
    devices: Annotated[int, Field(ge=1, le=64)] = 8
    mode: Annotated[str, choice(*(mode.value for mode in ShareMode))] = ShareMode.WHOLE.value
    cpu: Positive = 96.0
    memory: Size = 1 << 40
    link_domain: Count | None = None
    numa_domains: Count = 2
    base_power: AtLeastZero = 400.0
    boot: Duration = 180 * NS_PER_S


class PriceListPart(Document):
    """Where a price is looked up."""

    provider: str | None = None
    region: str | None = None
    spot: bool = False


def _calendar(factors: list[float]) -> list[float]:
    if len(factors) not in (1, 24, HOURS_A_WEEK):
        raise Misfit(
            f"has {len(factors)} factors", "give 24 (hours of a day, UTC) or 168 (from Monday)"
        )
    return factors


def _expand_tariff(value: Any) -> Any:
    match value:
        case "owned":
            return {}
        case "price-list":
            return {"price_list": {}}
        case str():
            raise Misfit(f"'{value}' is no tariff", "write `owned`, `price-list` or a mapping")
    return value


class TariffPart(Document):
    """What devices cost."""

    currency: str | None = None
    device_hour: dict[str, AtLeastZero] = Field(default_factory=dict)
    price_list: PriceListPart | None = None
    calendar: Annotated[list[AtLeastZero], AfterValidator(_calendar)] = Field(
        default_factory=lambda: [1.0]
    )


class ClusterPart(Document):
    """A member of the fleet."""

    name: Name
    region: Line
    provider: Line = ""
    cluster_class: Annotated[str, choice(*(each.value for each in ClusterClass))] = Field(
        default=ClusterClass.CLOUD.value, alias="class"
    )
    groups: Annotated[list[GroupPart], Field(min_length=1)]
    tariff: Annotated[TariffPart, short_form(_expand_tariff)] = TariffPart()
    carbon: Hourly = SeriesPart(constant=0.0)
    electricity: Hourly = SeriesPart(constant=0.0)
    pue: Annotated[float, Field(ge=1, le=5)] = 1.2


class TablesPart(Document):
    """Where zones are looked up, below the data folder."""

    carbon: str = "carbon-electricitymaps/ci_direct_gco2_per_kwh_2023_hourly.csv"
    electricity: str = "electricity-prices/price_usd_per_mwh_2023_hourly.csv"
    electricity_currency: str = "USD"


class PairPart(Document):
    """A transfer price."""

    source: str = Field(alias="from")
    target: str = Field(alias="to")
    per_gb: AtLeastZero


class EgressPart(Document):
    """Transfer prices, in the fleet's currency."""

    default: AtLeastZero = 0.0
    pairs: list[PairPart] = Field(default_factory=list)
    providers: list[str] = Field(default_factory=list)
    """Whose matrices below the data folder hold between their own regions."""


class LatencyPart(Document):
    """Round trips in milliseconds."""

    default: AtLeastZero = 50.0
    users: dict[str, dict[str, AtLeastZero]] = Field(default_factory=dict)
    """By user region and cluster."""


class NetworkPart(Document):
    """What lies between clusters."""

    egress: Annotated[EgressPart, short_form(lambda value: {"default": value})] = EgressPart()
    bandwidth: MoreThanZero = 1_250_000_000
    """Per second."""
    latency: Annotated[LatencyPart, short_form(lambda value: {"default": value})] = LatencyPart()


class BudgetPart(Document):
    """Limits for the whole scenario."""

    money: AtLeastZero | None = None
    carbon_kg: AtLeastZero | None = None


class TeamPart(Document):
    """A part of a tenant."""

    name: Name
    budget: BudgetPart = BudgetPart()


class PoolPart(Document):
    """A vNode pool."""

    name: Name
    profile: str
    slice_name: str = Field(default="", alias="slice")
    clusters: Annotated[list[str], Field(min_length=1)] | None = None
    guaranteed: WholeFromZero = 0
    lendable: WholeFromZero = 0
    maximum: Count | None = None
    dedicated: bool = False


class TenantPart(Document):
    """Who pays."""

    name: Name
    weight: Annotated[float, Field(ge=1e-3, le=1e6)] = 1.0
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    budget: BudgetPart = BudgetPart()
    teams: list[Annotated[TeamPart, short_form(lambda value: {"name": value})]] = Field(
        default_factory=list
    )
    pools: list[PoolPart] = Field(default_factory=list)


class ArtefactPart(Document):
    """Weights or data."""

    name: Name
    size: Size
    places: list[str] = Field(default_factory=list)


class ClassPolicyPart(Document):
    """How one class of work is placed; what is not said keeps its default."""

    cost_weight: AtLeastZero | None = None
    carbon_per_tonne: AtLeastZero | None = None
    sla_weight: AtLeastZero | None = None
    locality_weight: AtLeastZero | None = None
    defer: bool | None = None
    migrate: bool | None = None
    preempt: bool | None = None
    migration_threshold: AtLeastZero | None = None
    migration_share: AtLeastZero | None = None
    cool_down: Duration | None = None
    minimum_runtime: Duration | None = None


class CongestionPart(Document):
    """How the price of a busy cluster moves."""

    damping: Annotated[float, Field(gt=0, le=1)] | None = None
    most_change: Positive | None = None
    pinned: dict[str, AtLeastZero] | None = None
    frozen: bool | None = None


class PolicyPart(Document):
    """What the operator chose."""

    all_classes: ClassPolicyPart = Field(default=ClassPolicyPart(), alias="all")
    training: ClassPolicyPart = ClassPolicyPart()
    batch: ClassPolicyPart = ClassPolicyPart()
    serving: ClassPolicyPart = ClassPolicyPart()
    congestion: CongestionPart = CongestionPart()
    adapt_latency: bool | None = None
    adapt_locality: bool | None = None
    forecast: bool | None = None
    carbon_budget_kg: AtLeastZero | None = None
    submissions: LongerThanZero | None = None
    most_moves: WholeFromZero | None = None
    most_preemptions: WholeFromZero | None = None
    reclaim_after: Patience | None = None
    dry_run: bool | None = None


class SwitchPart(Document):
    """A change of policy while work runs; what is not said is as in the scenario's `policy`."""

    at: Duration
    policy: PolicyPart


class LocalPart(Document):
    """What every cluster may do by itself."""

    defragment: bool = True
    elastic: bool = True
    power_down: bool = True
    autoscale: bool = True


class NodeFaultPart(Document):
    """Which node."""

    cluster: str
    node: WholeFromZero


class ClusterFaultPart(Document):
    """Which cluster, and how."""

    name: str
    kind: Annotated[str, choice(*(kind.value for kind in ClusterFaultKind))] = (
        ClusterFaultKind.UNREACHABLE.value
    )


class FaultPart(Document):
    """Something breaks for a while; exactly one of `node`, `cluster`, `centre`."""

    at: Duration
    length: LongerThanZero = Field(alias="for")
    node: NodeFaultPart | None = None
    cluster: Annotated[ClusterFaultPart, short_form(lambda value: {"name": value})] | None = None
    centre: bool = False


class ScenarioFile(Document):
    """The whole file."""

    title: Line | None = None
    start: Moment
    duration: LongerThanZero
    round: LongerThanZero = 60 * NS_PER_S
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1
    prices_known_ahead: Duration = 24 * 3600 * NS_PER_S
    carbon_known_ahead: Duration = 0
    modes: Annotated[list[str], Field(min_length=1)] | None = None
    currency: Currency = "USD"
    rates: dict[Currency, Annotated[float, Field(le=MOST)]] = Field(default_factory=dict)
    tables: TablesPart = TablesPart()
    clusters: Annotated[list[ClusterPart], Field(min_length=1)]
    network: NetworkPart = NetworkPart()
    tenants: Annotated[list[TenantPart], Field(min_length=1)]
    artefacts: list[ArtefactPart] = Field(default_factory=list)
    workloads: list[WorkloadPart] = Field(default_factory=list)
    sources: list[SourcePart] = Field(default_factory=list)
    policy: PolicyPart = PolicyPart()
    switches: list[SwitchPart] = Field(default_factory=list)
    local: LocalPart = LocalPart()
    faults: list[FaultPart] = Field(default_factory=list)
