"""Nodes that are emptied before their devices are divided anew."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column(
        "partitions",
        sa.Column("drain", sa.Boolean(), nullable=False, server_default=sa.text("false")),
    )
