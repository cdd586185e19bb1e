"""A run with faults from its first job to its verdict, and the figures that it leaves."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dure.domain.fleet.lifecycle import JobPhase
from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.manifest import Entry
from tests.e2e.fleet.parts import Background, background, wait_for
from tests.e2e.fleet.play import Play
from tests.e2e.fleet.schedule import Fault, Stagehand
from tests.e2e.fleet.sights import Witness
from tests.e2e.fleet.verdict import converge, judge, repeated, story, unfinished

_SAY = "fleet: {}"
_END_S = 240.0
"""For jobs that still wait when all faults are over."""


@dataclass
class Figures:
    """What a run showed."""

    seed: int
    jobs: int
    faults: dict[str, int] = field(default_factory=dict)
    skipped_faults: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    attempts: int = 0
    doubled: int = 0
    lost: int = 0
    wrong: int = 0
    submitted_s: float = 0.0
    faults_s: float = 0.0
    ready_s: float = 0.0
    """From the last mended fault until every process was ready."""
    converged_s: float = 0.0
    """From then until desired and observed agreed, for 5 s."""
    ended_s: float = 0.0
    """From the first submission until every job had ended."""
    longest_overlap_s: float = 0.0
    """That two attempts of a job seemed to run at once, within the lag of looking."""


@dataclass
class Drama:
    """One run."""

    fleet: Fleet
    entries: list[Entry]
    faults: list[Fault]
    seed: int
    submit_s: float
    """Over how long jobs are submitted."""
    journal: Path
    late: Callable[[], None] = lambda: None
    """Done when half of the faults are over, such as to create a secret that jobs wait for."""
    _late_done: bool = False

    def run(self) -> Figures:
        """Everything; fails where something is not as it must be, with what the processes said."""
        try:
            return self._run()
        except AssertionError:
            print(self.fleet.words())  # noqa: T201
            raise

    def _run(self) -> Figures:
        fleet, jobs = self.fleet, sum(entry.count for entry in self.entries)
        figures = Figures(self.seed, jobs)
        print(_SAY.format(f"seed {self.seed}, {jobs} jobs, {len(self.faults)} faults"))  # noqa: T201
        for fault in self.faults:
            print(_SAY.format(fault))  # noqa: T201
        witness = Witness(tuple(bed.watch.scene for bed in fleet.beds))
        play = Play(fleet.centre, self.entries, witness, fleet.folder)
        play.submit_all_in(self.submit_s)
        began_s = time.monotonic()
        with background("witness", witness.look, 0.1) as eyes, _doors(play) as doors:
            with background("hands", play.cancel_some, 1.0) as hands:
                self._suffer(figures, (eyes, hands, *doors))
                wait_for("all is submitted", lambda: all(door.finished for door in doors))
                wait_for("jobs end", lambda: not unfinished(fleet.centre, play.jobs()), _END_S)
            figures.ended_s = time.monotonic() - began_s
            play.cancel_rest()
            wait_for("endless jobs end", lambda: not _live(fleet), _END_S)
        figures.submitted_s = play.submitted_s or 0.0
        self._judge(figures, play, witness)
        return figures

    def _suffer(self, figures: Figures, others: Sequence[Background]) -> None:
        """All faults; then everything must come together in time."""

        def meanwhile() -> None:
            for each in others:
                each.check()
            if self._late_due(hand):
                self.late()

        hand = Stagehand(self.fleet, self.faults)
        began_s = time.monotonic()
        hand.perform(meanwhile)
        figures.faults_s = time.monotonic() - began_s
        figures.ready_s = hand.settle()
        figures.faults = dict(Counter(_kind(each) for each in hand.done))
        figures.skipped_faults = hand.skipped
        figures.converged_s = converge(self.fleet)
        deaths = [why for part in self.fleet.parts for why in part.deaths]
        assert not deaths, deaths

    def _late_due(self, hand: Stagehand) -> bool:
        due = not self._late_done and len(hand.done) >= len(self.faults) / 2
        self._late_done |= due
        return due

    def _judge(self, figures: Figures, play: Play, witness: Witness) -> None:
        verdict = judge(self.fleet.centre, play.jobs())
        again = repeated(self.journal, play.jobs())
        figures.ends = dict(verdict.ends)
        figures.attempts = verdict.attempts
        figures.doubled = len(verdict.twice) + len(witness.doubled) + len(again)
        figures.lost, figures.wrong = len(verdict.lost), len(verdict.wrong)
        figures.longest_overlap_s = witness.longest_s
        print(_SAY.format(json.dumps(asdict(figures))))  # noqa: T201
        for job in {*verdict.wrong, *verdict.twice, *witness.doubled, *again}:
            print(_SAY.format(story(self.fleet.centre, job)))  # noqa: T201
        assert not verdict.lost, verdict.lost
        assert not verdict.wrong, verdict.wrong
        assert not verdict.twice, verdict.twice
        assert not witness.doubled, witness.doubled
        assert not again, again


@contextmanager
def _doors(play: Play) -> Iterator[tuple[Background, ...]]:
    with (
        background("REST", play.by_rest, 0.0, once=True) as rest,
        background("command line", play.by_cli, 0.0, once=True) as cli,
    ):
        yield rest, cli


def _live(fleet: Fleet) -> list[str]:
    ends = [phase.value for phase in JobPhase if phase.ended]
    rows = fleet.centre.rows("SELECT id FROM jobs WHERE NOT phase = ANY(%s)", ends)
    return [row["id"] for row in rows]


def _kind(deed: str) -> str:
    """What was done to which sort of process, without its number."""
    return deed.partition(" (")[0].rstrip("0123456789").rstrip("-")
