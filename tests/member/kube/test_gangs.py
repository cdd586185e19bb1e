"""Gangs come to their nodes whole or not at all, and never stay there in part."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from dure.domain.fleet.workloads import Gang
from dure.kube.informer import Change, ChangeKind, Informer
from dure.kube.requests import Scope
from dure.kube.resources import CONFIG_MAPS, JOBS, PODS, SERVICES
from dure.member.kube.shepherd import EPSILON_S
from dure.member.ports import Life
from tests.contracts.carriers import desired, run, starts, watching
from tests.kube.cluster import KubeCluster
from tests.kube.things import client_of, eventually
from tests.member.kube.beds import KubeBed

pytestmark = pytest.mark.kube

BIND_S = 4.0
MERGE = {"content-type": "application/merge-patch+json"}


def cordon(cluster: KubeCluster, node: str, *, on: bool) -> None:
    cluster.request("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": on}}, **MERGE)


@dataclass
class BoundLog:
    """How many Pods of a namespace had a node, and since when."""

    size: int
    bound: set[str] = field(default_factory=set)
    partly_since_s: float | None = None
    longest_partly_s: float = 0.0

    def take(self, change: Change) -> None:
        name = change.object["metadata"]["name"]
        has_node = bool(change.object["spec"].get("nodeName"))
        if change.kind is ChangeKind.DELETED:
            self.bound.discard(name)
        elif has_node:
            self.bound.add(name)
        now_s = time.monotonic()
        if 0 < len(self.bound) < self.size:
            self.partly_since_s = self.partly_since_s or now_s
            self.longest_partly_s = max(self.longest_partly_s, now_s - self.partly_since_s)
        elif self.partly_since_s is not None:
            self.longest_partly_s = max(self.longest_partly_s, now_s - self.partly_since_s)
            self.partly_since_s = None


@asynccontextmanager
async def logging_bound(bed: KubeBed, size: int) -> AsyncIterator[BoundLog]:
    """Follow the namespace's Pods beside the carrier."""
    log = BoundLog(size)
    async with client_of(bed.cluster) as client:
        informer = Informer(client, PODS, Scope(bed.namespace))

        async def follow() -> None:
            async with aclosing(informer.happenings()) as happenings:
                async for happening in happenings:
                    if isinstance(happening, Change):
                        log.take(happening)

        task = asyncio.create_task(follow())
        yield log
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_gang_of_eight_with_one_place_that_is_gone_is_taken_back_and_then_starts_whole(
    bed: KubeBed,
) -> None:
    more = tuple(f"{bed.nodes[0]}-{number}" for number in range(8))
    bed.add_nodes(*more, resources={"nvidia.com/gpu": "1"}, labels={"dure.io/profile": "h100"})
    bed.settings = replace(bed.settings, bind_within_s=BIND_S)

    async def test() -> None:
        async with (
            bed.carrier() as carrier,
            watching(carrier) as eyes,
            logging_bound(bed, 8) as log,
            client_of(bed.cluster) as client,
        ):
            gang = starts(eyes, desired(bed, bed.program(), workers=8), *more)
            cordon(bed.cluster, more[5], on=True)
            await carrier.start(gang)
            name = f"dure-{gang[0].instance.workload}-1-0"
            for start in gang:
                ended = await eyes.comes_to(start.instance, Life.UNBOUND)
                assert "1 of 8 Pods were not bound" in ended.why
                assert Life.SUCCEEDED not in eyes.lives(start.instance)
            assert log.longest_partly_s <= BIND_S + EPSILON_S
            assert not log.bound, "all capacity is back once the last is told"
            assert not [
                one
                for one in await client.list(CONFIG_MAPS, Scope(bed.namespace))
                if one["metadata"]["name"] == name
            ], "no rank was let through the barrier"

            cordon(bed.cluster, more[5], on=False)
            await eyes.until(
                "the node is back", lambda: all(fact.up for fact in eyes.inventory.nodes)
            )
            await carrier.start(gang)
            for start in gang:
                running = await eyes.comes_to(start.instance, Life.READY)
                assert running.node == start.node

            async def barrier_is_open() -> bool:
                found = await client.list(CONFIG_MAPS, Scope(bed.namespace))
                hosts = [one for one in found if one["metadata"]["name"] == name]
                if not hosts:
                    return False
                lines = hosts[0]["data"]["hosts"].splitlines()
                assert lines == [f"{name}-{rank}.{name} {node}" for rank, node in enumerate(more)]
                return True

            await eventually("the barrier is open", barrier_is_open)
            for start in gang:
                await carrier.stop(start.instance, 1.0)
            for start in gang:
                await eyes.comes_to(start.instance, Life.GONE)

            async def all_gone() -> bool:
                left = [
                    one["metadata"]["name"]
                    for kind in (JOBS, PODS, SERVICES, CONFIG_MAPS)
                    for one in await client.list(kind, Scope(bed.namespace))
                    if one["metadata"]["name"].startswith("dure-")
                ]
                return not left

            await eventually("nothing of the gang is left", all_gone)

    run(test)


