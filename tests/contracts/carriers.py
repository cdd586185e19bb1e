"""What every carrier does, whatever carries it out; a backend's tests give it a bed to run in."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import pytest

from dure.domain.errors import DureError
from dure.domain.fleet.decisions import InstanceId, Order, Placement, Site
from dure.domain.fleet.programs import Program
from dure.domain.fleet.protocol.desired import Desired, Partition
from dure.domain.fleet.protocol.reports import Inventory
from dure.domain.fleet.workloads import Demand, Gang, Service, Work, Workload, WorkloadKind
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.member.ports import (
    Carrier,
    InventoryChanged,
    Life,
    PartitionRefusedError,
    Seen,
    Sight,
    Start,
    Synced,
    Taken,
)
from dure.stores.ids import new_id

WAIT_S = 180.0
"""For what takes seconds on an idle machine."""
TENANT = TenantId("team")


class Bed(Protocol):
    """A cluster that a carrier can be tried on, with at least two nodes of one device or more."""

    namespace: str
    nodes: tuple[str, ...]
    """Nodes that these tests may use."""

    def carrier(self) -> AbstractAsyncContextManager[Carrier]:
        """A new carrier of the same cluster; several may be used one after another."""

    def program(self, runs_for_s: float | None = None, exit_code: int = 0) -> Program:
        """One that ends after so long with that code; None: not by itself."""


@dataclass
class Eyes:
    """Takes a carrier's sights while a test does something else."""

    carrier: Carrier
    sights: list[Sight] = field(default_factory=list)

    @property
    def inventory(self) -> Inventory:
        """As last told."""
        told = [one for one in self.sights if isinstance(one, InventoryChanged)]
        assert told, "no inventory was told"
        return told[-1].inventory

    def seen(self, instance: InstanceId) -> list[Seen]:
        """Everything told of an instance."""
        return [one for one in self.sights if isinstance(one, Seen) and one.instance == instance]

    def lives(self, instance: InstanceId) -> list[Life]:
        """Its lives in order, repetitions left out."""
        lives: list[Life] = []
        for one in self.seen(instance):
            if lives[-1:] != [one.life]:
                lives.append(one.life)
        return lives

    def taken(self, node: str) -> Taken:
        """What others hold of a node, as last told."""
        told = [one for one in self.sights if isinstance(one, Taken) and one.node == node]
        return told[-1] if told else Taken(node)

    def placement(self, node: str, device: int = 0, devices: int = 1) -> Placement:
        """Whole devices of a node, by the numbers of the inventory."""
        sizes = {group.name: group.devices for group in self.inventory.groups}
        first = 0
        for number, fact in enumerate(self.inventory.nodes):
            if fact.name == node:
                chosen = tuple(range(first + device, first + device + devices))
                return Placement(number, chosen, template="whole", masks=(1,) * devices)
            first += sizes[fact.group]
        raise AssertionError(f"{node} is not in the inventory")

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until what was seen makes it hold."""
        limit = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < limit, f"after {WAIT_S:.0f} s still not: {what}"
            await asyncio.sleep(0.02)

    async def comes_to(self, instance: InstanceId, *lives: Life) -> Seen:
        """Wait until an instance was told to be in one of these."""

        def holds() -> bool:
            return bool(self.lives(instance)) and self.lives(instance)[-1] in lives

        await self.until(f"{instance} is {lives}", holds)
        return self.seen(instance)[-1]

    async def synced(self, times: int = 1) -> None:
        """Wait until all was told so often."""
        await self.until(
            "all was told", lambda: sum(isinstance(one, Synced) for one in self.sights) >= times
        )


@asynccontextmanager
async def watching(carrier: Carrier) -> AsyncIterator[Eyes]:
    """Follow a carrier from its first whole picture on."""
    eyes = Eyes(carrier)

    async def take() -> None:
        async with aclosing(carrier.watch()) as sights:  # type: ignore[type-var]
            async for sight in sights:
                eyes.sights.append(sight)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(take())
        await eyes.synced()
        yield eyes
        task.cancel()


def desired(
    bed: Bed,
    program: Program,
    *,
    workers: int = 1,
    kind: WorkloadKind = WorkloadKind.BATCH,
    attempt: int = 1,
    job: str = "",
) -> Desired:
    """An attempt of a new job."""
    serving = kind is WorkloadKind.SERVING
    workload = Workload(
        id=WorkloadId(job or new_id()),
        tenant=TENANT,
        kind=kind,
        demand=Demand(cpu_milli=100, host_memory_bytes=64 << 20, whole=True),
        work=None if serving else Work(60.0),
        gang=Gang(workers),
        service=Service(1.0, 10.0, 100.0, 10.0) if serving else None,
    )
    order = Order(workload, Site(ClusterId("here"), "any"), attempt, workers)
    return Desired(order, program, bed.namespace)


def starts(eyes: Eyes, wanted: Desired, *nodes: str) -> list[Start]:
    """One instance on the first device of each node."""
    key = wanted.key
    return [
        Start(
            instance=InstanceId(key.job, key.attempt, rank),
            desired=wanted,
            placement=eyes.placement(node),
            node=node,
            devices=(0,),
            rank=rank,
            world_size=len(nodes),
        )
        for rank, node in enumerate(nodes)
    ]


def run(test: Callable[[], Awaitable[None]]) -> None:
    """A test that waits."""

    async def limited() -> None:
        async with asyncio.timeout(3 * WAIT_S):
            await test()

    asyncio.run(limited())


class CarrierContract:
    """Rules; a backend's test class inherits them and has a fixture `bed`."""

    def test_a_job_starts_at_its_place_and_its_end_is_told(self, bed: Bed) -> None:
        async def test() -> None:
            async with bed.carrier() as carrier, watching(carrier) as eyes:
                wanted = desired(bed, bed.program(runs_for_s=1.0))
                (start,) = starts(eyes, wanted, bed.nodes[0])
                await carrier.start([start])
                ended = await eyes.comes_to(start.instance, Life.SUCCEEDED, Life.FAILED)
                assert (ended.life, ended.exit_code) == (Life.SUCCEEDED, 0)
                assert Life.READY in eyes.lives(start.instance)
                assert (ended.node, ended.placement) == (bed.nodes[0], start.placement)
                assert ended.desired == wanted

        run(test)

    def test_a_failure_comes_with_its_exit_code(self, bed: Bed) -> None:
        async def test() -> None:
            async with bed.carrier() as carrier, watching(carrier) as eyes:
                wanted = desired(bed, bed.program(runs_for_s=0.2, exit_code=3))
                (start,) = starts(eyes, wanted, bed.nodes[0])
                await carrier.start([start])
                ended = await eyes.comes_to(start.instance, Life.SUCCEEDED, Life.FAILED)
                assert (ended.life, ended.exit_code) == (Life.FAILED, 3)

        run(test)

    def test_what_is_asked_twice_is_done_once(self, bed: Bed) -> None:
        async def test() -> None:
            async with bed.carrier() as carrier, watching(carrier) as eyes:
                (start,) = starts(eyes, desired(bed, bed.program()), bed.nodes[0])
                await asyncio.gather(*(carrier.start([start]) for _ in range(3)))
                running = await eyes.comes_to(start.instance, Life.READY)
                await carrier.start([start])
                await asyncio.gather(*(carrier.stop(start.instance, 1.0) for _ in range(3)))
                gone = await eyes.comes_to(start.instance, Life.GONE)
                assert gone.name == running.name
                await carrier.stop(start.instance, 1.0)
                assert eyes.lives(start.instance).count(Life.READY) == 1

        run(test)

    def test_what_never_was_may_be_stopped_and_forgotten(self, bed: Bed) -> None:
        async def test() -> None:
            async with bed.carrier() as carrier, watching(carrier):
                nobody = InstanceId(WorkloadId(new_id()), 1, 0)
                await carrier.stop(nobody, 1.0)
                await carrier.forget(nobody)

        run(test)

    def test_a_carrier_without_memory_finds_everything_again(self, bed: Bed) -> None:
        async def test() -> None:
            wanted = desired(bed, bed.program())
            async with bed.carrier() as carrier, watching(carrier) as eyes:
                (start,) = starts(eyes, wanted, bed.nodes[1])
                await carrier.start([start])
                await eyes.comes_to(start.instance, Life.READY)
            async with bed.carrier() as carrier, watching(carrier) as eyes:
                found = eyes.seen(start.instance)[-1]
                assert (found.life, found.node) == (Life.READY, bed.nodes[1])
                assert (found.desired, found.placement) == (wanted, start.placement)
                await carrier.stop(start.instance, 1.0)
                await eyes.comes_to(start.instance, Life.GONE)

        run(test)

    def test_an_instance_may_start_elsewhere_while_its_old_self_ends(self, bed: Bed) -> None:
        async def test() -> None:
            async with bed.carrier() as carrier, watching(carrier) as eyes:
                wanted = desired(bed, bed.program())
                (start,) = starts(eyes, wanted, bed.nodes[0])
                await carrier.start([start])
                await eyes.comes_to(start.instance, Life.READY)
                await carrier.stop(start.instance, 1.0)
                (again,) = starts(eyes, wanted, bed.nodes[1])
                await carrier.start([again])

                def told() -> tuple[Life, str]:
                    return eyes.seen(start.instance)[-1].life, eyes.seen(start.instance)[-1].node

                there, lost = (Life.READY, bed.nodes[1]), (Life.GONE, bed.nodes[1])
                await eyes.until("it runs at its new place", lambda: told() in (there, lost))
                if told() == lost:  # nodes on paper end Pods by name, and may hit the new one
                    await carrier.start([again])
                    await eyes.until("it runs at its new place", lambda: told() == there)
                await carrier.stop(start.instance, 1.0)
                await eyes.comes_to(start.instance, Life.GONE)

        run(test)

    def test_a_gang_starts_whole_and_its_ranks_end_by_themselves(self, bed: Bed) -> None:
        async def test() -> None:
            async with bed.carrier() as carrier, watching(carrier) as eyes:
                wanted = desired(bed, bed.program(runs_for_s=2.0), workers=2)
                both = starts(eyes, wanted, *bed.nodes[:2])
                await carrier.start(both)
                for start in both:
                    ended = await eyes.comes_to(start.instance, Life.SUCCEEDED)
                    assert (ended.node, ended.placement) == (start.node, start.placement)
                for start in both:
                    await carrier.forget(start.instance)

        run(test)

    def test_a_gang_is_stopped_whole(self, bed: Bed) -> None:
        async def test() -> None:
            async with bed.carrier() as carrier, watching(carrier) as eyes:
                both = starts(eyes, desired(bed, bed.program(), workers=2), *bed.nodes[:2])
                await carrier.start(both)
                for start in both:
                    await eyes.comes_to(start.instance, Life.READY)
                for start in both:
                    await carrier.stop(start.instance, 1.0)
                for start in both:
                    await eyes.comes_to(start.instance, Life.GONE)

        run(test)

    def test_replicas_of_a_service_live_and_end_each_by_itself(self, bed: Bed) -> None:
        async def test() -> None:
            async with bed.carrier() as carrier, watching(carrier) as eyes:
                wanted = desired(bed, bed.program(), workers=2, kind=WorkloadKind.SERVING)
                one, other = starts(eyes, wanted, *bed.nodes[:2])
                await carrier.start([one, other])
                await eyes.comes_to(one.instance, Life.READY)
                await eyes.comes_to(other.instance, Life.READY)
                await carrier.stop(one.instance, 1.0)
                await eyes.comes_to(one.instance, Life.GONE)
                assert eyes.lives(other.instance)[-1] is Life.READY
                await carrier.stop(other.instance, 1.0)
                await eyes.comes_to(other.instance, Life.GONE)

        run(test)

    def test_what_is_over_and_forgotten_is_found_no_more(self, bed: Bed) -> None:
        async def test() -> None:
            async with bed.carrier() as carrier, watching(carrier) as eyes:
                wanted = desired(bed, bed.program(runs_for_s=0.2))
                (start,) = starts(eyes, wanted, bed.nodes[0])
                await carrier.start([start])
                await eyes.comes_to(start.instance, Life.SUCCEEDED)
                await carrier.forget(start.instance)
            until = time.monotonic() + WAIT_S
            found = True
            while found and time.monotonic() < until:
                async with bed.carrier() as carrier, watching(carrier) as eyes:
                    found = bool(eyes.seen(start.instance))
            assert not found

        run(test)

    def test_an_end_is_told_once(self, bed: Bed) -> None:
        async def test() -> None:
            async with bed.carrier() as carrier, watching(carrier) as eyes:
                wanted = desired(bed, bed.program(runs_for_s=0.2))
                (start,) = starts(eyes, wanted, bed.nodes[0])
                await carrier.start([start])
                await eyes.comes_to(start.instance, Life.SUCCEEDED)
                await carrier.forget(start.instance)
                (later,) = starts(eyes, desired(bed, bed.program()), bed.nodes[0])
                await carrier.start([later])
                await eyes.comes_to(later.instance, Life.READY)
                assert [one.life.over for one in eyes.seen(start.instance)].count(True) == 1
                await carrier.stop(later.instance, 1.0)

        run(test)

    def test_a_place_that_is_not_there_is_refused(self, bed: Bed) -> None:
        async def test() -> None:
            async with bed.carrier() as carrier, watching(carrier) as eyes:
                (start,) = starts(eyes, desired(bed, bed.program()), bed.nodes[0])
                nowhere = Placement(10_000, (10**6,), (1,), "whole")
                wrong = Start(start.instance, start.desired, nowhere)
                with pytest.raises(DureError, match="node 10000"):
                    await carrier.start([wrong])

        run(test)

    def test_devices_that_nobody_divides_here_are_refused_to_be_divided(self, bed: Bed) -> None:
        async def test() -> None:
            async with bed.carrier() as carrier, watching(carrier):
                with pytest.raises(PartitionRefusedError, match="divide"):
                    await carrier.repartition(Partition(bed.nodes[0], "all-1g.10gb", 1))

        run(test)
