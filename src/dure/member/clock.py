"""The fleet's time as a member knows it: its own steady clock, set by the centre's."""

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class FleetClock:
    """Never goes back, and runs as the host's steady clock does: the times of two contacts differ
    by what really passed. Only the centre puts it forward."""

    _offset_ns: int = field(default_factory=lambda: time.time_ns() - time.monotonic_ns())

    def now_ns(self) -> int:
        """Now."""
        return time.monotonic_ns() + self._offset_ns

    def hear(self, centre_ns: int) -> None:
        """The centre said what time it is; a clock that is ahead of it stays so."""
        self._offset_ns = max(self._offset_ns, centre_ns - time.monotonic_ns())
