"""What parts of the server count as they work; read by whoever shows it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from dure.domain.metrics import fleet as m
from dure.domain.metrics import own
from dure.domain.metrics.kinds import Reading, Spread
from dure.domain.metrics.tally import Tally


@dataclass(slots=True)
class Figures:
    """One for each server; touched in its event loop alone."""

    rounds: Tally = field(default_factory=Tally)
    """Of the planner, in seconds."""
    placed: Tally = field(default_factory=Tally)
    started: Tally = field(default_factory=Tally)
    planned_seq: int = 0
    """The last event that the planner has taken in."""
    feedback: Counter[tuple[str, str]] = field(default_factory=Counter)
    """What people said, by tenant and verdict."""

    def read(self) -> Iterator[Reading | Spread]:
        """All of them."""
        yield self.rounds.spread(m.ROUND_SECONDS)
        yield self.placed.spread(m.JOB_PLACED)
        yield self.started.spread(m.JOB_STARTED)
        for said, count in self.feedback.items():
            yield Reading(own.FEEDBACK, said, float(count))
