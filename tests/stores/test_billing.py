"""Charges, meters and closed months, on both databases."""

import asyncio
import gzip
import hashlib
import json
from enum import Enum
from pathlib import Path

import pytest
import sqlalchemy as sa

from dure.domain.fleet.accounts import TenantKind
from dure.stores import migrate
from dure.stores.errors import ConflictError, DuplicateError
from dure.stores.repos.billing import Period, month_name, month_number
from dure.stores.retention import Retention
from dure.stores.rows import Charge, Closing, Meter, Tenant
from dure.stores.store import Store
from dure.stores.transaction import Transaction
from tests.stores.helpers import asynchronous, charge, job, opened

NOVEMBER = Period(month="2026-11")


async def summed(tx: Transaction, period: Period, *by: str) -> list[tuple[object, ...]]:
    found = tx.charges.summed(period, by)
    return [
        (*each.of.values(), each.adjusts, each.device_us, each.money_micro, each.carbon_ug)
        async for each in found
    ]


def closing(month: str) -> Closing:
    return Closing(month, "UTC", "d", {"totals": []}, "me", 1)


@asynchronous
async def test_charges_of_a_day_grow_and_keep_their_first_and_last_use(address: str) -> None:
    one = job()
    async with opened(address) as store, store.transaction() as tx:
        await tx.jobs.add(one)
        first = charge(one.id, from_ns=50, to_ns=60, device_us=7, rent_micro=2, carbon_ug=3)
        await tx.charges.add_all([first])
        later = charge(one.id, from_ns=70, to_ns=90, device_us=1, energy_micro=5, egress_micro=1)
        await tx.charges.add_all([later, charge(one.id, day="2026-11-06", device_us=9)])
        row, other = await tx.charges.all()
        assert (row.from_ns, row.to_ns, row.device_us) == (50, 90, 8)
        assert (row.money_micro, row.carbon_ug, other.device_us) == (8, 3, 9)


@asynchronous
async def test_sums_are_by_tenant_and_what_is_late_stands_apart(address: str) -> None:
    one, two = job(), job(tenant="globex")
    async with opened(address) as store, store.transaction() as tx:
        await tx.tenants.add(Tenant("globex", TenantKind.TENANT))
        await tx.jobs.add(one)
        await tx.jobs.add(two)
        await tx.charges.add_all(
            [
                charge(one.id, team="vision", device_us=1, rent_micro=10, carbon_ug=5),
                charge(one.id, attempt=2, team="vision", cluster="busan", device_us=2),
                charge(one.id, day="2026-10-31", month="2026-11", team="vision", device_us=4),
                charge(one.id, day="2026-10-30", team="vision", device_us=8),
                charge(two.id, tenant="globex", device_us=16),
            ]
        )
        assert await summed(tx, NOVEMBER, "team") == [
            ("acme", "USD", "vision", "", 3, 10, 5),
            ("acme", "USD", "vision", "2026-10", 4, 0, 0),
            ("globex", "USD", "", "", 16, 0, 0),
        ]
        days = Period(first_day="2026-10-31", last_day="2026-11-05")
        by_day = await summed(tx, days, "day", "cluster")
        assert [row[2:5] for row in by_day] == [
            ("2026-10-31", "seoul", "2026-10"),
            ("2026-11-05", "busan", ""),
            ("2026-11-05", "seoul", ""),
            ("2026-11-05", "seoul", ""),
        ]
        assert await tx.charges.months() == ("2026-10", "2026-11")


@asynchronous
async def test_totals_since_an_instant_take_a_day_s_use_as_even(address: str) -> None:
    one = job()
    async with opened(address) as store, store.transaction() as tx:
        await tx.jobs.add(one)
        await tx.charges.add_all(
            [
                charge(one.id, team="a", from_ns=0, to_ns=100, rent_micro=10**6, carbon_ug=10**6),
                charge(one.id, attempt=2, team="b", from_ns=80, to_ns=80, egress_micro=500_000),
            ]
        )
        assert await tx.charges.totals(-1) == (("acme", "a", 1.0, 1.0), ("acme", "b", 0.5, 0.0))
        assert await tx.charges.totals(75) == (("acme", "a", 0.25, 0.25), ("acme", "b", 0.5, 0.0))
        assert await tx.charges.totals(100) == ()


@asynchronous
async def test_meters_tell_what_is_owed_by_cluster(address: str) -> None:
    one = job()
    async with opened(address) as store, store.transaction() as tx:
        await tx.jobs.add(one)
        paid, owed = Meter(one.id, 1, "seoul", 5, 5, 0, 1), Meter(one.id, 2, "seoul", 9, 5, 0, 1)
        await tx.meters.put_all([paid, owed])
        assert await tx.meters.owed("seoul", 10) == (owed,)
        assert await tx.meters.owed("busan", 10) == ()
        assert await tx.meters.owed_us() == 4
        assert await tx.meters.many({(one.id, 1), (one.id, 3)}) == {(one.id, 1): paid}


@asynchronous
async def test_a_month_is_closed_once_and_stays_so(address: str) -> None:
    async with opened(address) as store:
        async with store.transaction() as tx:
            assert await tx.charges.closed_through() == ""
            await tx.closings.close(closing("2026-10"))
        async with store.transaction() as tx:
            assert await tx.charges.closed_through() == "2026-10"
        with pytest.raises(DuplicateError):
            async with store.transaction() as tx:
                await tx.closings.close(closing("2026-10"))
    assert month_name(month_number("2026-12") + 1) == "2027-01"


