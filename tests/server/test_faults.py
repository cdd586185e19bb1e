"""The database or the bus is killed under a server: work goes on, later."""

import asyncio
from pathlib import Path

import pytest

from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.protocol.reports import Outcome, RunPhase
from dure.server.core import running
from dure.server.main import prepared
from dure.stores.bus.nats import NatsBus
from dure.stores.store import Store
from tests.server.centres import QUICK, SPEC, World, prepare, world
from tests.server.members import linked
from tests.stores.helpers import asynchronous
from tests.stores.services import Nats, Postgres

pytestmark = pytest.mark.services


@asynchronous
async def test_without_the_bus_everything_goes_on_by_polling(
    nats: Nats, postgres: Postgres
) -> None:
    bus = NatsBus(nats.address)
    async with Store.open(postgres.fresh()) as store:
        secrets = await prepare(store, {"seoul": SPEC})
        await bus.start()
        try:
            async with running(store, bus, QUICK) as core:
                centre = World(store, bus, secrets, core)
                async with linked(centre.port, secrets["seoul"], "seoul") as member:
                    await member.join()
                    first = await centre.submit()
                    key = (await member.wanted()).key
                    await member.ended(key, Outcome.SUCCEEDED)
                    await centre.phase(first, JobPhase.SUCCEEDED)
                    nats.kill()
                    second = await centre.submit()
                    await member.until(lambda me: [k for k in me.desired if k.job == second])
        finally:
            await bus.close()
            nats.start()


@asynchronous
async def test_a_database_that_was_killed_is_found_again_and_nothing_is_lost_or_doubled(
    postgres: Postgres,
) -> None:
    async with (
        world(postgres.fresh()) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        await member.join()
        job = await centre.submit()
        key = (await member.wanted()).key
        await member.status(key, RunPhase.RUNNING)
        await centre.phase(job, JobPhase.RUNNING)
        postgres.kill()
        # Said while nobody can write it down; the link stays, and so does what was said.
        await member.ended(key, Outcome.SUCCEEDED)
        # Beside the loop: its member would fall silent meanwhile, and its link be ended.
        await asyncio.to_thread(postgres.start)
        await member.until(lambda me: me.acked == me.seq, 60)
        await centre.phase(job, JobPhase.SUCCEEDED)
        second = await centre.submit()
        await member.until(lambda me: [k for k in me.desired if k.job == second], 60)
        assert len(await centre.attempts(job)) == 1


@asynchronous
async def test_a_server_that_starts_before_its_database_waits_for_it(
    postgres: Postgres, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    async with Store.open(postgres.fresh()) as store:
        postgres.kill()
        starting = asyncio.create_task(prepared(store, token, within_s=120.0))
        await asyncio.sleep(1.0)
        assert not starting.done()
        await asyncio.to_thread(postgres.program.start)
        await starting
        assert token.read_text(encoding="utf-8").strip()
