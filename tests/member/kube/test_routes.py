"""Services under names of a real cluster, wherever they are; weights where the Gateway API is."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from dure.domain.fleet.protocol.services import RouteBackend, Routes, ServiceRoute
from dure.domain.ids import WorkloadId
from dure.kube.client import KubeClient
from dure.kube.requests import Scope
from dure.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    ENDPOINT_SLICES,
    HTTP_ROUTES,
    SERVICES,
    Object,
    Resource,
)
from dure.member.kube.routes import Routing
from tests.kube.programs import REQUIRE_VARIABLE, ROOT
from tests.kube.things import client_of, eventually
from tests.member.kube.beds import KubeBed

pytestmark = pytest.mark.kube
JOB = WorkloadId("01m7jpyetzzmhhma6740yyp1cs")


def route(bed: KubeBed, *backends: tuple[int, str, int], **more: Any) -> ServiceRoute:
    made = tuple(RouteBackend(*each) for each in backends)
    return ServiceRoute(JOB, more.pop("name", "chat"), bed.namespace, 8000, made, **more)


@asynccontextmanager
async def routing(bed: KubeBed, **settings: Any) -> AsyncIterator[tuple[Routing, KubeClient]]:
    async with client_of(bed.cluster) as client:
        told: list[str] = []
        made = Routing(client, replace(bed.settings, **settings), told.append)
        made.told = told  # type: ignore[attr-defined]
        yield made, client


async def there(client: KubeClient, resource: Resource, bed: KubeBed) -> dict[str, Object]:
    found = await client.list(resource, Scope(bed.namespace, labels="dure.io/route=true"))
    return {thing["metadata"]["name"]: thing for thing in found}


def gateway_crd() -> Object:
    found = subprocess.run(
        [str(ROOT / "tools" / "get_gateway_crds"), "--find"],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        reason = found.stderr.strip()
        if os.environ.get(REQUIRE_VARIABLE) == "all":
            pytest.fail(reason)
        pytest.skip(reason)
    (file,) = Path(found.stdout.strip()).glob("*_httproutes.yaml")
    crd: Object = yaml.safe_load(file.read_text(encoding="utf-8"))
    return crd


@pytest.fixture
def gateway(bed: KubeBed) -> Iterator[None]:
    """The real CRD of HTTPRoutes, as the Gateway API publishes it."""
    crd = gateway_crd()
    name = crd["metadata"]["name"]
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    bed.cluster.request("POST", path, crd)

    async def served() -> None:
        async with client_of(bed.cluster) as client:

            async def lists() -> bool:
                found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
                conditions = (found.get("status") or {}).get("conditions") or ()
                return any(
                    each["type"] == "Established" and each["status"] == "True"
                    for each in conditions
                )

            await eventually("HTTPRoutes are served", lists)

    asyncio.run(served())
    yield
    bed.cluster.request("DELETE", f"{path}/{name}")


def test_a_name_leads_to_wherever_the_service_is_and_goes_with_it(bed: KubeBed) -> None:
    async def scenario() -> None:
        async with routing(bed) as (made, client):
            made.hear(Routes((route(bed, (1, "10.0.0.5:8000", 1000)),), whole=True))
            await made.settle()
            services = await there(client, SERVICES, bed)
            (slice_,) = (await there(client, ENDPOINT_SLICES, bed)).values()
            assert list(services) == ["chat"]
            assert "selector" not in services["chat"]["spec"]
            assert slice_["metadata"]["labels"]["kubernetes.io/service-name"] == "chat"
            assert slice_["endpoints"][0]["addresses"] == ["10.0.0.5"]
            # It moves to another cluster: both are there, then the old one finishes, then is gone.
            both = route(bed, (1, "10.0.0.5:8000", 0), (2, "10.9.0.7:31000", 1000))
            made.hear(Routes((both,)))
            await made.settle()
            slices = await there(client, ENDPOINT_SLICES, bed)
            ready = {
                (endpoint["addresses"][0], each["ports"][0]["port"]): endpoint["conditions"]
                for each in slices.values()
                for endpoint in each["endpoints"]
            }
            assert ready["10.0.0.5", 8000]["ready"] is False
            assert ready["10.0.0.5", 8000]["terminating"] is True
            assert ready["10.9.0.7", 31000]["ready"] is True
            made.hear(Routes((route(bed, (2, "10.9.0.7:31000", 1000)),)))
            await made.settle()
            assert len(await there(client, ENDPOINT_SLICES, bed)) == 1
            made.hear(Routes((route(bed, ended=True),)))
            await made.settle()
            assert await there(client, SERVICES, bed) == {}
            assert await there(client, ENDPOINT_SLICES, bed) == {}

    asyncio.run(scenario())


def test_what_is_not_ours_stays_and_what_cannot_be_reached_is_told_once(bed: KubeBed) -> None:
    foreign = {
        "metadata": {"name": "chat", "namespace": bed.namespace},
        "spec": {"ports": [{"port": 1}]},
    }

    async def scenario() -> None:
        async with routing(bed) as (made, client):
            await client.create(SERVICES, foreign)
            made.hear(Routes((route(bed, (1, "127.0.0.1:8000", 1000)),), whole=True))
            await made.settle()
            await made.settle()
            kept = await client.get(SERVICES, "chat", bed.namespace)
            assert kept["spec"]["ports"][0]["port"] == 1
            assert "dure.io/managed-by" not in (kept["metadata"].get("labels") or {})
            told = made.told  # type: ignore[attr-defined]
            assert len(told) == 2
            assert any("is not Dure's" in each for each in told)
            assert any("127.0.0.1:8000" in each for each in told)

    asyncio.run(scenario())


@pytest.mark.usefixtures("gateway")
def test_routes_have_the_weights_of_both_attempts(bed: KubeBed) -> None:
    async def scenario() -> None:
        async with routing(bed, gateway="edge/main") as (made, client):
            both = route(bed, (1, "10.0.0.5:8000", 900), (2, "10.9.0.7:31000", 100))
            made.hear(Routes((both,), whole=True))
            await made.settle()
            services = await there(client, SERVICES, bed)
            assert sorted(services) == ["chat", "chat-a1", "chat-a2"]
            (found,) = (await there(client, HTTP_ROUTES, bed)).values()
            (rule,) = found["spec"]["rules"]
            assert {each["name"]: each["weight"] for each in rule["backendRefs"]} == {
                "chat-a1": 900,
                "chat-a2": 100,
            }
            kinds = [each.get("kind", "Gateway") for each in found["spec"]["parentRefs"]]
            assert kinds == ["Service", "Gateway"]
            assert found["spec"]["hostnames"] == [f"chat.{bed.namespace}"]
            before = found["metadata"]["resourceVersion"]
            await made.settle()
            (same,) = (await there(client, HTTP_ROUTES, bed)).values()
            assert same["metadata"]["resourceVersion"] == before
            made.hear(Routes((route(bed, (2, "10.9.0.7:31000", 1000)),)))
            await made.settle()
            assert sorted(await there(client, SERVICES, bed)) == ["chat", "chat-a2"]
            made.hear(Routes((), whole=True))
            await made.settle()
            assert await there(client, HTTP_ROUTES, bed) == {}

    asyncio.run(scenario())
