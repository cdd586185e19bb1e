"""The leader's loop: read what happened, decide, write it down, sleep until more happens."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.server.hints import DESIRED, EVENTS, Wakeful, woken_by
from dure.server.planner.centre import Centre
from dure.server.planner.contact import Contact
from dure.server.planner.deeds import Deeds
from dure.server.planner.following import BATCH, Follower, Outdated, read_batch
from dure.server.planner.holding import Holding
from dure.server.planner.loading import Begun, begin
from dure.server.planner.migrations import Migrations
from dure.server.planner.suspects import Suspected, Suspects
from dure.server.services import Services
from dure.stores.errors import ExpiredError, FencedError, StoreError
from dure.stores.rows import Lease
from dure.stores.transaction import Transaction

_log = logging.getLogger(__name__)

_CONTACT_S = 1.0
"""How often clusters are looked at."""
_REASONS_S = 2.0
"""How often reasons of waiting jobs are written."""
_MOST_REASONS = 500
"""Reasons that are written at a time."""
_PRICES_S = 5.0
"""How often prices are written."""
_LEAST_TERM_S = 5.0
"""What is read is planned with for so long at least, where somebody changed a job that runs."""
_AGAIN_S = 0.5
"""Between a failure and the next begin."""
_PATIENCE_S = 30.0
"""How long reading waits for a database that is away; the lease is over long before."""


ResultT = TypeVar("ResultT")


class Planner:
    """Plans for as long as the lease holds."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._suspects = Suspects()

    async def lead(self, lease: Lease) -> None:
        """Plan until cancelled; begins anew whenever what it knows may not be what is stored."""
        try:
            await self._lead(lease)
        finally:
            self._services.recorder.end("this server plans no more")

    async def _lead(self, lease: Lease) -> None:
        while True:
            try:
                await _Term(self._services, lease, self._suspects).run()
            except (Outdated, ExpiredError) as reason:
                _log.info("plans from the start: %s", reason)
            except Suspected as reason:
                _log.error("plans from the start: %s", reason, exc_info=reason.__cause__)
            except FencedError:
                raise
            except StoreError as error:
                _log.warning("plans from the start: %s", error)
                await asyncio.sleep(_AGAIN_S)


class _Every:
    """Something that is done again and again."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._next_s = 0.0

    def due(self, now_s: float) -> bool:
        """Whether it is time; the next time is counted from now."""
        if now_s < self._next_s:
            return False
        self._next_s = now_s + self._period_s
        return True


class _Term:
    """From one reading of everything until the next."""

    def __init__(self, services: Services, lease: Lease, suspects: Suspects) -> None:
        self._services = services
        self._lease = lease
        self._suspects = suspects
        self._settings = services.settings
        self._clock_s = asyncio.get_running_loop().time
        self._contact_due = _Every(_CONTACT_S)
        self._reasons_due = _Every(_REASONS_S)
        self._prices_due = _Every(_PRICES_S)
        self._began_s = self._clock_s()
        self._round_s = 0.0
        """When the last round was."""

    async def run(self) -> None:
        """Begin, then follow until something is outdated."""
        async with woken_by(self._services.bus, EVENTS) as wakeful:
            began_s = self._clock_s()
            async with self._services.state.reading() as tx:
                scan_ns = round(self._settings.move_scan_s * NS_PER_S)
                begun = await begin(tx, self._services.now_ns, self._suspects, scan_ns)
            await begun.submit_waiting()
            book = begun.centre.book
            begun.centre.recorder = self._services.recorder
            self._services.recorder.begin_anew()
            # Every member hears whose plans count from now on, with its whole set.
            begun.centre.deeds.surroundings |= set(book.stations)
            _log.info("took over %d jobs in %.1f s", len(book.jobs), self._clock_s() - began_s)
            await self._follow(begun, wakeful)

    async def _follow(self, begun: Begun, wakeful: Wakeful) -> None:
        centre = begun.centre
        follower, contact = Follower(centre), Contact(centre, self._settings)
        migrations, holding = Migrations(centre, self._settings), Holding(centre)
        news = True
        while True:
            full = False
            await self._services.recorder.let_in(centre.machine)
            batch = await self._read(lambda tx: read_batch(tx, begun.seq, centre))
            if batch is not None:
                news |= follower.take(batch)
                begun.seq, full = batch.last, len(batch.events) == BATCH
            self._services.figures.planned_seq = begun.seq
            due = self._contact_due.due(self._clock_s())
            if due:
                news |= await self._read(contact.look)
                holding.look()
            if due or centre.book.stirred:
                news |= await self._read(migrations.look)
            if due:
                self._check_period(begun)
            if self._round_due(news):
                began_s = self._clock_s()
                await asyncio.to_thread(centre.round)
                self._services.figures.rounds.observe(self._clock_s() - began_s)
                self._round_s, news = self._clock_s(), await self._let_in(follower)
            self._tell(centre)
            await self._write(centre.take_deeds())
            if not full:
                await wakeful.sleep(self._pause_s(news))

    async def _let_in(self, follower: Follower) -> bool:
        """After a round that went well: those who wait for one without many others."""
        jobs = self._suspects.went_well()
        if not jobs:
            return False
        rows = await self._read(lambda tx: tx.jobs.many(set(jobs)))
        follower.resubmit(rows)
        return True

    def _round_due(self, news: bool) -> bool:
        pause_s = self._settings.round_s if news else self._settings.idle_round_s
        return self._clock_s() >= self._round_s + pause_s

    def _pause_s(self, news: bool) -> float:
        if not news:
            return self._settings.poll_s
        return max(0.0, self._round_s + self._settings.round_s - self._clock_s())

    def _check_period(self, begun: Begun) -> None:
        if begun.until_ns is not None and self._services.now_ns() >= begun.until_ns:
            raise Outdated("a budget's period begins or is over")
        outdated = begun.centre.book.outdated
        if outdated and self._clock_s() >= self._began_s + _LEAST_TERM_S:
            raise Outdated(outdated)

    def _tell(self, centre: Centre) -> None:
        """Let people know why jobs wait, and what places cost, now and then."""
        now_s = self._clock_s()
        if self._reasons_due.due(now_s):
            for job, entry in centre.book.waiting():
                why = entry.reason if entry.blocked else centre.machine.why_waiting(WorkloadId(job))
                if why != entry.reason and len(centre.deeds.reasons) < _MOST_REASONS:
                    entry.reason = centre.deeds.reasons[job] = why
        if self._prices_due.due(now_s):
            centre.deeds.prices, centre.prices = centre.prices, {}

    async def _read(self, work: Callable[[Transaction], Awaitable[ResultT]]) -> ResultT:
        return await self._services.state.retrying(work, within_s=_PATIENCE_S, read_only=True)

    async def _write(self, deeds: Deeds) -> None:
        """Store what was decided, or raise: then everything is read anew."""
        if not deeds:
            return

        # Not again by itself after a cut: whether it was stored only a new reading can tell.
        async with self._services.state.transaction(fence=self._lease.epoch) as tx:
            clusters = await deeds.write(tx, self._lease.epoch)
        for cluster in sorted(clusters):
            self._services.bus.publish(DESIRED, cluster.encode())
        self._services.bus.publish(EVENTS)
