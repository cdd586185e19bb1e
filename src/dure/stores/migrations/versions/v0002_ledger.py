"""Budgets, bills, and feeds of tariffs and carbon intensities."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "feeds",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("spec", _JSON, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "bills",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("period_start_ns", sa.BigInteger(), nullable=False),
        sa.Column("period_end_ns", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("amount", sa.Double(), nullable=False),
        sa.Column("carbon_g", sa.Double(), nullable=False),
        sa.Column("lines", _JSON, nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.path"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "bills_by_period", "bills", ["tenant", "period_start_ns", "period_end_ns"], unique=True
    )
    op.create_index("bills_by_tenant", "bills", ["tenant", "id"])
    op.create_table(
        "budgets",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("limit_amount", sa.Double(), nullable=False),
        sa.Column("period_start_ns", sa.BigInteger(), nullable=False),
        sa.Column("period_end_ns", sa.BigInteger(), nullable=False),
        sa.Column("spent_amount", sa.Double(), nullable=False),
        sa.Column("spec", _JSON, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.path"]),
        sa.PrimaryKeyConstraint("tenant", "name"),
    )
    op.create_table(
        "feed_points",
        sa.Column("feed", sa.Text(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["feed"], ["feeds.name"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("feed", "at_ns"),
    )
