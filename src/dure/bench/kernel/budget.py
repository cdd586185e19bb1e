"""The time a run may take: nothing is begun that would end after it."""

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """Until when, on the monotonic clock."""

    until_s: float

    @classmethod
    def of(cls, limit_s: float) -> "Budget":
        """So long from now on."""
        return cls(time.monotonic() + limit_s)

    def holds(self, seconds: float) -> bool:
        """Whether something that takes so long would end in time."""
        return time.monotonic() + seconds < self.until_s
