"""The file of the embedded store: schema, connections, SQLite's errors translated once."""

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dure.stores.series.ports import SeriesError

_log = logging.getLogger(__name__)

_VERSION = 1
_PAGE_BYTES = 8192
_BUSY_MS = 5_000
_WAL_BYTES = 16 << 20
"""Past this SQLite cuts its journal after it was taken over."""
_SCHEMA = """
CREATE TABLE series (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    labels TEXT NOT NULL,
    seen_ms INTEGER NOT NULL,
    UNIQUE (name, labels)
);
CREATE TABLE block (
    level INTEGER NOT NULL,
    start_ms INTEGER NOT NULL,
    series INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (level, start_ms, series)
) WITHOUT ROWID;
CREATE TABLE journal (
    seq INTEGER PRIMARY KEY,
    start_ms INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX journal_window ON journal (start_ms);
CREATE TABLE mark (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE stale (
    level INTEGER NOT NULL,
    start_ms INTEGER NOT NULL,
    PRIMARY KEY (level, start_ms)
) WITHOUT ROWID;
"""
"""`stale`: windows of a level for which the level before has something new."""


@contextmanager
def translated(file: Path) -> Iterator[None]:
    """Raise what goes wrong in SQLite inside as a `SeriesError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise SeriesError(
            f"series cannot be kept in {file} ({error})",
            "check the room on its disk and its permissions",
        ) from error


def open_file(file: Path) -> sqlite3.Connection:
    """A connection that writes; what cannot be read is put aside, since measuring must go on."""
    with translated(file):
        try:
            return _opened(file)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) or not file.is_file():
                raise
            aside = file.with_name(file.name + ".unreadable")
            _log.warning("%s cannot be read (%s); it is kept as %s", file, error, aside.name)
            file.replace(aside)
            for left in ("-wal", "-shm"):
                file.with_name(file.name + left).unlink(missing_ok=True)
            return _opened(file)


def hold(file: Path) -> int:
    """Have a file for this process alone: what is in memory belongs to it. Gives the descriptor
    of the lock, which is free again when that is closed."""
    try:
        lock = os.open(file.with_name(file.name + ".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise SeriesError(
            f"series cannot be kept in {file} ({error.strerror})",
            "check the room on its disk and its permissions",
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise SeriesError(
            f"another process keeps its series in {file}", "give each a folder of its own"
        ) from error
    return lock


def open_reader(file: Path) -> sqlite3.Connection:
    """A connection that reads beside the one that writes."""
    with translated(file):
        reader = _connect(file)
        reader.execute("PRAGMA query_only = ON")
        return reader


def size_bytes(connection: sqlite3.Connection) -> int:
    """What is in use of the file."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    return int(pages - free) * _PAGE_BYTES


def _opened(file: Path) -> sqlite3.Connection:
    connection = _connect(file)
    try:
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise SeriesError(
                f"{file} is of version {version} and this Dure knows {_VERSION}",
                "update Dure, or name another file",
            )
        if version == 0:
            connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        file, timeout=_BUSY_MS / 1000, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA cache_size = -8192")
    return connection
