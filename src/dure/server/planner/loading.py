"""Begins to plan: all that is stored, read at one moment, becomes the machine's memory."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dure.domain.errors import DureError
from dure.domain.fleet.events import ArtefactSeen, OrderFound, TenantSet
from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.policy import HOUR_NS
from dure.domain.fleet.workloads import Workload, WorkloadKind
from dure.domain.ids import TenantId
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings
from dure.server import specs
from dure.server.declared import Declared, read_declared
from dure.server.planner.book import Book, Entry, Station
from dure.server.planner.centre import Centre
from dure.server.planner.feasible import particular
from dure.server.planner.suspects import Suspects
from dure.server.records import REPLACES, order_of, site_of, status_of
from dure.stores.rows import Attempt, Budget, Job
from dure.stores.transaction import Transaction

PAGE = 100
"""Jobs that are taken in at a time; in between, others have their turn."""


@dataclass
class Begun:
    """A centre that knows everything up to an event."""

    centre: Centre
    seq: int
    """Of the last event that it knows."""
    until_ns: int | None
    """When a budget's period begins or ends: then everything is read anew."""
    waiting: list[tuple[Job, float]] = field(default_factory=list)
    """Jobs without a place, and what of their work is saved: read, and not submitted yet."""

    async def submit_waiting(self) -> None:
        """Let the machine know who waits; after the reading, since a database does not wait long
        for one who asks nothing. All that has a place is known by then, so that nobody is given
        the room of one who comes later."""
        waiting, self.waiting = self.waiting, []
        for number, (job, saved_share) in enumerate(waiting):
            self.centre.submit(job, saved_share)
            if number % PAGE == 0:
                await asyncio.sleep(0)


async def begin(
    tx: Transaction, now_ns: Callable[[], int], suspects: Suspects, scan_ns: int = HOUR_NS
) -> Begun:
    """Read it all; those who wait are submitted once the transaction is over.

    `scan_ns`: between two looks for work that is worth moving.
    """
    seq = await tx.events.last()
    declared = await read_declared(tx)
    machine = GlobalMachine(GlobalSettings(declared.fleet, declared.policy, scan_ns=scan_ns))
    book = Book(declared, {name: Station(each) for name, each in declared.members.items()})
    suspects.fresh.clear()
    centre = Centre(machine, book, now_ns, suspects)
    set_tenants(centre, declared)
    rows = [station.member.row for station in book.stations.values()]
    for artefact in specs.artefacts_of(rows):
        centre.feed(ArtefactSeen(now_ns(), artefact))
    for station in book.stations.values():
        centre.describe(station)
    budgets = await tx.budgets.all()
    await _take_spend(tx, centre, budgets)
    book.moves = {row.job_id: row for row in await tx.migrations.unfinished()}
    waiting = await _take_jobs(tx, centre)
    for station in book.stations.values():
        if station.told:
            centre.summarise(station.member.heard.sites)
    turns = [ns for each in budgets for ns in (each.period_start_ns, each.period_end_ns)]
    return Begun(centre, seq, min((ns for ns in turns if ns > tx.now_ns), default=None), waiting)


def set_tenants(centre: Centre, declared: Declared) -> None:
    """Let the machine know all tenants with their pools."""
    for tenant in declared.tenants:
        pools = tuple(pool for pool in declared.pools if pool.tenant == tenant.id)
        centre.feed(TenantSet(centre.now_ns(), tenant, pools))


async def _take_spend(tx: Transaction, centre: Centre, budgets: Sequence[Budget]) -> None:
    """What was spent of each budget, and of the fleet's, in its own period."""
    state, fleet_g = centre.machine.state, 0.0
    if state.policy.carbon_budget_g is not None:
        since_ns = state.policy.period_of(tx.now_ns)
        fleet_g = sum(grams for _, _, _, grams in await tx.charges.totals(since_ns))
    spent = specs.spent_of(budgets, tx.now_ns)
    nodes = {path.partition("/")[::2]: used for path, used in spent.items()}
    state.adaptation.pacer.used_g = fleet_g
    state.budgets.begin_with(
        {TenantId(tenant): used for (tenant, team), used in nodes.items() if not team},
        {(TenantId(tenant), team): used for (tenant, team), used in nodes.items() if team},
        fleet_g,
    )


