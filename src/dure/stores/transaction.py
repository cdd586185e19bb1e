"""One transaction: the repositories on one connection, checked and completed before it commits."""

import time

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from dure.stores.clock import database_now_ns
from dure.stores.repos.access import Audit, IdempotencyKeys, Tokens
from dure.stores.repos.attempts import Attempts
from dure.stores.repos.base import Link
from dure.stores.repos.billing import Charges, Closings, Meters
from dure.stores.repos.catalogue import Clusters, News, Policies, Pools, Tenants
from dure.stores.repos.events import Events
from dure.stores.repos.jobs import Jobs
from dure.stores.repos.leases import Leases
from dure.stores.repos.ledger import Budgets, Feeds, Prices
from dure.stores.repos.migrations import Migrations
from dure.stores.repos.origins import Origins
from dure.stores.repos.partitions import Partitions
from dure.stores.repos.virtual import VirtualClusters, VirtualSpaces


class Transaction:
    """What can be read and written together. After an error it can only be left."""

    def __init__(self, connection: AsyncConnection, fence: int | None = None) -> None:
        self.link = Link(connection, time.time_ns())
        self._fence = fence
        self.tenants = Tenants(self.link)
        self.pools = Pools(self.link)
        self.policies = Policies(self.link)
        self.clusters = Clusters(self.link)
        self.news = News(self.link)
        self.partitions = Partitions(self.link)
        self.virtual = VirtualClusters(self.link)
        self.spaces = VirtualSpaces(self.link)
        self.jobs = Jobs(self.link)
        self.origins = Origins(self.link)
        self.attempts = Attempts(self.link)
        self.migrations = Migrations(self.link)
        self.budgets = Budgets(self.link)
        self.meters = Meters(self.link)
        self.charges = Charges(self.link)
        self.closings = Closings(self.link)
        self.prices = Prices(self.link)
        self.feeds = Feeds(self.link)
        self.tokens = Tokens(self.link)
        self.keys = IdempotencyKeys(self.link)
        self.audit = Audit(self.link)
        self.events = Events(self.link)
        self.leases = Leases(self.link)

    @property
    def now_ns(self) -> int:
        """When it began, by this process's clock; what it stores carries this time."""
        return self.link.now_ns

    async def database_now_ns(self) -> int:
        """The database's clock, which all servers share: what contact is measured by."""
        clock = database_now_ns(self.link.connection.dialect)
        return int((await self.link.execute(sa.select(clock), "clock")).scalar_one())

    async def begun(self) -> None:
        """Refuse a leader that was replaced before it does any work."""
        if self._fence is not None:
            await self.leases.check(self._fence, keep=False)

    async def complete(self) -> None:
        """What must be the last before the commit: the fence, then the numbers of events."""
        if self._fence is not None:
            await self.leases.check(self._fence, keep=True)
        await self.events.flush()
