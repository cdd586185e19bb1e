"""What happens around Dure's Pods: others' Pods, nodes that come and go, servers that die."""

import asyncio
from dataclasses import replace

import pytest

from dure.domain.errors import DureError
from dure.domain.fleet.decisions import InstanceId
from dure.kube.requests import Scope
from dure.kube.resources import PODS
from dure.member.ports import Life, Progressed, Seen, Start, Synced, Unreachable
from tests.contracts.carriers import Eyes, desired, run, starts, watching
from tests.kube.things import client_of, pod
from tests.member.kube.beds import GPU_LABELS, KubeBed

pytestmark = pytest.mark.kube

MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}


def fact_of(eyes: Eyes, node: str) -> tuple[bool, str]:
    for fact in eyes.inventory.nodes:
        if fact.name == node:
            return fact.up, fact.why
    return False, "it is not there"


def test_pods_of_others_are_counted_until_they_end(bed: KubeBed) -> None:
    async def test() -> None:
        async with (
            bed.carrier() as carrier,
            watching(carrier) as eyes,
            client_of(bed.cluster) as client,
        ):
            node = bed.nodes[0]
            foreign = pod(bed.namespace, "foreign", runs_for="1500ms")
            foreign["spec"]["nodeName"] = node
            limits = {"nvidia.com/gpu": "3"}
            asked = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": limits}
            foreign["spec"]["containers"][0]["resources"] = asked
            await client.create(PODS, foreign)
            await eyes.until("it is counted", lambda: eyes.taken(node).devices == 3)
            told = eyes.taken(node)
            assert (told.cpu_milli, told.host_memory_bytes) == (2000, 1 << 30)
            await eyes.until("it is over", lambda: eyes.taken(node).devices == 0)
            (start,) = starts(eyes, desired(bed, bed.program()), node)
            await carrier.start([start])
            await eyes.comes_to(start.instance, Life.READY)
            assert eyes.taken(node).devices == 0, "Dure's own is not another's"
            await carrier.stop(start.instance, 1.0)

    run(test)


