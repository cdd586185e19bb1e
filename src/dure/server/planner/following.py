"""Follows what happens: rows of the events table become events of the global machine, in order."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dure.domain.errors import DureError
from dure.domain.fleet.events import (
    OrderTurnedDown,
    PolicySet,
    SeriesExtended,
    ServiceObserved,
    SpendObserved,
    UsageObserved,
    WorkloadEnded,
    WorkloadProgressed,
    WorkloadStarted,
    WorkloadStopped,
)
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.protocol.reports import Outcome
from dure.domain.fleet.series import Series
from dure.domain.fleet.tenancy import Budget
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.server import specs
from dure.server.declared import Declared, Member, read_declared
from dure.server.planner.book import Station
from dure.server.planner.centre import Centre
from dure.server.planner.deeds import ASKED
from dure.server.planner.loading import set_tenants
from dure.server.records import heard_of
from dure.stores.rows import ClusterNews, Event, Job
from dure.stores.transaction import Transaction

BATCH = 1000
"""Events that are read at a time."""
_DECLARED = {"tenant.changed", "pool.changed", "budget.changed", "policy.changed", "feed.extended"}
_CLUSTERS = {"cluster.joined", "cluster.changed", "cluster.lost"}
_ENDED = frozenset(phase.value for phase in JobPhase if phase.ended)


class Outdated(Exception):  # noqa: N818 - a wish, not an error
    """What was read at the begin holds no longer: begin anew."""


@dataclass
class Batch:
    """Events, and the rows that are needed to understand them, read at one moment."""

    events: tuple[Event, ...]
    jobs: Mapping[str, Job] = field(default_factory=dict)
    declared: Declared | None = None
    """None: nothing that people declare has changed."""
    news: Mapping[str, ClusterNews] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """Number of the last event."""
        return self.events[-1].seq


async def read_batch(tx: Transaction, after: int, centre: Centre) -> Batch | None:
    """What happened after an event; None: nothing."""
    events = await tx.events.since(after, BATCH)
    if not events:
        return None
    jobs = {event.subject for event in events if _needs_row(event, centre)}
    described = any(
        event.kind in _DECLARED | _CLUSTERS or event.data.get("inventory") for event in events
    )
    if any(_offers_more(event) for event in events):
        # A job may have waited for the very thing that a cluster has now.
        jobs |= set(centre.book.choosy())
    told = {event.subject for event in events if event.data.get("sites")}
    return Batch(
        events,
        {job.id: job for job in await tx.jobs.many(jobs)},
        await read_declared(tx) if described else None,
        {name: news for name in sorted(told) if (news := await tx.news.find(name)) is not None},
    )


def _needs_row(event: Event, centre: Centre) -> bool:
    """Whether an event can only be understood with what the job's owner wrote."""
    match event.kind:
        case "job.submitted":
            return True
        case "job.changed":
            return "phase" not in event.data
        case "attempt.gone":
            # A place that the machine was not told of, as of a cluster it could not understand.
            waits = event.data["phase"] == JobPhase.QUEUED.value
            return waits and WorkloadId(event.subject) not in centre.machine.state.tracks
        case _:
            return False


def _offers_more(event: Event) -> bool:
    """Whether a cluster may have something beside devices that it did not have."""
    return event.kind == "cluster.changed" or bool(event.data.get("inventory"))


