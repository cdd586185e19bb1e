"""The tables, the same on SQLite and PostgreSQL; `migrations` makes them, a test compares."""

from enum import Enum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from dure.domain.fleet.accounts import FeedKind, Role, TenantKind
from dure.domain.fleet.lifecycle import (
    LIVE_STATES,
    AttemptState,
    ClusterState,
    JobPhase,
    PartitionPhase,
)
from dure.domain.fleet.migrations import MoveKind, MoveStep
from dure.domain.fleet.virtual import SpacePhase, VirtualTier

metadata = sa.MetaData()

ZERO = sa.text("0")
"""Default of counters that older schemas did not have."""

Json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


class EnumText(sa.TypeDecorator[Any]):
    """An enum kept as its value, so that a new member needs no migration."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, kind: type[Enum]) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:
        """To the database."""
        return value.value if isinstance(value, Enum) else value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        """From the database."""
        return None if value is None else self.kind(value)


def _text(name: str, **more: Any) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, **more)


def _maybe_text(name: str, *more: Any) -> sa.Column[str]:
    return sa.Column(name, sa.Text, *more)


def _number(name: str, **more: Any) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False, **more)


def _maybe_number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger)


def _amount(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=False)


def _json(name: str) -> sa.Column[Any]:
    return sa.Column(name, Json, nullable=False)


def _enum(name: str, kind: type[Enum]) -> sa.Column[Any]:
    return sa.Column(name, EnumText(kind), nullable=False)


def _to_tenant() -> sa.ForeignKey:
    return sa.ForeignKey("tenants.path")


tenants = sa.Table(
    "tenants",
    metadata,
    _text("path", primary_key=True),
    _enum("kind", TenantKind),
    _maybe_text("parent", _to_tenant()),
    _json("spec"),
    _number("revision"),
    _number("created_ns"),
    sa.Index("tenants_by_parent", "parent"),
)

pools = sa.Table(
    "pools",
    metadata,
    _text("name", primary_key=True),
    _maybe_text("tenant", _to_tenant()),
    _json("spec"),
    _number("revision"),
    _number("created_ns"),
)

policies = sa.Table(
    "policies",
    metadata,
    _text("name", primary_key=True),
    _json("spec"),
    _number("revision"),
    _number("created_ns"),
)

clusters = sa.Table(
    "clusters",
    metadata,
    _text("name", primary_key=True),
    _text("kind"),
    _json("spec"),
    _enum("state", ClusterState),
    _text("incarnation"),
    _maybe_number("last_contact_ns"),
    _number("desired_revision"),
    _number("accepted_epoch"),
    _number("accepted_revision"),
    _number("revision"),
    _number("created_ns"),
    _number("desired_epoch", server_default=ZERO),
    _number("surroundings_revision", server_default=ZERO),
    _number("link_epoch", server_default=ZERO),
    _text("linked_url", server_default=sa.text("''")),
    _number("report_seq", server_default=ZERO),
)

cluster_news = sa.Table(
    "cluster_news",
    metadata,
    sa.Column(
        "cluster", sa.Text, sa.ForeignKey("clusters.name", ondelete="CASCADE"), primary_key=True
    ),
    _json("inventory"),
    _json("sites"),
    _json("allotments"),
    _number("at_ns"),
    sa.Column("retired", Json, nullable=False, server_default=sa.text("'{}'")),
)

partitions = sa.Table(
    "partitions",
    metadata,
    sa.Column(
        "cluster", sa.Text, sa.ForeignKey("clusters.name", ondelete="CASCADE"), primary_key=True
    ),
    _text("node", primary_key=True),
    _text("layout"),
    _number("number"),
    sa.Column("drain", sa.Boolean, nullable=False, server_default=sa.text("false")),
    _enum("phase", PartitionPhase),
    _text("reason"),
    _number("asked_ns"),
    _maybe_number("ended_ns"),
)

jobs = sa.Table(
    "jobs",
    metadata,
    _text("id", primary_key=True),
    sa.Column("tenant", sa.Text, _to_tenant(), nullable=False),
    _text("name"),
    _json("spec"),
    _text("team"),
    _text("service"),
    _maybe_text("array_id"),
    _maybe_number("array_index"),
    _json("labels"),
    _enum("phase", JobPhase),
    _number("priority"),
    _number("attempt"),
    _maybe_text("cluster", sa.ForeignKey("clusters.name")),
    _text("reason"),
    _number("revision"),
    _number("submitted_ns"),
    _number("updated_ns"),
    _maybe_number("ended_ns"),
    _number("failures", server_default=ZERO),
    sa.Column("suspended", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("pinned", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Index("jobs_by_tenant", "tenant", "id"),
    sa.Index("jobs_by_phase", "phase", "id"),
    sa.Index("jobs_by_tenant_phase", "tenant", "phase", "id"),
    sa.Index("jobs_by_cluster_phase", "cluster", "phase", "id"),
    sa.Index("jobs_by_cluster", "cluster", "id"),
    sa.Index("jobs_by_name", "tenant", "name", "id"),
    sa.Index("jobs_by_array", "array_id", "array_index", unique=True),
)

origins = sa.Table(
    "origins",
    metadata,
    _text("cluster", primary_key=True),
    _text("uid", primary_key=True),
    _text("namespace"),
    _text("name"),
    _maybe_text("job_id", sa.ForeignKey("jobs.id", ondelete="SET NULL")),
    _number("generation"),
    _number("created_ns"),
    _maybe_number("withdrawn_ns"),
    sa.Index("origins_by_job", "job_id"),
    sa.Index("origins_withdrawn", "withdrawn_ns"),
)

job_labels = sa.Table(
    "job_labels",
    metadata,
    sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    _text("label", primary_key=True),
    _text("value"),
    sa.Index("job_labels_by_value", "label", "value", "job_id"),
)

_LIVE = sa.text(
    "exclusive AND state IN ("
    + ", ".join(f"'{state.value}'" for state in AttemptState if state in LIVE_STATES)
    + ")"
)

_KEPT = sa.text(f"state = '{AttemptState.GONE.value}' AND dropped_ns IS NULL")

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    _number("attempt", primary_key=True, autoincrement=False),
    sa.Column("cluster", sa.Text, sa.ForeignKey("clusters.name"), nullable=False),
    _number("epoch"),
    _number("desired_revision"),
    sa.Column("exclusive", sa.Boolean, nullable=False),
    _enum("state", AttemptState),
    _text("reason"),
    _json("spec"),
    _number("reserved_ns"),
    _maybe_number("committed_ns"),
    _maybe_number("running_ns"),
    _maybe_number("releasing_ns"),
    _maybe_number("gone_ns"),
    sa.Column("status", Json, nullable=False, server_default=sa.text("'{}'")),
    _maybe_number("sent_ns"),
    _maybe_number("dropped_ns"),
    sa.Index("attempts_by_cluster_state", "cluster", "state", "job_id"),
    sa.Index("attempts_by_cluster_revision", "cluster", "desired_revision"),
    sa.Index("attempts_kept", "cluster", "gone_ns", sqlite_where=_KEPT, postgresql_where=_KEPT),
    sa.Index(
        "attempts_one_live", "job_id", unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE
    ),
)

_UNFINISHED = sa.text("ended_ns IS NULL")

migrations = sa.Table(
    "migrations",
    metadata,
    _text("id", primary_key=True),
    sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    _enum("kind", MoveKind),
    _enum("step", MoveStep),
    _number("since_ns"),
    _number("old_attempt"),
    _text("old_cluster"),
    _maybe_number("new_attempt"),
    _text("new_cluster"),
    _number("request"),
    _number("acked"),
    _amount("saved_share"),
    _text("asked_by"),
    _text("why"),
    _text("reason"),
    sa.Column("stop_anyway", sa.Boolean, nullable=False),
    _amount("saving"),
    _amount("egress"),
    _amount("carbon_saved_g"),
    _text("abort_by"),
    _number("begun_ns"),
    _maybe_number("ended_ns"),
    sa.Index("migrations_by_job", "job_id", "id"),
    sa.Index(
        "migrations_one_at_a_time",
        "job_id",
        unique=True,
        sqlite_where=_UNFINISHED,
        postgresql_where=_UNFINISHED,
    ),
)

tokens = sa.Table(
    "tokens",
    metadata,
    _text("id", primary_key=True),
    _text("secret_hash"),
    _enum("role", Role),
    _text("name"),
    _maybe_text("tenant", _to_tenant()),
    _maybe_text("cluster"),
    _number("created_ns"),
    _maybe_number("expires_ns"),
    _maybe_number("revoked_ns"),
    sa.Index("tokens_by_hash", "secret_hash", unique=True),
    sa.CheckConstraint(
        "(role <> 'tenant' OR tenant IS NOT NULL) AND (role <> 'member' OR cluster IS NOT NULL)",
        name="tokens_are_bound",
    ),
)

idempotency_keys = sa.Table(
    "idempotency_keys",
    metadata,
    sa.Column("tenant", sa.Text, _to_tenant(), primary_key=True),
    _text("key", primary_key=True),
    _text("body_hash"),
    _json("answer"),
    _number("created_ns"),
    sa.Index("idempotency_keys_by_time", "created_ns"),
)

events = sa.Table(
    "events",
    metadata,
    _number("seq", primary_key=True, autoincrement=False),
    _number("at_ns"),
    _text("kind"),
    _text("subject"),
    _maybe_text("tenant"),
    _json("data"),
    sa.Index("events_by_tenant", "tenant", "seq"),
    sa.Index("events_by_subject", "subject", "seq"),
    sa.Index("events_by_time", "at_ns"),
)

audit = sa.Table(
    "audit",
    metadata,
    _text("id", primary_key=True),
    _number("at_ns"),
    _text("actor"),
    _text("action"),
    _text("subject"),
    _text("outcome"),
    _maybe_text("tenant"),
    _json("data"),
    sa.Index("audit_by_tenant", "tenant", "id"),
    sa.Index("audit_by_actor", "actor", "id"),
    sa.Index("audit_by_subject", "subject", "id"),
    sa.Index("audit_by_time", "at_ns"),
)

leases = sa.Table(
    "leases",
    metadata,
    _text("name", primary_key=True),
    _text("holder"),
    _number("epoch"),
    _number("expires_ns"),
)

marks = sa.Table(
    "marks",
    metadata,
    _text("name", primary_key=True),
    _number("value"),
)
"""Counters with one row each; see `repos.events`."""

budgets = sa.Table(
    "budgets",
    metadata,
    sa.Column("tenant", sa.Text, _to_tenant(), primary_key=True),
    _text("name", primary_key=True),
    _text("unit"),
    _amount("limit_amount"),
    _number("period_start_ns"),
    _number("period_end_ns"),
    _amount("spent_amount"),
    _json("spec"),
    _number("revision"),
)

_OWED = sa.text("charged_us < device_us")

meters = sa.Table(
    "meters",
    metadata,
    sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id"), primary_key=True),
    _number("attempt", primary_key=True, autoincrement=False),
    _text("cluster"),
    _number("device_us"),
    _number("charged_us"),
    _number("since_ns"),
    _number("until_ns"),
    sa.Index("meters_owed", "cluster", sqlite_where=_OWED, postgresql_where=_OWED),
)

charges = sa.Table(
    "charges",
    metadata,
    sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id"), primary_key=True),
    _number("attempt", primary_key=True, autoincrement=False),
    _text("day", primary_key=True),
    _text("month", primary_key=True),
    _text("currency", primary_key=True),
    sa.Column("tenant", sa.Text, _to_tenant(), nullable=False),
    _text("team"),
    _text("service"),
    _text("cluster"),
    _text("profile"),
    _number("from_ns"),
    _number("to_ns"),
    _number("device_us"),
    _number("rent_micro"),
    _number("energy_micro"),
    _number("egress_micro"),
    _number("carbon_ug"),
    sa.Index("charges_by_month", "month", "tenant"),
    sa.Index("charges_by_day", "day", "tenant"),
    sa.Index("charges_by_time", "to_ns"),
)

closings = sa.Table(
    "closings",
    metadata,
    _text("month", primary_key=True),
    _text("zone"),
    _text("digest"),
    _json("totals"),
    _text("closed_by"),
    _number("closed_ns"),
)

prices = sa.Table(
    "prices",
    metadata,
    _text("site", primary_key=True),
    _amount("per_device_hour"),
    _number("at_ns"),
)

feeds = sa.Table(
    "feeds",
    metadata,
    _text("name", primary_key=True),
    _enum("kind", FeedKind),
    _text("unit"),
    _json("spec"),
    _number("revision"),
    _number("created_ns"),
)

feed_points = sa.Table(
    "feed_points",
    metadata,
    sa.Column("feed", sa.Text, sa.ForeignKey("feeds.name", ondelete="CASCADE"), primary_key=True),
    _number("at_ns", primary_key=True, autoincrement=False),
    _amount("value"),
)

virtual_clusters = sa.Table(
    "virtual_clusters",
    metadata,
    _text("name", primary_key=True),
    sa.Column("tenant", sa.Text, _to_tenant(), nullable=False),
    _enum("tier", VirtualTier),
    _json("spec"),
    sa.Column("deleting", sa.Boolean, nullable=False),
    sa.Column("forced", sa.Boolean, nullable=False),
    _json("standing"),
    _maybe_number("said_ns"),
    _number("revision"),
    _number("created_ns"),
)

virtual_spaces = sa.Table(
    "virtual_spaces",
    metadata,
    sa.Column(
        "name",
        sa.Text,
        sa.ForeignKey("virtual_clusters.name", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column(
        "cluster", sa.Text, sa.ForeignKey("clusters.name", ondelete="CASCADE"), primary_key=True
    ),
    _number("number"),
    _text("namespace"),
    _enum("phase", SpacePhase),
    _text("reason"),
    _number("pods"),
    sa.Index("virtual_spaces_by_cluster", "cluster"),
)
