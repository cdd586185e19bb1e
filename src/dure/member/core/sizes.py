"""How large services are: told to people with why, and who of their instances takes requests."""

from dataclasses import dataclass, replace

from dure.domain.fleet.events import LoadsObserved
from dure.domain.fleet.instructions import SizeService
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.fleet.protocol.reports import Sizing
from dure.domain.units import NS_PER_S
from dure.member.core.books import Books
from dure.member.core.held import Held

_TOLD_NS = 10 * NS_PER_S
"""How often people hear of a load that asks for nothing new."""
_DIGITS = 3
"""Of figures for people: more would be news all the time."""


@dataclass(slots=True)
class Sizes:
    """Keeps what is told of services up to date."""

    books: Books
    _latest: LoadsObserved | None = None
    """What was last heard of any loads."""

    def sized(self, instruction: SizeService, now_ns: int) -> None:
        """The local stage wants a service to be so large."""
        held = self.books.attempts.get(AttemptKey(instruction.workload, instruction.attempt))
        if held is None:
            return
        size = (instruction.serving, instruction.standby, instruction.level)
        before = held.sizing
        if before is not None and size == (before.serving, before.standby, before.level):
            return
        held.sizing = replace(
            before or Sizing(0),
            serving=instruction.serving,
            standby=instruction.standby,
            level=instruction.level,
            why=instruction.why,
            changed_ns=now_ns,
        )
        latest = self._latest
        if latest is not None and held.key.job in latest.workloads:
            self._note(held, latest, latest.workloads.index(held.key.job))
        self.books.changed(held)
        self.books.unsaved.add(held.key)

    def observed(self, event: LoadsObserved) -> None:
        """Loads were heard of: note them where people look, not too often."""
        self._latest = event
        for row, job in enumerate(event.workloads):
            for held in self.books.of_job(job):
                known = held.sizing
                if known is not None and event.now_ns - known.heard_ns >= _TOLD_NS:
                    self._note(held, event, row)

    def _note(self, held: Held, event: LoadsObserved, row: int) -> None:
        if held.sizing is None or not held.runs_on:
            return
        held.sizing = replace(
            held.sizing,
            requests_per_s=_rounded(event.requests_per_s[row]),
            queue_length=_rounded(event.queue_length[row]),
            latency_ms=_rounded(event.latency_ms[row]),
            heard_ns=event.now_ns,
        )
        self.books.changed(held)


def _rounded(figure: float) -> float:
    return float(f"{float(figure):.{_DIGITS}g}")