class Follower:
    """Takes batches in."""

    def __init__(self, centre: Centre) -> None:
        self._centre = centre
        self._take: dict[str, Callable[[Event, Batch], None]] = {
            "job.submitted": self._submitted,
            "job.cancelled": self._cancelled,
            "job.changed": self._changed,
            "attempt.committed": self._committed,
            "attempt.running": self._running,
            "attempt.gone": self._gone,
            "cluster.reported": self._reported,
            ASKED: self._asked,
        }

    def take(self, batch: Batch) -> bool:
        """Let it all have happened; tells whether anything needs a decision."""
        if batch.declared is not None:
            self._describe(batch.declared, batch)
        news = False
        for event in batch.events:
            take = self._take.get(event.kind)
            if take is not None:
                take(event, batch)
                news = True
        for name, said in batch.news.items():
            station = self._centre.book.stations.get(name)
            if station is not None and station.told:
                self._centre.summarise(heard_of(said).sites)
        return news or batch.declared is not None

    # --- jobs ------------------------------------------------------------------------------

    def _submitted(self, event: Event, batch: Batch) -> None:
        row = batch.jobs.get(event.subject)
        known = event.subject in self._centre.book.jobs
        if row is not None and row.phase is JobPhase.QUEUED and not known:
            self._centre.submit(row)

    def _cancelled(self, event: Event, batch: Batch) -> None:
        self._centre.withdraw(event.subject)
        self._centre.book.queued.discard(event.subject)
        self._centre.deeds.cancels.add(event.subject)

    def _changed(self, event: Event, batch: Batch) -> None:
        book, job = self._centre.book, event.subject
        phase = event.data.get("phase")
        if phase in _ENDED:
            book.forget(job)
        elif phase == JobPhase.QUEUED.value and job in book.jobs:
            book.queued.add(job)
            book.jobs[job].reason = str(event.data.get("reason", ""))
        elif phase is None:
            self._edited(batch.jobs.get(job))

    def _edited(self, row: Job | None) -> None:
        """The owner of a job changed it."""
        if row is None or row.phase.ended or row.phase is JobPhase.CANCELLING:
            return
        self._rebind(row)
        if row.suspended:
            self._centre.suspend(row)
        elif row.phase is JobPhase.QUEUED:
            self._resubmit(row)
        elif self._rank(row) not in (None, row.priority):
            # Not at once: who edits often must not keep others from being planned for.
            book = self._centre.book
            book.outdated = f"the priority of job {row.id}, which has a place, has changed"

    def _rebind(self, row: Job) -> None:
        """It may have been pinned, or not any more."""
        with suppress(DureError):  # told where it is placed
            self._centre.bind(row, specs.job_terms(row))

    def _rank(self, row: Job) -> int | None:
        track = self._centre.machine.state.tracks.get(WorkloadId(row.id))
        return None if track is None else track.workload.priority

    def resubmit(self, rows: Iterable[Job]) -> None:
        """Jobs that wait and were kept back are so no more."""
        for row in rows:
            self._resubmit(row)

    def _resubmit(self, row: Job | None) -> None:
        """A job that waits is described anew."""
        if row is not None and row.phase is JobPhase.QUEUED and row.id in self._centre.book.queued:
            self._centre.resubmit(row)

    # --- attempts --------------------------------------------------------------------------

    def _committed(self, event: Event, batch: Batch) -> None:
        self._centre.book.unheard.pop((event.subject, int(event.data["attempt"])), None)

    def _running(self, event: Event, batch: Batch) -> None:
        self._committed(event, batch)
        centre, job, attempt = self._centre, WorkloadId(event.subject), int(event.data["attempt"])
        centre.feed(WorkloadStarted(centre.now_ns(), job, attempt))
        centre.book.stirred |= job in centre.book.moves

    def _asked(self, event: Event, batch: Batch) -> None:
        self._centre.book.stirred = True

    def _gone(self, event: Event, batch: Batch) -> None:
        self._committed(event, batch)
        centre, data = self._centre, event.data
        job, attempt = WorkloadId(event.subject), int(data["attempt"])
        centre.book.stirred |= job in centre.book.moves
        saved, why, now_ns = float(data["saved"]), str(data["why"]), centre.now_ns()
        if data["phase"] in _ENDED:
            centre.feed(WorkloadEnded(now_ns, job))
            centre.book.forget(job)
            return
        self._stays(job, attempt)
        if data["outcome"] == Outcome.TURNED_DOWN.value:
            centre.feed(OrderTurnedDown(now_ns, job, attempt, why))
        else:
            centre.feed(WorkloadStopped(now_ns, job, attempt, saved, why))
        row = batch.jobs.get(job)
        if (
            row is not None
            and row.phase is JobPhase.QUEUED
            and job not in centre.machine.state.tracks
        ):
            centre.submit(row, saved)
        for number, cluster in data["waiting"]:
            centre.deeds.sendable[job, int(number)] = (str(cluster), saved)

    def _stays(self, job: WorkloadId, attempt: int) -> None:
        """A place of a service that moves is gone: the new one, so that it stays, unless the old
        one is drained; or the old one, so that there is nothing left to hand over."""
        book, track = self._centre.book, self._centre.machine.state.tracks.get(job)
        old = book.replaced.get(job)
        if old is None:
            return
        stays = track is not None and old[0] < attempt and old[0] in track.places
        if stays or old[0] == attempt:
            del book.replaced[job]

    # --- clusters --------------------------------------------------------------------------

    def _reported(self, event: Event, batch: Batch) -> None:
        centre, data, now_ns = self._centre, event.data, self._centre.now_ns()
        centre.book.stirred |= bool(data.get("saved"))
        for job, _, done, saved, workers in _lists(data, "progress"):
            centre.feed(WorkloadProgressed(now_ns, WorkloadId(job), done, saved, workers))
        for job, rate, replicas, violated in _lists(data, "loads"):
            cluster = ClusterId(event.subject)
            centre.feed(ServiceObserved(now_ns, WorkloadId(job), cluster, rate, replicas, violated))
        for job, memory_bytes, share in _lists(data, "usage"):
            centre.feed(UsageObserved(now_ns, WorkloadId(job), memory_bytes, share))
        for tenant, team, money, grams in _lists(data, "spend"):
            centre.feed(SpendObserved(now_ns, tenant, money, grams, team))

    def _describe(self, declared: Declared, batch: Batch) -> None:
        """What people declared, or what clusters consist of, has changed."""
        centre, book = self._centre, self._centre.book
        offers = book.offers()
        before, book.declared = book.declared, declared
        if declared.fleet != before.fleet:
            raise Outdated("rates, egress prices or latencies of the fleet have changed")
        if declared.policy != before.policy:
            centre.feed(PolicySet(centre.now_ns(), declared.policy))
            if _period(declared.policy) != _period(before.policy):
                book.outdated = "the period of the fleet's carbon budget has changed"
        edited = any(event.kind == "budget.changed" for event in batch.events)
        if edited or _budgets(declared) != _budgets(before):
            # Not at once: who edits often must not keep others from being planned for. Until then
            # the old limits hold, since what the machine takes as used was used of them.
            book.outdated = "a budget has changed"
        tenancy = (declared.tenants, declared.pools)
        if tenancy != (before.tenants, before.pools) and not book.outdated:
            set_tenants(centre, declared)
        if any(event.kind in _DECLARED for event in batch.events):
            centre.deeds.surroundings |= set(declared.members)
        changed = {
            event.subject
            for event in batch.events
            if event.kind in _CLUSTERS or event.data.get("inventory")
        }
        if any(event.kind == "feed.extended" for event in batch.events):
            changed |= set(declared.members)
        for name in sorted(changed):
            self._redescribe(name, declared)
        if book.offers() != offers:
            for job in book.choosy():
                self._resubmit(batch.jobs.get(job))

    def _redescribe(self, name: str, declared: Declared) -> None:
        stations = self._centre.book.stations
        member = declared.members.get(name)
        if member is None:
            if name in stations:
                self._centre.close(stations.pop(name))
            return
        station = stations.setdefault(name, Station(member))
        extended = station.told and _series(station.member) != _series(member)
        described = station.told and (
            station.member.row.revision,
            station.member.row.state,
            station.member.cluster and station.member.cluster.groups,
        ) == (member.row.revision, member.row.state, member.cluster and member.cluster.groups)
        station.member = member
        if not described:
            self._centre.describe(station)
            self._centre.deeds.surroundings.add(name)
        elif extended and member.cluster is not None:
            carbon, power = member.cluster.carbon_g_per_kwh, member.cluster.electricity_per_mwh
            now_ns = self._centre.now_ns()
            self._centre.feed(SeriesExtended(now_ns, member.cluster.id, carbon, power))


def _period(policy: FleetPolicy) -> tuple[bool, int, int | None]:
    """What decides which grams count for the fleet's carbon budget."""
    return policy.carbon_budget_g is not None, policy.period_ns, policy.period_start_ns


def _budgets(declared: Declared) -> dict[tuple[TenantId, str], Budget]:
    """Limits of tenants and their teams, of those that have any."""
    nodes = {
        (tenant.id, name): budget
        for tenant in declared.tenants
        for name, budget in (
            ("", tenant.budget),
            *((team.name, team.budget) for team in tenant.teams),
        )
    }
    return {node: budget for node, budget in nodes.items() if budget != Budget()}


def _series(member: Member) -> tuple[Series, ...]:
    """What a cluster's electricity costs and emits."""
    cluster = member.cluster
    return () if cluster is None else (cluster.carbon_g_per_kwh, cluster.electricity_per_mwh)


def _lists(data: Mapping[str, Any], name: str) -> Iterable[list[Any]]:
    found = data.get(name)
    return found if isinstance(found, list) else ()
