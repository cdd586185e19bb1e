import gzip
import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from dure.domain.fleet.accounts import FeedKind, Role, TenantKind
from dure.domain.fleet.lifecycle import AttemptState
from dure.domain.fleet.migrations import MoveKind, MoveStep
from dure.domain.fleet.virtual import VirtualTier
from dure.stores.dump import RESTORE_LEAP
from dure.stores.errors import DumpError, SchemaTooNewError
from dure.stores.ids import new_id
from dure.stores.repos.access import Grant
from dure.stores.rows import (
    AuditEntry,
    Budget,
    Closing,
    Feed,
    FeedPoint,
    Meter,
    Migration,
    NewEvent,
    Origin,
    Partition,
    Policy,
    Pool,
    Tenant,
    VirtualCluster,
    VirtualSpace,
)
from dure.stores.store import Store
from dure.stores.tables import metadata
from tests.stores.fixtures import BACKENDS, fresh_address
from tests.stores.helpers import asynchronous, attempt, charge, job, opened, submission


async def _fill(store: Store) -> None:
    made = job(spec={"image": "학습", "n": [1.5, None]}, labels={"a": "b"})
    await store.submit(submission(made, key="k", body_hash="h"))
    assert await store.acquire("a", 60.0) is not None
    async with store.transaction() as tx:
        await tx.tenants.add(Tenant("acme/vision", TenantKind.TEAM, "acme"))
        await tx.attempts.add(attempt(made.id))
        await tx.attempts.advance(made.id, 1, AttemptState.COMMITTED)
        await tx.attempts.advance(made.id, 1, AttemptState.RUNNING)
        await tx.pools.add(Pool("gold", "acme"))
        await tx.policies.add(Policy("carbon", {"g_per_day": 1e6}))
        await tx.tokens.issue(Grant(Role.TENANT, tenant="acme"))
        await tx.budgets.add(Budget("acme", "month", "KRW", 1e9, 0, 10, 0.1))
        await tx.news.said("seoul", inventory={"nodes": []}, sites={"sites": []})
        await tx.news.lease("seoul", {"allotments": []})
        await tx.partitions.ask(Partition("seoul", "n0", "all-1g.10gb", 3, asked_ns=1))
        moves = MoveKind.WARM, MoveStep.WARMING
        await tx.migrations.add(Migration(new_id(), made.id, *moves, 1, 1, "seoul"))
        await tx.origins.add_all([Origin("seoul", "u-1", "team", "train", made.id, 1)])
        await tx.meters.put_all([Meter(made.id, 1, "seoul", 5, 4, 8, 9)])
        await tx.charges.add_all([charge(made.id)])
        await tx.closings.close(Closing("2026-09", "UTC", "d", {"totals": []}, "me", 7))
        await tx.virtual.add(VirtualCluster("own", "acme", VirtualTier.SCOPED))
        await tx.spaces.set_all([VirtualSpace("own", "seoul", 1, "dure-acme")])
        await tx.prices.put_all([("seoul/gpus", 0.25)])
        await tx.feeds.add(Feed("kr", FeedKind.TARIFF, "KRW/kWh"))
        await tx.feeds.write(FeedPoint("kr", at, at / 3) for at in range(1200))
        await tx.audit.add(AuditEntry(new_id(), 1, "me", "submit", made.id, "done", "acme"))
        await tx.events.mark_published(1)


async def _everything(store: Store) -> dict[str, list[object]]:
    async with store.reading() as tx:
        return {
            table.name: [
                tuple(row)
                for row in await tx.link.execute(
                    sa.select(table).order_by(*table.primary_key), table.name
                )
            ]
            for table in metadata.sorted_tables
            if table.name != "leases"
        }


@pytest.mark.parametrize("target", BACKENDS)
@asynchronous
async def test_a_backup_restores_everything_into_either_database(
    address: str, target: str, tmp_path: Path
) -> None:
    file = tmp_path / "backup.gz"
    (tmp_path / "new").mkdir()
    restored = fresh_address(target, tmp_path / "new")
    async with opened(address) as store:
        await _fill(store)
        before = await _everything(store)
        written = await store.export(file)
    assert all(before.values()), [name for name, rows in before.items() if not rows]
    assert file.stat().st_mode & 0o077 == 0
    async with Store.open(restored) as store:
        read = await store.import_(file)
        assert read == written
        assert await _everything(store) == before
        # Members may have seen newer epochs than the backup has.
        lease = await store.acquire("b", 60.0)
        assert lease is not None
        assert lease.epoch == RESTORE_LEAP + 2
        async with store.transaction() as tx:
            tx.events.add(NewEvent("restored", "centre"))
        async with store.reading() as tx:
            assert [event.seq for event in await tx.events.since(1)] == [2]


@asynchronous
async def test_a_backup_of_the_version_before_is_restored_and_migrated(
    address: str, tmp_path: Path
) -> None:
    file = tmp_path / "backup.gz"
    old = f"sqlite:///{tmp_path / 'old.db'}"
    async with Store.open(old) as store:
        await store.migrate("0001")
        async with store.transaction() as tx:
            await tx.tenants.add(Tenant("acme", TenantKind.TENANT))
        await store.export(file)
    async with Store.open(address) as store:
        assert (await store.import_(file)).schema == await store.migrate()
        async with store.transaction() as tx:
            await tx.budgets.add(Budget("acme", "month", "KRW", 1.0, 0, 1))


@asynchronous
async def test_only_whole_backups_go_into_empty_databases(address: str, tmp_path: Path) -> None:
    file = tmp_path / "backup.gz"
    async with opened(address) as store:
        await _fill(store)
        await store.export(file)
        with pytest.raises(DumpError, match="is not empty"):
            await store.import_(file)
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    changed = [line.replace("trainer", "trojan").replace('"KRW"', '"USD"') for line in lines]
    newer = json.dumps(json.loads(lines[0]) | {"schema": "9999"})
    wrong: list[tuple[bytes, type[Exception], str]] = [
        (_packed(lines[:-1]), DumpError, "ends too early"),
        (_packed(changed), DumpError, "changed or damaged"),
        (_packed(["{}"]), DumpError, "no backup of Dure"),
        (file.read_bytes()[:-200], DumpError, "no whole backup"),
        (b"hello", DumpError, "no whole backup"),
        (_packed([newer, *lines[1:]]), SchemaTooNewError, "9999"),
    ]
    for number, (content, kind, says) in enumerate(wrong):
        bad = tmp_path / f"{number}.gz"
        bad.write_bytes(content)
        empty = tmp_path / f"{number}.db"
        async with Store.open(f"sqlite:///{empty}") as store:
            with pytest.raises(kind, match=says):
                await store.import_(bad)
            # Nothing half-restored: the whole one still goes in.
            await store.import_(file)


def _packed(lines: list[str]) -> bytes:
    return gzip.compress("".join(line + "\n" for line in lines).encode())


@asynchronous
async def test_an_empty_database_has_nothing_to_back_up(tmp_path: Path) -> None:
    async with Store.open(f"sqlite:///{tmp_path / 'new.db'}") as store:
        with pytest.raises(DumpError, match="nothing to back up"):
            await store.export(tmp_path / "backup.gz")
    assert not (tmp_path / "backup.gz").exists()
