"""The global machine and what surrounds it: events go in, what it decides is sorted into deeds."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from dure.domain.errors import DureError
from dure.domain.fleet.decisions import SiteSummary
from dure.domain.fleet.events import (
    ArtefactSeen,
    ClusterClosed,
    ClusterJoined,
    ClusterSummarised,
    GlobalEvent,
    RoundDue,
    WorkloadStopped,
    WorkloadSubmitted,
    WorkloadWithdrawn,
)
from dure.domain.fleet.instructions import (
    DeferWorkload,
    GlobalInstruction,
    MoveWorkload,
    PlaceWorkload,
    PreemptWorkload,
    PublishPrices,
    RefuseMove,
    RefuseWorkload,
    SetAllotments,
    Warn,
)
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.ids import ClusterId, WorkloadId
from dure.fleet.global_machine import GlobalMachine
from dure.server import specs
from dure.server.planner.book import Book, Bound, Entry, Station
from dure.server.planner.deeds import Deeds, Placing
from dure.server.planner.feasible import judge, particular
from dure.server.planner.moves import MoveDesk
from dure.server.planner.suspects import Suspects
from dure.server.recording import Recorder
from dure.stores.rows import Job
from dure.telemetry.fleet_watch import FleetWatch

SUSPENDED = "its owner suspended it"
"""Why a job waits."""


class Centre:
    """Feeds the machine; touched by one task at a time."""

    def __init__(
        self, machine: GlobalMachine, book: Book, now_ns: Callable[[], int], suspects: Suspects
    ) -> None:
        self.machine = machine
        self.book = book
        self.now_ns = now_ns
        self.suspects = suspects
        self.watch = FleetWatch()
        self.deeds = Deeds()
        self.moves = MoveDesk(book, now_ns, lambda: self.deeds)
        self.prices: dict[str, float] = {}
        """That changed and were not written yet."""
        self.recorder: Recorder | None = None

    def feed(self, event: GlobalEvent) -> None:
        """Let something have happened."""
        self._sort(self._ask(event))
        for signal in self.watch.observe(event):
            self._sort(self._ask(signal))

    def _ask(self, event: GlobalEvent) -> list[GlobalInstruction]:
        """Ask the machine, before the ears of those who record."""
        answer = self.machine.handle(event)
        if self.recorder is not None:
            self.recorder.note(event, answer)
        return answer

    def round(self) -> None:
        """Let the machine decide; may take a while, so that it is done in a thread."""
        with self.suspects.blamed(self.suspects.fresh):
            self.feed(RoundDue(self.now_ns()))

    def take_deeds(self) -> Deeds:
        """What was decided since the last time."""
        deeds, self.deeds = self.deeds, Deeds()
        return deeds

    # --- jobs ------------------------------------------------------------------------------

    def submit(self, row: Job, saved_share: float = 0.0) -> None:
        """A job waits for a place: let the machine know, if there is any place for it at all."""
        if row.suspended:
            self.book.jobs[row.id] = Entry(False, blocked=True, reason=row.reason)
            self._keep_waiting(row.id, SUSPENDED)
            return
        why_kept = self.suspects.why_kept(row.id)
        if why_kept:
            self.book.jobs[row.id] = Entry(False, blocked=True, reason=row.reason)
            self._keep_waiting(row.id, why_kept)
            return
        with self.suspects.blamed({row.id}):
            self._submit(row, saved_share)

    def _submit(self, row: Job, saved_share: float) -> None:
        try:
            terms = specs.job_terms(row)
        except DureError as error:
            self.book.jobs[row.id] = Entry(False, blocked=True)
            self._keep_waiting(row.id, str(error))
            return
        self.bind(row, terms)
        verdict = judge(terms.workload, terms.program, self.book.offers())
        kept = particular(terms.program) or verdict.workload is not terms.workload
        self.book.jobs[row.id] = Entry(kept, verdict.excludes, reason=row.reason)
        self.book.queued.add(row.id)
        if verdict.why_not:
            self._keep_waiting(row.id, verdict.why_not)
            return
        self.suspects.fresh.add(row.id)
        now_ns = self.now_ns()
        known = self.machine.state.artefacts.known
        for artefact in terms.artefacts:
            if artefact.id not in known:
                self.feed(ArtefactSeen(now_ns, artefact))
        self.feed(WorkloadSubmitted(now_ns, verdict.workload, row.attempt, saved_share))

    def bind(self, row: Job, terms: specs.JobTerms) -> None:
        """Note whether a job may be moved by itself, and when."""
        if row.pinned or terms.windows:
            self.book.bound[row.id] = Bound(row.pinned, terms.windows)
        else:
            self.book.bound.pop(row.id, None)

    def withdraw(self, job: str) -> None:
        """A job is not to be placed any more, or is about to be described anew."""
        self.feed(WorkloadWithdrawn(self.now_ns(), WorkloadId(job)))

    def resubmit(self, row: Job) -> None:
        """A job that waits is described anew, or some cluster is."""
        track = self.machine.state.tracks.get(WorkloadId(row.id))
        saved_share = 0.0 if track is None else track.saved_share
        self.withdraw(row.id)
        self.submit(row, saved_share)

    def suspend(self, row: Job) -> None:
        """A job shall have no place until its owner lets it go on."""
        self.withdraw(row.id)
        for key in [key for key in self.book.unheard if key[0] == row.id]:
            del self.book.unheard[key]
        if row.phase is JobPhase.QUEUED:
            self.submit(row)
        else:
            self.deeds.suspends.add(row.id)

    def _keep_waiting(self, job: str, why: str) -> None:
        entry = self.book.jobs[job]
        entry.blocked = True
        self.book.queued.add(job)
        if entry.reason != why:
            entry.reason = self.deeds.reasons[job] = why

    # --- clusters --------------------------------------------------------------------------

    def describe(self, station: Station) -> None:
        """A cluster is new, or has other nodes or prices, or is open or closed."""
        cluster, now_ns = station.member.cluster, self.now_ns()
        if cluster is None:
            return
        self.feed(ClusterJoined(now_ns, cluster))
        station.told = True
        if not station.open:
            self.close(station)

    def close(self, station: Station) -> None:
        """Nothing new goes to a cluster."""
        if station.told:
            self.feed(ClusterClosed(self.now_ns(), ClusterId(station.member.row.name)))

    def summarise(self, sites: Iterable[SiteSummary]) -> None:
        """A cluster said what it has left; what it had not heard of then is not left either."""
        adjusted = tuple(
            replace(
                summary,
                waiting_devices=summary.waiting_devices + self.book.unheard_at(summary.site),
            )
            for summary in sites
        )
        self.feed(ClusterSummarised(self.now_ns(), adjusted))

    # --- what the machine says -------------------------------------------------------------

    def _sort(self, instructions: Iterable[GlobalInstruction]) -> None:
        deeds = self.deeds
        for each in instructions:
            match each:
                case PlaceWorkload(order):
                    old = self.moves.left_by(order)
                    order = self.moves.placed(order, old, self.machine.state.policy)
                    deeds.placings.append(Placing(order, None if old is None else old[0]))
                    self.book.ordered(order)
                case MoveWorkload():
                    self._move(each)
                case RefuseMove(job, why):
                    self.moves.refused(job, why)
                case PreemptWorkload():
                    self._preempt(each)
                case RefuseWorkload():
                    self._refuse(each)
                case SetAllotments(cluster, allotments):
                    deeds.allotments[cluster] = allotments
                case PublishPrices(prices):
                    self.prices |= dict(prices)
                case Warn():
                    deeds.warnings.append(each)
                case DeferWorkload():
                    pass  # The machine is asked for all reasons now and then.

    def _move(self, move: MoveWorkload) -> None:
        order = move.order
        target = order.site.cluster
        if move.dry_run:
            what = f"moving it from {move.source} to {target} would save {move.expected_saving:.4g}"
            self.deeds.warnings.append(Warn(move.workload, what, "switch the dry run off"))
            return
        old = self._attempt_at(move.workload, move.source, order.attempt)
        serving = order.workload.kind is WorkloadKind.SERVING
        if old is not None:
            why = f"{target} saves {move.expected_saving:.4g}"
            self.moves.moved(move, old, why)
            if serving:
                self.book.replaced[move.workload] = (old, move.source)
        self.deeds.placings.append(Placing(order, old if serving else None))
        self.book.ordered(order)

    def _attempt_at(self, job: WorkloadId, cluster: ClusterId, newest: int) -> int | None:
        track = self.machine.state.tracks.get(job)
        names = self.machine.state.sites.names
        for attempt, place in track.places.items() if track is not None else ():
            if attempt != newest and names[place.site].cluster == cluster:
                return attempt
        return None

    def _preempt(self, stop: PreemptWorkload) -> None:
        key = (stop.workload, stop.attempt)
        why = stop.why or self._why_stopped(stop)
        for placing in self.deeds.placings:
            if (placing.order.workload.id, placing.order.attempt) == key:
                # It was to get the place in this very round: nobody has heard of it.
                self.deeds.placings.remove(placing)
                self.book.unheard.pop(key, None)
                self.book.queued.add(stop.workload)
                self.feed(WorkloadStopped(self.now_ns(), stop.workload, stop.attempt, 0.0, why))
                return
        self.deeds.releases[key] = (stop.cluster, why)

    def _why_stopped(self, stop: PreemptWorkload) -> str:
        if stop.wanted_by == stop.workload:
            return "its owner no longer wants it"
        tracks = self.machine.state.tracks
        own = {tracks[job].workload.tenant for job in (stop.workload, stop.wanted_by)}
        # Of jobs of others nobody is told even that they are there.
        return f"makes room for {stop.wanted_by if len(own) == 1 else 'a job that comes first'}"

    def _refuse(self, refusal: RefuseWorkload) -> None:
        entry = self.book.jobs.get(refusal.workload)
        why = f"{refusal.why}; {refusal.nearest}" if refusal.nearest else refusal.why
        if entry is not None and (entry.excluded or not self.book.all_spoken):
            # A cluster that has not said yet what it has, or lacks a thing, may yet be the one.
            self._keep_waiting(refusal.workload, why)
        else:
            self.deeds.failures[refusal.workload] = why
            self.book.queued.discard(refusal.workload)
