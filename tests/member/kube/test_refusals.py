"""What a cluster can never run is refused with the reason; what it lacks is watched."""

from dataclasses import replace
from typing import Any

import pytest

from dure.domain.fleet.programs import Mount, Program, Thing
from dure.domain.fleet.protocol.desired import Partition
from dure.kube.errors import KubeForbiddenError
from dure.kube.resources import CONFIG_MAPS, SECRETS, VOLUME_CLAIMS, Object
from dure.member.ports import Life, PartitionRefusedError
from tests.contracts.carriers import TENANT, desired, run, starts, watching
from tests.kube.things import client_of
from tests.member.kube.beds import KubeBed

pytestmark = pytest.mark.kube

SECRET, FILES, VOLUME = (
    Thing("secret", "key"),
    Thing("config-map", "files"),
    Thing("volume", "disk"),
)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (Program(command=("true",)), "names no image"),
        (Program(image="x", env_from=(SECRET,)), "no secret key"),
        (Program(image="x", env_from=(FILES,)), "no config map files"),
        (Program(image="x", mounts=(Mount(VOLUME, "/v"),)), "no volume claim disk"),
        (Program(image="x", service_account="robot"), "no service account robot"),
        (Program(image="x", pod={"dnsPolicy": "Wrong"}), "dnsPolicy"),
        (Program(image="x", pod={"hostPID": "maybe"}), "hostPID"),
        (Program(image="x", labels={"bad key": "x"}), "bad key"),
    ],
)
def test_what_is_missing_or_wrong_is_said(bed: KubeBed, program: Program, words: str) -> None:
    async def test() -> None:
        async with bed.carrier() as carrier, watching(carrier):
            assert words in await carrier.refusal(desired(bed, program))

    run(test)


def test_a_namespace_that_is_missing_is_said(bed: KubeBed) -> None:
    async def test() -> None:
        async with bed.carrier() as carrier, watching(carrier):
            elsewhere = replace(desired(bed, bed.program()), namespace="nowhere")
            assert await carrier.refusal(elsewhere) == "there is no namespace nowhere"
            assert await carrier.refusal(desired(bed, bed.program())) == ""

    run(test)


def test_things_that_come_and_go_are_told_by_name_alone(bed: KubeBed) -> None:
    def claim() -> Object:
        storage = {"requests": {"storage": "1Gi"}}
        return {"spec": {"accessModes": ["ReadWriteOnce"], "resources": storage}}

    async def test() -> None:
        async with (
            bed.carrier() as carrier,
            watching(carrier) as eyes,
            client_of(bed.cluster) as client,
        ):
            program = Program(image="x", env_from=(SECRET, FILES), mounts=(Mount(VOLUME, "/v"),))
            made: list[tuple[Any, str, Object]] = [
                (SECRETS, "key", {"stringData": {"password": "hush"}}),
                (CONFIG_MAPS, "files", {"data": {"a": "b"}}),
                (VOLUME_CLAIMS, "disk", claim()),
            ]
            for kind, name, body in made:
                metadata = {"namespace": bed.namespace, "name": name}
                await client.create(kind, {"metadata": metadata, **body})
            all_three = {(TENANT, thing) for thing in (SECRET, FILES, VOLUME)}
            await eyes.until("all are told", lambda: all_three <= eyes.inventory.things)
            assert await carrier.refusal(desired(bed, program)) == ""
            assert "hush" not in repr(eyes.sights)
            assert "aHVzaA" not in repr(vars(carrier)), "not even kept"
            await client.delete(SECRETS, "key", namespace=bed.namespace)
            await eyes.until("it is gone", lambda: (TENANT, SECRET) not in eyes.inventory.things)
            assert "no secret key" in await carrier.refusal(desired(bed, program))

    run(test)


def test_a_quota_refuses_in_the_api_servers_words(bed: KubeBed) -> None:
    path = f"/api/v1/namespaces/{bed.namespace}/resourcequotas"
    quota = {
        "metadata": {"name": "small"},
        "spec": {"hard": {"requests.cpu": "150m", "requests.nvidia.com/gpu": "1"}},
    }
    bed.cluster.request("POST", path, quota)

    async def test() -> None:
        async with bed.carrier() as carrier, watching(carrier) as eyes:
            one, other = (starts(eyes, desired(bed, bed.program()), bed.nodes[0])[0] for _ in "ab")
            await carrier.start([one])
            await eyes.comes_to(one.instance, Life.READY)
            await carrier.start([one])
            with pytest.raises(KubeForbiddenError, match="exceeded quota: small"):
                await carrier.start([other])
            assert "exceeded quota: small" in await carrier.refusal(other.desired)
            pair = starts(eyes, desired(bed, bed.program(), workers=2), *bed.nodes)
            with pytest.raises(KubeForbiddenError, match="exceeded quota: small"):
                await carrier.start(pair)
            await carrier.stop(one.instance, 1.0)
            await eyes.comes_to(one.instance, Life.GONE)

    run(test)


def test_a_node_is_not_divided_anew_while_anything_of_it_is_used(bed: KubeBed) -> None:
    async def test() -> None:
        asked = Partition(bed.nodes[0], "all-1g.10gb", 1)
        bed.settings = replace(bed.settings, partitioner="mig-manager")
        async with bed.carrier() as carrier, watching(carrier) as eyes:
            (start,) = starts(eyes, desired(bed, bed.program()), bed.nodes[0])
            await carrier.start([start])
            await eyes.comes_to(start.instance, Life.READY)
            with pytest.raises(PartitionRefusedError, match=r"used by dure-.*move or stop"):
                await carrier.repartition(asked)
            await carrier.stop(start.instance, 1.0)
            await eyes.comes_to(start.instance, Life.GONE)
            assert "follow the label" in await carrier.repartition(asked)
            node = bed.cluster.request("GET", f"/api/v1/nodes/{bed.nodes[0]}")
            assert node["metadata"]["labels"]["nvidia.com/mig.config"] == "all-1g.10gb"

    run(test)


@pytest.mark.parametrize(("kind", "words"), [("dra", "no driver offers"), ("", "name a partit")])
def test_what_cannot_be_divided_at_our_request_is_said(bed: KubeBed, kind: str, words: str) -> None:
    async def test() -> None:
        bed.settings = replace(bed.settings, partitioner=kind)
        async with bed.carrier() as carrier, watching(carrier):
            with pytest.raises(PartitionRefusedError, match=words):
                await carrier.repartition(Partition(bed.nodes[0], "all-1g.10gb", 1))

    run(test)
