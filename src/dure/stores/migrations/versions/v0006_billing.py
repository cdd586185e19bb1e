"""Charges in whole numbers by day and month, meters, closed months; not spends and bills."""

import datetime
import json
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")

_DAY_NS = 86_400 * 10**9
_BATCH = 500
_OWED = sa.text("charged_us < device_us")


def upgrade() -> None:
    _create()
    _take_over()
    marks = sa.table("marks", sa.column("name"), sa.column("value"))
    op.bulk_insert(marks, [{"name": "billed", "value": 0}])
    op.drop_table("spends")
    op.drop_table("bills")


def _create() -> None:
    op.add_column(
        "cluster_news",
        sa.Column("retired", _JSON, nullable=False, server_default=sa.text("'{}'")),
    )
    op.create_table(
        "meters",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("device_us", sa.BigInteger(), nullable=False),
        sa.Column("charged_us", sa.BigInteger(), nullable=False),
        sa.Column("since_ns", sa.BigInteger(), nullable=False),
        sa.Column("until_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("job_id", "attempt"),
    )
    op.create_index(
        "meters_owed", "meters", ["cluster"], sqlite_where=_OWED, postgresql_where=_OWED
    )
    op.create_table(
        "charges",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        sa.Column("month", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("from_ns", sa.BigInteger(), nullable=False),
        sa.Column("to_ns", sa.BigInteger(), nullable=False),
        sa.Column("device_us", sa.BigInteger(), nullable=False),
        sa.Column("rent_micro", sa.BigInteger(), nullable=False),
        sa.Column("energy_micro", sa.BigInteger(), nullable=False),
        sa.Column("egress_micro", sa.BigInteger(), nullable=False),
        sa.Column("carbon_ug", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.path"]),
        sa.PrimaryKeyConstraint("job_id", "attempt", "day", "month", "currency"),
    )
    op.create_index("charges_by_month", "charges", ["month", "tenant"])
    op.create_index("charges_by_day", "charges", ["day", "tenant"])
    op.create_index("charges_by_time", "charges", ["to_ns"])
    op.create_table(
        "closings",
        sa.Column("month", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("totals", _JSON, nullable=False),
        sa.Column("closed_by", sa.Text(), nullable=False),
        sa.Column("closed_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("month"),
    )


def _take_over() -> None:
    """What was charged before: by day in UTC; what of it was energy is not known any more."""
    bind = op.get_bind()
    fleet = sa.text("SELECT spec FROM policies WHERE name = 'fleet'")
    currency = _currency(bind.execute(fleet).scalar_one_or_none())
    spends = sa.text(
        f"SELECT job_id, attempt, to_ns / {_DAY_NS} AS days, min(from_ns) AS from_ns, "
        "max(to_ns) AS to_ns, min(tenant) AS tenant, min(team) AS team, "
        "min(service) AS service, min(cluster) AS cluster, min(profile) AS profile, "
        "sum(device_s) AS device_s, sum(money) AS money, sum(carbon_g) AS carbon_g "
        f"FROM spends GROUP BY job_id, attempt, to_ns / {_DAY_NS}"
    )
    rows = [_charge(dict(each), currency) for each in bind.execute(spends).mappings()]
    columns = list(rows[0]) if rows else []
    charges = sa.table("charges", *(sa.column(name) for name in columns))
    for first in range(0, len(rows), _BATCH):
        op.bulk_insert(charges, rows[first : first + _BATCH])
    # Members that are upgraded tell all that an attempt has used since it began.
    op.execute(
        "INSERT INTO meters (job_id, attempt, cluster, device_us, charged_us, since_ns, until_ns) "
        "SELECT job_id, attempt, min(cluster), sum(device_us), sum(device_us), max(to_ns), "
        "max(to_ns) FROM charges GROUP BY job_id, attempt"
    )


def _currency(spec: Any) -> str:
    plain = json.loads(spec) if isinstance(spec, str) else spec
    return str((plain or {}).get("currency", "USD"))


def _charge(spend: dict[str, Any], currency: str) -> dict[str, Any]:
    day = datetime.date(1970, 1, 1) + datetime.timedelta(days=int(spend.pop("days")))
    return {
        "day": f"{day:%Y-%m-%d}",
        "month": f"{day:%Y-%m}",
        "currency": currency,
        "device_us": round(spend.pop("device_s") * 1e6),
        "rent_micro": round(spend.pop("money") * 1e6),
        "carbon_ug": round(spend.pop("carbon_g") * 1e6),
        "energy_micro": 0,
        "egress_micro": 0,
    } | spend
