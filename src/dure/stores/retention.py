"""Removes old history in small steps, so that nobody waits long for it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dure.stores import tables
from dure.stores.repos.base import changed_rows
from dure.stores.repos.events import PRUNED, PUBLISHED
from dure.stores.transaction import Transaction

_EVENTS = tables.events
Begin = Callable[[], AbstractAsyncContextManager[Transaction]]


@dataclass(frozen=True)
class Retention:
    """How long history is kept; None: for ever."""

    events_s: float | None = 7 * 86400.0
    audit_s: float | None = 400 * 86400.0
    """Longer than a year, so that a yearly review finds all of it."""
    keys_s: float | None = 86400.0
    """How long a request may be sent again under its key."""
    origins_s: float | None = 30 * 86400.0
    """How long it is remembered that an object in a cluster was deleted: far longer than any word
    about it can be on its way."""
    migrations_s: float | None = 7 * 86400.0
    """After a migration ended: as long as the events that tell of it."""


@dataclass(frozen=True)
class Pruned:
    """How many rows went."""

    events: int
    audit: int
    keys: int
    origins: int = 0
    migrations: int = 0


async def prune(begin: Begin, keep: Retention, batch: int) -> Pruned:
    """Remove what is older; each transaction removes one batch at most."""
    keys, audit = tables.idempotency_keys, tables.audit
    return Pruned(
        events=await _events(begin, keep.events_s, batch),
        audit=await _older(begin, audit.c.at_ns, keep.audit_s, batch),
        keys=await _older(begin, keys.c.created_ns, keep.keys_s, batch),
        origins=await _older(begin, tables.origins.c.withdrawn_ns, keep.origins_s, batch),
        migrations=await _older(begin, tables.migrations.c.ended_ns, keep.migrations_s, batch),
    )


async def _events(begin: Begin, keep_s: float | None, batch: int) -> int:
    """From the oldest on, so that what is left has no holes; never what the bus was not told."""
    if keep_s is None:
        return 0
    gone, last = 0, batch
    while last == batch:
        async with begin() as tx:
            oldest = sa.select(_EVENTS.c.seq, _EVENTS.c.at_ns).order_by(_EVENTS.c.seq).limit(batch)
            found = list(await tx.link.execute(oldest, "events"))
            published = await tx.events.mark(PUBLISHED)
            last, cut = 0, 0
            for row in found:
                if row.at_ns >= tx.now_ns - keep_s * 1e9 or row.seq > published:
                    break
                last, cut = last + 1, row.seq
            if last:
                await tx.link.execute(_EVENTS.delete().where(_EVENTS.c.seq <= cut), "events")
                await tx.events.raise_mark(PRUNED, cut)
        gone += last
    return gone


async def _older(begin: Begin, time_ns: sa.Column[Any], keep_s: float | None, batch: int) -> int:
    if keep_s is None:
        return 0
    table = time_ns.table
    assert isinstance(table, sa.Table)
    gone, last = 0, batch
    while last == batch:
        async with begin() as tx:
            key = list(table.primary_key)
            old = (
                sa.select(*key)
                .where(time_ns < tx.now_ns - round(keep_s * 1e9))
                .order_by(time_ns)
                .limit(batch)
            )
            done = await tx.link.execute(
                table.delete().where(sa.tuple_(*key).in_(old)), f"old rows of {table.name}"
            )
            last = changed_rows(done)
        gone += last
    return gone
