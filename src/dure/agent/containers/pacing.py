"""How long the monitor rests between two looks: as asked, or longer where looks are dear.

A look that meets the driver while it makes or ends a context spins for its lock: 5 to 100 ms of
processor time on an H200, where 1 ms is usual. What that takes is made up for by later looks being
further apart, but never by a long rest: containers that start together make their contexts and
launch within a second, and nobody who was not looked at can be held.
"""

from dataclasses import dataclass

from dure.domain.units import NS_PER_MS

LOOKING = 0.05
"""Part of one core that goes into looking, over some seconds."""
LEAST_PERIOD_NS = 2 * NS_PER_MS
LONGEST_REST_NS = 80 * NS_PER_MS
"""However dear looks are, nobody rests longer than this, or than was asked for. So long it rests
after a program gave memory back: it is about to end, whoever is next has been let go, and a look
that meets the end of a context spins for 25 to 45 ms."""
SAVED_NS = 200 * NS_PER_MS
"""Processor time that quiet seconds save up for dear ones."""
OWED_NS = 50 * NS_PER_MS
"""What of too dear looks is made up for later; the rest is forgiven."""
REST_TIMES = 4
"""And nobody rests longer than so many periods: who asks for fast looks has a reason."""


@dataclass(slots=True)
class Pace:
    """Keeps the account of what looks take."""

    spare_ns: float = float(SAVED_NS)
    _began_ns: int | None = None
    _ended_ns: int = 0
    _freed: bool = False

    def looked(self, began_ns: int, ended_ns: int, used_ns: int, *, freed: bool) -> None:
        """A look took so much processor time; `freed`: a program gave memory back."""
        since_ns = began_ns - self._began_ns if self._began_ns is not None else 0
        self._began_ns, self._ended_ns, self._freed = began_ns, ended_ns, freed
        earned_ns = min(float(SAVED_NS), self.spare_ns + LOOKING * since_ns)
        self.spare_ns = max(-float(OWED_NS), earned_ns - used_ns)

    def due_ns(self, period_ns: int) -> int:
        """When to look next where so much was asked for between two looks."""
        if self._began_ns is None:
            return 0
        owed_ns = round(max(0.0, -self.spare_ns) / LOOKING)
        longest_ns = min(LONGEST_REST_NS, REST_TIMES * period_ns)
        rest_ns = LONGEST_REST_NS if self._freed else min(owed_ns, longest_ns)
        asked_ns = self._began_ns + max(period_ns, LEAST_PERIOD_NS)
        return max(asked_ns, self._ended_ns + rest_ns)
