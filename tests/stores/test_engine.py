import socket
import sqlite3
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from dure.domain.errors import InputError
from dure.stores.engine import StoreSettings
from dure.stores.errors import InvalidError, StoreError, StoreUnavailableError
from dure.stores.rows import Policy
from dure.stores.store import Store
from dure.stores.transaction import Transaction
from tests.stores.helpers import asynchronous, opened
from tests.stores.services import Postgres


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("mysql://localhost/x", "mysql is no database"),
        ("not an address", "no address of a database"),
        ("sqlite://", "needs a file"),
        ("sqlite:////no/such/folder/state.db", "does not exist"),
    ],
)
def test_addresses_that_cannot_be_used_are_refused_at_once(address: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Store.open(address)


@asynchronous
async def test_sqlite_is_set_so_that_commits_last_and_names_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    async with opened(f"sqlite:///{file}") as store, store.transaction() as tx:
        for pragma, value in (("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1)):
            found = await tx.link.execute(sa.text(f"PRAGMA {pragma}"), pragma)
            assert found.scalar_one() == value
    assert file.stat().st_mode & 0o077 == 0


@asynchronous
async def test_a_locked_file_is_unavailable_and_then_not(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    async with opened(f"sqlite:///{file}", StoreSettings(file_s=0.1)) as store:
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked"):
            await store.acquire("a", 1.0)
        async with store.reading() as tx:
            assert (await tx.tenants.get("acme")).path == "acme"
        other.close()
        assert await store.acquire("a", 1.0) is not None


@asynchronous
async def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    file.write_text("hello " * 1000)
    async with Store.open(f"sqlite:///{file}") as store:
        with pytest.raises(StoreError, match="not a database"):
            await store.migrate()


@asynchronous
async def test_retries_end_when_the_time_is_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"postgresql://dure@127.0.0.1:{taken.getsockname()[1]}/dure"
        async with Store.open(address) as store:
            calls = 0

            async def work(tx: Transaction) -> None:
                nonlocal calls
                calls += 1

            with pytest.raises(StoreUnavailableError, match="does not answer"):
                await store.ping()
            began = time.monotonic()
            with pytest.raises(StoreUnavailableError):
                await store.retrying(work, within_s=0.5)
            assert time.monotonic() - began < 30.0
            assert calls == 0


@asynchronous
async def test_work_that_fails_by_itself_is_not_done_again(address: str) -> None:
    async with opened(address) as store:
        calls = 0

        async def work(tx: Transaction) -> None:
            nonlocal calls
            calls += 1
            await tx.pools.get("nowhere")

        with pytest.raises(StoreError, match="no pool nowhere"):
            await store.retrying(work)
        assert calls == 1
        assert await store.retrying(lambda tx: tx.tenants.get("acme"), read_only=True) is not None


@pytest.mark.services
@asynchronous
async def test_what_postgresql_cannot_write_down_is_invalid(postgres: Postgres) -> None:
    async with opened(postgres.fresh()) as store:
        for policy in (Policy("nul\0"), Policy("nul", {"a": "\0"})):
            with pytest.raises(InvalidError, match="cannot be stored"):
                async with store.transaction() as tx:
                    await tx.policies.add(policy)
