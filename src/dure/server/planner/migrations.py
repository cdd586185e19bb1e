"""Migrations under way: what both places say goes to the machine of migrations, its deeds come out.

Everything a step depends on is in rows, so that a new leader goes on where the last one was. What
it must see for itself is only how long a new place has been silent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dure.domain.errors import DureError
from dure.domain.fleet.events import MoveAsked
from dure.domain.fleet.lifecycle import AttemptState, ClusterState, JobPhase
from dure.domain.fleet.migrations import MoveKind, MoveStep
from dure.domain.ids import ClusterId, WorkloadId
from dure.domain.units import NS_PER_S
from dure.fleet.migrating import Limits, Place, Sight, advance
from dure.server import specs
from dure.server.handover import answers, reachable
from dure.server.planner.centre import Centre
from dure.server.planner.feasible import judge
from dure.server.planner.moves import move_of, stepped
from dure.server.records import status_of
from dure.server.settings import ServerSettings
from dure.server.specs import JobTerms
from dure.stores.rows import Attempt, Job, Migration
from dure.stores.transaction import Transaction

_Attempts = Mapping[int, Attempt]


@dataclass
class Migrations:
    """Looks at all of them now and then, and whenever something happened to one."""

    centre: Centre
    settings: ServerSettings
    _mute_ns: dict[str, int] = field(default_factory=dict)
    """Since when the new place of a service does not answer."""
    _heard_ns: Mapping[str, int] = field(default_factory=dict)
    """When each cluster was last heard of."""

    async def look(self, tx: Transaction) -> bool:
        """Take whatever steps are due; whether anything needs a decision."""
        book = self.centre.book
        begun = {row.job_id: row for row in self.centre.deeds.moves.values()}
        book.stirred = False
        stored = {row.job_id: row for row in await tx.migrations.unfinished()}
        known = stored | begun
        book.moves = {job: row for job, row in known.items() if not row.step.ended}
        if not book.moves:
            self._mute_ns.clear()
            return False
        now_ns = await tx.database_now_ns()
        self._heard_ns = {row.name: row.last_contact_ns or 0 for row in await tx.clusters.all()}
        jobs = {job.id: job for job in await tx.jobs.many(set(book.moves))}
        attempts: dict[str, dict[int, Attempt]] = {}
        for each in await tx.attempts.unfinished_of(set(book.moves)):
            attempts.setdefault(each.job_id, {})[each.attempt] = each
        for job, row in list(book.moves.items()):
            if job not in begun and job in jobs:
                self._look_at(row, jobs[job], attempts.get(job, {}), now_ns)
        self._mute_ns = {job: since for job, since in self._mute_ns.items() if job in book.moves}
        return bool(self.centre.deeds.moves)

    def _look_at(self, row: Migration, job: Job, there: _Attempts, now_ns: int) -> None:
        try:
            terms = specs.job_terms(job)
        except DureError as error:
            self.centre.moves.end(row, MoveStep.DROPPED, str(error))
            return
        row = _newest(row, there)
        sight = self._sight(row, job, there, now_ns)
        found = advance(move_of(row), sight, self._limits(row, terms))
        if found.move != move_of(row) or row != self.centre.book.moves.get(row.job_id):
            row = stepped(row, found.move)
            self.centre.moves.put(row)
            self.centre.moves.carry_out(row, found.deeds)
        if row.step is MoveStep.ASKED:
            self._seek(row, terms)

    def _seek(self, row: Migration, terms: JobTerms) -> None:
        """Somebody wants it elsewhere: ask the machine for a place."""
        centre = self.centre
        wanted = ClusterId(row.new_cluster) if row.new_cluster else None
        able = judge(terms.workload, terms.program, centre.book.offers())
        clusters = able.workload.clusters
        if able.why_not or (wanted is not None and clusters is not None and wanted not in clusters):
            why = able.why_not or f"cluster {wanted} lacks what it needs, or may not be used by it"
            centre.moves.end(row, MoveStep.UNDONE, why)
            return
        centre.feed(MoveAsked(centre.now_ns(), WorkloadId(row.job_id), wanted))

    def _sight(self, row: Migration, job: Job, there: _Attempts, now_ns: int) -> Sight:
        new = None if row.new_attempt is None else there.get(row.new_attempt)
        place = None if new is None else self._place(new, row, now_ns)
        mute_s = 0.0
        if place is not None and row.kind is MoveKind.WARM:
            if place.answers:
                self._mute_ns.pop(row.job_id, None)
            else:
                since_ns = self._mute_ns.setdefault(row.job_id, now_ns)
                mute_s = (now_ns - since_ns) / NS_PER_S
        old = there.get(row.old_attempt)
        over = job.phase.ended or job.phase is JobPhase.CANCELLING or job.suspended
        return Sight(
            now_ns=now_ns,
            old=None if old is None else self._place(old, row, now_ns),
            new=place,
            job_ended=over,
            abort=f"called off by {row.abort_by}" if row.abort_by else "",
            mute_s=mute_s,
        )

    def _place(self, attempt: Attempt, row: Migration, now_ns: int) -> Place:
        """What the last word of an attempt's cluster counts only while that is heard of."""
        status = status_of(attempt)
        heard_ns = self._heard_ns.get(attempt.cluster, 0)
        fresh = now_ns - heard_ns <= self.settings.silence_s * NS_PER_S
        acked = row.acked if attempt.attempt == row.old_attempt else 0
        return Place(
            state=attempt.state,
            answers=fresh and answers(attempt),
            reachable=reachable(status),
            running_ns=attempt.running_ns or now_ns,
            checkpointed=max(acked, 0 if status is None else status.checkpointed),
            saved_share=0.0 if status is None else status.saved_share,
        )

    def _limits(self, row: Migration, terms: JobTerms) -> Limits:
        settings = self.settings
        return Limits(
            shift_s=settings.shift_s,
            drain_s=settings.drain_s,
            warm_s=settings.warm_s,
            checkpoint_s=terms.checkpoint_wait_s,
            stop_anyway=terms.stop_anyway or self._must_leave(row),
        )

    def _must_leave(self, row: Migration) -> bool:
        """Whether its cluster is to be emptied, which nobody's program can prevent."""
        station = self.centre.book.stations.get(row.old_cluster)
        draining = station is None or station.member.row.state is ClusterState.DRAINING
        return row.stop_anyway and draining


def _newest(row: Migration, there: _Attempts) -> Migration:
    """Where a job resumes may change on its way: a place that was chosen can fall away."""
    runs = [each for each in there.values() if each.state is AttemptState.RUNNING]
    if row.step is MoveStep.ASKED and runs and row.old_attempt not in there:
        return replace(row, old_attempt=runs[-1].attempt, old_cluster=runs[-1].cluster)
    if row.step is not MoveStep.RESUMING:
        return row
    later = [number for number in there if number > row.old_attempt]
    live = [number for number in later if there[number].state is not AttemptState.RELEASING]
    if not live or max(live) == row.new_attempt:
        return row
    return replace(row, new_attempt=max(live), new_cluster=there[max(live)].cluster)