def test_a_gang_whose_member_dies_in_between_is_carried_on_by_the_next(bed: KubeBed) -> None:
    async def test() -> None:
        wanted = desired(bed, bed.program(), workers=2)
        async with bed.carrier() as carrier, watching(carrier) as eyes:
            gang = starts(eyes, wanted, *bed.nodes[:2])
        async with bed.carrier() as carrier:
            # Nobody watches any more when the Job is made: its Pods stay behind the gate.
            async with watching(carrier):
                units = [carrier._unit(start) for start in gang]
            await carrier._hands.make_gang(units)
        async with client_of(bed.cluster) as client:

            async def two_gated() -> bool:
                pods = await client.list(PODS, Scope(bed.namespace))
                return [bool(one["spec"].get("schedulingGates")) for one in pods] == [True, True]

            await eventually("the Pods wait at the gate", two_gated)
        async with bed.carrier() as carrier, watching(carrier) as eyes:
            for start in gang:
                found = await eyes.comes_to(start.instance, Life.READY)
                assert (found.node, found.desired) == (start.node, wanted)
            for start in gang:
                await carrier.stop(start.instance, 1.0)
            for start in gang:
                await eyes.comes_to(start.instance, Life.GONE)

    run(test)


def test_one_rank_that_fails_ends_its_gang(bed: KubeBed) -> None:
    async def test() -> None:
        async with bed.carrier() as carrier, watching(carrier) as eyes:
            gang = starts(eyes, desired(bed, bed.program(), workers=2), *bed.nodes[:2])
            await carrier.start(gang)
            for start in gang:
                await eyes.comes_to(start.instance, Life.READY)
            name = eyes.seen(gang[1].instance)[-1].name
            path = f"/api/v1/namespaces/{bed.namespace}/pods/{name}"
            note = {"paper.dure.test/exit-code": "7", "paper.dure.test/runs-for": "10ms"}
            bed.cluster.request("PATCH", path, {"metadata": {"annotations": note}}, **MERGE)
            failed = await eyes.comes_to(gang[1].instance, Life.FAILED)
            assert failed.exit_code == 7
            other = await eyes.comes_to(gang[0].instance, Life.GONE)
            assert other.life.over

    run(test)


def test_an_elastic_gang_gives_up_its_last_rank_and_goes_on(bed: KubeBed) -> None:
    async def test() -> None:
        async with bed.carrier() as carrier, watching(carrier) as eyes:
            wanted = desired(bed, bed.program(), workers=2)
            workload = replace(wanted.order.workload, gang=Gang(1, most_workers=4))
            wanted = replace(wanted, order=replace(wanted.order, workload=workload))
            first, last = starts(eyes, wanted, *bed.nodes[:2])
            await carrier.start([first, last])
            for start in (first, last):
                await eyes.comes_to(start.instance, Life.READY)
            await carrier.stop(last.instance, 1.0)
            await eyes.comes_to(last.instance, Life.GONE)
            assert eyes.lives(first.instance)[-1] is Life.READY
            await carrier.stop(first.instance, 1.0)
            await eyes.comes_to(first.instance, Life.GONE)

    run(test)
