"""Leases: who leads, until when by the database's clock, and the epoch that fences its writes."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from dure.stores import tables
from dure.stores.clock import database_now_ns
from dure.stores.errors import FencedError
from dure.stores.repos.base import Link
from dure.stores.rows import Lease

LEADER = "leader"
"""The lease of the server that decides; transactions are fenced by its epoch."""
_LEASES = tables.leases


class Leases:
    """Leases by name. Epochs only grow, also across releases and restores."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._now_ns = database_now_ns(link.connection.dialect)

    async def acquire(self, holder: str, ttl_s: float, name: str = LEADER) -> Lease | None:
        """Take a lease that is free or over, with a new epoch; None while somebody holds it."""
        dialect = postgresql if self._link.connection.dialect.name == "postgresql" else sqlite
        await self._link.execute(
            dialect.insert(_LEASES)
            .values(name=name, holder="", epoch=0, expires_ns=0)
            .on_conflict_do_nothing(),
            self._subject(name),
        )
        return await self._write(
            name,
            _LEASES.update()
            .where(_LEASES.c.expires_ns <= self._now_ns)
            .values(holder=holder, epoch=_LEASES.c.epoch + 1, expires_ns=self._until(ttl_s)),
        )

    async def renew(self, lease: Lease, ttl_s: float) -> Lease:
        """Hold a lease for longer; refused once it is over, even if nobody took it."""
        renewed = await self._write(
            lease.name,
            _LEASES.update()
            .where(_LEASES.c.epoch == lease.epoch, _LEASES.c.expires_ns > self._now_ns)
            .values(expires_ns=self._until(ttl_s)),
        )
        if renewed is None:
            raise _fenced(lease.epoch)
        return renewed

    async def release(self, lease: Lease) -> None:
        """Give a lease up, so that the next holder need not wait; nothing where it is over."""
        await self._write(
            lease.name,
            _LEASES.update()
            .where(_LEASES.c.epoch == lease.epoch, _LEASES.c.expires_ns > self._now_ns)
            .values(expires_ns=self._now_ns),
        )

    async def find(self, name: str = LEADER) -> Lease | None:
        """A lease that somebody holds now, or None."""
        found = await self._link.execute(
            sa.select(_LEASES).where(_LEASES.c.name == name, _LEASES.c.expires_ns > self._now_ns),
            self._subject(name),
        )
        row = found.mappings().first()
        return None if row is None else Lease(**row)

    async def check(self, epoch: int, *, keep: bool) -> None:
        """Refuse if the leader's lease is not of that epoch any more, or is over.

        With `keep` nobody can take the lease until this transaction ends, so what it writes is
        surely written before anything the next leader writes.
        """
        look = sa.select(_LEASES.c.epoch).where(
            _LEASES.c.name == LEADER, _LEASES.c.epoch == epoch, _LEASES.c.expires_ns > self._now_ns
        )
        found = await self._link.execute(
            look.with_for_update(read=True) if keep else look, self._subject(LEADER)
        )
        if found.first() is None:
            raise _fenced(epoch)

    def _until(self, ttl_s: float) -> sa.ColumnElement[int]:
        return self._now_ns + round(ttl_s * 1e9)

    async def _write(self, name: str, statement: sa.Update) -> Lease | None:
        written = await self._link.execute(
            statement.where(_LEASES.c.name == name).returning(_LEASES), self._subject(name)
        )
        row = written.mappings().first()
        return None if row is None else Lease(**row)

    def _subject(self, name: str) -> str:
        return f"lease {name}"


def _fenced(epoch: int) -> FencedError:
    return FencedError(
        f"the leader's lease of epoch {epoch} is over or was taken by another server; nothing was "
        "written",
        "acquire the lease again and decide anew",
    )
