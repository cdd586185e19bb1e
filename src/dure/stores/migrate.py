"""Brings a database's schema to what this version knows, in one transaction; never backwards."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from dure.stores.errors import SchemaTooNewError

_FOLDER = Path(__file__).parent / "migrations"
_LOCK = 0x64757265
"""PostgreSQL's advisory lock for servers that start together; the letters of dure."""


def latest_schema() -> str:
    """The newest schema that this version knows."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def schema_of(connection: sa.Connection) -> str | None:
    """The schema that a database has; None: it is new."""
    return MigrationContext.configure(connection).get_current_revision()


def upgrade(connection: sa.Connection, target: str = "head") -> str:
    """Take a database forward to a schema, in the caller's transaction; tell which it has."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        connection.execute(sa.text("SET LOCAL lock_timeout = '60s'"))
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    refuse_unknown(schema_of(connection))
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, target)
    return str(schema_of(connection))


def refuse_unknown(schema: str | None) -> None:
    """Raise where a schema was made by a newer version than this."""
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if schema is not None and schema not in known:
        raise SchemaTooNewError(
            f"the schema {schema} was made by a newer version of Dure than this one, which knows "
            f"schemas up to {latest_schema()}",
            "install the newer version, or restore a backup that this one made",
        )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
