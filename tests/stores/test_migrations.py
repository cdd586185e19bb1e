import asyncio
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from dure.domain.fleet.accounts import TenantKind
from dure.stores import migrate, tables
from dure.stores.engine import StoreSettings, open_engine
from dure.stores.errors import SchemaTooNewError
from dure.stores.rows import Budget, Tenant
from dure.stores.store import Store
from tests.stores.helpers import asynchronous, job


@asynchronous
async def test_migrations_make_exactly_the_tables_the_code_uses(address: str) -> None:
    async with Store.open(address) as store:
        assert await store.migrate() == migrate.latest_schema()
    engine = open_engine(address, StoreSettings())

    def differences(connection: sa.Connection) -> list[Any]:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        return list(compare_metadata(context, tables.metadata))

    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
    await engine.dispose()


@asynchronous
async def test_a_database_of_the_version_before_is_taken_forward_with_what_it_holds(
    address: str,
) -> None:
    async with Store.open(address) as store:
        assert await store.migrate("0001") == "0001"
        before = sa.text(
            "INSERT INTO jobs (id, tenant, name, spec, team, service, labels, phase, priority, "
            "attempt, reason, revision, submitted_ns, updated_ns) VALUES "
            """('j1', 'acme', 'train', '{"a"\\: 1}', '', '', '{}', 'queued', 0, 0, '', 1, 1, 1)"""
        )
        async with store.transaction() as tx:
            await tx.tenants.add(Tenant("acme", TenantKind.TENANT))
            await tx.link.execute(before, "job of before")
        assert await store.migrate() == migrate.latest_schema() != "0001"
        async with store.transaction() as tx:
            kept = await tx.jobs.get("j1")
            assert (kept.spec, kept.failures) == ({"a": 1}, 0)
            await tx.budgets.add(Budget("acme", "month", "KRW", 1.0, 0, 1))
        assert await store.migrate() == migrate.latest_schema()


@asynchronous
async def test_what_the_schema_before_the_links_holds_gets_their_defaults(address: str) -> None:
    async with Store.open(address) as store:
        assert await store.migrate("0002") == "0002"
        sent = job()
        before = sa.text(
            "INSERT INTO clusters (name, kind, spec, state, incarnation, desired_revision, "
            "accepted_epoch, accepted_revision, revision, created_ns) VALUES "
            "('seoul', 'process', '{}', 'joined', '', 7, 1, 7, 1, 1)"
        )
        async with store.transaction() as tx:
            await tx.link.execute(before, "cluster of before")
        assert await store.migrate() == migrate.latest_schema()
        async with store.transaction() as tx:
            await tx.tenants.add(Tenant("acme", TenantKind.TENANT))
            await tx.jobs.add(sent)
            seoul = await tx.clusters.get("seoul")
            assert (seoul.desired_revision, seoul.link_epoch, seoul.linked_url) == (7, 0, "")
            assert (await tx.jobs.get(sent.id)).failures == 0
            linked = await tx.clusters.linked("seoul", "one", "http://here")
            assert (linked.link_epoch, linked.report_seq) == (1, 0)


@asynchronous
async def test_a_newer_schema_is_refused_and_left_as_it_is(address: str) -> None:
    async with Store.open(address) as store:
        await store.migrate()
        newer = sa.text("UPDATE alembic_version SET version_num = '9999'")
        async with store.transaction() as tx:
            await tx.link.execute(newer, "version")
        with pytest.raises(SchemaTooNewError, match="schema 9999 was made by a newer version"):
            await store.migrate()
        async with store.reading() as tx:
            assert await tx.tenants.all() == ()


@asynchronous
async def test_servers_that_start_together_migrate_once(address: str) -> None:
    stores = [Store.open(address) for _ in range(4)]
    schemas = await asyncio.gather(*(store.migrate() for store in stores))
    assert set(schemas) == {migrate.latest_schema()}
    for store in stores:
        await store.close()
