"""Money and grams: budgets, bills, and the feeds they are counted with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from dure.stores import tables
from dure.stores.errors import NotFoundError
from dure.stores.repos.base import Keyed, Versioned, upsert, values_of
from dure.stores.rows import Bill, Budget, Feed, FeedPoint, Price, Spend

_POINTS, _SPENDS = tables.feed_points, tables.spends
_SUMMED = ("device_s", "money", "carbon_g")


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


@dataclass(frozen=True, slots=True)
class SpendSum:
    """Several lines together."""

    of: Mapping[str, str]
    """Columns and the values that all of the lines have."""
    device_s: float
    money: float
    carbon_g: float


class Spends(Keyed[Spend]):
    """What attempts used up; written once, summed up by tenant."""

    table, noun, row = tables.spends, "spend", Spend

    async def add_all(self, rows: Sequence[Spend]) -> None:
        """Store lines; where one of the same attempt and instant is there, that one stays."""
        if not rows:
            return
        dialect = postgresql if self._link.connection.dialect.name == "postgresql" else sqlite
        statement: Any = dialect.insert(_SPENDS).on_conflict_do_nothing()
        await self._link.execute(statement, self.noun, [values_of(row) for row in rows])

    async def between(self, tenant: str, from_ns: int, to_ns: int) -> tuple[Spend, ...]:
        """Lines of a tenant that end in a period."""
        return await self._rows(
            sa.select(_SPENDS)
            .where(_SPENDS.c.tenant == tenant, _SPENDS.c.to_ns > from_ns, _SPENDS.c.to_ns <= to_ns)
            .order_by(_SPENDS.c.to_ns)
        )

    async def summed(
        self, tenant: str, from_ns: int, to_ns: int, by: Sequence[str]
    ) -> tuple["SpendSum", ...]:
        """What a tenant used up in a period, for each value of columns."""
        c = _SPENDS.c
        columns = [c[name] for name in by]
        sums = [sa.func.coalesce(sa.func.sum(c[name]), 0.0) for name in _SUMMED]
        statement = sa.select(*columns, *sums).where(
            c.tenant == tenant, c.to_ns > from_ns, c.to_ns <= to_ns
        )
        found = await self._link.execute(
            statement.group_by(*columns).order_by(*columns) if columns else statement, self.noun
        )
        return tuple(
            SpendSum(
                dict(zip(by, row[: len(by)], strict=True)),
                *(float(value) for value in row[len(by) :]),
            )
            for row in found
        )

    async def totals(self, since_ns: int) -> tuple[tuple[str, str, float, float], ...]:
        """Tenant, team, money and grams of all that ended after an instant."""
        c = _SPENDS.c
        found = await self._link.execute(
            sa.select(c.tenant, c.team, sa.func.sum(c.money), sa.func.sum(c.carbon_g))
            .where(c.to_ns > since_ns)
            .group_by(c.tenant, c.team)
            .order_by(c.tenant, c.team),
            self.noun,
        )
        return tuple((row[0], row[1], float(row[2]), float(row[3])) for row in found)


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
