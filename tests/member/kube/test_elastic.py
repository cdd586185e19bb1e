"""Services of Pods that follow signals of their load, and nodes that are emptied to be divided."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from dure.domain.fleet.decisions import Site
from dure.domain.fleet.lifecycle import PartitionPhase
from dure.domain.fleet.protocol.desired import Desired, Partition
from dure.domain.fleet.protocol.reports import RunPhase
from dure.domain.fleet.protocol.services import LoadSignal, Signals
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.units import NS_PER_S
from tests.contracts.carriers import desired
from tests.member.kube.beds import KubeBed
from tests.member.kube.test_member import (
    HERE,
    LABEL,
    divide,
    end_of,
    labels,
    member,
    phase,
    pods,
    wanted,
)
from tests.member.link.centres import Centre, centre

pytestmark = pytest.mark.kube


def service(bed: KubeBed, made: Centre, **changes: object) -> Desired:
    """A service of Pods on the bed's nodes, 10 requests a second each."""
    site = wanted(bed, made, bed.program()).order.site
    each = desired(bed, bed.program(), kind=WorkloadKind.SERVING)
    workload = each.order.workload
    assert workload.service is not None
    served = replace(workload.service, reference="h100", **changes)  # type: ignore[arg-type]
    order = replace(
        each.order, workload=replace(workload, service=served), site=Site(HERE, site.group)
    )
    return replace(each, order=order)


async def say(made: Centre, each: Desired, rate: float) -> None:
    """A front speaks, by the clock that the member reports by."""
    at_ns = made.reports[-1].at_ns
    signal = LoadSignal(
        each.key.job, "front", at_ns, at_ns + 60 * NS_PER_S, requests_per_s=rate, latency_ms=20.0
    )
    await made.say(Signals((signal,)))


def ready(made: Centre, each: Desired) -> int:
    status = made.told.get(each.key)
    return 0 if status is None else sum(one.ready and not one.standby for one in status.instances)


def test_a_signal_makes_a_service_of_pods_larger_and_one_kept_warm_serves_at_once(
    bed: KubeBed,
) -> None:
    async def scenario() -> None:
        async with centre(silence_s=30.0) as made, member(bed, made):
            await made.until("a link", lambda: made.reports)
            chat = service(bed, made, standby=1)
            await made.want(chat)
            await made.until("both", lambda: phase(made, chat) is RunPhase.RUNNING)
            await made.until("one that serves", lambda: ready(made, chat) == 1)
            await made.until("one kept warm", lambda: len(made.told[chat.key].instances) == 2)
            await say(made, chat, 25.0)
            await made.until("more that serve", lambda: ready(made, chat) >= 3)
            sizing = made.told[chat.key].sizing
            assert sizing is not None
            assert "25 requests/s need" in sizing.why
            serving = sizing.serving
            await made.until("the pool to be full", lambda: len(pods(bed)) == serving + 1)

    asyncio.run(scenario())


def test_instances_of_a_service_are_told_with_the_addresses_of_their_pods(bed: KubeBed) -> None:
    async def scenario() -> None:
        async with centre(silence_s=30.0) as made, member(bed, made):
            await made.until("a link", lambda: made.reports)
            chat = service(bed, made)
            chat = replace(chat, program=replace(chat.program, port=8080))
            await made.want(chat)
            await made.until("one that serves", lambda: ready(made, chat) == 1)
            (pod,) = pods(bed)
            (told,) = made.told[chat.key].instances
            assert told.address == f"{pod['status']['podIP']}:8080"

    asyncio.run(scenario())


def test_a_node_is_emptied_new_first_and_then_divided(bed: KubeBed, tmp_path: Path) -> None:
    config = tmp_path / "member.yaml"
    config.write_text("partitioner: mig-manager\n")

    def on(node: str) -> list[str]:
        return [each["metadata"]["name"] for each in pods(bed) if each["spec"]["nodeName"] == node]

    async def scenario() -> None:
        async with centre(silence_s=30.0) as made, member(bed, made, config):
            await made.until("a link", lambda: made.reports)
            chat = service(bed, made)
            await made.want(chat)
            await made.until("it to serve", lambda: ready(made, chat) == 1)
            node = made.told[chat.key].instances[0].node
            wish = Partition(node, "all-1g.10gb", 1, drain=True)
            made.around = replace(made.around, partitions=(wish,))
            await made.want(chat)
            await made.until("the label", lambda: LABEL in labels(bed, node))
            assert not on(node)
            assert ready(made, chat) == 1
            divide(bed, node)
            await made.until("an end", lambda: end_of(made, 1))
            ended = end_of(made, 1)
            assert ended is not None
            assert ended.phase is PartitionPhase.DONE

    asyncio.run(scenario())
