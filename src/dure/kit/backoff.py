"""Waits between attempts: growing, bounded, and never the same for two clients."""

import random
from dataclasses import dataclass, field


@dataclass
class Backoff:
    """The next wait is up to twice the last; half of it is chance, so that clients spread out."""

    first_s: float = 0.2
    limit_s: float = 10.0
    """Also how late something that came back may be noticed."""
    chance: random.Random = field(default_factory=random.Random, repr=False)
    _next_s: float = field(default=0.0, init=False)

    def next_s(self) -> float:
        """How long to wait now; the one after will be longer."""
        whole_s = max(self._next_s, self.first_s)
        self._next_s = min(2 * whole_s, self.limit_s)
        return whole_s * (0.5 + 0.5 * self.chance.random())

    def reset(self) -> None:
        """It worked: begin with short waits again."""
        self._next_s = 0.0
