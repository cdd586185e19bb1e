"""Virtual clusters, and how they are in each cluster."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "virtual_clusters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("spec", _JSON, nullable=False),
        sa.Column("deleting", sa.Boolean(), nullable=False),
        sa.Column("forced", sa.Boolean(), nullable=False),
        sa.Column("standing", _JSON, nullable=False),
        sa.Column("said_ns", sa.BigInteger(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.path"]),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "virtual_spaces",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("pods", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["name"], ["virtual_clusters.name"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("name", "cluster"),
    )
    op.create_index("virtual_spaces_by_cluster", "virtual_spaces", ["cluster"])
