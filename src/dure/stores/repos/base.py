"""What the repositories share: one way to run a statement, and rows found by their key."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from dure.stores.errors import ConflictError, NotFoundError, translated
from dure.stores.whole import whole

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    RowT = TypeVar("RowT", bound=DataclassInstance)
else:
    RowT = TypeVar("RowT")


ItemT = TypeVar("ItemT")


@dataclass(frozen=True)
class Link:
    """A transaction's connection, and the time it began at."""

    connection: AsyncConnection
    now_ns: int

    async def execute(
        self,
        statement: sa.Executable,
        subject: str,
        many: Sequence[Mapping[str, Any]] | None = None,
    ) -> sa.CursorResult[*tuple[Any, ...]]:
        """Run a statement, once or for many; errors say what it was about.

        After an error the transaction can only be left: PostgreSQL takes nothing more in it.
        """
        with translated(subject):
            return await whole(self.connection.execute(statement, many))


@dataclass(frozen=True)
class Page(Generic[RowT]):
    """Some rows in order; `cursor` goes on after the last one, and is empty at the end."""

    rows: tuple[RowT, ...]
    cursor: str = ""


def values_of(row: "DataclassInstance") -> dict[str, Any]:
    """A row as columns."""
    return {part.name: getattr(row, part.name) for part in fields(row)}


def changed_rows(result: sa.CursorResult[*tuple[Any, ...]]) -> int:
    """How many rows a statement touched."""
    return int(result.rowcount)


def in_parts(items: Sequence[ItemT], most: int = 500) -> Iterator[Sequence[ItemT]]:
    """Items in parts that a statement can take as parameters."""
    for first in range(0, len(items), most):
        yield items[first : first + most]


async def upsert(
    link: Link,
    table: sa.Table,
    rows: Sequence[Mapping[str, Any]],
    changing: Sequence[str],
    subject: str,
) -> None:
    """Add rows; where one of that key is there, take over its changing columns."""
    if not rows:
        return
    # Both databases have the same ON CONFLICT, each under its own name.
    dialect = postgresql if link.connection.dialect.name == "postgresql" else sqlite
    insert: Any = dialect.insert(table)
    await link.execute(
        insert.on_conflict_do_update(
            index_elements=[column.name for column in table.primary_key],
            set_={name: insert.excluded[name] for name in changing},
        ),
        subject,
        rows,
    )


class Keyed(Generic[RowT]):
    """Rows of one table that are added once, and found and removed by their primary key."""

    table: ClassVar[sa.Table]
    noun: ClassVar[str]
    row: type[RowT]

    def __init__(self, link: Link) -> None:
        self._link = link

    async def add(self, row: RowT) -> RowT:
        """Store a new row; its time of creation is filled in where it has none."""
        if getattr(row, "created_ns", None) == 0:
            row = replace(row, created_ns=self._link.now_ns)
        await self._link.execute(
            self.table.insert().values(values_of(row)), self._subject(*self._key_of(row))
        )
        return row

    async def find(self, *key: Any) -> RowT | None:
        """The row of that key, or None."""
        found = await self._link.execute(
            sa.select(self.table).where(self._is(key)), self._subject(*key)
        )
        first = found.mappings().first()
        return None if first is None else self.row(**first)

    async def get(self, *key: Any) -> RowT:
        """The row of that key; it must be there."""
        row = await self.find(*key)
        if row is None:
            raise NotFoundError(f"there is no {self._subject(*key)}")
        return row

    async def all(self, **equal: Any) -> tuple[RowT, ...]:
        """Every row with those values, by key."""
        wanted = [self.table.c[name] == value for name, value in equal.items()]
        return await self._rows(
            sa.select(self.table).where(*wanted).order_by(*self.table.primary_key)
        )

    async def remove(self, *key: Any) -> None:
        """Remove the row of that key; it must be there, and nothing may name it."""
        subject = self._subject(*key)
        try:
            gone = await self._link.execute(self.table.delete().where(self._is(key)), subject)
        except NotFoundError as error:
            raise ConflictError(f"{subject} is still used", "remove what uses it first") from error
        if changed_rows(gone) == 0:
            raise NotFoundError(f"there is no {subject}")

    async def _rows(self, statement: sa.Select[Any]) -> tuple[RowT, ...]:
        found = await self._link.execute(statement, self.table.name)
        return tuple(self.row(**row) for row in found.mappings())

    def _is(self, key: Sequence[Any]) -> sa.ColumnElement[bool]:
        columns = self.table.primary_key.columns
        return sa.and_(*(column == part for column, part in zip(columns, key, strict=True)))

    def _key_of(self, row: RowT) -> tuple[Any, ...]:
        return tuple(getattr(row, column.name) for column in self.table.primary_key)

    def _subject(self, *key: Any) -> str:
        return f"{self.noun} {'/'.join(str(part) for part in key)}"


class Versioned(Keyed[RowT]):
    """Rows that change, and count it: who changes one must have seen its latest revision."""

    fixed: ClassVar[frozenset[str]] = frozenset()
    """Columns that `put` leaves alone, beside the key."""

    async def put(self, row: RowT) -> RowT:
        """Store a changed row; refused if somebody changed it since this one was read."""
        key = self._key_of(row)
        seen = values_of(row)["revision"]
        names = [name for name in values_of(row) if name not in self._left_alone()]
        written = await self._link.execute(
            self.table.update()
            .where(self._is(key), self.table.c.revision == seen)
            .values({name: getattr(row, name) for name in names} | {"revision": seen + 1}),
            self._subject(*key),
        )
        if changed_rows(written) == 0:
            stored = await self.get(*key)
            raise ConflictError(
                f"{self._subject(*key)} was changed meanwhile: it is at revision "
                f"{values_of(stored)['revision']}, not {seen}",
                "read it again and decide anew",
            )
        return replace(row, revision=seen + 1)

    def _left_alone(self) -> frozenset[str]:
        key = frozenset(column.name for column in self.table.primary_key)
        return self.fixed | key | {"revision", "created_ns"}
