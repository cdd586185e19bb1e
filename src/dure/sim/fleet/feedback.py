"""What clusters tell the world: orders that start, run, grow, end or are given back.

The world's books and records follow, and the centre hears what concerns it.
"""

from typing import TYPE_CHECKING

from dure.domain.fleet.events import (
    ArtefactSeen,
    ClusterSummarised,
    GlobalEvent,
    OrderTurnedDown,
    WorkloadEnded,
    WorkloadStarted,
    WorkloadStopped,
)
from dure.domain.fleet.instructions import ReportSummary, Warn, WarnKind
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.ids import ArtefactId
from dure.sim.fleet.jobs import Run
from dure.sim.fleet.members import Member
from dure.sim.fleet.reports import progress
from dure.sim.fleet.usage import TrueUse

if TYPE_CHECKING:
    from dure.sim.fleet.world import World


class Feedback:
    """The surroundings of every member."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.agenda = world.agenda
        self.books = world.books
        self._true_use = TrueUse(world.setting.seed)

    def count(self, what: str) -> None:
        """One more of something."""
        self._world.counts[what] += 1

    def lost_work(self, run: Run, share: float) -> None:
        """Work that must be done again."""
        self._world.lost_work(run, share)

    def received(self, run: Run, member: Member) -> None:
        """An order is about to be handed to a local stage."""
        job = self._world.jobs.get(run.workload.id)
        if job is not None:
            job.live.append(run)
            return
        self._world.service_runs.setdefault(run.workload.id, []).append(run)
        self._world.services.add(run, member.id, member.pace.busy_w(run))
        self._world.savings.service_begins(run, self._world.services.penalty_of(run.workload.id))

    def closed(self, run: Run, now_ns: int) -> None:
        """An order is gone from its cluster."""
        job = self._world.jobs.get(run.workload.id)
        if job is not None:
            job.live.remove(run)
            self._world.savings.job_left(run, run.done)
            self._world.moves.left(run, now_ns)
        else:
            self._world.service_runs[run.workload.id].remove(run)
            self._world.services.remove(run)
            self._world.savings.service_ends(run, self._world.services.penalty_of(run.workload.id))

    def stored_ns(self, run: Run, member: Member, now_ns: int) -> int:
        """When all data of a run is in its cluster; transfers begin where it is not."""
        workload = run.workload
        if workload.weights is None and not workload.data:
            return now_ns
        ready_ns, begun = self._world.stores.fetch(workload, member.id, now_ns)
        for transfer in begun:
            self._world.pay_transfer(workload, transfer)
            self.agenda.note(transfer.arrives_ns, self._stored, transfer.artefact)
        return ready_ns

    def _stored(self, now_ns: int, artefact: ArtefactId) -> None:
        self._world.report(ArtefactSeen(now_ns, self._world.stores.places(artefact)))

    def started(self, run: Run, member: Member, now_ns: int) -> None:
        """The first instance of an order got a place; in a race the others are called off."""
        if not self._world.race:
            return
        job = self._world.jobs.get(run.workload.id)
        if job is None:
            return
        for other in [each for each in job.live if each is not run]:
            self._world.members[other.cluster].withdraw(other, now_ns)
            self._world.directives.lost_race(other.order, now_ns)

    def running(self, run: Run, member: Member, now_ns: int) -> None:
        """All instances of an order are warm."""
        job = self._world.jobs.get(run.workload.id)
        if job is not None:
            if job.started_ns < 0:
                job.started_ns = now_ns
            interval_ns = self._world.setting.physics.progress_report_ns
            self.agenda.note(now_ns + interval_ns, self._progress, run)
        first_ns = now_ns + self._world.setting.physics.first_use_report_ns
        self.agenda.note(first_ns, self._use, (run, now_ns))
        self._world.report(WorkloadStarted(now_ns, run.workload.id, run.attempt), member)
        if job is None:
            self._world.moves.warm(run, now_ns)

    def _progress(self, now_ns: int, run: Run) -> None:
        """From time to time the centre hears how far a job is."""
        if not run.ended:
            self._world.report(progress(run, now_ns), self._world.members[run.cluster])
            again_ns = now_ns + self._world.setting.physics.progress_report_ns
            self.agenda.note(again_ns, self._progress, run)

    def _use(self, now_ns: int, what: tuple[Run, int]) -> None:
        """Now and then the centre hears what a workload really uses."""
        run, since_ns = what
        if not run.ended:
            observed = self._true_use.observed(run.workload, since_ns, now_ns)
            self._world.report(observed, self._world.members[run.cluster])
            again_ns = now_ns + self._world.setting.physics.use_report_ns
            self.agenda.note(again_ns, self._use, (run, now_ns))

    def workers_changed(self, run: Run, member: Member, now_ns: int) -> None:
        """A running job grew or shrank, or stands still."""
        self._world.report(progress(run, now_ns), member)

    def ended(self, run: Run, member: Member, now_ns: int) -> None:
        """A job is done."""
        workload = run.workload
        job = self._world.jobs[workload.id]
        if job.ended_ns < 0:
            job.ended_ns = now_ns
            job.saved = 1.0
            self._world.open_jobs -= 1
            self._world.history.job_ended(job.workload, now_ns)
            deadline_ns = workload.sla.deadline_ns
            if deadline_ns is not None and now_ns > deadline_ns:
                late = workload.sla.late_cost(now_ns - deadline_ns)
                self.books.punish(self.books.late_jobs, workload, late)
        # Where it was started again because a cluster was cut off, the centre hears it of each.
        self._world.report(WorkloadEnded(now_ns, workload.id), member)
        if member.reachable:
            self._world.directives.call_off(workload.id, now_ns)

    def turned_down(self, run: Run, member: Member, why: str, now_ns: int) -> None:
        """A cluster gave an order back."""
        self.count("turned_down")
        workload = run.workload
        saved = self._world.save(run, now_ns)
        had_run = run.first_warm_ns >= 0
        member.close(run, now_ns)
        event: GlobalEvent = OrderTurnedDown(now_ns, workload.id, run.attempt, why)
        if had_run and workload.kind is not WorkloadKind.SERVING:
            event = WorkloadStopped(now_ns, workload.id, run.attempt, saved, why)
        self._world.report(event, member)

    def summarised(self, member: Member, summary: ReportSummary, now_ns: int) -> None:
        """A cluster said what is left."""
        self._world.history.summary(summary)
        self._world.report(ClusterSummarised(now_ns, summary.sites), member)

    def warned(self, warning: Warn) -> None:
        """A stage had something to say."""
        self.count("warnings")
        if warning.kind is WarnKind.RIGHT_SIZE:
            self.count("right_sizes")
        remedy = f"; {warning.remedy}" if warning.remedy else ""
        self._world.history.warn(f"{warning.about}: {warning.what}{remedy}", warning.kind)

    def service_changed(self, run: Run, member: Member) -> None:
        """A service's warm instances: another number, size of slices, or company on devices."""
        pace = member.pace
        self._world.services.set_warm(run, pace.slice_speeds(run), pace.turn_places(run))
