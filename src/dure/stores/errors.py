"""The databases' errors, translated once: not there, there already, changed since, fenced, away."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy import exc

from dure.domain.errors import DureError


class StoreError(DureError):
    """The state store refused something, or could not be asked."""


class NotFoundError(StoreError):
    """There is no such thing, or what it names is not there."""


class ConflictError(StoreError):
    """It changed since it was read, or the change contradicts what is stored."""


class DuplicateError(StoreError):
    """One of that name or key is there already."""


class IllegalStepError(ConflictError):
    """An attempt cannot go from its state to that one."""


class InvalidError(StoreError):
    """What is to be stored contradicts itself or cannot be written down."""


class KeyReusedError(StoreError):
    """An idempotency key came again with another body."""


class FencedError(StoreError):
    """The writer is not the leader any more; nothing was written."""


class ExpiredError(StoreError):
    """The history asked for was pruned: read the present state and follow from there."""


class SchemaTooNewError(StoreError):
    """A newer version of Dure has changed the database's schema."""


class DumpError(StoreError):
    """A backup cannot be used."""


class StoreUnavailableError(StoreError):
    """The database does not answer; it may later. A commit under way may have been done."""


_UNIQUE, _FOREIGN, _CHECK, _TRIGGER = "unique", "foreign", "check", "trigger"
_POSTGRES = {"23505": _UNIQUE, "23503": _FOREIGN, "23514": _CHECK, "DU001": _TRIGGER}
_SQLITE = {
    "SQLITE_CONSTRAINT_UNIQUE": _UNIQUE,
    "SQLITE_CONSTRAINT_PRIMARYKEY": _UNIQUE,
    "SQLITE_CONSTRAINT_FOREIGNKEY": _FOREIGN,
    "SQLITE_CONSTRAINT_CHECK": _CHECK,
    "SQLITE_CONSTRAINT_TRIGGER": _TRIGGER,
}
_SERIALISATION = frozenset({"40001", "40P01"})
"""PostgreSQL gave up one of two transactions that contradict or wait for each other."""
_AWAY_CLASSES = ("08", "53", "57", "55P03", "25P03")
"""PostgreSQL's connection errors, lacks of resources, interventions; locks waited for too long, and
transactions ended because their owner was silent too long."""


def translate(error: exc.SQLAlchemyError, subject: str = "") -> StoreError:
    """What an error of the database means for whoever asked."""
    about = subject or "the state store"
    cause = error.orig if isinstance(error, exc.DBAPIError) else None
    if isinstance(error, exc.TimeoutError):
        return StoreUnavailableError("all connections to the database are taken", "try again")
    if isinstance(cause, psycopg.Error):
        return _postgres(cause, about)
    if isinstance(cause, sqlite3.Error):
        return _sqlite(cause, about)
    if isinstance(error, exc.DBAPIError) and error.connection_invalidated:
        return StoreUnavailableError("the connection to the database was lost", "try again")
    return StoreError(f"{about}: {_one_line(error)}")


@contextmanager
def translated(subject: str = "") -> Iterator[None]:
    """Raise what goes wrong in the database inside as a `StoreError`."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise translate(error, subject) from error


def _postgres(cause: psycopg.Error, about: str) -> StoreError:
    state = cause.sqlstate or ""
    if state in _POSTGRES:
        return _constraint(_POSTGRES[state], about, cause.diag.message_detail or str(cause))
    if isinstance(cause, psycopg.DataError):
        return InvalidError(f"{about} cannot be stored ({_one_line(cause)})", "correct the value")
    if state in _SERIALISATION:
        return ConflictError(f"{about}: another transaction came first", "try again")
    if state.startswith(_AWAY_CLASSES) or (
        not state and isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)
    ):
        return StoreUnavailableError(
            f"the database does not answer ({_one_line(cause)})", "check PostgreSQL, then try again"
        )
    return StoreError(f"{about}: {_one_line(cause)}")


def _sqlite(cause: sqlite3.Error, about: str) -> StoreError:
    name = getattr(cause, "sqlite_errorname", "")
    if name in _SQLITE:
        return _constraint(_SQLITE[name], about, str(cause))
    if isinstance(cause, sqlite3.OperationalError) or name.startswith("SQLITE_IOERR"):
        return StoreUnavailableError(
            f"the database file cannot be used now ({_one_line(cause)})",
            "check its disk and who else has it open, then try again",
        )
    return StoreError(f"{about}: {_one_line(cause)}")


def _constraint(kind: str, about: str, said: str) -> StoreError:
    detail = said.splitlines()[0] if said else ""
    if kind == _UNIQUE:
        return DuplicateError(f"{about} is there already ({detail})", "choose another name or key")
    if kind == _FOREIGN:
        return NotFoundError(
            f"{about} names something that is not there, or is still named ({detail})",
            "create what it names first, or remove what names it",
        )
    if kind == _TRIGGER:
        return IllegalStepError(f"{about}: {detail}", "read its state again")
    return ConflictError(f"{about} breaks a rule of the schema ({detail})")


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