async def _take_jobs(tx: Transaction, centre: Centre) -> list[tuple[Job, float]]:
    """Let the machine know all that has a place; tells who waits for one, and what they saved."""
    waiting: list[Job] = []
    after = ""
    while page := await tx.jobs.live(after, PAGE):
        after = page[-1].id
        attempts: dict[str, list[Attempt]] = {}
        for each in await tx.attempts.unfinished_of([job.id for job in page]):
            attempts.setdefault(each.job_id, []).append(each)
        ready = {job: found[0] for job, found in attempts.items() if _waited(found[0])}
        saved = await tx.attempts.saved_shares(ready)
        for job in page:
            if job.phase is JobPhase.CANCELLING:
                centre.deeds.cancels.add(job.id)
            elif job.suspended and job.id in attempts:
                centre.deeds.suspends.add(job.id)
            elif job.id in attempts:
                _find_orders(centre, job, attempts[job.id])
                if job.id in ready:
                    key = (job.id, ready[job.id].attempt)
                    share = saved.get(job.id, 0.0)
                    centre.deeds.sendable[key] = (ready[job.id].cluster, share)
            elif job.phase is JobPhase.QUEUED:
                waiting.append(job)
        await asyncio.sleep(0)
    shares = await tx.attempts.saved_shares([job.id for job in waiting if job.attempt])
    return [(job, shares.get(job.id, 0.0)) for job in waiting]


def _waited(first: Attempt) -> bool:
    """Of a job's oldest attempt: whether it waited for one before it, and its cluster may not have
    heard that this is gone. Only a planner that has ended meanwhile knew."""
    unsent = first.state is AttemptState.RESERVED and first.sent_ns is None
    return unsent and first.exclusive and first.attempt > 1


def _find_orders(centre: Centre, job: Job, attempts: Sequence[Attempt]) -> None:
    """Let the machine know the places of a job."""
    why_kept = centre.suspects.why_kept(job.id)
    if why_kept:
        centre.book.jobs[job.id] = Entry(False, blocked=True, reason=why_kept)
        return
    with centre.suspects.blamed({job.id}):
        _find(centre, job, attempts)


def _find(centre: Centre, job: Job, attempts: Sequence[Attempt]) -> None:
    book = centre.book
    try:
        terms = specs.job_terms(job)
    except DureError as error:
        book.jobs[job.id] = Entry(False, blocked=True, reason=str(error))
        return
    book.jobs[job.id] = Entry(particular(terms.program), reason=job.reason)
    centre.bind(job, terms)
    for attempt in attempts:
        if attempt.cluster not in book.stations or not book.stations[attempt.cluster].told:
            continue
        status = status_of(attempt)
        order = order_of(attempt, terms.workload)
        centre.feed(
            OrderFound(
                centre.now_ns(),
                order,
                started=attempt.state in (AttemptState.RUNNING, AttemptState.RELEASING),
                done_share=0.0 if status is None else status.done_share,
                saved_share=0.0 if status is None else status.saved_share,
                leaving=attempt.state is AttemptState.RELEASING,
            )
        )
        if attempt.state is AttemptState.RESERVED:
            devices = order.instances * terms.workload.demand.devices
            book.unheard[job.id, attempt.attempt] = (site_of(attempt), devices)
        old = attempt.spec.get(REPLACES)
        if old is not None and terms.workload.kind is WorkloadKind.SERVING:
            _go_on_replacing(centre, terms.workload, attempt, attempts, int(old))


def _go_on_replacing(
    centre: Centre, workload: Workload, attempt: Attempt, attempts: Sequence[Attempt], old: int
) -> None:
    """A service was on its way from one place to another."""
    left = next((each for each in attempts if each.attempt == old), None)
    if left is None:
        return
    centre.book.replaced[left.job_id] = (old, left.cluster)
    if left.job_id not in centre.book.moves:
        centre.moves.found(workload, old, left.cluster, attempt)
