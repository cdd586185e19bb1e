from dataclasses import replace

import pytest

from dure.domain.fleet.accounts import FeedKind, TenantKind
from dure.domain.fleet.lifecycle import ClusterState
from dure.stores.errors import ConflictError, DuplicateError, InvalidError, NotFoundError
from dure.stores.rows import Budget, Cluster, Feed, FeedPoint, Pool, Tenant
from tests.stores.helpers import asynchronous, job, opened


@asynchronous
async def test_tenants_form_a_tree_of_three_levels(address: str) -> None:
    async with opened(address) as store, store.transaction() as tx:
        team = await tx.tenants.add(Tenant("acme/vision", TenantKind.TEAM, "acme"))
        await tx.tenants.add(Tenant("acme/vision/ocr", TenantKind.SERVICE, team.path))
        assert [row.path for row in await tx.tenants.all(parent="acme")] == ["acme/vision"]
        for wrong in (
            Tenant("acme/vision/ocr/more", TenantKind.SERVICE, "acme/vision/ocr"),
            Tenant("acme/sound", TenantKind.SERVICE, "acme"),
            Tenant("acme/sound", TenantKind.TEAM, "acme/vision"),
            Tenant("", TenantKind.TENANT),
        ):
            with pytest.raises(InvalidError):
                await tx.tenants.add(wrong)
        with pytest.raises(NotFoundError, match="no tenant other"):
            await tx.tenants.add(Tenant("other/team", TenantKind.TEAM, "other"))


@asynchronous
async def test_what_is_used_cannot_be_removed(address: str) -> None:
    async with opened(address) as store:
        async with store.transaction() as tx:
            await tx.jobs.add(job())
        with pytest.raises(ConflictError, match="tenant acme is still used"):
            async with store.transaction() as tx:
                await tx.tenants.remove("acme")
        async with store.transaction() as tx:
            await tx.clusters.remove("busan")
            with pytest.raises(NotFoundError):
                await tx.clusters.remove("busan")


@asynchronous
async def test_a_name_is_given_once(address: str) -> None:
    async with opened(address) as store:
        with pytest.raises(DuplicateError, match="cluster seoul is there already"):
            async with store.transaction() as tx:
                await tx.clusters.add(Cluster("seoul", "process"))
        async with store.reading() as tx:
            assert (await tx.clusters.get("seoul")).kind == "kubernetes"


@asynchronous
async def test_a_change_needs_the_latest_revision(address: str) -> None:
    async with opened(address) as store:
        async with store.transaction() as tx:
            pool = await tx.pools.add(Pool("gold", "acme", {"maximum": 4}))
        async with store.transaction() as tx:
            newer = await tx.pools.put(replace(pool, spec={"maximum": 8}))
            assert newer.revision == 2
        async with store.transaction() as tx:
            with pytest.raises(ConflictError, match="at revision 2, not 1"):
                await tx.pools.put(replace(pool, spec={"maximum": 16}))
            assert (await tx.pools.get("gold")).spec == {"maximum": 8}
            with pytest.raises(NotFoundError):
                await tx.pools.put(replace(pool, name="silver"))


@asynchronous
async def test_what_the_member_reports_and_what_people_decide_do_not_overwrite_each_other(
    address: str,
) -> None:
    async with opened(address) as store:
        async with store.reading() as tx:
            seen = await tx.clusters.get("seoul")
        async with store.transaction() as tx:
            await tx.clusters.touch("seoul", "incarnation-1")
            assert await tx.clusters.next_revision("seoul") == 1
            assert await tx.clusters.next_revision("seoul") == 2
        async with store.transaction() as tx:
            await tx.clusters.put(replace(seen, state=ClusterState.CORDONED))
        async with store.reading() as tx:
            stored = await tx.clusters.get("seoul")
        assert stored.state is ClusterState.CORDONED
        assert (stored.incarnation, stored.desired_revision) == ("incarnation-1", 2)
        assert stored.last_contact_ns is not None


@asynchronous
async def test_an_older_plan_is_never_noted_as_accepted(address: str) -> None:
    async with opened(address) as store, store.transaction() as tx:
        await tx.clusters.accept("seoul", 3, 7)
        await tx.clusters.accept("seoul", 3, 7)
        for epoch, revision in ((3, 6), (2, 99)):
            with pytest.raises(ConflictError, match=r"accepted plan 3\.7"):
                await tx.clusters.accept("seoul", epoch, revision)
        newer = await tx.clusters.accept("seoul", 4, 1)
        assert (newer.accepted_epoch, newer.accepted_revision) == (4, 1)
        with pytest.raises(NotFoundError):
            await tx.clusters.accept("jeju", 1, 1)


@asynchronous
async def test_charges_add_up_whatever_limits_are_changed_to(address: str) -> None:
    async with opened(address) as store:
        async with store.transaction() as tx:
            budget = await tx.budgets.add(Budget("acme", "month", "KRW", 100.0, 0, 10))
        async with store.transaction() as tx:
            await tx.budgets.charge("acme", "month", 30.0)
            assert (await tx.budgets.charge("acme", "month", 12.5)).spent_amount == 42.5
            await tx.budgets.put(replace(budget, limit_amount=200.0))
            stored = await tx.budgets.get("acme", "month")
            assert (stored.limit_amount, stored.spent_amount) == (200.0, 42.5)
            with pytest.raises(NotFoundError):
                await tx.budgets.charge("acme", "year", 1.0)


@asynchronous
async def test_a_feed_tells_what_holds_between_two_instants(address: str) -> None:
    async with opened(address) as store, store.transaction() as tx:
        await tx.feeds.add(Feed("kr", FeedKind.CARBON, "g/kWh"))
        await tx.feeds.write(FeedPoint("kr", at, float(at)) for at in (0, 10, 20, 30))
        await tx.feeds.write([FeedPoint("kr", 20, 99.0)])
        values = [(p.at_ns, p.value) for p in await tx.feeds.points("kr", 15, 30)]
        assert values == [(10, 10.0), (20, 99.0)]
        assert await tx.feeds.points("kr", -5, 0) == ()
        with pytest.raises(NotFoundError):
            await tx.feeds.write([FeedPoint("jp", 1, 1.0)])
