"""Migrations as the leader takes them: over real links, on a database, beyond a leader's death."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dure.domain.fleet.lifecycle import AttemptState, ClusterState, JobPhase
from dure.domain.fleet.migrations import MoveKind, MoveStep
from dure.domain.fleet.protocol.desired import AttemptKey, Desired, Want
from dure.domain.fleet.protocol.reports import Outcome, RunPhase
from dure.server.links.routing import RouteSource
from dure.server.planner.deeds import ASKED
from dure.server.settings import ServerSettings
from dure.stores.ids import new_id
from dure.stores.rows import Attempt, Migration, NewEvent
from tests.server.centres import QUICK, World, world
from tests.server.members import FakeMember, linked
from tests.stores.helpers import asynchronous

SERVING: dict[str, Any] = {
    "kind": "serving",
    "work": None,
    "port": 8000,
    "service": {
        "requestsPerSecond": 10,
        "replicaRequestsPerSecond": 20,
        "latency": "1s",
        "serviceTime": "5ms",
    },
}
TRAINING: dict[str, Any] = {"kind": "training", "work": {"time": "100h"}}
SLOW = replace(QUICK, shift_s=3600.0, drain_s=3600.0)
FAST = replace(QUICK, shift_s=0.2, drain_s=0.2)


KINDS = {
    "serving": MoveKind.WARM,
    "training": MoveKind.CHECKPOINT,
    "batch": MoveKind.REQUEUE,
}


@dataclass
class Fleet:
    """Two clusters, a job that runs in the first, and eyes on its migration."""

    here: World
    east: FakeMember
    west: FakeMember
    job: str

    async def ask(self, to: str = "west") -> Migration:
        """As a person does."""
        job = await self.here.job(self.job)
        row = Migration(
            id=new_id(),
            job_id=job.id,
            kind=KINDS[job.spec["kind"]],
            step=MoveStep.ASKED,
            since_ns=0,
            old_attempt=job.attempt,
            old_cluster=job.cluster or "",
            new_cluster=to,
            asked_by="ann",
        )
        async with self.here.store.transaction() as tx:
            await tx.migrations.add(row)
            tx.events.add(NewEvent(ASKED, job.id, job.tenant))
        self.here.bus.publish("events")
        return row

    async def abort(self) -> bool:
        async with self.here.store.transaction() as tx:
            (row,) = await tx.migrations.unfinished([self.job])
            done = await tx.migrations.abort(row, "ann")
            tx.events.add(NewEvent(ASKED, self.job, "acme"))
        self.here.bus.publish("events")
        return done

    async def at(self, *steps: MoveStep) -> Migration:
        """Wait until the last migration stands there."""

        async def look() -> Migration | None:
            async with self.here.store.reading() as tx:
                row = await tx.migrations.latest(self.job)
            if row is not None and row.step not in steps:
                assert not row.step.ended, (row.step, row.reason)
            return row if row is not None and row.step in steps else None

        found: Migration = await self.here.until(look, f"migration in {steps}")
        return found

    async def attempt(self, number: int, state: AttemptState) -> Attempt:
        async def look() -> Attempt | None:
            found = {each.attempt: each for each in await self.here.attempts(self.job)}
            row = found.get(number)
            return row if row is not None and row.state is state else None

        found: Attempt = await self.here.until(look, f"attempt {number} {state}")
        return found

    async def runs(self, member: FakeMember, number: int, **more: Any) -> None:
        key = AttemptKey(self.desired(member, number).key.job, number)
        address = "127.0.0.1:1" if "checkpointed" not in more else ""
        await member.status(key, RunPhase.RUNNING, address=address, **more)

    def desired(self, member: FakeMember, number: int) -> Desired:
        (found,) = [each for each in member.desired.values() if each.key.attempt == number]
        return found

    async def told(self, member: FakeMember, number: int, **fields: Any) -> Desired:
        """Wait until a member is told an attempt so."""

        def holds(me: FakeMember) -> list[Desired]:
            return [
                each
                for each in me.desired.values()
                if each.key.attempt == number
                and all(getattr(each, name) == value for name, value in fields.items())
            ]

        (found,) = await member.until(holds)
        one: Desired = found
        return one

    async def gone(self, member: FakeMember, number: int, **more: Any) -> None:
        key = self.desired(member, number).key
        await member.status(key, RunPhase.GONE, outcome=Outcome.STOPPED, **more)


@asynccontextmanager
async def fleet(folder: Path, settings: ServerSettings = SLOW, **spec: Any) -> AsyncIterator[Fleet]:
    """A job that runs in east, and west beside it."""
    address = f"sqlite:///{folder / 'state.db'}"
    async with contextlib.AsyncExitStack() as stack:
        here = await stack.enter_async_context(world(address, "east", "west", settings=settings))
        east = await stack.enter_async_context(linked(here.port, here.secrets["east"], "east"))
        await east.join()
        job = await here.submit(**({"work": {"time": "100h"}} | spec))
        found = await east.wanted()
        await east.status(found.key, RunPhase.RUNNING, address="127.0.0.1:1")
        await here.phase(job, JobPhase.RUNNING)
        west = await stack.enter_async_context(linked(here.port, here.secrets["west"], "west"))
        await west.join()
        await _opened(here, west)
        keeping = asyncio.create_task(_keep_in_touch(east, west))
        try:
            yield Fleet(here, east, west, job)
        finally:
            keeping.cancel()


async def _opened(here: World, member: FakeMember) -> None:
    """Wait until a cluster is used: a small job of its own runs and ends there."""
    job = await here.submit(clusters=[member.cluster])
    probe = await member.wanted()
    await member.ended(probe.key, Outcome.SUCCEEDED)
    await here.phase(job, JobPhase.SUCCEEDED)
    await member.until(lambda me: not me.desired)


async def _keep_in_touch(*members: FakeMember) -> None:
    """As members do: what an old word says counts no more."""
    from dure.domain.fleet.protocol.link import Ping

    while True:
        for member in members:
            await member.say(Ping())
        await asyncio.sleep(0.3)


@asynchronous
async def test_training_ends_at_its_checkpoint_before_it_begins_elsewhere(tmp_path: Path) -> None:
    async with fleet(tmp_path, **TRAINING) as here:
        await here.ask()
        row = await here.at(MoveStep.SAVING)
        assert (row.old_attempt, row.new_attempt, row.new_cluster) == (1, 2, "west")
        asked = await here.told(here.east, 1, checkpoint=row.request)
        assert asked.want is Want.RUN
        await here.attempt(2, AttemptState.RESERVED)
        assert not here.west.desired
        await here.runs(here.east, 1, checkpointed=row.request, saved_share=0.5, done_share=0.5)
        await here.told(here.east, 1, want=Want.RELEASE)
        assert not here.west.desired
        await here.gone(here.east, 1, saved_share=0.5)
        resumed = await here.told(here.west, 2, want=Want.RUN)
        assert resumed.order.resume_share == 0.5
        assert (await here.at(MoveStep.RESUMING)).reason == f"checkpoint {row.request} is saved"
        await here.runs(here.west, 2, checkpointed=0)
        await here.at(MoveStep.DONE)


@asynchronous
async def test_a_checkpoint_told_to_the_centre_itself_counts_the_same(tmp_path: Path) -> None:
    async with fleet(tmp_path, **TRAINING) as here:
        await here.ask()
        row = await here.at(MoveStep.SAVING)
        async with here.here.store.transaction() as tx:
            await tx.migrations.acknowledge(row, row.request)
            tx.events.add(NewEvent(ASKED, here.job, "acme"))
        await here.told(here.east, 1, want=Want.RELEASE)


@asynchronous
async def test_a_checkpoint_that_never_comes_lets_the_job_stay(tmp_path: Path) -> None:
    async with fleet(tmp_path, **TRAINING, gang={"checkpointWait": "500ms"}) as here:
        await here.ask()
        row = await here.at(MoveStep.UNDONE)
        assert row.reason == "no checkpoint came within 0.5 s: it stays"
        await here.told(here.east, 1, checkpoint=0, want=Want.RUN)
        await here.attempt(2, AttemptState.GONE)
        assert not here.west.desired
        job = await here.here.job(here.job)
        assert (job.phase, job.cluster) == (JobPhase.RUNNING, "east")


@asynchronous
async def test_or_stops_it_anyway_where_its_owner_says_so(tmp_path: Path) -> None:
    gang = {"checkpointWait": "500ms", "whenNoCheckpoint": "stop"}
    async with fleet(tmp_path, **TRAINING, gang=gang) as here:
        await here.ask()
        await here.told(here.east, 1, want=Want.RELEASE)
        assert "done again" in (await here.at(MoveStep.RELEASING)).reason


@asynchronous
async def test_training_that_is_called_off_while_it_saves_runs_on(tmp_path: Path) -> None:
    async with fleet(tmp_path, **TRAINING) as here:
        await here.ask()
        await here.at(MoveStep.SAVING)
        assert await here.abort()
        row = await here.at(MoveStep.UNDONE)
        assert row.reason == "called off by ann"
        await here.told(here.east, 1, checkpoint=0, want=Want.RUN)
        await here.attempt(2, AttemptState.GONE)
        # The same job can be moved again, and is asked anew.
        await here.ask()
        again = await here.at(MoveStep.SAVING)
        assert again.new_attempt == 3
        assert again.request > row.request


@asynchronous
async def test_training_that_was_told_to_end_cannot_be_called_off(tmp_path: Path) -> None:
    async with fleet(tmp_path, **TRAINING) as here:
        await here.ask()
        row = await here.at(MoveStep.SAVING)
        await here.runs(here.east, 1, checkpointed=row.request)
        await here.at(MoveStep.RELEASING)
        assert not await here.abort()
        await here.gone(here.east, 1)
        await here.at(MoveStep.RESUMING)
        assert not await here.abort()


@asynchronous
async def test_batch_ends_at_once_and_starts_again(tmp_path: Path) -> None:
    async with fleet(tmp_path) as here:
        await here.ask()
        await here.told(here.east, 1, want=Want.RELEASE)
        await here.gone(here.east, 1)
        await here.told(here.west, 2, want=Want.RUN)


@asynchronous
async def test_a_service_passes_and_its_old_place_ends_last(tmp_path: Path) -> None:
    async with fleet(tmp_path, FAST, **SERVING) as here:
        await here.ask()
        await here.at(MoveStep.WARMING)
        await here.told(here.west, 2, want=Want.RUN)
        assert here.desired(here.east, 1).want is Want.RUN
        await here.runs(here.west, 2)
        await here.told(here.east, 1, want=Want.RELEASE)
        await here.gone(here.east, 1)
        await here.at(MoveStep.DONE)


@asynchronous
@pytest.mark.parametrize("step", [MoveStep.WARMING, MoveStep.SHIFTING, MoveStep.DRAINING])
async def test_a_service_that_is_called_off_at_any_step_serves_on(
    tmp_path: Path, step: MoveStep
) -> None:
    settings = replace(SLOW, shift_s=0.1 if step is MoveStep.DRAINING else 3600.0)
    async with fleet(tmp_path, settings, **SERVING) as here:
        await here.ask()
        await here.told(here.west, 2, want=Want.RUN)
        if step is not MoveStep.WARMING:
            await here.runs(here.west, 2)
        await here.at(step)
        assert await here.abort()
        if step is MoveStep.WARMING:
            await here.at(MoveStep.UNDONE)
            await here.told(here.west, 2, want=Want.RELEASE)
        else:
            # Requests are back at once; what the new place has begun it may finish.
            await here.at(MoveStep.UNDOING)
            assert (await here.attempt(2, AttemptState.RUNNING)).spec["yields"]
        await here.attempt(1, AttemptState.RUNNING)
        assert here.desired(here.east, 1).want is Want.RUN


@asynchronous
async def test_a_new_leader_goes_on_from_the_row(tmp_path: Path) -> None:
    from dure.server.core import running
    from dure.stores.bus.local import LocalBus
    from dure.stores.store import Store
    from tests.server.centres import SPEC, prepare

    address = f"sqlite:///{tmp_path / 'state.db'}"
    async with Store.open(address) as store:
        secrets = await prepare(store, dict.fromkeys(("east", "west"), SPEC))
        async with (
            running(store, LocalBus(), SLOW) as core,
            linked(core.grpc_port, secrets["east"], "east") as east,
        ):
            here = World(store, LocalBus(), secrets, core)
            await east.join()
            job = await here.submit(**TRAINING)
            found = await east.wanted()
            await east.status(found.key, RunPhase.RUNNING)
            await here.phase(job, JobPhase.RUNNING)
            async with linked(core.grpc_port, secrets["west"], "west") as west:
                await west.join()
                await _opened(here, west)
                asked = Fleet(here, east, west, job)
                await asked.ask()
                row = await asked.at(MoveStep.SAVING)
        async with (
            running(store, LocalBus(), SLOW) as core,
            linked(core.grpc_port, secrets["east"], "east", incarnation="two") as east,
        ):
            here = World(store, LocalBus(), secrets, core)
            await east.join()
            late = Fleet(here, east, east, job)
            same = await late.told(east, 1, checkpoint=row.request)
            assert same.want is Want.RUN
            await late.runs(east, 1, checkpointed=row.request)
            await late.told(east, 1, want=Want.RELEASE)
            assert (await late.at(MoveStep.RELEASING)).id == row.id


@asynchronous
async def test_a_drained_cluster_asks_training_for_a_checkpoint_first(tmp_path: Path) -> None:
    async with fleet(tmp_path, **TRAINING) as here:
        await here.here.change_cluster("east", state=ClusterState.DRAINING)
        row = await here.at(MoveStep.SAVING)
        assert (row.why, row.stop_anyway) == ("cluster east is drained", True)
        await here.told(here.east, 1, checkpoint=row.request)
        await here.runs(here.east, 1, checkpointed=row.request)
        await here.told(here.east, 1, want=Want.RELEASE)
        await here.gone(here.east, 1, saved_share=0.3)
        resumed = await here.told(here.west, 2, want=Want.RUN)
        assert resumed.order.resume_share == pytest.approx(0.3)
        await here.runs(here.west, 2, checkpointed=0)
        done = await here.at(MoveStep.DONE)
        assert (done.new_attempt, done.new_cluster) == (2, "west")


@asynchronous
async def test_a_move_that_cannot_be_made_says_why_and_changes_nothing(tmp_path: Path) -> None:
    async with fleet(tmp_path, **TRAINING) as here:
        await here.here.change_cluster("west", state=ClusterState.CORDONED)
        await here.ask()
        row = await here.at(MoveStep.UNDONE)
        assert "west takes nothing new" in row.reason
        assert len(await here.here.attempts(here.job)) == 1


@asynchronous
async def test_a_cluster_that_had_a_service_is_told_where_it_is_now(tmp_path: Path) -> None:
    async with fleet(tmp_path, FAST, **SERVING) as here:
        store, pace = here.here.store, FAST.pace
        source, elsewhere = RouteSource(store, "east", pace), RouteSource(store, "west", pace)
        first = await source.news()
        assert first is not None
        assert first.whole
        (route,) = first.services
        assert (route.name, route.namespace, route.port) == ("train", "dure-acme", 8000)
        assert [(each.attempt, each.weight) for each in route.backends] == [(1, 1000)]
        assert await source.news() is None
        nothing = await elsewhere.news()
        assert nothing is not None
        assert nothing.services == ()
        await here.ask()
        await here.told(here.west, 2, want=Want.RUN)
        await here.runs(here.west, 2)
        await here.told(here.east, 1, want=Want.RELEASE)
        await here.gone(here.east, 1)
        await here.at(MoveStep.DONE)
        for each in (source, elsewhere):
            moved = await each.news()
            assert moved is not None
            (route,) = moved.services
            assert [(one.attempt, one.weight) for one in route.backends] == [(2, 1000)]
        await here.here.cancel(here.job)
        await here.gone(here.west, 2)
        await here.here.phase(here.job, JobPhase.CANCELLED)
        over = await source.news()
        assert over is not None
        assert [each.ended for each in over.services] == [True]
