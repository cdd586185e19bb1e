"""What the leader does beside planning: lost hints, history that is too old, months to close."""

import asyncio
import logging

from dure.api.base import duration_ns
from dure.domain.errors import DureError
from dure.domain.units import NS_PER_S
from dure.server.billing import CLOSED, close_month
from dure.server.calendar import Calendar
from dure.server.hints import DESIRED, EVENTS
from dure.server.services import Services
from dure.server.specs import fleet_spec
from dure.stores.errors import FencedError, StoreError
from dure.stores.ids import new_id
from dure.stores.repos.events import PUBLISHED
from dure.stores.rows import AuditEntry, Lease, NewEvent

_log = logging.getLogger(__name__)

_SELF = "system"
"""What the audit log calls the centre itself."""
_DROP_S = 5.0
"""How often clusters are told what they may forget."""


async def keep_house(services: Services, lease: Lease) -> None:
    """Until cancelled."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(publish_hints(services, lease))
        tasks.create_task(drop_ended(services, lease))
        tasks.create_task(prune(services))
        tasks.create_task(close_months(services, lease))


async def publish_hints(services: Services, lease: Lease) -> None:
    """Whoever stores an event tells the bus after; where that died in between, this one does."""
    while True:
        try:
            await _publish(services, lease)
        except StoreError as error:
            _log.warning("hints wait: %s", error)
        await asyncio.sleep(services.settings.poll_s)


async def _publish(services: Services, lease: Lease) -> None:
    async with services.state.reading() as tx:
        last = await tx.events.last()
        told = await tx.events.mark(PUBLISHED)
    if last == told or not services.bus.healthy:
        return
    services.bus.publish(EVENTS)
    async with services.state.transaction(fence=lease.epoch) as tx:
        await tx.events.mark_published(last)


async def drop_ended(services: Services, lease: Lease) -> None:
    """Let clusters forget attempts that are gone, some time after they went."""
    settings = services.settings
    while True:
        await asyncio.sleep(min(_DROP_S, settings.gone_kept_s))
        try:
            async with services.state.reading() as tx:
                names = [row.name for row in await tx.clusters.all()]
            for name in names:
                await _drop_ended(services, lease, name)
        except FencedError:
            raise
        except StoreError as error:
            _log.warning("clusters keep what is gone: %s", error)


async def _drop_ended(services: Services, lease: Lease, cluster: str) -> None:
    settings = services.settings
    async with services.state.reading() as tx:
        kept = await tx.attempts.kept(cluster)
        before_ns = tx.now_ns - round(settings.gone_kept_s * NS_PER_S)
    old = [
        (job, attempt)
        for number, (job, attempt, gone_ns) in enumerate(kept)
        if number >= settings.gone_kept or gone_ns <= before_ns
    ]
    if not old:
        return
    async with services.state.transaction(fence=lease.epoch) as tx:
        revision = await tx.clusters.next_revision(cluster, epoch=lease.epoch)
        await tx.attempts.drop(old, revision)
    services.bus.publish(DESIRED, cluster.encode())


async def close_months(services: Services, lease: Lease) -> None:
    """Close months some time after their end, where the fleet's settings say so."""
    while True:
        try:
            await _close_due(services, lease)
        except FencedError:
            raise
        except DureError as error:
            _log.warning("no month is closed: %s", error)
        await asyncio.sleep(services.settings.prune_s)


async def _close_due(services: Services, lease: Lease) -> None:
    async with services.state.reading() as tx:
        billing = fleet_spec(await tx.policies.all()).billing
        closed_through = await tx.charges.closed_through(keep=False)
        months = [each for each in await tx.charges.months() if each > closed_through]
        now_ns = tx.now_ns
    if billing.close_after is None:
        return
    calendar, wait_ns = Calendar(billing.time_zone), duration_ns(billing.close_after)
    for month in months:
        if now_ns < calendar.month_ends_ns(month) + wait_ns:
            return
        async with services.state.transaction(fence=lease.epoch) as tx:
            closing, new = await close_month(tx, month, calendar, _SELF)
            if not new:
                continue  # Somebody closed it meanwhile.
            data = {"digest": closing.digest}
            tx.events.add(NewEvent(CLOSED, month, None, data))
            entry = AuditEntry(new_id(), tx.now_ns, _SELF, "bill.close", month, "done", data=data)
            await tx.audit.add(entry)
        _log.info("month %s is closed", month)


async def prune(services: Services) -> None:
    """Remove what is older than is to be kept."""
    while True:
        try:
            gone = await services.state.prune(services.settings.retention)
            if any((gone.events, gone.audit, gone.keys, gone.migrations)):
                _log.info(
                    "pruned %d events, %d audit entries, %d keys, %d migrations",
                    gone.events,
                    gone.audit,
                    gone.keys,
                    gone.migrations,
                )
        except StoreError as error:
            _log.warning("nothing was pruned: %s", error)
        await asyncio.sleep(services.settings.prune_s)
