"""What an operator chooses: policies by name, and what holds for the fleet as a whole."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from dure.api.base import (
    AtLeastZero,
    Currency,
    Document,
    Duration,
    Line,
    LowerName,
    Moment,
    Name,
    Positive,
    Size,
    WholeFromZero,
    duration_ns,
    short_form,
)
from dure.kit.zones import UTC, zone_of


def _lasts(text: str) -> str:
    if duration_ns(text) <= 0:
        raise ValueError("a period has to last; write for example '744h'")
    return text


class ClassPolicy(Document):
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


class Congestion(Document):
    """How the price of a busy cluster moves."""

    damping: Annotated[float, Field(gt=0, le=1)] | None = None
    most_change: Positive | None = None
    pinned: Annotated[dict[LowerName, AtLeastZero], Field(max_length=1000)] | None = None
    """Prices held by hand, per device-hour, by cluster."""
    frozen: bool | None = None
    enabled: bool | None = None


class PolicySpec(Document):
    """Everything the planner weighs by; what is not said keeps its default."""

    all_classes: ClassPolicy = Field(
        default=ClassPolicy(), validation_alias="all", serialization_alias="all"
    )
    training: ClassPolicy = ClassPolicy()
    batch: ClassPolicy = ClassPolicy()
    serving: ClassPolicy = ClassPolicy()
    congestion: Congestion = Congestion()
    adapt_latency: bool | None = None
    adapt_locality: bool | None = None
    locality: bool | None = None
    defer: bool | None = None
    migrate: bool | None = None
    forecast: bool | None = None
    carbon_budget_kg: AtLeastZero | None = None
    """Of the whole fleet in every period."""
    period: Annotated[Duration, AfterValidator(_lasts)] | None = None
    period_start: Moment | None = None
    """When one of the periods begins, one after the other; left out: when the policy was made."""
    most_moves: WholeFromZero | None = None
    most_preemptions: WholeFromZero | None = None
    local_moves_at_once: WholeFromZero | None = None
    """Moves inside one cluster, to merge free slices and empty nodes, under way at a time."""
    local_moves_per_hour: WholeFromZero | None = None
    """The same that are begun within any hour."""
    reclaim_after: Duration | Literal["never"] | None = None
    dry_run: bool | None = None


class PolicyDocument(Document):
    """A named policy."""

    name: str
    spec: PolicySpec
    in_force: bool
    revision: int
    created_at: str


class EgressPair(Document):
    """What moving a gigabyte between two clusters costs."""

    source: LowerName = Field(validation_alias="from", serialization_alias="from")
    target: LowerName = Field(validation_alias="to", serialization_alias="to")
    per_gb: AtLeastZero


class Egress(Document):
    """Transfer prices, in the fleet's currency."""

    default: AtLeastZero = 0.0
    pairs: Annotated[list[EgressPair], Field(max_length=10_000)] = Field(default_factory=list)


class Latency(Document):
    """Round trips in milliseconds."""

    default: AtLeastZero = 50.0
    users: Annotated[
        dict[Name, Annotated[dict[LowerName, AtLeastZero], Field(max_length=1000)]],
        Field(max_length=100),
    ] = Field(default_factory=dict)
    """By user region and cluster."""


class Network(Document):
    """What lies between clusters."""

    egress: Annotated[
        Egress, short_form(lambda value: {"default": value}, Egress | AtLeastZero)
    ] = Egress()
    bandwidth: Size = "1.25GB"
    """Per second, of a transfer between clusters."""
    latency: Annotated[
        Latency, short_form(lambda value: {"default": value}, Latency | AtLeastZero)
    ] = Latency()


def _zone(name: str) -> str:
    zone_of(name)
    return name


class Billing(Document):
    """How work is billed."""

    time_zone: Annotated[Line, AfterValidator(_zone)] = UTC
    """Of the days and months of bills, as Europe/Vienna."""
    close_after: Duration | None = None
    """How long after its end a month is closed by itself; left out: somebody closes it."""


class FleetSpec(Document):
    """What holds for the fleet as a whole."""

    currency: Currency = "USD"
    """Of every sum that is shown."""
    rates: Annotated[dict[Currency, Positive], Field(max_length=200)] = Field(default_factory=dict)
    """What one unit of other currencies is worth in it."""
    network: Network = Network()
    policy: Name | None = None
    """The policy in force; left out: the defaults."""
    billing: Billing = Billing()


class FleetDocument(Document):
    """What holds for the fleet as a whole."""

    spec: FleetSpec
    revision: int
    """0: nothing was said yet."""
