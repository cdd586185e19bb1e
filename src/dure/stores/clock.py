"""The database's own clock, as SQL: leases of several servers must not depend on theirs."""

import sqlalchemy as sa

_NOW_NS = {
    # now() would be the transaction's begin, however long that is past.
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000000000 AS BIGINT)",
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000000000.0 AS INTEGER)",
}


def database_now_ns(dialect: sa.Dialect) -> sa.ColumnElement[int]:
    """Nanoseconds since 1970 when the statement is carried out."""
    return sa.literal_column(_NOW_NS[dialect.name], sa.BigInteger)
