"""How finely the embedded store keeps what it measured, and for how long."""

from dataclasses import dataclass

_S = 1_000
_MIN = 60 * _S
_HOUR = 60 * _MIN
_DAY = 24 * _HOUR


@dataclass(frozen=True, slots=True)
class Level:
    """One resolution. Windows of a level are whole windows of the level before."""

    step_ms: int
    """One point sums up so much."""
    window_ms: int
    """One block holds the points of so much; at most 256."""
    kept_ms: int

    def window(self, at_ms: int) -> int:
        """When the window of a moment begins."""
        return at_ms // self.window_ms * self.window_ms


LEVELS = (
    Level(1 * _S, 1 * _MIN, 6 * _HOUR),
    Level(10 * _S, 10 * _MIN, 3 * _DAY),
    Level(1 * _MIN, 1 * _HOUR, 30 * _DAY),
    Level(1 * _HOUR, 1 * _DAY, 730 * _DAY),
)
"""Hours to see what just happened, days to compare with yesterday, a month for seasons, two years
for growth."""
