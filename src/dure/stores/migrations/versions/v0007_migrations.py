"""Migrations of jobs between clusters, and jobs that are not to be moved by themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_UNFINISHED = sa.text("ended_ns IS NULL")


def upgrade() -> None:
    op.add_column(
        "jobs", sa.Column("pinned", sa.Boolean(), nullable=False, server_default=sa.text("false"))
    )
    op.create_table(
        "migrations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("since_ns", sa.BigInteger(), nullable=False),
        sa.Column("old_attempt", sa.BigInteger(), nullable=False),
        sa.Column("old_cluster", sa.Text(), nullable=False),
        sa.Column("new_attempt", sa.BigInteger()),
        sa.Column("new_cluster", sa.Text(), nullable=False),
        sa.Column("request", sa.BigInteger(), nullable=False),
        sa.Column("acked", sa.BigInteger(), nullable=False),
        sa.Column("saved_share", sa.Double(), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("stop_anyway", sa.Boolean(), nullable=False),
        sa.Column("saving", sa.Double(), nullable=False),
        sa.Column("egress", sa.Double(), nullable=False),
        sa.Column("carbon_saved_g", sa.Double(), nullable=False),
        sa.Column("abort_by", sa.Text(), nullable=False),
        sa.Column("begun_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_ns", sa.BigInteger()),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("migrations_by_job", "migrations", ["job_id", "id"])
    op.create_index(
        "migrations_one_at_a_time",
        "migrations",
        ["job_id"],
        unique=True,
        sqlite_where=_UNFINISHED,
        postgresql_where=_UNFINISHED,
    )
