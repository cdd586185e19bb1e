"""Clusters that fall silent, come back, are declared lost, cordoned or drained."""

from dataclasses import replace

from dure.domain.fleet.lifecycle import AttemptState, ClusterState, JobPhase
from dure.domain.fleet.protocol.desired import AttemptKey, Want
from dure.domain.fleet.protocol.reports import Outcome, RunPhase
from tests.server.centres import QUICK, World, world
from tests.server.members import FakeMember, linked
from tests.stores.helpers import asynchronous

IMPATIENT = replace(QUICK, lost_after_s=4.0, silence_s=3.0, ping_s=0.3, fence_margin_least_s=0.5)


async def _runs_in_seoul(centre: World, member: FakeMember, **spec: object) -> AttemptKey:
    await member.join()
    job = await centre.submit(**spec)
    key = (await member.wanted()).key
    await member.status(key, RunPhase.RUNNING)
    await centre.phase(job, JobPhase.RUNNING)
    return key


@asynchronous
async def test_a_job_that_may_wait_stays_where_it_is_and_is_seen_again(address: str) -> None:
    async with world(address, "seoul", "busan", settings=IMPATIENT) as centre:
        async with linked(centre.port, centre.secrets["seoul"], "seoul") as member:
            key = await _runs_in_seoul(centre, member)
        unknown = await centre.phase(key.job, JobPhase.UNKNOWN)
        assert unknown.reason == "cluster seoul cannot be reached"
        async with linked(centre.port, centre.secrets["busan"], "busan") as other:
            await other.join()
            # Whatever comes new goes where somebody answers.
            new = await centre.submit()
            assert (await other.wanted()).key.job == new
            async with linked(centre.port, centre.secrets["seoul"], "seoul") as member:
                await member.until(lambda me: key in me.desired)
                await centre.phase(key.job, JobPhase.RUNNING)
        assert len(await centre.attempts(key.job)) == 1


@asynchronous
async def test_a_job_that_may_be_replaced_runs_elsewhere_and_its_old_place_ends(
    address: str,
) -> None:
    async with world(address, "seoul", "busan", settings=IMPATIENT) as centre:
        async with linked(centre.port, centre.secrets["seoul"], "seoul") as member:
            key = await _runs_in_seoul(centre, member, onClusterLost={"then": "replace"})
        async with linked(centre.port, centre.secrets["busan"], "busan") as other:
            await other.join()
            moved = (await other.wanted()).key
            assert moved == AttemptKey(key.job, 2)
            async with linked(centre.port, centre.secrets["seoul"], "seoul") as member:
                await member.until(lambda me: me.plans)
                assert key not in member.desired
                # Late news of the old attempt do not count.
                await member.ended(key, Outcome.SUCCEEDED)
                await member.until(lambda me: me.acked == me.seq)
                assert (await centre.job(key.job)).phase is JobPhase.PLACED
            await other.ended(moved, Outcome.SUCCEEDED)
            await centre.phase(key.job, JobPhase.SUCCEEDED)


@asynchronous
async def test_a_fenced_job_is_started_elsewhere_only_after_its_time_and_a_margin(
    address: str,
) -> None:
    async with world(address, "seoul", "busan", settings=IMPATIENT) as centre:
        async with linked(centre.port, centre.secrets["seoul"], "seoul") as member:
            key = await _runs_in_seoul(centre, member, onClusterLost={"fenceAfter": "3s"})
            (desired,) = member.desired.values()
            assert desired.fence_after_s == 3.0
        async with linked(centre.port, centre.secrets["busan"], "busan") as other:
            await other.join()
            await other.wanted()
        old, new = await centre.attempts(key.job)
        async with centre.store.reading() as tx:
            heard_ns = (await tx.clusters.get("seoul")).last_contact_ns
        assert heard_ns is not None
        assert old.state is AttemptState.GONE
        assert old.gone_ns is not None
        assert old.gone_ns - heard_ns >= 3.7e9
        assert new.reserved_ns >= old.gone_ns


