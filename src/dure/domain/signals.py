"""Signals: what a machine noticed that people and other levels should know."""

from dataclasses import dataclass
from enum import Enum

from dure.domain.ids import TenantId


class SignalKind(Enum):
    """What was noticed."""

    LATENCY_AT_RISK = "latency-at-risk"
    THROUGHPUT_AT_RISK = "throughput-at-risk"
    AVAILABILITY_AT_RISK = "availability-at-risk"
    DEADLINE_AT_RISK = "deadline-at-risk"
    MEMORY_LIMIT_SUGGESTED = "memory-limit-suggested"


@dataclass(frozen=True, slots=True)
class Signal:
    """One observation, with the figures behind it."""

    kind: SignalKind
    tenant: TenantId
    measured: float
    expected: float

    def __str__(self) -> str:
        return (
            f"{self.tenant}: {self.kind.value}, measured {self.measured:.4g}, "
            f"expected {self.expected:.4g}"
        )
