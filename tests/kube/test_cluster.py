"""The test clusters themselves: real programs that run Jobs on paper and leave nothing behind."""

import asyncio
from pathlib import Path

import pytest

from dure.kube.resources import JOBS, PODS, Object
from tests.kube.cluster import KubeCluster
from tests.kube.things import MANAGER, client_of, eventually, pod

pytestmark = pytest.mark.kube


def job(namespace: str, name: str, **annotations: str) -> Object:
    template = pod("", "", **annotations)
    template["metadata"] = {"annotations": template["metadata"]["annotations"]}
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"completions": 3, "parallelism": 3, "backoffLimit": 0, "template": template},
    }


def condition(thing: Object, kind: str) -> bool:
    conditions = thing.get("status", {}).get("conditions", ())
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


@pytest.mark.parametrize(("code", "end"), [("0", "Complete"), ("1", "Failed")])
def test_a_job_on_paper_ends_as_it_is_told(
    kube: KubeCluster, namespace: str, code: str, end: str
) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            wanted = job(namespace, "work", runs_for="200ms", exit_code=code)
            await client.apply(JOBS, wanted, manager=MANAGER)

            async def ended() -> bool:
                return condition(await client.get(JOBS, "work", namespace), end)

            await eventually(f"the job is {end}", ended)

    asyncio.run(run())


def test_pods_take_the_resources_of_their_node_and_no_more(
    kube: KubeCluster, namespace: str
) -> None:
    if not any(
        n["metadata"]["name"] == "gpu-0" for n in kube.request("GET", "/api/v1/nodes")["items"]
    ):
        kube.add_nodes("gpu-0", resources={"nvidia.com/gpu": "2"})

    async def run() -> None:
        async with client_of(kube) as client:
            for number in range(3):
                wanted = pod(namespace, f"gpu-{number}")
                limits = {"limits": {"nvidia.com/gpu": "1"}}
                wanted["spec"]["containers"][0]["resources"] = limits
                await client.create(PODS, wanted)

            async def settled() -> bool:
                pods = await client.list(PODS)
                mine = [one for one in pods if one["metadata"]["namespace"] == namespace]
                running = [one for one in mine if one["status"]["phase"] == "Running"]
                waiting = [one for one in mine if _unschedulable(one)]
                return (len(running), len(waiting)) == (2, 1)

            await eventually("two run on the node that has two, one waits", settled)

    asyncio.run(run())


def _unschedulable(thing: Object) -> bool:
    conditions = thing["status"].get("conditions", ())
    return any(one.get("reason") == "Unschedulable" for one in conditions)


def test_a_closed_cluster_leaves_nothing_behind() -> None:
    cluster = KubeCluster()
    try:
        cluster.start()
        pids = [program.pid for program in cluster.programs]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    finally:
        cluster.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not cluster.folder.exists()
