"""The first schema: what is declared, jobs, attempts, access, events, leases."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_LIVE = sa.text("exclusive AND state IN ('committed', 'running', 'releasing')")

_STEPS = (
    "reserved>committed",
    "reserved>gone",
    "committed>running",
    "committed>releasing",
    "committed>gone",
    "running>releasing",
    "running>gone",
    "releasing>gone",
)
_ILLEGAL = (
    "OLD.state <> NEW.state AND OLD.state || '>' || NEW.state NOT IN ("
    + ", ".join(f"'{step}'" for step in _STEPS)
    + ")"
)
_SAYS = "an attempt cannot take this step"
_TRIGGERS = {
    "sqlite": [
        "CREATE TRIGGER attempts_step BEFORE UPDATE OF state ON attempts "
        f"WHEN {_ILLEGAL} BEGIN SELECT RAISE(ABORT, '{_SAYS}'); END"
    ],
    "postgresql": [
        "CREATE FUNCTION dure_illegal_step() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_SAYS}' USING ERRCODE = 'DU001'; END $$",
        "CREATE TRIGGER attempts_step BEFORE UPDATE OF state ON attempts FOR EACH ROW "
        f"WHEN ({_ILLEGAL}) EXECUTE FUNCTION dure_illegal_step()",
    ],
}


def upgrade() -> None:
    _declared()
    _work()
    _access()
    _history()
    for statement in _TRIGGERS[op.get_bind().dialect.name]:
        op.execute(statement)


def _declared() -> None:
    op.create_table(
        "tenants",
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=True),
        sa.Column("spec", _JSON, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["parent"], ["tenants.path"]),
        sa.PrimaryKeyConstraint("path"),
    )
    op.create_index("tenants_by_parent", "tenants", ["parent"])
    op.create_table(
        "pools",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("spec", _JSON, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.path"]),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "policies",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("spec", _JSON, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "clusters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("spec", _JSON, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Text(), nullable=False),
        sa.Column("last_contact_ns", sa.BigInteger(), nullable=True),
        sa.Column("desired_revision", sa.BigInteger(), nullable=False),
        sa.Column("accepted_epoch", sa.BigInteger(), nullable=False),
        sa.Column("accepted_revision", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _work() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("spec", _JSON, nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("array_id", sa.Text(), nullable=True),
        sa.Column("array_index", sa.BigInteger(), nullable=True),
        sa.Column("labels", _JSON, nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("submitted_ns", sa.BigInteger(), nullable=False),
        sa.Column("updated_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"]),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.path"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("jobs_by_array", "jobs", ["array_id", "array_index"], unique=True)
    op.create_index("jobs_by_cluster", "jobs", ["cluster", "id"])
    op.create_index("jobs_by_cluster_phase", "jobs", ["cluster", "phase", "id"])
    op.create_index("jobs_by_name", "jobs", ["tenant", "name", "id"])
    op.create_index("jobs_by_phase", "jobs", ["phase", "id"])
    op.create_index("jobs_by_tenant", "jobs", ["tenant", "id"])
    op.create_index("jobs_by_tenant_phase", "jobs", ["tenant", "phase", "id"])
    op.create_table(
        "job_labels",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "label"),
    )
    op.create_index("job_labels_by_value", "job_labels", ["label", "value", "job_id"])
    op.create_table(
        "attempts",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("desired_revision", sa.BigInteger(), nullable=False),
        sa.Column("exclusive", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("spec", _JSON, nullable=False),
        sa.Column("reserved_ns", sa.BigInteger(), nullable=False),
        sa.Column("committed_ns", sa.BigInteger(), nullable=True),
        sa.Column("running_ns", sa.BigInteger(), nullable=True),
        sa.Column("releasing_ns", sa.BigInteger(), nullable=True),
        sa.Column("gone_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"]),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "attempt"),
    )
    op.create_index("attempts_by_cluster_state", "attempts", ["cluster", "state", "job_id"])
    op.create_index(
        "attempts_one_live",
        "attempts",
        ["job_id"],
        unique=True,
        sqlite_where=_LIVE,
        postgresql_where=_LIVE,
    )


def _access() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("cluster", sa.Text(), nullable=True),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("expires_ns", sa.BigInteger(), nullable=True),
        sa.Column("revoked_ns", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "(role <> 'tenant' OR tenant IS NOT NULL) AND "
            "(role <> 'member' OR cluster IS NOT NULL)",
            name="tokens_are_bound",
        ),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.path"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("tokens_by_hash", "tokens", ["secret_hash"], unique=True)
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.Text(), nullable=False),
        sa.Column("answer", _JSON, nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.path"]),
        sa.PrimaryKeyConstraint("tenant", "key"),
    )
    op.create_index("idempotency_keys_by_time", "idempotency_keys", ["created_ns"])
    op.create_table(
        "audit",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("data", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("audit_by_actor", "audit", ["actor", "id"])
    op.create_index("audit_by_subject", "audit", ["subject", "id"])
    op.create_index("audit_by_tenant", "audit", ["tenant", "id"])
    op.create_index("audit_by_time", "audit", ["at_ns"])


def _history() -> None:
    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("data", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("events_by_subject", "events", ["subject", "seq"])
    op.create_index("events_by_tenant", "events", ["tenant", "seq"])
    op.create_index("events_by_time", "events", ["at_ns"])
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "marks",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    marks = sa.table("marks", sa.column("name"), sa.column("value"))
    op.bulk_insert(marks, [{"name": n, "value": 0} for n in ("events", "published", "pruned")])
