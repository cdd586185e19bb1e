"""What the leader does beside planning: hints that may have been lost, history that is too old."""

import asyncio
import logging

from dure.domain.units import NS_PER_S
from dure.server.hints import DESIRED, EVENTS
from dure.server.services import Services
from dure.stores.errors import FencedError, StoreError
from dure.stores.repos.events import PUBLISHED
from dure.stores.rows import Lease

_log = logging.getLogger(__name__)

_DROP_S = 5.0
"""How often clusters are told what they may forget."""


async def keep_house(services: Services, lease: Lease) -> None:
    """Until cancelled."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(publish_hints(services, lease))
        tasks.create_task(drop_ended(services, lease))
        tasks.create_task(prune(services))


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


async def prune(services: Services) -> None:
    """Remove what is older than is to be kept."""
    while True:
        try:
            gone = await services.state.prune(services.settings.retention)
            if gone.events or gone.audit or gone.keys:
                _log.info(
                    "pruned %d events, %d audit entries, %d keys",
                    gone.events,
                    gone.audit,
                    gone.keys,
                )
        except StoreError as error:
            _log.warning("nothing was pruned: %s", error)
        await asyncio.sleep(services.settings.prune_s)