@asynchronous
async def test_whoever_charges_while_a_month_is_closed_comes_before_it_or_sees_it(
    address: str,
) -> None:
    async with opened(address) as store:
        charging, closed = asyncio.Event(), asyncio.Event()

        async def spend() -> str:
            async with store.transaction() as tx:
                seen = await tx.charges.closed_through()
                charging.set()
                await asyncio.sleep(0.3)
                assert not closed.is_set(), "the month was closed under a charge"
                return seen

        async def close() -> None:
            await charging.wait()
            async with store.transaction() as tx:
                await tx.closings.close(closing("2026-10"))
            closed.set()

        seen, _ = await asyncio.gather(spend(), close())
        assert seen == ""
        charging.clear()
        closed.clear()
        assert await spend() == "2026-10"


@asynchronous
async def test_pruning_leaves_all_that_bills_need_and_a_job_with_charges_stays(
    address: str,
) -> None:
    one = job()
    async with opened(address) as store:
        async with store.transaction() as tx:
            await tx.jobs.add(one)
            await tx.meters.put_all([Meter(one.id, 1, "seoul", 5, 5, 0, 1)])
            await tx.charges.add_all([charge(one.id, device_us=5)])
            await tx.closings.close(closing("2026-10"))
        await store.prune(Retention(events_s=0.0, audit_s=0.0, keys_s=0.0))
        async with store.reading() as tx:
            assert len(await tx.charges.all()) == len(await tx.meters.all()) == 1
            assert len(await tx.closings.all()) == 1
        with pytest.raises(ConflictError, match="still used"):
            async with store.transaction() as tx:
                await tx.jobs.remove(one.id)


JOB = sa.text(
    "INSERT INTO jobs (id, tenant, name, spec, team, service, labels, phase, priority, attempt, "
    "reason, revision, submitted_ns, updated_ns) VALUES "
    "(:job, 'acme', 'train', '{}', '', '', '{}', 'queued', 0, 0, '', 1, 1, 1)"
)
SPENT = sa.text(
    "INSERT INTO spends (job_id, attempt, to_ns, from_ns, tenant, team, service, cluster, profile, "
    "device_s, money, carbon_g) VALUES "
    "(:job, 1, :at, :at - 10, 'acme', 'vision', '', 'seoul', 'a100-40gb', 2.5, 0.125, 7.5)"
)
DAY_NS = 86_400 * 10**9


@asynchronous
async def test_what_was_spent_before_is_billed_in_whole_numbers(address: str) -> None:
    async with Store.open(address) as store:
        await store.migrate("0005")
        async with store.transaction() as tx:
            await tx.tenants.add(Tenant("acme", TenantKind.TENANT))
            await tx.link.execute(JOB, "job of before", [{"job": "j1"}])
            for at_ns in (DAY_NS + 20, DAY_NS + 30, 2 * DAY_NS + 20):
                await tx.link.execute(SPENT, "spend", [{"job": "j1", "at": at_ns}])
        assert await store.migrate() == migrate.latest_schema()
        async with store.reading() as tx:
            first, second = await tx.charges.all()
            (meter,) = await tx.meters.all()
    assert first == Charge(
        "j1", 1, "1970-01-02", "1970-01", "USD", "acme", "vision", "", "seoul", "a100-40gb",
        DAY_NS + 10, DAY_NS + 30, 5_000_000, 250_000, 0, 0, 15_000_000,
    )  # fmt: skip
    assert (second.day, second.device_us) == ("1970-01-03", 2_500_000)
    # A member that is upgraded tells all that the attempt has used: only what is new is charged.
    assert (meter.device_us, meter.charged_us) == (7_500_000, 7_500_000)


@asynchronous
async def test_a_backup_of_the_schema_before_is_restored_with_what_was_spent(
    address: str, tmp_path: Path
) -> None:
    file = tmp_path / "backup.gz"
    async with Store.open(f"sqlite:///{tmp_path / 'old.db'}") as store:
        await store.migrate("0005")
        async with store.transaction() as tx:
            await tx.tenants.add(Tenant("acme", TenantKind.TENANT))
            await tx.link.execute(JOB, "job of before", [{"job": "j1"}])
            await tx.link.execute(SPENT, "spend", [{"job": "j1", "at": DAY_NS}])
            await tx.link.connection.run_sync(_write_backup, file)
    async with Store.open(address) as store:
        assert (await store.import_(file)).schema == migrate.latest_schema()
        async with store.reading() as tx:
            (restored,) = await tx.charges.all()
            assert await tx.charges.closed_through(keep=False) == ""
    assert (restored.job_id, restored.device_us) == ("j1", 2_500_000)


def _write_backup(connection: sa.Connection, file: Path) -> None:
    """As the version before wrote it: it knew spends."""
    lines = []
    for name in ("tenants", "jobs", "marks", "spends"):
        table = sa.Table(name, sa.MetaData(), autoload_with=connection)
        for row in connection.execute(sa.select(table)).mappings():
            plain = {column: _plain(value) for column, value in row.items()}
            lines.append(json.dumps({"table": name, "row": plain}))
    head = {"format": "dure-store", "version": 1, "schema": "0005"}
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    tail = {"rows": len(lines), "sha256": digest}
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.write("\n".join([json.dumps(head), *lines, json.dumps(tail)]) + "\n")


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value
