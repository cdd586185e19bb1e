"""Links to members: what clusters report, what attempts use up, congestion prices."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_ZERO = sa.text("0")


def upgrade() -> None:
    _new_columns()
    op.create_index("attempts_by_cluster_revision", "attempts", ["cluster", "desired_revision"])
    kept = sa.text("state = 'gone' AND dropped_ns IS NULL")
    op.create_index(
        "attempts_kept",
        "attempts",
        ["cluster", "gone_ns"],
        sqlite_where=kept,
        postgresql_where=kept,
    )
    op.create_table(
        "cluster_news",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("inventory", _JSON, nullable=False),
        sa.Column("sites", _JSON, nullable=False),
        sa.Column("allotments", _JSON, nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("cluster"),
    )
    op.create_table(
        "spends",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("to_ns", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("from_ns", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("device_s", sa.Double(), nullable=False),
        sa.Column("money", sa.Double(), nullable=False),
        sa.Column("carbon_g", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.path"]),
        sa.PrimaryKeyConstraint("job_id", "attempt", "to_ns"),
    )
    op.create_index("spends_by_tenant", "spends", ["tenant", "to_ns"])
    op.create_table(
        "prices",
        sa.Column("site", sa.Text(), nullable=False),
        sa.Column("per_device_hour", sa.Double(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("site"),
    )


def _new_columns() -> None:
    """With defaults, which the rows that exist need."""
    for name in ("desired_epoch", "surroundings_revision", "link_epoch", "report_seq"):
        _add("clusters", name, sa.BigInteger(), _ZERO)
    _add("clusters", "linked_url", sa.Text(), sa.text("''"))
    _add("jobs", "failures", sa.BigInteger(), _ZERO)
    _add("attempts", "status", _JSON, sa.text("'{}'"))
    for name in ("sent_ns", "dropped_ns"):
        op.add_column("attempts", sa.Column(name, sa.BigInteger(), nullable=True))
    op.execute("UPDATE attempts SET dropped_ns = gone_ns WHERE state = 'gone'")


def _add(table: str, name: str, kind: sa.types.TypeEngine[Any], default: sa.TextClause) -> None:
    op.add_column(table, sa.Column(name, kind, nullable=False, server_default=default))
