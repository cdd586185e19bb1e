"""Backups that either database can be restored from: JSON lines in gzip, a checksum at the end.

The first line says what it is and of which schema, the last how many rows there are and their
SHA-256; without a last line the file was cut off.
"""

import asyncio
import gzip
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from dure.stores import migrate
from dure.stores.errors import DumpError
from dure.stores.tables import EnumText, leases, marks, metadata

FORMAT, VERSION = "dure-store", 1
RESTORE_LEAP = 1_000_000
"""Added to epochs on restore: members may have seen epochs that the backup does not know, and would
refuse the restored centre's plans as old. Far more than the elections between two backups."""
_BATCH = 500


@dataclass(frozen=True)
class DumpSummary:
    """What a backup holds."""

    schema: str
    rows: int


@dataclass
class _Lines:
    """Writes or reads lines and sums them up on the way."""

    rows: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def count(self, line: str) -> None:
        self.rows += 1
        self.digest.update(line.encode())


async def write_dump(connection: AsyncConnection, file: Path) -> DumpSummary:
    """Write all tables, as one consistent state, to a file that only its owner may read."""
    schema = await connection.run_sync(migrate.schema_of)
    if schema is None:
        raise DumpError("the database is empty, so there is nothing to back up", "migrate it first")
    migrate.refuse_unknown(schema)
    unfinished = file.with_name(f".{file.name}.part")
    lines = _Lines()
    descriptor = os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as raw:
        with gzip.open(raw, "wt", encoding="utf-8", compresslevel=6) as out:
            head = {"format": FORMAT, "version": VERSION, "schema": schema}
            out.write(json.dumps(head) + "\n")
            for table in metadata.sorted_tables:
                columns = await connection.run_sync(_columns, table)
                if columns:
                    await _write_table(connection, columns, out, lines)
            tail = {"rows": lines.rows, "sha256": lines.digest.hexdigest()}
            out.write(json.dumps(tail) + "\n")
        raw.flush()
        os.fsync(raw.fileno())
    unfinished.replace(file)
    return DumpSummary(schema, lines.rows)


def _has(connection: sa.Connection, table: str) -> bool:
    return sa.inspect(connection).has_table(table)


def _columns(connection: sa.Connection, table: sa.Table) -> list[sa.Column[Any]]:
    """Those of a table that the database's schema has; none where it does not have the table."""
    if not _has(connection, table.name):
        return []
    return [table.c[each["name"]] for each in sa.inspect(connection).get_columns(table.name)]


async def _write_table(
    connection: AsyncConnection, columns: list[sa.Column[Any]], out: Any, lines: _Lines
) -> None:
    table = columns[0].table
    assert isinstance(table, sa.Table)
    async with connection.stream(
        sa.select(*columns).order_by(*table.primary_key).execution_options(yield_per=_BATCH)
    ) as found:
        async for part in found.mappings().partitions(_BATCH):
            for row in part:
                line = json.dumps({"table": table.name, "row": dict(row)}, default=_plain)
                lines.count(line)
                out.write(line + "\n")
            await asyncio.sleep(0)


async def read_dump(connection: AsyncConnection, file: Path) -> DumpSummary:
    """Restore all tables inside the caller's transaction; the database must be empty."""
    try:
        with gzip.open(file, "rt", encoding="utf-8") as source:
            head = json.loads(source.readline())
            schema = _checked_head(head, file)
            await connection.run_sync(_prepare, schema)
            lines = await _read_tables(connection, source, file)
    except (OSError, EOFError, ValueError) as error:
        raise DumpError(f"{file} is no whole backup ({error})", "use another backup") from error
    await connection.execute(
        leases.update().values(epoch=leases.c.epoch + RESTORE_LEAP, expires_ns=0)
    )
    return DumpSummary(await connection.run_sync(migrate.upgrade), lines.rows)


def _checked_head(head: Any, file: Path) -> str:
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise DumpError(f"{file} is no backup of Dure's state", "use a file that export wrote")
    if head.get("version") != VERSION:
        raise DumpError(
            f"{file} has version {head.get('version')} of the backup format, not {VERSION}",
            "use the version of Dure that wrote it",
        )
    schema = str(head.get("schema"))
    migrate.refuse_unknown(schema)
    return schema


def _prepare(connection: sa.Connection, schema: str) -> None:
    """Give the database the backup's schema, and refuse one that holds anything."""
    current = migrate.schema_of(connection)
    if current is None:
        migrate.upgrade(connection, schema)
    elif current != schema:
        raise DumpError(
            f"the database has schema {current}, the backup {schema}",
            "restore into a new database, which is then brought to the newest schema",
        )
    for table in metadata.sorted_tables:
        if table is marks or not _has(connection, table.name):
            continue
        if connection.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first():
            raise DumpError(
                f"the database is not empty: it has {table.name}", "restore into a new database"
            )
    connection.execute(marks.delete())


async def _read_tables(connection: AsyncConnection, source: Any, file: Path) -> _Lines:
    lines = _Lines()
    table, rows = "", list[dict[str, Any]]()
    for line, entry in _entries(source):
        if "sha256" in entry:
            await _insert(connection, table, rows)
            if (entry["rows"], entry["sha256"]) != (lines.rows, lines.digest.hexdigest()):
                raise DumpError(f"{file} was changed or damaged", "use another backup")
            return lines
        lines.count(line)
        if entry["table"] != table or len(rows) >= _BATCH:
            await _insert(connection, table, rows)
            table, rows = entry["table"], []
        rows.append(entry["row"])
    raise DumpError(f"{file} ends too early", "use another backup")


def _entries(source: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in source:
        text = line.rstrip("\n")
        yield text, json.loads(text)


async def _insert(connection: AsyncConnection, name: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    table = metadata.tables.get(name)
    if table is None:  # of an older schema, whose upgrade takes over what it holds
        table = await connection.run_sync(_older_table, name)
    for row in rows:
        for column, value in row.items():
            kind = table.c[column].type
            if isinstance(kind, EnumText) and value is not None:
                row[column] = kind.kind(value)
    await connection.execute(table.insert(), rows)


def _older_table(connection: sa.Connection, name: str) -> sa.Table:
    try:
        return sa.Table(name, sa.MetaData(), autoload_with=connection)
    except sa.exc.NoSuchTableError as error:
        raise DumpError(f"the backup has a table {name} that this version does not know") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"{type(value).__name__} has no place in a backup")
