"""The simulated fleet: the global stage and all clusters in one virtual time.

The world owns the truth (who runs where, how far it is, what it costs) and carries out what the
centre says. Within a round: what happened since the last one, services, local stages, the centre.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from dure.domain.fleet.decisions import Order
from dure.domain.fleet.events import (
    AllotmentsSet,
    ArtefactSeen,
    ClusterJoined,
    ClusterSummarised,
    GlobalEvent,
    LoadsObserved,
    OrderTurnedDown,
    PolicySet,
    RoundDue,
    TenantSet,
    WorkloadEnded,
    WorkloadStarted,
    WorkloadStopped,
    WorkloadSubmitted,
)
from dure.domain.fleet.instructions import (
    DeferWorkload,
    GlobalInstruction,
    MoveWorkload,
    PlaceWorkload,
    PreemptWorkload,
    PublishPrices,
    RefuseWorkload,
    ReportSummary,
    SetAllotments,
    Warn,
)
from dure.domain.fleet.policy import HOUR_NS, FleetPolicy
from dure.domain.fleet.workloads import Workload, WorkloadKind
from dure.domain.ids import ArtefactId, ClusterId, WorkloadId
from dure.sim.fleet.billing import Books, tick_times
from dure.sim.fleet.engine import Agenda
from dure.sim.fleet.hardware import Hardware
from dure.sim.fleet.history import History
from dure.sim.fleet.jobs import Run
from dure.sim.fleet.members import LocalStage, Member
from dure.sim.fleet.moves import Moves
from dure.sim.fleet.outages import Outages
from dure.sim.fleet.reports import (
    SeriesReports,
    ServiceReports,
    as_known,
    progress,
    spending,
)
from dure.sim.fleet.savings import Savings
from dure.sim.fleet.services import Services
from dure.sim.fleet.setting import Setting
from dure.sim.fleet.transfers import BYTES_PER_GB, Stores, Transfer


class GlobalStage(Protocol):
    """What the world drives at the centre: the global machine, or a baseline."""

    def handle(self, event: GlobalEvent) -> list[GlobalInstruction]:
        """Take an event, answer with instructions."""


LocalMaker = Callable[[int], LocalStage]
"""Makes the local stage of the cluster with that number."""


class JobRecord:
    """What became of one job."""

    __slots__ = ("ended_ns", "live", "refused", "saved", "started_ns", "workload")

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.started_ns = -1
        self.ended_ns = -1
        self.refused = False
        self.saved = 0.0
        """Progress that is safe, wherever the job is."""
        self.live: list[Run] = []
        """Orders for it in clusters; more than one only in a race, or when one was cut off."""


class World:
    """Everything outside the two machines."""

    def __init__(
        self,
        setting: Setting,
        centre: GlobalStage,
        make_local: LocalMaker,
        *,
        first_start_keeps: bool = False,
    ) -> None:
        self.setting = setting
        self.centre = centre
        self.now_ns = setting.start_ns
        self.agenda = Agenda()
        self.books = Books(setting.fleet, setting.start_ns)
        self.stores = Stores(setting.fleet, setting.artefacts)
        self.counts: Counter[str] = Counter()
        self.history = History(setting.explain)
        self.jobs: dict[WorkloadId, JobRecord] = {}
        self.open_jobs = 0
        """Submitted, neither ended nor refused."""
        self.savings = Savings(setting.fleet)
        self.centre_up = True
        self.centre_s = 0.0
        self.round_s: list[float] = []
        self.prices: dict[str, float] = {}
        """Congestion prices by site, as last published."""
        self._race = first_start_keeps
        self._rng = np.random.default_rng(setting.seed)
        self._ordered: set[int] = set()
        """Clusters that have got orders since their last round."""
        self._to_centre: list[GlobalEvent] = []
        services = [w for w in setting.workloads if w.kind is WorkloadKind.SERVING]
        self.services = Services(services, setting.fleet, setting.loads, setting.start_ns)
        self.service_runs: dict[WorkloadId, list[Run]] = {}
        self.members = [
            Member(
                Hardware(index, cluster, setting.fleet, self.books.clusters[index]),
                make_local(index),
                self,
                setting.physics.container_start_s,
            )
            for index, cluster in enumerate(setting.fleet.clusters)
        ]
        self.member_of: dict[ClusterId, Member] = {member.id: member for member in self.members}
        self._penalties = np.zeros(len(services))
        self._moves = Moves(self, self.savings)
        self._service_reports = ServiceReports(setting, self.services)
        self._series_reports = SeriesReports(setting)
        self._carry: dict[type[Any], Callable[[Any, int], None]] = {
            PlaceWorkload: self._place,
            DeferWorkload: self._defer,
            MoveWorkload: self._moves.begin,
            PreemptWorkload: self._preempt,
            SetAllotments: self._allot,
            RefuseWorkload: self._refuse,
            PublishPrices: self._publish,
            Warn: self._warn,
        }
        self._begin()

    # --- time --------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Introduce everything, and note all that is known to happen."""
        setting, now_ns = self.setting, self.now_ns
        if setting.physics.nodes_on_at_start:
            for member in self.members:
                for number in range(len(member.hardware.nodes)):
                    member.hardware.power(number, True, now_ns)
                    member.hardware.nodes[number].ready_ns = now_ns
        for cluster in setting.fleet.clusters:
            self.report(ClusterJoined(now_ns, as_known(cluster, setting, now_ns)))
        for member in self.members:
            member.tell(PolicySet(now_ns, setting.policy))
        for tenant in setting.tenants:
            pools = tuple(pool for pool in setting.pools if pool.tenant == tenant.id)
            event = TenantSet(now_ns, tenant, pools)
            self.report(event)
            for member in self.members:
                member.tell(event)
        for artefact in setting.artefacts:
            self.report(ArtefactSeen(now_ns, artefact))
        for when_ns in tick_times(setting.fleet, setting.start_ns, setting.end_ns):
            self.agenda.note(when_ns, self._tick)
        for workload in setting.workloads:
            if workload.submitted_ns < setting.end_ns:
                self.agenda.note(max(now_ns, workload.submitted_ns), self._submit, workload)
        for when_ns, policy in setting.switches:
            self.agenda.note(when_ns, self._switch, policy)
        Outages(self)

    def _switch(self, now_ns: int, policy: FleetPolicy) -> None:
        """The operator changes the rules; both stages hear it."""
        event = PolicySet(now_ns, policy)
        self.report(event)
        for member in self.members:
            member.tell(event)

    def round(self, now_ns: int) -> None:
        """Go on to a moment and let both stages decide."""
        self.agenda.run_until(now_ns)
        self.now_ns = now_ns
        self._serve(now_ns)
        for index in self._turns(range(len(self.members))):
            self.members[index].round(now_ns)
        if self._service_reports.due(now_ns):
            for event, cluster in self._service_reports.events(now_ns):
                self.report(event, self.members[cluster])
        if self.centre_up:
            self._decide(now_ns)

    @property
    def waiting(self) -> int:
        """Open jobs that do not run now."""
        running = 0
        for member in self.members:
            running += sum(run.rate > 0.0 for run in member.runs.values())
        return self.open_jobs - running

    def finish(self, now_ns: int) -> None:
        """Bring all accounts up to the end."""
        self.agenda.run_until(now_ns)
        self.now_ns = now_ns
        self.services.advance(now_ns)
        self._read_meters(now_ns)
        self._enter_all(now_ns)
        for job in self.jobs.values():
            for run in job.live:
                self.savings.job_left(run, run.done_at(now_ns))
        for runs in self.service_runs.values():
            for run in runs:
                self.savings.service_ends(run, self.services.penalty_of(run.workload.id))
        self.savings.close(now_ns)

    def _decide(self, now_ns: int) -> None:
        """Tell the centre what it has missed, then let it decide."""
        while self._to_centre:
            events, self._to_centre = self._to_centre, []
            for event in events:
                self._tell(event)
        started = time.perf_counter()
        instructions = self.centre.handle(RoundDue(now_ns))
        took = time.perf_counter() - started
        self.centre_s += took
        self.round_s.append(took)
        self._carry_out(instructions, now_ns)
        for index in self._turns(sorted(self._ordered)):
            self.members[index].round(now_ns)
        self._ordered.clear()

    def _turns(self, indices: Sequence[int]) -> Sequence[int]:
        """The order in which clusters act in one moment: by lot in a race, where it matters."""
        if not self._race:
            return indices
        return [indices[int(turn)] for turn in self._rng.permutation(len(indices))]

    def _tell(self, event: GlobalEvent) -> None:
        started = time.perf_counter()
        instructions = self.centre.handle(event)
        self.centre_s += time.perf_counter() - started
        if instructions:
            self._carry_out(instructions, self.now_ns)

    def _carry_out(self, instructions: list[GlobalInstruction], now_ns: int) -> None:
        carry = self._carry
        for instruction in instructions:
            carry[type(instruction)](instruction, now_ns)

    def report(self, event: GlobalEvent, member: Member | None = None) -> None:
        """Let the centre know at its next opportunity; a cluster that is cut off keeps its news."""
        if member is not None and not member.reachable:
            member.outbox.append(event)
        else:
            self._to_centre.append(event)

    def _tick(self, now_ns: int, _: object) -> None:
        """An hour is full, or some price changes."""
        self.services.advance(now_ns)
        self._read_meters(now_ns)
        self.books.set_prices(now_ns)
        if (now_ns - self.setting.start_ns) % HOUR_NS:
            return
        self._enter_all(now_ns)
        self.history.hour(self, now_ns)
        for event in (*spending(self.books.ledger, now_ns), *self._series_reports.events(now_ns)):
            self.report(event)

    def _read_meters(self, now_ns: int) -> None:
        """Bring all that is metered up to a moment, at the prices that held until now."""
        self.services.pay_energy()
        self._punish_services()
        for member in self.members:
            member.hardware.read(now_ns)
            for run in member.runs.values():
                run.account.read(now_ns)

    def _enter_all(self, now_ns: int) -> None:
        """Put everything that is owed into the ledger."""
        runs = [run for member in self.members for run in member.runs.values()]
        for run in runs:
            run.read(now_ns)
        self.books.enter_all([run.account for run in runs])

    # --- work arrives ------------------------------------------------------------------------

    def _submit(self, now_ns: int, workload: Workload) -> None:
        if workload.kind is not WorkloadKind.SERVING:
            self.jobs[workload.id] = JobRecord(workload)
            self.open_jobs += 1
            self.history.job_submitted(workload, self.setting.end_ns)
        self.report(WorkloadSubmitted(now_ns, workload))

    def _place(self, instruction: PlaceWorkload, now_ns: int) -> None:
        order = instruction.order
        self.count("placements")
        self.history.explain(order, now_ns)
        self.give(order, now_ns)

    def give(self, order: Order, now_ns: int) -> None:
        """Bring an order to its cluster, once it can be reached."""
        member = self.member_of[order.site.cluster]
        if not member.reachable:
            member.inbox.append(lambda later_ns: self.give(order, later_ns))
            return
        job = self.jobs.get(order.workload.id)
        if job is not None and job.ended_ns >= 0:
            return
        if self._race and job is not None and any(run.instances for run in job.live):
            self._lost_race(order, now_ns)
            return
        member.give(order, now_ns)
        self._ordered.add(member.index)

    def _lost_race(self, order: Order, now_ns: int) -> None:
        """Another cluster was first: the centre hears that this order stands no longer."""
        why = "another cluster was first"
        self.report(WorkloadStopped(now_ns, order.workload.id, order.attempt, 0.0, why))

    def received(self, run: Run, member: Member) -> None:
        """An order is about to be handed to a local stage."""
        job = self.jobs.get(run.workload.id)
        if job is not None:
            job.live.append(run)
            return
        self.service_runs.setdefault(run.workload.id, []).append(run)
        self.services.add(run, member.id, member.busy_w(run))
        self.savings.service_begins(run, self.services.penalty_of(run.workload.id))

    def closed(self, run: Run, now_ns: int) -> None:
        """An order is gone from its cluster."""
        job = self.jobs.get(run.workload.id)
        if job is not None:
            job.live.remove(run)
            self.savings.job_left(run, run.done)
            self._moves.left(run, now_ns)
        else:
            self.service_runs[run.workload.id].remove(run)
            self.services.remove(run)
            self.savings.service_ends(run, self.services.penalty_of(run.workload.id))
            self._service_reports.forget(run)

    def _refuse(self, instruction: RefuseWorkload, now_ns: int) -> None:
        self.count("refused")
        self.history.warn(f"{instruction.why}; {instruction.nearest}")
        job = self.jobs.get(instruction.workload)
        if job is not None and not job.refused:
            job.refused = True
            self.open_jobs -= 1

    def _defer(self, instruction: DeferWorkload, now_ns: int) -> None:
        self.count("deferrals")

    def _publish(self, instruction: PublishPrices, now_ns: int) -> None:
        self.prices.update(instruction.prices)

    def _warn(self, instruction: Warn, now_ns: int) -> None:
        self.warned(instruction)

    # --- work moves --------------------------------------------------------------------------

    def find(self, name: WorkloadId, cluster: ClusterId) -> Run | None:
        """The order of a workload in a cluster."""
        job = self.jobs.get(name)
        runs = job.live if job is not None else self.service_runs.get(name, [])
        index = self.member_of[cluster].index
        return next((run for run in runs if run.cluster == index), None)

    def _preempt(self, instruction: PreemptWorkload, now_ns: int) -> None:
        member = self.member_of[instruction.cluster]
        if not member.reachable:
            member.inbox.append(lambda later_ns: self._preempt(instruction, later_ns))
            return
        run = member.runs.get((instruction.workload, instruction.attempt))
        if run is None:
            return
        self.count("preemptions")
        why = f"displaced by {instruction.wanted_by}"
        self._stop(run, member, why, now_ns)

    def _stop(self, run: Run, member: Member, why: str, now_ns: int) -> float:
        """End an order in its cluster and tell the centre; returns what a checkpoint holds."""
        saved = self.save(run, now_ns)
        member.withdraw(run, now_ns)
        self.report(WorkloadStopped(now_ns, run.workload.id, run.attempt, saved, why), member)
        return saved

    def save(self, run: Run, now_ns: int) -> float:
        """Progress that survives the end of a run; what does not is lost."""
        if run.workload.kind is WorkloadKind.SERVING:
            return 0.0
        self.lost_work(run, run.fall_back(now_ns))
        self.jobs[run.workload.id].saved = run.saved
        return run.saved

    def _allot(self, instruction: SetAllotments, now_ns: int) -> None:
        member = self.member_of[instruction.cluster]
        if member.reachable:
            member.tell(AllotmentsSet(now_ns, instruction.allotments))
        else:
            member.inbox.append(lambda later_ns: self._allot(instruction, later_ns))

    def over(self, member: Member, now_ns: int) -> None:
        """Stop what a cluster still runs although it ended elsewhere while it was cut off."""
        for run in list(member.runs.values()):
            job = self.jobs.get(run.workload.id)
            if job is not None and job.ended_ns >= 0:
                member.withdraw(run, now_ns)

    # --- what members say --------------------------------------------------------------------

    def stored_ns(self, run: Run, member: Member, now_ns: int) -> int:
        """When all data of a run is in its cluster; transfers begin where it is not."""
        workload = run.workload
        if workload.weights is None and not workload.data:
            return now_ns
        ready_ns, begun = self.stores.fetch(workload, member.id, now_ns)
        for transfer in begun:
            self.pay_transfer(workload, transfer)
            self.agenda.note(transfer.arrives_ns, self._stored, transfer.artefact)
        return ready_ns

    def pay_transfer(self, workload: Workload, transfer: Transfer) -> None:
        self.books.pay_transfer(workload, transfer.cost)
        if transfer.size_bytes:
            self.counts["transfers"] += 1
            self.history.moved_gb += transfer.size_bytes / BYTES_PER_GB

    def _stored(self, now_ns: int, artefact: ArtefactId) -> None:
        self.report(ArtefactSeen(now_ns, self.stores.places(artefact)))

    def started(self, run: Run, member: Member, now_ns: int) -> None:
        """The first instance of an order got a place; in a race the others are called off."""
        if not self._race:
            return
        job = self.jobs.get(run.workload.id)
        if job is None:
            return
        for other in [each for each in job.live if each is not run]:
            self.members[other.cluster].withdraw(other, now_ns)
            self._lost_race(other.order, now_ns)

    def running(self, run: Run, member: Member, now_ns: int) -> None:
        """All instances of an order are warm."""
        job = self.jobs.get(run.workload.id)
        if job is not None:
            if job.started_ns < 0:
                job.started_ns = now_ns
            interval_ns = self.setting.physics.progress_report_ns
            self.agenda.note(now_ns + interval_ns, self._progress, run)
        self.report(WorkloadStarted(now_ns, run.workload.id, run.attempt), member)
        if job is None:
            self._moves.warm(run, now_ns)

    def _progress(self, now_ns: int, run: Run) -> None:
        """From time to time the centre hears how far a job is."""
        if not run.ended:
            self.report(progress(run, now_ns), self.members[run.cluster])
            again_ns = now_ns + self.setting.physics.progress_report_ns
            self.agenda.note(again_ns, self._progress, run)

    def workers_changed(self, run: Run, member: Member, now_ns: int) -> None:
        """A running job grew or shrank, or stands still."""
        self.report(progress(run, now_ns), member)

    def ended(self, run: Run, member: Member, now_ns: int) -> None:
        """A job is done."""
        workload = run.workload
        job = self.jobs[workload.id]
        if job.ended_ns < 0:
            job.ended_ns = now_ns
            job.saved = 1.0
            self.open_jobs -= 1
            self.history.job_ended(job.workload, now_ns)
            deadline_ns = workload.sla.deadline_ns
            if deadline_ns is not None and now_ns > deadline_ns:
                late = workload.sla.late_cost(now_ns - deadline_ns)
                self.books.punish(self.books.late_jobs, workload, late)
            self.report(WorkloadEnded(now_ns, workload.id), member)
        for other in list(job.live):
            if self.members[other.cluster].reachable:
                self.members[other.cluster].withdraw(other, now_ns)

    def turned_down(self, run: Run, member: Member, why: str, now_ns: int) -> None:
        """A cluster gave an order back."""
        self.count("turned_down")
        workload = run.workload
        saved = self.save(run, now_ns)
        had_run = run.first_warm_ns >= 0
        member.close(run, now_ns)
        if had_run and workload.kind is not WorkloadKind.SERVING:
            self.report(WorkloadStopped(now_ns, workload.id, run.attempt, saved, why), member)
        else:
            self.report(OrderTurnedDown(now_ns, workload.id, run.attempt, why), member)

    def lost_work(self, run: Run, share: float) -> None:
        """Work that must be done again."""
        self.history.lost_device_s += run.device_s(share)

    def summarised(self, member: Member, summary: ReportSummary, now_ns: int) -> None:
        """A cluster said what is left."""
        self.history.summary(summary)
        self.report(ClusterSummarised(now_ns, summary.sites), member)

    def warned(self, warning: Warn) -> None:
        """A stage had something to say."""
        self.count("warnings")
        remedy = f"; {warning.remedy}" if warning.remedy else ""
        self.history.warn(f"{warning.about}: {warning.what}{remedy}")

    def service_changed(self, run: Run, member: Member) -> None:
        """A service has another number of warm instances."""
        self.services.set_warm(run)

    def count(self, what: str) -> None:
        """One more of something."""
        self.counts[what] += 1

    # --- services ----------------------------------------------------------------------------

    def _serve(self, now_ns: int) -> None:
        """Let requests of the last round be served, and tell clusters of what changed."""
        services = self.services
        services.advance(now_ns)
        for run in services.refresh(now_ns):
            self.books.enter(run.account)
        for news in services.news(self.setting.physics.report_change):
            self.members[news.cluster].tell(
                LoadsObserved(
                    now_ns, news.workloads, news.requests_per_s, news.queue_length, news.latency_ms
                )
            )

    def _punish_services(self) -> None:
        """Charge penalties that services have run up since last time."""
        services = self.services
        for number in np.flatnonzero(services.penalty > self._penalties):
            added = float(services.penalty[number] - self._penalties[number])
            self.books.punish(self.books.slow_services, services.workloads[number], added)
        self._penalties = services.penalty.copy()
