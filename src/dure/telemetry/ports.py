"""What other detectors must offer to stand in for Dure's own: the port of `dure.learners`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Finding:
    """A value, or a run of values, that is not usual."""

    confidence: float
    score: float
    """How far from usual, in the detector's own measure."""
    before: float
    """What was usual."""
    after: float
    """What was seen."""


class Detector(Protocol):
    """Learns one series as it comes and says when something is not usual."""

    def observe(self, value: float) -> Finding | None:
        """Take in the next value. Values that are not finite numbers are left out."""
        ...


class Bandit(Protocol):
    """Learns which of some arms pays best in which context."""

    def rank(self, context: Sequence[float], count: int) -> tuple[int, ...]:
        """The arms most worth trying: those that pay, and those of which too little is known."""
        ...

    def update(self, context: Sequence[float], arm: int, reward: float) -> None:
        """An arm was tried and paid so much."""
        ...
