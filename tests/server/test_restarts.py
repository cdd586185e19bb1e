"""Servers that end and begin again: nothing is lost, nothing is doubled."""

from contextlib import AsyncExitStack
from pathlib import Path

from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.protocol.link import Goodbye
from dure.domain.fleet.protocol.reports import Outcome, RunPhase
from dure.server.core import running
from dure.stores.bus.local import LocalBus
from dure.stores.store import Store
from tests.server.centres import QUICK, SPEC, World, prepare
from tests.server.members import linked
from tests.stores.helpers import asynchronous


@asynchronous
async def test_a_server_that_begins_anew_takes_over_what_runs_and_what_waits(
    address: str,
) -> None:
    async with Store.open(address) as store:
        secrets = await prepare(store, {"seoul": SPEC})
        bus = LocalBus()
        async with running(store, bus, QUICK) as core:
            centre = World(store, bus, secrets, core)
            async with linked(centre.port, secrets["seoul"], "seoul") as member:
                await member.join(free=8)
                runs = await centre.submit()
                key = (await member.wanted()).key
                await member.status(key, RunPhase.RUNNING)
                await centre.phase(runs, JobPhase.RUNNING)
                ends = await centre.submit()
                (ending,) = await member.until(
                    lambda me: [each for each in me.desired if each.job == ends]
                )
        # Nobody plans while these come.
        waits = await centre.submit(retries=0)
        cancelled = await centre.submit()
        await centre.cancel(cancelled)
        async with running(store, bus, QUICK) as core:
            centre.core = core
            async with linked(centre.port, secrets["seoul"], "seoul") as member:
                await member.until(lambda me: {runs, ends, waits} == {k.job for k in me.desired})
                assert {each.attempt for each in member.desired} == {1}
                # The first leader's epoch was 1: no plan of the new one's is older.
                assert member.plans[-1].epoch == 2
                await centre.phase(cancelled, JobPhase.CANCELLED)
                await member.ended(ending, Outcome.DISPLACED, "its node died")
                await member.until(
                    lambda me: [k for k in me.desired if (k.job, k.attempt) == (ends, 2)]
                )
                for each in list(member.desired):
                    await member.ended(each, Outcome.SUCCEEDED)
                for job in (runs, ends, waits):
                    await centre.phase(job, JobPhase.SUCCEEDED)
        states = [each.state for job in (runs, ends, waits) for each in await centre.attempts(job)]
        assert states == [AttemptState.GONE] * 4


@asynchronous
async def test_what_happened_while_nobody_planned_is_caught_up_with(address: str) -> None:
    """A job that was displaced while the leader was away is placed anew by the next one."""
    async with Store.open(address) as store:
        secrets = await prepare(store, {"seoul": SPEC})
        bus = LocalBus()
        async with running(store, bus, QUICK) as core:
            centre = World(store, bus, secrets, core)
            async with linked(centre.port, secrets["seoul"], "seoul") as member:
                await member.join()
                job = await centre.submit()
                key = (await member.wanted()).key
                await member.status(key, RunPhase.RUNNING, saved_share=0.5, done_share=0.6)
                await centre.phase(job, JobPhase.RUNNING)
                await member.status(key, RunPhase.GONE, outcome=Outcome.DISPLACED, saved_share=0.5)
                await centre.phase(job, JobPhase.QUEUED, JobPhase.PLACED)
        async with running(store, bus, QUICK) as core:
            centre.core = core
            async with linked(centre.port, secrets["seoul"], "seoul") as member:
                again = await member.wanted()
                assert again.key.attempt == 2
                assert again.order.resume_share == 0.5


@asynchronous
async def test_a_server_that_ends_lets_its_members_look_for_another_at_once(
    tmp_path: Path,
) -> None:
    async with Store.open(f"sqlite:///{tmp_path / 'state.db'}") as store:
        secrets = await prepare(store, {"seoul": SPEC})
        async with AsyncExitStack() as server:
            core = await server.enter_async_context(running(store, LocalBus(), QUICK))
            async with linked(core.grpc_port, secrets["seoul"], "seoul") as member:
                await server.aclose()
                goodbye = await member.until(lambda me: me.goodbye)
        assert goodbye == Goodbye("this server ends", retry_elsewhere=True)
        async with store.reading() as tx:
            assert (await tx.clusters.get("seoul")).linked_url == ""
            assert await tx.leases.find() is None
