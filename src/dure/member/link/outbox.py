"""Reports on their way: numbered, kept until the centre has stored them, told again after a cut."""

from collections import deque
from dataclasses import dataclass, field, replace

from dure.domain.fleet.protocol import Report

MOST_UNHEARD = 64
"""Reports under way; beyond that changes gather in the core until the centre keeps up."""


@dataclass(slots=True)
class Outbox:
    """What has been said and not yet been stored at the centre."""

    seq: int = 0
    """Of the last report."""
    whole_needed: bool = True
    """Whether the next report must state everything."""
    _unheard: deque[Report] = field(default_factory=deque)

    @property
    def full(self) -> bool:
        """Whether the centre must catch up first."""
        return len(self._unheard) >= MOST_UNHEARD

    def number(self, report: Report) -> Report:
        """Give the next number to a report, and keep it."""
        self.seq += 1
        numbered = replace(report, seq=self.seq)
        self._unheard.append(numbered)
        if numbered.whole:
            self.whole_needed = False
        return numbered

    def heard(self, seq: int) -> int | None:
        """The centre has stored all up to a number; the time of the last of them, if it is new."""
        at_ns = None
        while self._unheard and self._unheard[0].seq <= seq:
            at_ns = self._unheard.popleft().at_ns
        return at_ns

    def resume(self, heard: int) -> tuple[Report, ...]:
        """A new link: what is to be said again, given the last report that is stored.

        Where the centre lacks something that is no longer kept it will be told everything.
        """
        self.heard(heard)
        first = self._unheard[0].seq if self._unheard else self.seq + 1
        self.seq = max(self.seq, heard)
        if heard + 1 < first:
            self._unheard.clear()
            self.whole_needed = True
        return tuple(self._unheard)
