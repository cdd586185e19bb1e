"""Feeds of prices and carbon, and budgets."""

from enum import Enum
from typing import Annotated

from pydantic import Field, model_validator

from dure.api.base import (
    MOST,
    AtLeastZero,
    Document,
    Duration,
    Line,
    Moment,
    moment_ns,
)
from dure.domain.fleet.accounts import FeedKind

MOST_POINTS = 10_000


class FeedSpec(Document):
    """A named series of tariffs or carbon intensities."""

    kind: FeedKind
    """`tariff`: price of a megawatt-hour. `carbon`: grams of CO2 per kilowatt-hour."""
    unit: Line = ""
    """As people read it: `USD/MWh`, `gCO2/kWh`."""
    step: Duration = "1h"
    """How finely the planner reads it."""


class FeedDocument(Document):
    """A feed."""

    name: str
    spec: FeedSpec
    revision: int
    created_at: str


class Point(Document):
    """The value of a feed from a moment on."""

    at: Moment
    value: Annotated[float, Field(ge=-MOST, le=MOST)]


class Points(Document):
    """Points of a feed, in place of those at the same moments."""

    points: Annotated[list[Point], Field(min_length=1, max_length=MOST_POINTS)]


class PointList(Document):
    """What a feed says from one moment until another."""

    feed: str
    points: list[Point]


class PointsTaken(Document):
    """How many points were stored."""

    feed: str
    stored: int


class BudgetUnit(Enum):
    """What a budget limits."""

    MONEY = "money"
    """In the fleet's currency."""
    CARBON = "gCO2"


class BudgetSpec(Document):
    """What a tenant or a team may spend in a period."""

    unit: BudgetUnit
    limit: AtLeastZero
    period_start: Moment
    period_end: Moment
    refuse: bool = True
    """Whether jobs are refused at submission once it is spent."""

    @model_validator(mode="after")
    def _forward(self) -> "BudgetSpec":
        if moment_ns(self.period_end) <= moment_ns(self.period_start):
            raise ValueError("periodEnd is not after periodStart; give a later one")
        return self


class BudgetDocument(Document):
    """A budget and how much of it is spent."""

    tenant: str
    name: str
    spec: BudgetSpec
    spent: float
    revision: int
