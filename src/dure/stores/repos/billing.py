"""What is billed: meters of attempts, charges by day and month, months that are closed."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncResult

from dure.stores import tables
from dure.stores.errors import translated
from dure.stores.repos.base import Keyed, in_parts, upsert, values_of
from dure.stores.rows import Charge, Closing, Meter
from dure.stores.whole import whole

_METERS, _CHARGES, _MARKS = tables.meters, tables.charges, tables.marks
BILLED = "billed"
"""Counter: the last month that is closed, as `month_number` has it; 0: none."""
SUMMED = ("device_us", "rent_micro", "energy_micro", "egress_micro", "carbon_ug")
_BATCH = 1000
_MICRO = 1e6


def month_number(month: str) -> int:
    """A month as one of a row of numbers."""
    year, _, number = month.partition("-")
    return int(year) * 12 + int(number) - 1


def month_name(number: int) -> str:
    """The month of a number, as 2026-11."""
    return f"{number // 12:04d}-{number % 12 + 1:02d}"


class Meters(Keyed[Meter]):
    """What attempts have used, as their clusters said."""

    table, noun, row = _METERS, "meter", Meter

    async def many(self, keys: Collection[tuple[str, int]]) -> dict[tuple[str, int], Meter]:
        """Those of attempts that have one."""
        found: dict[tuple[str, int], Meter] = {}
        for part in in_parts(sorted(keys)):
            rows = await self._rows(
                sa.select(_METERS).where(
                    sa.tuple_(_METERS.c.job_id, _METERS.c.attempt).in_([*part])
                )
            )
            found |= {(row.job_id, row.attempt): row for row in rows}
        return found

    async def owed(self, cluster: str, limit: int) -> tuple[Meter, ...]:
        """Attempts of a cluster that have used what is not charged."""
        return await self._rows(
            sa.select(_METERS)
            .where(_METERS.c.cluster == cluster, _METERS.c.charged_us < _METERS.c.device_us)
            .order_by(_METERS.c.job_id, _METERS.c.attempt)
            .limit(limit)
        )

    async def owed_us(self) -> int:
        """All that is used and not charged."""
        due = sa.func.coalesce(sa.func.sum(_METERS.c.device_us - _METERS.c.charged_us), 0)
        found = await self._link.execute(
            sa.select(due).where(_METERS.c.charged_us < _METERS.c.device_us), self.noun
        )
        return int(found.scalar_one())

    async def put_all(self, rows: Sequence[Meter]) -> None:
        """Store meters in place of those before."""
        changing = ("device_us", "charged_us", "since_ns", "until_ns")
        await upsert(self._link, _METERS, [values_of(row) for row in rows], changing, self.noun)


@dataclass(frozen=True, slots=True)
class ChargeSum:
    """Several charges of one tenant and currency together."""

    of: Mapping[str, Any]
    """Columns and the values that all of the charges have."""
    adjusts: str
    """The closed month that they belong to, where they are billed in a later one; else empty."""
    device_us: int
    rent_micro: int
    energy_micro: int
    egress_micro: int
    carbon_ug: int

    @property
    def money_micro(self) -> int:
        """All parts."""
        return self.rent_micro + self.energy_micro + self.egress_micro


@dataclass(frozen=True, slots=True)
class Period:
    """A month as it is billed; or days as they were used, both included."""

    month: str = ""
    first_day: str = ""
    last_day: str = ""

    def holds(self) -> sa.ColumnElement[bool]:
        """Of a charge: whether it belongs there."""
        if self.month:
            return _CHARGES.c.month == self.month
        return _CHARGES.c.day.between(self.first_day, self.last_day)

    def __str__(self) -> str:
        return self.month or f"{self.first_day}/{self.last_day}"


class Charges(Keyed[Charge]):
    """What attempts used up, by day; charged months never change once they are closed."""

    table, noun, row = _CHARGES, "charge", Charge

    async def closed_through(self, *, keep: bool = True) -> str:
        """The last month that is closed; empty: none. `keep`: it stays so until the commit."""
        look = sa.select(_MARKS.c.value).where(_MARKS.c.name == BILLED)
        found = await self._link.execute(
            look.with_for_update(read=True) if keep else look, "closed months"
        )
        number = int(found.scalar_one())
        return month_name(number) if number else ""

    async def add_all(self, rows: Sequence[Charge]) -> None:
        """Add to what attempts used up on those days, in those months."""
        if not rows:
            return
        dialect = postgresql if self._link.connection.dialect.name == "postgresql" else sqlite
        insert: Any = dialect.insert(_CHARGES)
        new, old = insert.excluded, _CHARGES.c
        grown: dict[str, Any] = {name: old[name] + new[name] for name in SUMMED}
        grown["from_ns"] = sa.case((new.from_ns < old.from_ns, new.from_ns), else_=old.from_ns)
        grown["to_ns"] = sa.case((new.to_ns > old.to_ns, new.to_ns), else_=old.to_ns)
        await self._link.execute(
            insert.on_conflict_do_update(
                index_elements=[column.name for column in _CHARGES.primary_key], set_=grown
            ),
            self.noun,
            [values_of(row) for row in rows],
        )

    async def summed(
        self, period: Period, by: Sequence[str], tenant: str | None = None
    ) -> AsyncIterator[ChargeSum]:
        """Sums for each value of columns, by tenant and currency first, in the order of the tree;
        late charges apart from others."""
        columns = [_CHARGES.c[name] for name in ("tenant", "currency", *by)]
        own = sa.func.substr(_CHARGES.c.day, 1, len("2026-11"))
        adjusts = sa.case((own == _CHARGES.c.month, ""), else_=own).label("adjusts")
        sums = [sa.cast(sa.func.sum(_CHARGES.c[name]), sa.BigInteger) for name in SUMMED]
        where = [period.holds()]
        if tenant is not None:
            where.append(_CHARGES.c.tenant == tenant)
        order = [sa.text(str(number)) for number in range(1, len(columns) + 2)]
        statement = sa.select(*columns, adjusts, *sums).where(*where)
        statement = statement.group_by(*order).order_by(*order)
        async for row in self._streamed(statement):
            named = dict(zip(("tenant", "currency", *by), row, strict=False))
            yield ChargeSum(named, row[len(columns)], *map(int, row[len(columns) + 1 :]))

    async def _streamed(self, statement: sa.Select[Any]) -> AsyncIterator[sa.Row[Any]]:
        """Rows, some at a time, so that a month need not fit into memory."""
        with translated(self.noun):
            found = await whole(self._begun(statement.execution_options(yield_per=_BATCH)))
            try:
                while rows := await whole(found.fetchmany(_BATCH)):
                    for row in rows:
                        yield row
            finally:
                await whole(found.close())

    async def _begun(self, statement: sa.Select[Any]) -> AsyncResult[Any]:
        begun: AsyncResult[Any] = await self._link.connection.stream(statement)
        return begun

    async def totals(self, since_ns: int) -> tuple[tuple[str, str, float, float], ...]:
        """Tenant, team, money and grams of all that was used after an instant; of a day's use
        that began before it, as much as is after it if it was even."""
        c = _CHARGES.c
        share = sa.case(
            (c.from_ns >= since_ns, 1.0),
            else_=sa.cast(c.to_ns - since_ns, sa.Double) / (c.to_ns - c.from_ns),
        )
        money = (c.rent_micro + c.energy_micro + c.egress_micro) * share
        found = await self._link.execute(
            sa.select(c.tenant, c.team, sa.func.sum(money), sa.func.sum(c.carbon_ug * share))
            .where(c.to_ns > since_ns)
            .group_by(c.tenant, c.team)
            .order_by(c.tenant, c.team),
            self.noun,
        )
        return tuple(
            (row[0], row[1], float(row[2]) / _MICRO, float(row[3]) / _MICRO) for row in found
        )

    async def months(self) -> tuple[str, ...]:
        """Months that something is billed in."""
        found = await self._link.execute(
            sa.select(_CHARGES.c.month).distinct().order_by(_CHARGES.c.month), self.noun
        )
        return tuple(row[0] for row in found)


class Closings(Keyed[Closing]):
    """Months that are closed."""

    table, noun, row = tables.closings, "closed month", Closing

    async def close(self, closing: Closing) -> None:
        """Close a month, and all before it; who charges meanwhile is waited for."""
        await self.add(closing)
        await self.hold()
        number = month_number(closing.month)
        await self._link.execute(
            _MARKS.update()
            .where(_MARKS.c.name == BILLED, _MARKS.c.value < number)
            .values(value=number),
            "closed months",
        )

    async def hold(self) -> None:
        """Let nobody charge anything until this transaction is over."""
        await self._link.execute(
            sa.select(_MARKS.c.value).where(_MARKS.c.name == BILLED).with_for_update(),
            "closed months",
        )
