"""Reports on their way: numbered, kept until the centre has stored them, told again after a cut.

What is too much for one message, or for one transaction of the centre, is told in several reports.
That is allowed since none of them is about what it does not name: one that states everything says
it of the first part, and the rest follows as if it had changed.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TypeVar

from dure.domain.fleet.protocol.reports import AttemptStatus, Report

MOST_UNHEARD = 64
"""Reports under way; beyond that changes gather in the core until the centre keeps up."""

MOST_PIECES = 500
"""Attempts and their instances in one report: some hundred kibibytes, and a transaction that keeps
nobody waiting for long, also where the centre has one writer at a time."""
_LETTERS = 200
"""Of a reason: as long on the line as an instance."""

ItemT = TypeVar("ItemT")


def parts_of(report: Report) -> Iterator[Report]:
    """A report in parts that are not too large; only the first is whole, if it was."""
    attempts = _in_parts(report.attempts, _pieces)
    usage = _in_parts(report.usage, lambda _: 1)
    first = True
    for some, used in zip_longest(attempts, usage, fillvalue=()):
        if first:
            yield replace(report, attempts=some, usage=used)
        else:
            yield Report(0, report.at_ns, whole=False, attempts=some, usage=used)
        first = False
    if first:
        yield report


def _pieces(status: AttemptStatus) -> int:
    return 1 + len(status.instances) + len(status.why) // _LETTERS


def _in_parts(items: Iterable[ItemT], size: Callable[[ItemT], int]) -> Iterator[tuple[ItemT, ...]]:
    part: list[ItemT] = []
    filled = 0
    for item in items:
        if part and filled + size(item) > MOST_PIECES:
            yield tuple(part)
            part, filled = [], 0
        part.append(item)
        filled += size(item)
    if part:
        yield tuple(part)


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

    def number(self, report: Report) -> list[Report]:
        """Give the next numbers to a report's parts, and keep them."""
        made = []
        for part in parts_of(report):
            self.seq += 1
            made.append(replace(part, seq=self.seq))
        self._unheard += made
        if report.whole:
            self.whole_needed = False
        return made

    def heard(self, seq: int) -> tuple[Report, ...]:
        """The centre has stored all up to a number; those of which this is news."""
        stored = []
        while self._unheard and self._unheard[0].seq <= seq:
            stored.append(self._unheard.popleft())
        return tuple(stored)

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
