"""What carrying a checkpoint to another cluster costs is on the bill, once."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dure.domain.fleet.amounts import MICRO
from dure.domain.fleet.lifecycle import ClusterState
from dure.domain.fleet.migrations import MoveStep
from dure.domain.fleet.protocol.desired import Want
from dure.stores.rows import NewEvent, Policy
from tests.server.members import used
from tests.server.test_migrations import TRAINING, Fleet, fleet
from tests.stores.helpers import asynchronous

PER_GB = 0.08
SIZE_GB = 50
CARRIED = TRAINING | {"gang": {"checkpointSize": f"{SIZE_GB}GB"}}


@contextlib.asynccontextmanager
async def dear_network(folder: Path) -> AsyncIterator[Fleet]:
    """A fleet in which transfers cost something."""
    async with fleet(folder, **CARRIED) as here:
        async with here.here.store.transaction() as tx:
            spec = {"network": {"egress": {"default": PER_GB}}}
            await tx.policies.add(Policy("fleet", spec))
            tx.events.add(NewEvent("policy.changed", "fleet"))
        here.here.bus.publish("events")
        yield here


async def moved(here: Fleet) -> None:
    """Its checkpoint is saved, it resumes in west, and has used its device there."""
    row = await here.at(MoveStep.SAVING)
    await here.runs(here.east, 1, checkpointed=row.request, saved_share=0.5, done_share=0.5)
    await here.told(here.east, 1, want=Want.RELEASE)
    await here.gone(here.east, 1, saved_share=0.5)
    resumed = await here.told(here.west, 2, want=Want.RUN)
    await here.runs(here.west, 2, checkpointed=0)
    await here.at(MoveStep.DONE)
    for seconds in (10.0, 20.0):
        await here.west.report(usage=(used(resumed.key, seconds),))
        await here.west.until(lambda me: me.acked == me.seq)


async def egress(here: Fleet) -> dict[int, int]:
    async with here.here.store.reading() as tx:
        found: dict[int, int] = {}
        for each in await tx.charges.all():
            found[each.attempt] = found.get(each.attempt, 0) + each.egress_micro
        return found


@asynchronous
async def test_a_move_that_somebody_asked_for_is_billed(tmp_path: Path) -> None:
    async with dear_network(tmp_path) as here:
        await here.ask()
        await moved(here)
        row = await here.at(MoveStep.DONE)
        assert row.egress == pytest.approx(SIZE_GB * PER_GB)
        assert (await egress(here))[2] == round(SIZE_GB * PER_GB * MICRO)


@asynchronous
async def test_so_is_one_that_a_drain_brought_about(tmp_path: Path) -> None:
    async with dear_network(tmp_path) as here:
        await here.here.change_cluster("east", state=ClusterState.DRAINING)
        await moved(here)
        row = await here.at(MoveStep.DONE)
        assert row.egress == pytest.approx(SIZE_GB * PER_GB)
        assert (await egress(here))[2] == round(SIZE_GB * PER_GB * MICRO)