def test_a_pod_that_no_node_takes_is_taken_back(bed: KubeBed) -> None:
    bed.settings = replace(bed.settings, bind_within_s=2.0)

    async def test() -> None:
        async with (
            bed.carrier() as carrier,
            watching(carrier) as eyes,
            client_of(bed.cluster) as client,
        ):
            node = bed.nodes[0]
            (start,) = starts(eyes, desired(bed, bed.program()), node)
            greedy = pod(bed.namespace, "greedy")
            greedy["spec"]["nodeName"] = node
            greedy["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
            await client.create(PODS, greedy)
            await eyes.until("it is counted", lambda: eyes.taken(node).devices == 8)
            await carrier.start([start])
            ended = await eyes.comes_to(start.instance, Life.UNBOUND)
            assert "Insufficient nvidia.com/gpu" in ended.why
            await client.delete(PODS, "greedy", namespace=bed.namespace)
            await eyes.until("it is gone", lambda: eyes.taken(node).devices == 0)
            await carrier.start([start])
            await eyes.comes_to(start.instance, Life.READY)
            await carrier.stop(start.instance, 1.0)

    run(test)


def test_nodes_that_are_cordoned_or_reclaimed_are_told_and_work_there_goes_on(
    bed: KubeBed,
) -> None:
    async def test() -> None:
        async with bed.carrier() as carrier, watching(carrier) as eyes:
            node = bed.nodes[0]
            path = f"/api/v1/nodes/{node}"
            (start,) = starts(eyes, desired(bed, bed.program()), node)
            await carrier.start([start])
            await eyes.comes_to(start.instance, Life.READY)
            bed.cluster.request("PATCH", path, {"spec": {"unschedulable": True}}, **MERGE)
            await eyes.until("it is cordoned", lambda: fact_of(eyes, node) == (False, "cordoned"))
            bed.cluster.request("PATCH", path, {"spec": {"unschedulable": False}}, **MERGE)
            await eyes.until("it is back", lambda: fact_of(eyes, node) == (True, ""))
            note = {"metadata": {"annotations": {"dure.io/reclaim-at": "2030-01-01T00:00:00Z"}}}
            bed.cluster.request("PATCH", path, note, **MERGE)
            await eyes.until(
                "it is reclaimed", lambda: fact_of(eyes, node)[1].startswith("reclaimed")
            )
            assert eyes.lives(start.instance)[-1] is Life.READY
            await carrier.stop(start.instance, 1.0)

    run(test)


def test_nodes_that_come_and_go_change_numbers_and_every_place_is_told_anew(bed: KubeBed) -> None:
    async def test() -> None:
        async with bed.carrier() as carrier, watching(carrier) as eyes:
            node = bed.nodes[1]
            (start,) = starts(eyes, desired(bed, bed.program()), node)
            await carrier.start([start])
            await eyes.comes_to(start.instance, Life.READY)
            first = f"{bed.nodes[0][:-2]}"
            bed.add_nodes(first, resources={"nvidia.com/gpu": "8"}, labels=GPU_LABELS)
            await eyes.until(
                "its place has another number",
                lambda: (
                    eyes.seen(start.instance)[-1].placement == eyes.placement(node)
                    and eyes.placement(node) != start.placement
                ),
            )
            assert eyes.lives(start.instance)[-1] is Life.READY
            other = InstanceId(start.instance.workload, 2, 0)
            stale = Start(other, start.desired, start.placement, node)
            with pytest.raises(DureError, match="decide anew"):
                await carrier.start([stale])
            await carrier.stop(start.instance, 1.0)
            await eyes.comes_to(start.instance, Life.GONE)

    run(test)


def test_a_pod_on_a_silent_node_is_not_gone_before_somebody_says_so(bed: KubeBed) -> None:
    async def test() -> None:
        async with bed.carrier() as carrier, watching(carrier) as eyes:
            node = bed.nodes[0]
            path = f"/api/v1/nodes/{node}"
            (start,) = starts(eyes, desired(bed, bed.program()), node)
            await carrier.start([start])
            await eyes.comes_to(start.instance, Life.READY)
            bed.cluster.kwok.kill()  # no node says anything from here on
            silent = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
            body = {"status": {"conditions": [silent]}}
            bed.cluster.request("PATCH", f"{path}/status", body, **STRATEGIC)
            await eyes.until(
                "it is not ready", lambda: fact_of(eyes, node)[1].startswith("not ready")
            )
            await carrier.stop(start.instance, 1.0)
            await eyes.comes_to(start.instance, Life.ENDING)
            await asyncio.sleep(3.0)  # past its grace
            assert eyes.lives(start.instance)[-1] is Life.ENDING
            taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
            bed.cluster.request("PATCH", path, {"spec": {"taints": [taint]}}, **STRATEGIC)
            await eyes.comes_to(start.instance, Life.GONE)

    run(test)


def test_a_dead_api_server_is_told_and_nothing_is_lost_or_doubled(bed: KubeBed) -> None:
    async def test() -> None:
        async with bed.carrier() as carrier, watching(carrier) as eyes:
            jobs = [desired(bed, bed.program(runs_for_s=2.0)) for _ in range(8)]
            each = [
                starts(eyes, wanted, bed.nodes[number % 2])[0] for number, wanted in enumerate(jobs)
            ]
            for start in each[:4]:
                await carrier.start([start])
            bed.cluster.api_servers[0].kill()
            await eyes.until(
                "it is told", lambda: any(isinstance(one, Unreachable) for one in eyes.sights)
            )
            asked = [asyncio.create_task(carrier.start([start])) for start in each[4:]]
            await asyncio.sleep(1.0)
            bed.cluster.start()
            await asyncio.gather(*asked)
            for start in each:
                await eyes.comes_to(start.instance, Life.SUCCEEDED)

            def in_contact() -> bool:
                told = [one for one in eyes.sights if isinstance(one, Synced | Unreachable)]
                return isinstance(told[-1], Synced)

            await eyes.until("contact is told again", in_contact)
            own = {start.instance for start in each}
            told = [one for one in eyes.sights if isinstance(one, Seen) and one.instance in own]
            assert len({one.name for one in told}) == len(each)
            async with client_of(bed.cluster) as client:
                assert len(await client.list(PODS, Scope(bed.namespace))) == len(each)

    run(test)


def test_logs_are_what_the_program_printed(bed: KubeBed) -> None:
    async def test() -> None:
        async with bed.carrier() as carrier, watching(carrier) as eyes:
            (start,) = starts(eyes, desired(bed, bed.program()), bed.nodes[0])
            await carrier.start([start])
            await eyes.comes_to(start.instance, Life.READY)
            line = "2026-01-01T00:00:00.000000000Z stdout F hello\n"
            bed.cluster.pod_log_file.write_text(line * 2, encoding="utf-8")
            lines = [one async for one in carrier.logs(start.instance, follow=False, tail=1)]
            assert lines == [b"hello\n"]
            await carrier.stop(start.instance, 1.0)

    run(test)


def test_a_pod_whose_note_was_spoilt_is_still_told_and_can_be_stopped(bed: KubeBed) -> None:
    async def test() -> None:
        wanted = desired(bed, bed.program())
        async with bed.carrier() as carrier, watching(carrier) as eyes:
            (start,) = starts(eyes, wanted, bed.nodes[0])
            await carrier.start([start])
            running = await eyes.comes_to(start.instance, Life.READY)
        path = f"/api/v1/namespaces/{bed.namespace}/pods/{running.name}"
        spoilt = {"metadata": {"annotations": {"dure.io/note": "?"}}}
        bed.cluster.request("PATCH", path, spoilt, **MERGE)
        async with bed.carrier() as carrier, watching(carrier) as eyes:
            found = eyes.seen(start.instance)[-1]
            assert (found.life, found.node) == (Life.READY, bed.nodes[0])
            assert (found.desired, found.placement) == (None, None)
            await carrier.stop(start.instance, 1.0)
            await eyes.comes_to(start.instance, Life.GONE)

    run(test)


def test_how_far_a_job_is_may_be_noted_on_its_pod(bed: KubeBed) -> None:
    async def test() -> None:
        async with bed.carrier() as carrier, watching(carrier) as eyes:
            (start,) = starts(eyes, desired(bed, bed.program()), bed.nodes[0])
            await carrier.start([start])
            running = await eyes.comes_to(start.instance, Life.READY)
            path = f"/api/v1/namespaces/{bed.namespace}/pods/{running.name}"
            noted = {"dure.io/done-share": "0.5", "dure.io/saved-share": "0.25"}
            bed.cluster.request("PATCH", path, {"metadata": {"annotations": noted}}, **MERGE)
            told = Progressed(start.instance, 0.5, 0.25)
            await eyes.until("it is told", lambda: told in eyes.sights)
            await carrier.stop(start.instance, 1.0)

    run(test)
