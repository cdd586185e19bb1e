"""Jobs that people declared in clusters: where each came from; and jobs that are suspended."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column(
        "jobs",
        sa.Column("suspended", sa.Boolean(), nullable=False, server_default=sa.text("false")),
    )
    op.create_table(
        "origins",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("withdrawn_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("cluster", "uid"),
    )
    op.create_index("origins_by_job", "origins", ["job_id"])
    op.create_index("origins_withdrawn", "origins", ["withdrawn_ns"])
