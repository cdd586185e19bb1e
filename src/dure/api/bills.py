"""Bills: what work came to in a month or in some days, by whom and where; and months that closed.

An amount is text with the digits of its currency, and grams are whole: the lines of a bill add up
to its totals. What is exact is beside them: parts to the millionth, and micrograms.
"""

from enum import Enum
from typing import Annotated

from pydantic import Field

from dure.api.base import Document

Month = Annotated[str, Field(pattern=r"^20[0-9]{2}-(0[1-9]|1[0-2])$", examples=["2026-11"])]
Day = Annotated[
    str, Field(pattern=r"^20[0-9]{2}-(0[1-9]|1[0-2])-[0-3][0-9]$", examples=["2026-11-05"])
]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class BillColumn(Enum):
    """What a bill can be broken down by."""

    TENANT = "tenant"
    TEAM = "team"
    SERVICE = "service"
    JOB = "job"
    ATTEMPT = "attempt"
    CLUSTER = "cluster"
    PROFILE = "profile"
    """Kind of accelerator."""
    DAY = "day"


class BillSum(Document):
    """What was used, in one currency."""

    currency: str
    device_hours: str
    """Weighed by the share of each device."""
    rent: str
    """To the millionth, as the next two."""
    energy: str
    egress: str
    """Of bringing weights and data to clusters."""
    amount: str
    """All of it, in the digits of the currency."""
    carbon_g: int
    amount_micro: int
    """Exactly, in millionths of the currency."""
    carbon_ug: int
    """Exactly, in micrograms."""
    device_us: int
    """Exactly, in device-microseconds."""


class BillLine(BillSum):
    """One line; what the bill is not broken down by is empty."""

    tenant: str = ""
    team: str = ""
    service_name: str = ""
    job: str = ""
    attempt: int | None = None
    cluster: str = ""
    profile: str = ""
    day: str = ""
    adjusts: str = ""
    """The month that it was used in, where that was closed before it was known."""


class BillDocument(Document):
    """What work came to in a period."""

    period: str
    """A month, or the first and the last day."""
    time_zone: str
    closed: bool
    """Whether nothing of it will change."""
    totals: list[BillSum]
    """One for each currency."""
    lines: list[BillLine]


class MonthState(Enum):
    """Whether a month may still change."""

    OPEN = "open"
    CLOSED = "closed"


class MonthDocument(Document):
    """A month of the whole fleet."""

    month: str
    state: MonthState
    digest: str
    """Of everything that is billed in it; stays the same once it is closed."""
    totals: list[BillSum]
    time_zone: str
    closed_at: str | None = None
    closed_by: str | None = None


class MonthList(Document):
    """Months in which something is billed, the oldest first."""

    items: list[MonthDocument]
    unpriced_device_hours: str
    """Used, and billed once it has a price: see the server's log for what is missing."""


class CloseRequest(Document):
    """How a month is to be closed."""

    expect: Digest | None = None
    """Its digest as it was looked at; refused if something else is billed in it by now."""
