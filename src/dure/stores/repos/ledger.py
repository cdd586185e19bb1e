"""Budgets, prices of congestion, and the feeds that money and grams are counted with."""

from collections.abc import Iterable

import sqlalchemy as sa

from dure.stores import tables
from dure.stores.errors import NotFoundError
from dure.stores.repos.base import Keyed, Versioned, upsert, values_of
from dure.stores.rows import Budget, Feed, FeedPoint, Price

_POINTS = tables.feed_points


class Budgets(Versioned[Budget]):
    """What tenants may spend. `put` changes the limits; what was spent only grows, by `charge`."""

    table, noun, row = tables.budgets, "budget", Budget
    fixed = frozenset({"spent_amount"})

    async def charge(self, tenant: str, name: str, amount: float) -> Budget:
        """Add to what was spent, and tell the sum; whether that is too much is for the caller."""
        changed = await self._link.execute(
            self.table.update()
            .where(self._is((tenant, name)))
            .values(spent_amount=self.table.c.spent_amount + amount)
            .returning(self.table),
            self._subject(tenant, name),
        )
        row = changed.mappings().first()
        if row is None:
            raise NotFoundError(f"there is no {self._subject(tenant, name)}")
        return Budget(**row)


class Prices(Keyed[Price]):
    """Congestion prices by site."""

    table, noun, row = tables.prices, "price", Price

    async def put_all(self, prices: Iterable[tuple[str, float]]) -> None:
        """Store prices in place of those before."""
        rows = [values_of(Price(site, price, self._link.now_ns)) for site, price in prices]
        await upsert(self._link, self.table, rows, ("per_device_hour", "at_ns"), self.noun)


class Feeds(Versioned[Feed]):
    """Series of tariffs and carbon intensities."""

    table, noun, row = tables.feeds, "feed", Feed
    fixed = frozenset({"kind"})

    async def write(self, points: Iterable[FeedPoint]) -> int:
        """Store points, in place of those at the same instants; tells how many."""
        rows = [values_of(point) for point in points]
        about = f"points of feed {rows[0]['feed']}" if rows else "feed"
        await upsert(self._link, _POINTS, rows, ("value",), about)
        return len(rows)

    async def points(self, feed: str, from_ns: int, to_ns: int) -> tuple[FeedPoint, ...]:
        """What holds from one instant until another: the point before the first counts too."""
        before = sa.select(sa.func.max(_POINTS.c.at_ns)).where(
            _POINTS.c.feed == feed, _POINTS.c.at_ns <= from_ns
        )
        found = await self._link.execute(
            sa.select(_POINTS)
            .where(
                _POINTS.c.feed == feed,
                _POINTS.c.at_ns >= sa.func.coalesce(before.scalar_subquery(), from_ns),
                _POINTS.c.at_ns < to_ns,
            )
            .order_by(_POINTS.c.at_ns),
            f"points of feed {feed}",
        )
        return tuple(FeedPoint(**row) for row in found.mappings())
