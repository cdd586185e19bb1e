"""Signals of the fleet: trouble seen coming that weights should meet before it is there."""

from dataclasses import dataclass
from enum import Enum


class FleetSignalKind(Enum):
    """Which weight of the objective it speaks for."""

    CONGESTION = "congestion"
    """A cluster will be full: its price should rise before it is."""
    LATENCY = "latency"
    """Promises of a class fail, or are about to: lateness should count more."""
    LOCALITY = "locality"
    """The same weights and data are wanted again and again: places near them are worth more."""


@dataclass(frozen=True, slots=True)
class FleetSignal:
    """One signal as it stands now."""

    kind: FleetSignalKind
    about: str
    """A cluster, a class of workloads; empty: the fleet."""
    strength: float
    """From 0, there is nothing any more, to 1."""
    reason: str
