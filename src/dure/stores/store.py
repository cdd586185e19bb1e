"""The centre's state: transactions on one database, leases, submissions, retention, backup."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from dure.kit.backoff import Backoff
from dure.stores import dump, migrate, retention
from dure.stores.engine import READ_ONLY, StoreSettings, open_engine
from dure.stores.errors import StoreUnavailableError, translated
from dure.stores.group import GroupCommit
from dure.stores.repos.leases import LEADER
from dure.stores.rows import Json, Lease
from dure.stores.submissions import Submission, SubmissionWriter
from dure.stores.transaction import Transaction
from dure.stores.whole import whole

ResultT = TypeVar("ResultT")


class Store:
    """One database of the centre, SQLite or PostgreSQL; belongs to one event loop."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        # SQLite allows one writer at a time; those in this process need not poll for their turn.
        self._writer = asyncio.Lock() if engine.dialect.name == "sqlite" else None
        self._submissions = GroupCommit[Submission, Json](SubmissionWriter(self.transaction).write)

    @classmethod
    def open(cls, address: str, settings: StoreSettings | None = None) -> "Store":
        """A store at `sqlite:///FILE` or `postgresql://…`; connects when first used."""
        return cls(open_engine(address, settings or StoreSettings()))

    async def close(self) -> None:
        """Let what was submitted finish, then close all connections."""
        await self._submissions.close()
        await self._engine.dispose()

    async def __aenter__(self) -> "Store":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def migrate(self, target: str = "head") -> str:
        """Bring the schema to what this version knows, and tell which it is; do this at start."""
        async with self._connected() as connection:
            return await connection.run_sync(migrate.upgrade, target)

    @asynccontextmanager
    async def transaction(self, *, fence: int | None = None) -> AsyncIterator[Transaction]:
        """What is written inside is stored whole at the end, or not at all.

        `fence` is the epoch of the leader's lease: `FencedError` if that is over or was taken.
        """
        async with self._connected() as connection:
            tx = Transaction(connection, fence)
            await tx.begun()
            yield tx
            await tx.complete()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Transaction]:
        """For reads alone, of one consistent state; waits for no writer."""
        async with self._connected(read_only=True) as connection:
            yield Transaction(connection)

    async def retrying(
        self,
        work: Callable[[Transaction], Awaitable[ResultT]],
        *,
        within_s: float = 15.0,
        fence: int | None = None,
        read_only: bool = False,
    ) -> ResultT:
        """Do a whole transaction, again from its begin while the database is away.

        Only for work that may be done twice: a commit cut off half-way may have been done.
        """
        until = time.monotonic() + within_s
        backoff = Backoff(first_s=0.05, limit_s=1.0)
        while True:
            try:
                begin = self.reading() if read_only else self.transaction(fence=fence)
                async with begin as tx:
                    return await work(tx)
            except StoreUnavailableError:
                wait_s = backoff.next_s()
                if time.monotonic() + wait_s > until:
                    raise
            await asyncio.sleep(wait_s)

    async def submit(self, submission: Submission) -> Json:
        """Store jobs durably, sharing commits; the answer, or the first one to the same key."""
        return await self._submissions.submit(submission)

    async def acquire(self, holder: str, ttl_s: float, name: str = LEADER) -> Lease | None:
        """Take a lease that nobody holds, with a new epoch; None while somebody does."""
        async with self.transaction() as tx:
            return await tx.leases.acquire(holder, ttl_s, name)

    async def renew(self, lease: Lease, ttl_s: float) -> Lease:
        """Hold a lease for longer; `FencedError` once it is over."""
        async with self.transaction() as tx:
            return await tx.leases.renew(lease, ttl_s)

    async def release(self, lease: Lease) -> None:
        """Give a lease up at once."""
        async with self.transaction() as tx:
            await tx.leases.release(lease)

    async def ping(self) -> None:
        """Raise `StoreUnavailableError` where the database does not answer."""
        async with self._connected(read_only=True) as connection:
            await connection.execute(sa.select(1))

    async def prune(self, keep: retention.Retention, *, batch: int = 1000) -> retention.Pruned:
        """Remove what is older than is to be kept, some rows to a transaction."""
        return await retention.prune(self.transaction, keep, batch)

    async def export(self, file: Path) -> dump.DumpSummary:
        """Write everything to a backup that either database can be restored from."""
        async with self._connected(read_only=True) as connection:
            return await dump.write_dump(connection, file)

    async def import_(self, file: Path) -> dump.DumpSummary:
        """Restore a backup into an empty database, whole or not at all, and migrate it."""
        async with self._connected() as connection:
            return await dump.read_dump(connection, file)

    @asynccontextmanager
    async def _connected(self, *, read_only: bool = False) -> AsyncIterator[AsyncConnection]:
        turn: AbstractAsyncContextManager[Any] = (
            nullcontext() if read_only or self._writer is None else self._writer
        )
        async with turn:
            with translated():
                connection = self._engine.connect()
                try:
                    await whole(self._begin(connection, read_only))
                    yield connection
                    await whole(connection.commit())
                finally:
                    if connection.sync_connection is not None:
                        await whole(connection.close())

    async def _begin(self, connection: AsyncConnection, read_only: bool) -> None:
        await connection.start()
        await connection.execution_options(**self._options(read_only))
        await connection.begin()

    def _options(self, read_only: bool) -> dict[str, Any]:
        if not read_only:
            return {}
        if self._engine.dialect.name == "sqlite":
            return {READ_ONLY: True}
        return {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
