"""Opens a database by its address, SQLite in a file or PostgreSQL, each so that commits last."""

import os
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dure.domain.errors import InputError

READ_ONLY = "dure_read_only"
"""Execution option of a connection that will not write."""
_TURN_S = 0.02
_FORMS = "give sqlite:///FILE or postgresql://USER@HOST/DATABASE"


@dataclass(frozen=True)
class StoreSettings:
    """How patient the store is, and how many connections it takes."""

    connections: int = 10
    connect_s: float = 5.0
    statement_s: float = 30.0
    lock_s: float = 3.0
    """How long to wait for what another transaction holds. Less than what follows: of a stopped
    process with several transactions none gets what the one before it held until it was ended."""
    idle_transaction_s: float = 4.0
    """A transaction whose owner is silent for so long, as when its process was stopped, is ended by
    PostgreSQL, so that it cannot hold up others. Never wait for anything else inside one."""
    file_s: float = 10.0
    """How long to wait for a file of SQLite that another transaction writes."""
    pool_s: float = 10.0
    """How long to wait for a free connection."""


def open_engine(address: str, settings: StoreSettings) -> AsyncEngine:
    """An engine for the address; connects to nothing yet."""
    try:
        url = make_url(address)
    except (sa.exc.ArgumentError, ValueError):
        # Not repeated, nor is its cause: it may hold a password.
        raise InputError("what is given is no address of a database", _FORMS) from None
    backend = url.get_backend_name()
    if backend == "sqlite":
        return _sqlite(url, settings)
    if backend in {"postgresql", "postgres"}:
        return _postgres(url, settings)
    raise InputError(f"{backend} is no database that Dure can use", _FORMS)


def _sqlite(url: URL, settings: StoreSettings) -> AsyncEngine:
    if not url.database or url.database == ":memory:":
        raise InputError("the state must last, so SQLite needs a file", _FORMS)
    file = Path(url.database)
    if not file.parent.is_dir():
        raise InputError(f"the folder {file.parent} of the database does not exist", "create it")
    engine = create_async_engine(
        url.set(drivername="sqlite+aiosqlite"),
        connect_args={"isolation_level": None, "timeout": settings.file_s},
        pool_size=settings.connections,
        max_overflow=0,
        pool_timeout=settings.pool_s,
    )

    def prepare(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        # Tokens' hashes and tenants' specs are nobody else's business.
        os.chmod(file, 0o600)  # noqa: PTH101 - before any of the connection's work
        _keep_a_log(cursor, settings.file_s)
        for pragma in ("synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def begin(connection: sa.Connection) -> None:
        # A reader that becomes a writer half-way cannot wait its turn, so writers say so first.
        only_reads = connection.get_execution_options().get(READ_ONLY, False)
        connection.exec_driver_sql("BEGIN" if only_reads else "BEGIN IMMEDIATE")

    sa.event.listen(engine.sync_engine, "connect", prepare)
    sa.event.listen(engine.sync_engine, "begin", begin)
    return engine


def _keep_a_log(cursor: Any, within_s: float) -> None:
    """Write ahead, which a new file is told once; of this alone SQLite does not wait its turn."""
    until_s = time.monotonic() + within_s
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until_s:
                raise
            time.sleep(_TURN_S)


def _postgres(url: URL, settings: StoreSettings) -> AsyncEngine:
    limits_s = {
        "statement_timeout": settings.statement_s,
        "lock_timeout": settings.lock_s,
        "idle_in_transaction_session_timeout": settings.idle_transaction_s,
    }
    options = " ".join(f"-c {name}={round(1000 * limit)}" for name, limit in limits_s.items())
    return create_async_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={
            "connect_timeout": max(2, round(settings.connect_s)),
            "options": f"{options} -c synchronous_commit=on",
            "application_name": "dure",
            # A cut link is noticed in some 15 s, also while a query is under way.
            "keepalives_idle": 5,
            "keepalives_interval": 3,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
        },
        pool_size=settings.connections,
        max_overflow=0,
        pool_timeout=settings.pool_s,
        pool_pre_ping=True,
    )
