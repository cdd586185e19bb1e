"""Databases of a bench: SQLite in a folder, and one on a PostgreSQL server if there is one."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from dure.domain.errors import InputError

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"


@contextmanager
def fresh(kind: str, folder: Path, server: str) -> Iterator[str]:
    """The address of an empty database, gone when the context is left."""
    if kind == SQLITE:
        yield f"sqlite:///{folder / 'state.db'}"
        return
    name = f"dure_bench_{secrets.token_hex(4)}"
    _execute(server, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        parts = urlsplit(server)
        yield urlunsplit(parts._replace(path=f"/{name}"))
    finally:
        _execute(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _execute(server: str, statement: sql.Composed) -> None:
    try:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(statement)
    except psycopg.Error as error:
        raise InputError(
            f"the PostgreSQL server does not let a database be made or removed ({error})",
            "name one of a user that may, with the database it connects to",
            field="--postgresql",
        ) from error