@asynchronous
async def test_what_ran_in_a_cluster_declared_lost_is_started_elsewhere(address: str) -> None:
    async with world(address, "seoul", "busan", settings=IMPATIENT) as centre:
        async with linked(centre.port, centre.secrets["seoul"], "seoul") as member:
            key = await _runs_in_seoul(centre, member)
        await centre.change_cluster("seoul", state=ClusterState.LOST)
        async with linked(centre.port, centre.secrets["busan"], "busan") as other:
            await other.join()
            assert (await other.wanted()).key == AttemptKey(key.job, 2)
        assert (await centre.attempts(key.job))[0].reason == "cluster seoul was declared lost"


@asynchronous
async def test_a_cordoned_cluster_keeps_what_it_has_and_gets_nothing_new(address: str) -> None:
    async with (
        world(address, "seoul", "busan") as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as seoul,
        linked(centre.port, centre.secrets["busan"], "busan") as busan,
    ):
        key = await _runs_in_seoul(centre, seoul)
        await centre.change_cluster("seoul", state=ClusterState.CORDONED)
        await busan.join()
        jobs = {await centre.submit() for _ in range(5)}
        await busan.until(lambda me: {each.job for each in me.desired} == jobs)
        assert set(seoul.desired) == {key}
        assert seoul.desired[key].want is Want.RUN
        # Uncordoned, it is used again.
        await centre.change_cluster("seoul", state=ClusterState.JOINED)
        await centre.change_cluster("busan", state=ClusterState.CORDONED)
        await centre.submit()
        await seoul.until(lambda me: len(me.desired) == 2)


@asynchronous
async def test_a_drained_cluster_is_left_by_jobs_once_they_have_stopped(address: str) -> None:
    async with (
        world(address, "seoul", "busan") as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as seoul,
        linked(centre.port, centre.secrets["busan"], "busan") as busan,
    ):
        key = await _runs_in_seoul(centre, seoul)
        await busan.join()
        await centre.change_cluster("seoul", state=ClusterState.DRAINING)
        leaving = await seoul.wanted(Want.RELEASE)
        assert (leaving.key, leaving.why) == (key, "cluster seoul is drained")
        assert not busan.desired
        await seoul.ended(key, Outcome.STOPPED)
        assert (await busan.wanted()).key == AttemptKey(key.job, 2)


SERVICE = {
    "requestsPerSecond": 1,
    "replicaRequestsPerSecond": 10,
    "latency": "500ms",
    "serviceTime": "10ms",
}


@asynchronous
async def test_a_drained_service_runs_elsewhere_before_it_ends(address: str) -> None:
    async with (
        world(address, "seoul", "busan") as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as seoul,
        linked(centre.port, centre.secrets["busan"], "busan") as busan,
    ):
        key = await _runs_in_seoul(centre, seoul, kind="serving", work=None, service=SERVICE)
        await busan.join()
        await centre.change_cluster("seoul", state=ClusterState.DRAINING)
        new = (await busan.wanted()).key
        assert new == AttemptKey(key.job, 2)
        assert seoul.desired[key].want is Want.RUN
        await busan.status(new, RunPhase.RUNNING)
        assert (await seoul.wanted(Want.RELEASE)).key == key
        await seoul.ended(key, Outcome.STOPPED)
        await seoul.until(lambda me: not me.desired)
        assert (await centre.job(key.job)).phase is JobPhase.RUNNING
        assert busan.desired[new].want is Want.RUN


@asynchronous
async def test_a_service_whose_new_place_fails_while_it_takes_over_stays(address: str) -> None:
    async with (
        world(address, "seoul", "busan") as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as seoul,
        linked(centre.port, centre.secrets["busan"], "busan") as busan,
    ):
        key = await _runs_in_seoul(centre, seoul, kind="serving", work=None, service=SERVICE)
        await busan.join()
        await centre.change_cluster("seoul", state=ClusterState.DRAINING)
        new = (await busan.wanted()).key
        # People can reach it, so that requests pass to it in steps; it ends before they have.
        await busan.status(new, RunPhase.RUNNING, address="busan:80")
        await busan.ended(new, Outcome.DISPLACED, "its node is gone")
        again = await busan.until(
            lambda me: next((each for each in me.desired if each.attempt == 3), None)
        )
        assert seoul.desired[key].want is Want.RUN
        await busan.status(again, RunPhase.RUNNING)
        assert (await seoul.wanted(Want.RELEASE)).key == key
