"""Risks: trouble that is seen coming in a series, with when, how sure, and why."""

from dataclasses import dataclass
from enum import Enum

from dure.domain.ids import TenantId


class RiskKind(Enum):
    """What is coming."""

    LOAD = "load"
    """Requests grow towards more than can be answered in time."""
    BURN = "burn"
    """A promise uses up its allowance of failures too fast."""
    MEMORY = "memory"
    """Memory will be full."""
    THRASH = "thrash"
    """Work moves data instead of getting on."""
    THROTTLE = "throttle"
    """The device slows itself down."""
    CHANGE = "change"
    """The usual value of a series moved."""
    ANOMALY = "anomaly"
    """A value far outside what is usual."""


@dataclass(frozen=True, slots=True)
class Risk:
    """One risk, as its detector sees it now."""

    series: str
    """The series it was seen in, as the store of series prints it."""
    kind: RiskKind
    confidence: float
    """From 0 to 1."""
    reason: str
    """In a sentence, with the figures."""
    tenant: TenantId | None = None
    """Whom it concerns; None: the device."""
    violation_in_ns: int | None = None
    """Expected time to the violation if nothing is done; 0: it is under way, None: unknown."""
    shortfall: float = 0.0
    """Eq. 3's SLO_target − SLO_actual as it is expected to become; 0 where none is promised."""

    def __str__(self) -> str:
        return f"{self.series}: {self.kind.value} ({self.confidence:.0%} sure): {self.reason}"


class WeightsBy(Enum):
    """What Eq. 3 moves the weights of tenants by."""

    FROZEN = "frozen"
    """Nothing: they stay as their owners set them."""
    MEASURED = "measured"
    """How well promises were kept."""
    FORESEEN = "foreseen"
    """That, and risks."""
