"""The fleet's time as a member knows it: its own steady clock, set by the centre's."""

import time
from dataclasses import dataclass, field

from dure.domain.units import NS_PER_S


@dataclass(slots=True)
class FleetClock:
    """Never goes back, and runs as the host's steady clock does: the times of two contacts differ
    by what really passed. Only the centre puts it forward; what a member remembers of that time its
    successor goes on from."""

    _offset_ns: int = field(default_factory=lambda: time.time_ns() - time.monotonic_ns())
    _stamps_ahead_ns: int = 0

    def now_ns(self) -> int:
        """Now."""
        return time.monotonic_ns() + self._offset_ns

    @staticmethod
    def host_ns() -> int:
        """Now by the host's calendar, which people and daemons may set either way."""
        return time.time_ns()

    def ahead_ns(self) -> int:
        """How much it is ahead of the host's calendar."""
        return self.now_ns() - self.host_ns()

    def stamps_ahead_ns(self) -> int:
        """What moments stamped by the calendar are put forward by: whole seconds, the same ones as
        long as they are less than one off, so that what lies between two moments stays exact."""
        ahead_ns = self.ahead_ns()
        if abs(ahead_ns - self._stamps_ahead_ns) >= NS_PER_S:
            self._stamps_ahead_ns = round(ahead_ns / NS_PER_S) * NS_PER_S
        return self._stamps_ahead_ns

    def begin(self, now_ns: int) -> None:
        """It is so late now; to be called before anybody has asked."""
        self._offset_ns = now_ns - time.monotonic_ns()

    def hear(self, centre_ns: int) -> int:
        """The centre said what time it is; how far that puts this clock forward. One that is ahead
        of the centre stays so."""
        jump_ns = max(0, centre_ns - self.now_ns())
        self._offset_ns += jump_ns
        return jump_ns
