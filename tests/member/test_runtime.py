"""A member with a cluster that does not do as it is asked, and with clocks that differ."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from dure.domain.errors import DureError
from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.protocol.desired import Desired, Partition, Plan
from dure.domain.units import NS_PER_S
from dure.member import runtime
from dure.member.clock import FleetClock
from dure.member.core import books
from dure.member.core.desk import Desk
from dure.member.ports import InventoryChanged, Life, Seen, Sight, Start, Synced
from dure.member.runtime import Member
from tests.member.core.factories import CLUSTER, a_job, inventory, released, surroundings

LIMIT_S = 60.0
HOUR_NS = 3600 * NS_PER_S


class Cluster:
    """Everything runs at once; programs can be asked for nothing as long as it is deaf."""

    kind = "simulated"

    def __init__(self) -> None:
        self.objects: dict[InstanceId, Seen] = {}
        self.entries: dict[str, Any] = {}
        self.deaf = False
        self.refused = 0
        self.asked_for: int | None = None
        self._changed: asyncio.Queue[Sight] = asyncio.Queue()

    async def watch(self) -> AsyncIterator[Sight]:
        yield InventoryChanged(inventory())
        for seen in self.objects.values():
            yield seen
        yield Synced()
        while True:
            yield await self._changed.get()

    async def refusal(self, desired: Desired) -> str:
        return ""

    async def start(self, starts: Sequence[Start]) -> None:
        for one in starts:
            seen = Seen(
                one.instance,
                Life.READY,
                one.node,
                "it",
                placement=one.placement,
                desired=one.desired,
                devices=one.devices,
                started_ns=FleetClock.host_ns(),
            )
            self.objects[one.instance] = seen
            self._changed.put_nowait(seen)

    async def stop(self, instance: InstanceId, grace_s: float) -> None:
        seen = self.objects.pop(instance)
        self._changed.put_nowait(replace(seen, life=Life.GONE))

    async def request(self, instance: InstanceId, number: int) -> None:
        if self.deaf:
            self.refused += 1
            raise DureError("nobody listens")
        self.asked_for = number

    async def forget(self, instance: InstanceId) -> None:
        self.objects.pop(instance, None)

    async def resize(self, instance: InstanceId, placement: Placement) -> None:
        raise AssertionError("nobody asks for it")

    async def repartition(self, partition: Partition) -> str:
        raise AssertionError("nobody asks for it")

    async def logs(
        self, instance: InstanceId, *, follow: bool, tail: int | None
    ) -> AsyncIterator[bytes]:
        yield b""

    async def close(self) -> None:
        pass

    # Its memory

    async def load(self) -> Mapping[str, Any]:
        return dict(self.entries)

    async def save(self, changed: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        self.entries |= changed
        for name in removed:
            self.entries.pop(name, None)


@asynccontextmanager
async def member_of(cluster: Cluster) -> AsyncIterator[Member]:
    """A member, until it dies."""
    member = Member(Desk(CLUSTER), cluster, cluster, FleetClock())
    running = asyncio.create_task(member.run())
    try:
        async with asyncio.timeout(LIMIT_S):
            await member.ready()
            yield member
        assert not running.done()
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def want(member: Member, revision: int, desired: Desired) -> None:
    plan = Plan(1, revision, desired=(desired,), surroundings=surroundings())
    assert (await member.plan(plan)).taken


def test_a_request_that_failed_is_not_made_once_another_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(books, "_AGAIN_NS", NS_PER_S // 2)
    monkeypatch.setattr(runtime, "_AGAIN_S", 0.5)

    async def scenario(first: int, then: int) -> None:
        cluster, job = Cluster(), a_job("a")
        async with member_of(cluster) as member:
            await want(member, 1, job)
            while not cluster.objects:
                await asyncio.sleep(0.02)
            if not first:
                await want(member, 2, replace(job, checkpoint=6))
                while cluster.asked_for != 6:
                    await asyncio.sleep(0.02)
            cluster.deaf = True
            await want(member, 3, replace(job, checkpoint=first))
            while not cluster.refused:
                await asyncio.sleep(0.02)
            cluster.deaf = False
            await want(member, 4, replace(job, checkpoint=then))
            while cluster.asked_for != then:
                await asyncio.sleep(0.02)
            await asyncio.sleep(1.5)
            assert cluster.asked_for == then
            assert cluster.refused == 1

    async def both() -> None:
        await asyncio.gather(scenario(7, 0), scenario(0, 8))

    asyncio.run(both())


def test_a_request_that_failed_is_made_again_while_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(books, "_AGAIN_NS", NS_PER_S // 10)

    async def scenario() -> None:
        cluster, job = Cluster(), a_job("a")
        cluster.deaf = True
        async with member_of(cluster) as member:
            await want(member, 1, replace(job, checkpoint=7))
            while cluster.refused < 2:
                await asyncio.sleep(0.02)
            cluster.deaf = False
            while cluster.asked_for != 7:
                await asyncio.sleep(0.02)

    asyncio.run(scenario())


def test_the_time_of_the_fleet_goes_on_over_the_death_of_a_member() -> None:
    async def scenario() -> None:
        cluster, job = Cluster(), a_job("a", fence_after_s=5.0)
        async with member_of(cluster) as member:
            await want(member, 1, job)
            while not cluster.objects:
                await asyncio.sleep(0.02)
            member.hear_time(member.clock.host_ns() + HOUR_NS)
            await asyncio.sleep(1.2)  # two looks at how long the silence was
            assert cluster.objects
            member.desk.contact(member.clock.now_ns())
        async with member_of(cluster) as member:
            await asyncio.sleep(1.2)
            assert cluster.objects
            assert abs(member.clock.ahead_ns() - HOUR_NS) < NS_PER_S
            while cluster.objects:  # nobody has heard of it since
                await asyncio.sleep(0.1)

    asyncio.run(scenario())


def test_a_program_that_its_node_stamped_by_the_calendar_uses_no_more_in_a_fleet_ahead_of_it() -> (
    None
):
    async def scenario() -> None:
        cluster, job = Cluster(), a_job("a")
        async with member_of(cluster) as member:
            member.hear_time(member.clock.host_ns() + HOUR_NS)
            await want(member, 1, job)
            while not cluster.objects:
                await asyncio.sleep(0.02)
            await want(member, 2, released(job))
            while cluster.objects or member.desk.instance(job.key, 0) is not None:
                await asyncio.sleep(0.02)
            report = await member.news(whole=True)
            assert report is not None
            (usage,) = report.usage
            assert usage.device_us < LIMIT_S * 10**6
            assert abs(usage.until_ns - member.clock.now_ns()) < LIMIT_S * NS_PER_S

    asyncio.run(scenario())


def test_what_lies_between_two_stamps_is_exact_however_the_clocks_differ_within_a_second() -> None:
    clock = FleetClock()
    assert clock.stamps_ahead_ns() == 0
    clock.hear(clock.host_ns() + NS_PER_S // 2)
    assert clock.stamps_ahead_ns() == 0
    clock.hear(clock.host_ns() + HOUR_NS)
    assert clock.stamps_ahead_ns() == HOUR_NS
    clock.hear(clock.host_ns() + HOUR_NS + NS_PER_S // 2)
    assert clock.stamps_ahead_ns() == HOUR_NS
