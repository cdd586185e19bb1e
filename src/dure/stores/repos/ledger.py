"""Money and grams: budgets, bills, and the feeds they are counted with."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from dure.stores import tables
from dure.stores.errors import NotFoundError
from dure.stores.repos.base import Keyed, Versioned, values_of
from dure.stores.rows import Bill, Budget, Feed, FeedPoint

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


class Bills(Keyed[Bill]):
    """What tenants owe: one bill for each tenant and period."""

    table, noun, row = tables.bills, "bill", Bill


class Feeds(Versioned[Feed]):
    """Series of tariffs and carbon intensities."""

    table, noun, row = tables.feeds, "feed", Feed
    fixed = frozenset({"kind"})

    async def write(self, points: Iterable[FeedPoint]) -> int:
        """Store points, in place of those at the same instants; tells how many."""
        rows = [values_of(point) for point in points]
        if rows:
            insert = _insert(self._link.connection.dialect)
            await self._link.execute(
                insert.on_conflict_do_update(
                    index_elements=["feed", "at_ns"], set_={"value": insert.excluded.value}
                ),
                f"points of feed {rows[0]['feed']}",
                rows,
            )
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


def _insert(dialect: sa.Dialect) -> Any:
    """Both databases have the same ON CONFLICT, each under its own name."""
    return (postgresql if dialect.name == "postgresql" else sqlite).insert(_POINTS)
