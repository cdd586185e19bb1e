"""The simulated fleet: the global stage and all clusters in one virtual time.

The world owns the truth: who runs where, how far it is, what it costs. What the centre says is
carried out by `directives`, what clusters say comes in by `feedback`. Within a round: what happened
since the last one, services, local stages, the centre.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from dure.domain.fleet.events import (
    ArtefactSeen,
    ClusterJoined,
    GlobalEvent,
    LoadsObserved,
    PolicySet,
    RoundDue,
    TenantSet,
    WorkloadSubmitted,
)
from dure.domain.fleet.instructions import (
    GlobalInstruction,
)
from dure.domain.fleet.policy import HOUR_NS, FleetPolicy
from dure.domain.fleet.workloads import Workload, WorkloadKind
from dure.domain.ids import ClusterId, WorkloadId
from dure.sim.agenda import Agenda
from dure.sim.fleet.billing import Books, tick_times
from dure.sim.fleet.directives import Directives
from dure.sim.fleet.feedback import Feedback
from dure.sim.fleet.hardware import Hardware
from dure.sim.fleet.history import History
from dure.sim.fleet.jobs import Run
from dure.sim.fleet.members import Member
from dure.sim.fleet.moves import Moves
from dure.sim.fleet.outages import Outages
from dure.sim.fleet.reports import (
    SeriesReports,
    ServiceReports,
    as_known,
    spending,
)
from dure.sim.fleet.savings import Savings
from dure.sim.fleet.services import Services
from dure.sim.fleet.setting import Setting
from dure.sim.fleet.surroundings import LocalStage
from dure.sim.fleet.transfers import BYTES_PER_GB, Stores, Transfer
from dure.sim.fleet.waits import Waits
from dure.telemetry.fleet_watch import FleetWatch


class GlobalStage(Protocol):
    """What the world drives at the centre: the global machine, or a baseline."""

    def handle(self, event: GlobalEvent) -> list[GlobalInstruction]:
        """Take an event, answer with instructions."""


LocalMaker = Callable[[int], LocalStage]
"""Makes the local stage of the cluster with that number."""


class JobRecord:
    """What became of one job."""

    __slots__ = ("ended_ns", "live", "refused", "saved", "started_ns", "told_end", "workload")

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.started_ns = -1
        self.ended_ns = -1
        self.told_end = False
        """Whether news of its end has reached the centre."""
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
        self.waits = Waits(setting, centre)
        self.jobs: dict[WorkloadId, JobRecord] = {}
        self.open_jobs = 0
        """Submitted, neither ended nor refused."""
        self.savings = Savings(setting.fleet)
        self.centre_up = True
        self.centre_s = 0.0
        self.round_s: list[float] = []
        self.prices: dict[str, float] = {}
        """Congestion prices by site, as last published."""
        self.race = first_start_keeps
        """Whether the first cluster to start a job keeps it."""
        self._rng = np.random.default_rng(setting.seed)
        self._to_centre: list[GlobalEvent] = []
        self._watch = FleetWatch() if setting.signals else None
        services = [w for w in setting.workloads if w.kind is WorkloadKind.SERVING]
        self.services = Services(services, setting.fleet, setting.loads, setting.start_ns)
        self.service_runs: dict[WorkloadId, list[Run]] = {}
        self.directives = Directives(self)
        self.feedback = Feedback(self)
        self.members = [
            Member(
                Hardware(index, cluster, setting.fleet, self.books.clusters[index]),
                make_local(index),
                self.feedback,
                setting.physics.container_start_s,
            )
            for index, cluster in enumerate(setting.fleet.clusters)
        ]
        self.member_of: dict[ClusterId, Member] = {member.id: member for member in self.members}
        self._penalties = np.zeros(len(services))
        self.moves = Moves(self, self.savings)
        self.service_reports = ServiceReports(setting, self.services)
        self._series_reports = SeriesReports(setting)
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
        self.agenda.plan()

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
        if self.service_reports.due(now_ns):
            for event, cluster in self.service_reports.events(now_ns):
                self.report(event, self.members[cluster])
        if self.centre_up:
            self._decide(now_ns)
            self.waits.look(now_ns)

    @property
    def waiting(self) -> int:
        """Open jobs that do not run now; one that runs twice counts as two that run."""
        running = 0
        for member in self.members:
            running += sum(1 for run in member.runs.values() if run.rate > 0.0)
        return max(0, self.open_jobs - running)

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
        self.waits.finish(now_ns)

    def _decide(self, now_ns: int) -> None:
        """Tell the centre what it has missed, then let it decide."""
        handle = self.centre.handle
        started = time.perf_counter()
        while self._to_centre:
            events, self._to_centre = self._to_centre, []
            for event in events:
                instructions = handle(event)
                if self._watch is not None:
                    for signal in self._watch.observe(event):
                        instructions += handle(signal)
                if instructions:
                    self.centre_s += time.perf_counter() - started
                    self.directives.carry_out(instructions, now_ns)
                    started = time.perf_counter()
        self.centre_s += time.perf_counter() - started
        started = time.perf_counter()
        instructions = self.centre.handle(RoundDue(now_ns))
        took = time.perf_counter() - started
        self.centre_s += took
        self.round_s.append(took)
        self.directives.carry_out(instructions, now_ns)
        for index in self._turns(sorted(self.directives.ordered)):
            self.members[index].round(now_ns)
        self.directives.ordered.clear()

    def _turns(self, indices: Sequence[int]) -> Sequence[int]:
        """The order in which clusters act in one moment: by lot in a race, where it matters."""
        if not self.race:
            return indices
        return [indices[int(turn)] for turn in self._rng.permutation(len(indices))]

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
        if now_ns - self.books.period_ns >= self.setting.policy.period_ns:
            self.books.close_period(now_ns)

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

    # --- records -----------------------------------------------------------------------------

    def find(self, name: WorkloadId, cluster: ClusterId) -> Run | None:
        """The order of a workload in a cluster."""
        job = self.jobs.get(name)
        runs = job.live if job is not None else self.service_runs.get(name, [])
        index = self.member_of[cluster].index
        return next((run for run in runs if run.cluster == index), None)

    def save(self, run: Run, now_ns: int) -> float:
        """Progress that survives the end of a run; what does not is lost."""
        if run.workload.kind is WorkloadKind.SERVING:
            return 0.0
        self.lost_work(run, run.fall_back(now_ns))
        self.jobs[run.workload.id].saved = run.saved
        return run.saved

    def pay_transfer(self, workload: Workload, transfer: Transfer) -> None:
        """Charge what was sent between clusters."""
        self.books.pay_transfer(workload, transfer.cost)
        if transfer.size_bytes:
            self.counts["transfers"] += 1
            self.history.moved_gb += transfer.size_bytes / BYTES_PER_GB

    def lost_work(self, run: Run, share: float) -> None:
        """Work that must be done again."""
        self.history.lost_device_s += run.device_s(share)

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
