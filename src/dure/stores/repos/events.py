"""Events: a gapless history in the order of commits, which is also the outbox of the bus.

Numbers are drawn from a counter row as the last step before the commit. Its lock is held until the
commit is done, so an event with a smaller number never appears after one with a greater: who has
read up to a number has missed nothing below it. What was handed to the bus is one number too.
"""

import sqlalchemy as sa

from dure.stores import tables
from dure.stores.errors import ExpiredError
from dure.stores.repos.base import Link, values_of
from dure.stores.rows import Event, NewEvent

LAST, PUBLISHED, PRUNED = "events", "published", "pruned"
"""Counters: the newest event, the newest that the bus got, the newest that was pruned."""
_EVENTS, _MARKS = tables.events, tables.marks


class Events:
    """Events of all subjects."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._pending: list[NewEvent] = []

    def add(self, event: NewEvent) -> None:
        """Let an event happen when this transaction commits."""
        self._pending.append(event)

    async def flush(self) -> None:
        """Number and store what was added; the last step before the commit."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        counted = await self._link.execute(
            _MARKS.update()
            .where(_MARKS.c.name == LAST)
            .values(value=_MARKS.c.value + len(pending))
            .returning(_MARKS.c.value),
            "events",
        )
        first = int(counted.scalar_one()) - len(pending) + 1
        rows = [
            values_of(new) | {"seq": first + place, "at_ns": self._link.now_ns}
            for place, new in enumerate(pending)
        ]
        await self._link.execute(_EVENTS.insert(), "events", rows)

    async def since(
        self, seq: int, limit: int = 1000, *, tenant: str | None = None, subject: str | None = None
    ) -> tuple[Event, ...]:
        """The events after a number, in order; refused where some of them were pruned."""
        where = [_EVENTS.c.seq > seq]
        if tenant is not None:
            where.append(_EVENTS.c.tenant == tenant)
        if subject is not None:
            where.append(_EVENTS.c.subject == subject)
        found = await self._link.execute(
            sa.select(_EVENTS).where(*where).order_by(_EVENTS.c.seq).limit(limit), "events"
        )
        rows = tuple(Event(**row) for row in found.mappings())
        pruned = await self.mark(PRUNED)
        if seq < pruned:
            raise ExpiredError(
                f"events up to {pruned} were pruned, so those after {seq} are not complete",
                "read the present state and follow from the newest event",
            )
        return rows

    async def latest(self, kind: str, subject: str, limit: int) -> tuple[Event, ...]:
        """The newest events of a kind about a subject, newest first, without those pruned."""
        found = await self._link.execute(
            sa.select(_EVENTS)
            .where(_EVENTS.c.subject == subject, _EVENTS.c.kind == kind)
            .order_by(_EVENTS.c.seq.desc())
            .limit(limit),
            "events",
        )
        return tuple(Event(**row) for row in found.mappings())

    async def last(self) -> int:
        """The number of the newest event; 0 before the first."""
        return await self.mark(LAST)

    async def unpublished(self, limit: int = 1000) -> tuple[Event, ...]:
        """Events that the bus has not been told of, in order."""
        return await self.since(await self.mark(PUBLISHED), limit)

    async def mark_published(self, seq: int) -> None:
        """Note that the bus was told of all events up to a number."""
        await self.raise_mark(PUBLISHED, seq)

    async def mark(self, name: str) -> int:
        """The value of a counter."""
        found = await self._link.execute(
            sa.select(_MARKS.c.value).where(_MARKS.c.name == name), "counters of events"
        )
        return int(found.scalar_one())

    async def raise_mark(self, name: str, value: int) -> None:
        """Take a counter to a value; never back."""
        await self._link.execute(
            _MARKS.update()
            .where(_MARKS.c.name == name, _MARKS.c.value < value)
            .values(value=value),
            "counters of events",
        )
