"""Bills from charges: every view of a month adds up to the same cents and grams."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.api.bills import BillColumn
from dure.domain.fleet.accounts import TenantKind
from dure.domain.fleet.amounts import rounded
from dure.server.auth import path_of
from dure.server.billing import Line, Wish, bill_lines, close_month
from dure.server.calendar import Calendar
from dure.stores.errors import ConflictError
from dure.stores.repos.billing import Period
from dure.stores.rows import Charge, Job, Tenant
from dure.stores.store import Store
from dure.stores.transaction import Transaction
from tests.stores.helpers import asynchronous, charge, job, opened

MONTH = Period(month="2026-11")
OCTOBER = "2026-10"
CENT = 10_000

_part = st.integers(0, 10**8)
_charges = st.lists(
    st.tuples(
        st.sampled_from(["acme", "globex"]),
        st.sampled_from(["", "speech", "vision"]),
        st.sampled_from(["", "ocr"]),
        st.sampled_from(["busan", "seoul"]),
        st.sampled_from(["2026-10-31", "2026-11-01", "2026-11-02"]),
        st.tuples(_part, _part, _part, st.integers(0, 10**9), st.integers(0, 10**12)),
    ),
    min_size=1,
    max_size=25,
)


def made(number: int, drawn: tuple[str, str, str, str, str, tuple[int, ...]]) -> Charge:
    tenant, team, service, cluster, day, (rent, energy, egress, carbon, device_us) = drawn
    return charge(
        f"{tenant}-job", day, attempt=number + 1, month="2026-11", tenant=tenant, team=team,
        service=service, cluster=cluster, device_us=device_us, rent_micro=rent,
        energy_micro=energy, egress_micro=egress, carbon_ug=carbon,
    )  # fmt: skip


async def lines(tx: Transaction, *by: BillColumn, tenant: str | None = None) -> list[Line]:
    return [line async for line in bill_lines(tx, Wish(MONTH, by, tenant))]


def by_node(found: Iterable[Line], depth: int) -> dict[str, tuple[int, int, int]]:
    """Cents, grams and thousandths of hours of every node of the tree."""
    sums: dict[str, tuple[int, int, int]] = defaultdict(lambda: (0, 0, 0))
    tree = (BillColumn.TENANT, BillColumn.TEAM, BillColumn.SERVICE)[:depth]
    for line in found:
        node = path_of(*(line.names[column] for column in tree)) if tree else ""
        cents, grams, hours = sums[node]
        said = line.sum
        sums[node] = (cents + said.amount, grams + said.carbon_g, hours + said.milli_hours)
    return dict(sums)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bills")


async def check_views(store: Store, charges: Sequence[Charge]) -> None:
    async with store.transaction() as tx:
        await tx.link.execute(tx.charges.table.delete(), "charges")
        await tx.charges.add_all(charges)
    async with store.reading() as tx:
        finest = await lines(tx, BillColumn.ATTEMPT, BillColumn.CLUSTER, BillColumn.DAY)
        coarse = await lines(tx, BillColumn.SERVICE)
        teams = await lines(tx, BillColumn.TEAM, BillColumn.CLUSTER)
        clusters = await lines(tx, BillColumn.CLUSTER)
        own = await lines(tx, BillColumn.TEAM, tenant="acme")
    exact: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in charges:
        exact[each.tenant][0] += each.money_micro
        exact[each.tenant][1] += each.carbon_ug
    expected = {
        tenant: (rounded(money, CENT), rounded(grams, 10**6))
        for tenant, (money, grams) in exact.items()
    }
    # A tenant's total is that of its charges, and every node has the same sum in every view.
    assert {node: sums[:2] for node, sums in by_node(finest, 1).items()} == expected
    assert by_node(finest, 3) == by_node(coarse, 3)
    assert by_node(finest, 2) == by_node(coarse, 2) == by_node(teams, 2)
    assert by_node(clusters, 0) == by_node(finest, 0)
    mine = by_node(finest, 2)
    assert by_node(own, 2) == {node: mine[node] for node in mine if node.startswith("acme")}
    for line in (*finest, *coarse, *teams, *clusters):
        assert abs(line.sum.amount * CENT - line.sum.amount_micro) < CENT * len(charges)
        day = line.names.get(BillColumn.DAY, line.adjusts)
        assert line.adjusts == (OCTOBER if day.startswith(OCTOBER) else "")
    assert sum(line.sum.amount_micro for line in clusters) == sum(
        each.money_micro for each in charges
    )


@settings(max_examples=60, deadline=None)
@given(_charges)
def test_every_view_of_a_month_has_the_same_cents_and_grams(
    folder: Path, drawn: list[tuple[str, str, str, str, str, tuple[int, ...]]]
) -> None:
    async def scenario() -> None:
        async with opened(f"sqlite:///{folder / 'state.db'}") as store:
            async with store.transaction() as tx:
                if await tx.tenants.find("globex") is None:
                    await tx.tenants.add(Tenant("globex", TenantKind.TENANT))
                    for tenant in ("acme", "globex"):
                        await tx.jobs.add(_named(tenant))
            await check_views(store, [made(number, each) for number, each in enumerate(drawn)])

    asyncio.run(scenario())


def _named(tenant: str) -> Job:
    return replace(job(tenant=tenant), id=f"{tenant}-job")


@asynchronous
async def test_currencies_are_never_added_to_one_another(address: str) -> None:
    one = job()
    async with opened(address) as store, store.transaction() as tx:
        await tx.jobs.add(one)
        await tx.charges.add_all(
            [
                charge(one.id, currency="USD", rent_micro=1_005_000),
                charge(one.id, currency="KRW", rent_micro=1_500_000_000),
            ]
        )
        found = await lines(tx, BillColumn.TENANT)
    assert [line.sum.said()["amount"] for line in found] == ["1500", "1.00"]


@asynchronous
async def test_months_are_closed_in_order_when_they_are_over_and_only_as_they_were_seen(
    address: str,
) -> None:
    one, utc = job(), Calendar()
    async with opened(address) as store:
        async with store.transaction() as tx:
            await tx.jobs.add(one)
            await tx.charges.add_all(
                [charge(one.id, "2026-08-01", rent_micro=5), charge(one.id, "2026-09-01")]
            )
        for month, expect, why in (
            ("2099-01", None, "month 2099-01 is not over in UTC"),
            ("2026-09", None, "month 2026-08 is still open"),
            ("2026-08", "0" * 64, "something else is billed in 2026-08 by now"),
        ):
            with pytest.raises(ConflictError, match=why):
                async with store.transaction() as tx:
                    await close_month(tx, month, utc, "me", expect)
        async with store.transaction() as tx:
            closing, new = await close_month(tx, "2026-08", utc, "me")
        assert new
        async with store.transaction() as tx:
            again, new = await close_month(tx, "2026-08", utc, "somebody else", closing.digest)
        assert (again, new) == (closing, False)
        with pytest.raises(ConflictError, match="was closed with the digest"):
            async with store.transaction() as tx:
                await close_month(tx, "2026-08", utc, "me", "0" * 64)
        # Somebody changed the database by hand.
        async with store.transaction() as tx:
            await tx.charges.add_all([charge(one.id, "2026-08-01", rent_micro=1)])
        with pytest.raises(ConflictError, match="is not what it was when it was closed"):
            async with store.transaction() as tx:
                await close_month(tx, "2026-08", utc, "me")
        async with store.transaction() as tx:
            await close_month(tx, "2026-09", utc, "me")
        with pytest.raises(ConflictError, match="was closed with 2026-09"):
            async with store.transaction() as tx:
                await close_month(tx, "2026-07", utc, "me")
