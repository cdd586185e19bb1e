"""Checkpoints in Kubernetes: asked for and answered by annotations, shown as a file."""

import asyncio
from dataclasses import replace

import pytest

from dure.domain.fleet.workloads import WorkloadKind
from dure.kube.resources import PODS, Object
from dure.member.kube import names
from dure.member.kube.pods import CONTROL, CONTROL_FOLDER
from dure.member.ports import Checkpointed, Life
from tests.contracts.carriers import desired, starts, watching
from tests.kube.things import client_of
from tests.member.kube.beds import KubeBed

pytestmark = pytest.mark.kube


def test_a_pod_shows_the_request_as_a_file_and_an_annotation_answers(bed: KubeBed) -> None:
    async def scenario() -> None:
        async with bed.carrier() as carrier, watching(carrier) as eyes, client_of(bed.cluster) as c:
            wanted = desired(bed, bed.program(), kind=WorkloadKind.TRAINING)
            (start,) = starts(eyes, wanted, bed.nodes[0])
            await carrier.start([start])
            await eyes.comes_to(start.instance, Life.READY)
            name = eyes.seen(start.instance)[-1].name
            pod = await c.get(PODS, name, bed.namespace)
            assert _shown(pod) == f"metadata.annotations['{names.CHECKPOINT_REQUESTED}']"
            await carrier.request(start.instance, 7)
            pod = await c.get(PODS, name, bed.namespace)
            assert pod["metadata"]["annotations"][names.CHECKPOINT_REQUESTED] == "7"
            said = {"metadata": {"annotations": {names.CHECKPOINT_DONE: "7"}}}
            await c.patch(PODS, name, said, namespace=bed.namespace)
            saved = Checkpointed(start.instance, 7)
            await eyes.until("an answer", lambda: saved in eyes.sights)
            await carrier.request(start.instance, 0)
            pod = await c.get(PODS, name, bed.namespace)
            assert pod["metadata"]["annotations"][names.CHECKPOINT_REQUESTED] == ""
            gone = replace(start.instance, index=99)
            await carrier.request(gone, 7)

    asyncio.run(scenario())


def _shown(pod: Object) -> str:
    (volume,) = [each for each in pod["spec"]["volumes"] if each["name"] == CONTROL]
    (item,) = volume["downwardAPI"]["items"]
    (main,) = pod["spec"]["containers"]
    assert {"name": "DURE_CONTROL", "value": CONTROL_FOLDER} in main["env"]
    assert CONTROL_FOLDER in [each["mountPath"] for each in main["volumeMounts"]]
    assert item["path"] == "checkpoint"
    return str(item["fieldRef"]["fieldPath"])
