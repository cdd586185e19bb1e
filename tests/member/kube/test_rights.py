"""With the rights of `deploy/kubernetes`, and no others, a member can do all it does."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
import yaml

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.programs import Program, Thing
from dure.kube.client import KubeClient
from dure.kube.errors import KubeForbiddenError
from dure.kube.paper_devices import DRIVER, device_slices
from dure.kube.requests import Scope
from dure.kube.resources import (
    CONFIG_MAPS,
    NODES,
    PODS,
    RESOURCE_SLICES,
    SECRETS,
    Resource,
)
from dure.kube.tokens import StatedToken
from dure.member.kube.election import LeaseElection
from dure.member.kube.memory import SecretMemory
from dure.member.ports import Life, Start
from tests.contracts.carriers import CarrierContract, Eyes, desired, run, starts, watching
from tests.kube.cluster import KubeCluster
from tests.kube.programs import ROOT
from tests.member.kube.beds import KubeBed, make_bed

pytestmark = pytest.mark.kube

MANIFESTS = ROOT / "deploy" / "kubernetes"
SYSTEM = "dure-system"
RBAC = "rbac.authorization.k8s.io"
KINDS = {
    kind: Resource(group, version, kind, plural, namespaced)
    for group, version, kind, plural, namespaced in (
        ("", "v1", "Namespace", "namespaces", False),
        ("", "v1", "ServiceAccount", "serviceaccounts", True),
        (RBAC, "v1", "ClusterRole", "clusterroles", False),
        (RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False),
        (RBAC, "v1", "Role", "roles", True),
        (RBAC, "v1", "RoleBinding", "rolebindings", True),
        ("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False),
        ("apps", "v1", "Deployment", "deployments", True),
    )
}


def manifests(name: str) -> list[Mapping[str, Any]]:
    text = (MANIFESTS / name).read_text(encoding="utf-8")
    return [document for document in yaml.safe_load_all(text) if document]


def put(cluster: KubeCluster, thing: Mapping[str, Any]) -> None:
    """Create what a manifest says, where it is not there yet."""
    metadata = thing["metadata"]
    resource, space = KINDS[thing["kind"]], metadata.get("namespace", "")
    if not cluster.has(resource.path(space, metadata["name"])):
        cluster.request("POST", resource.path(space), thing)


def install(cluster: KubeCluster, tenant_namespace: str) -> str:
    """Install the rights as an administrator would; the member's token."""
    for name in ("member-rights.yaml", "device-class.yaml"):
        for thing in manifests(name):
            put(cluster, thing)
    for thing in manifests("tenant.yaml"):
        if thing["kind"] == "RoleBinding":
            there = {**thing["metadata"], "namespace": tenant_namespace}
            put(cluster, {**thing, "metadata": there})
    path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/dure-member/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(cluster.request("POST", path, request)["status"]["token"])


@pytest.fixture
def bed(kube: KubeCluster) -> Iterator[KubeBed]:
    """A bed whose carriers are members with exactly their rights."""
    made = make_bed(kube)
    token = install(kube, made.namespace)
    made.access = replace(made.access, tokens=StatedToken(token), certificate=None)
    yield made
    made.close()


class TestWithLeastRights(CarrierContract):
    """All rules of carriers."""


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one kind, and where."""

    where: str
    """`cluster`, `tenant`, `own`, or `elsewhere`: in a tenant's namespace without a binding."""
    resource: str
    verb: str


def granted() -> set[Right]:
    """What the manifests give."""
    places = {
        ("ClusterRole", "dure-member"): "cluster",
        ("ClusterRole", "dure-member-tenant"): "tenant",
        ("Role", "dure-member"): "own",
    }
    return {
        Right(places[thing["kind"], thing["metadata"]["name"]], resource, verb)
        for thing in manifests("member-rights.yaml")
        for rule in thing.get("rules", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used_by(request: httpx.Request, tenant_namespace: str) -> Right:
    """The right that a request needs, as the API server names it."""
    path = request.url.path
    parts = path.removeprefix("/apis/").removeprefix("/api/").split("/")
    parts = parts[1:] if path.startswith("/api/") else parts[2:]
    space = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        space, parts = parts[1], parts[2:]
    resource = "/".join(parts[::2])
    named = len(parts) > 1
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    reading = "get" if named else "watch" if "watch" in request.url.params else "list"
    verb = verbs.get(request.method, reading)
    where = {tenant_namespace: "tenant", SYSTEM: "own", "": "cluster"}.get(space, "elsewhere")
    return Right(where, resource, verb)


@asynccontextmanager
async def recording(bed: KubeBed, used: set[Right]) -> AsyncIterator[None]:
    """Write down the rights that all clients use meanwhile."""
    sent = httpx.AsyncClient.send

    async def send(self: httpx.AsyncClient, request: httpx.Request, **more: Any) -> httpx.Response:
        used.add(used_by(request, bed.namespace))
        return await sent(self, request, **more)

    patch = pytest.MonkeyPatch()
    patch.setattr(httpx.AsyncClient, "send", send)
    try:
        yield
    finally:
        patch.undo()


async def lead_and_remember(bed: KubeBed) -> None:
    """What a member does beside its carrier."""
    async with KubeClient(replace(bed.access, namespace=SYSTEM)) as client:
        name = f"member-{bed.namespace}"
        election = LeaseElection(client, name, "one")
        await election.lead()
        await election.resign()
        memory = SecretMemory(client, name)
        await memory.load()
        await memory.save({"a": 1})
        await memory.save({"a": 2})
        other = SecretMemory(client, name)
        with pytest.raises(Exception, match="already exists"):
            await other.save({"a": 3})


async def carry_everything(bed: KubeBed, eyes: Eyes, by_claims: str) -> None:
    """Everything a carrier does, once."""
    carrier = eyes.carrier
    program = Program(
        image="x",
        env_from=(Thing("secret", "none"),),
        service_account="robot",
    )
    nowhere = replace(desired(bed, program), namespace="nowhere")
    assert "no namespace" in await carrier.refusal(nowhere)
    assert "no secret" in await carrier.refusal(desired(bed, program))
    assert "no service account" in await carrier.refusal(
        desired(bed, replace(program, env_from=()))
    )
    single = starts(eyes, desired(bed, bed.program()), bed.nodes[0])
    gang = starts(eyes, desired(bed, bed.program(), workers=2), *bed.nodes[:2])
    both = [
        [
            Start(
                InstanceId(wanted.key.job, 1, rank),
                wanted,
                eyes.placement(by_claims, first + rank),
                by_claims,
                (first + rank,),
                rank,
                count,
            )
            for rank in range(count)
        ]
        for first, count in ((0, 1), (2, 2))
        for wanted in [desired(bed, bed.program(), workers=count)]
    ]
    for group in (single, gang, *both):
        await carrier.start(group)
        await carrier.start(group)
    for start in [*single, *gang, *both[0], *both[1]]:
        await eyes.comes_to(start.instance, Life.READY)
    [line async for line in carrier.logs(single[0].instance, follow=False, tail=1)]
    for start in [*single, *gang, *both[0], *both[1]]:
        await carrier.stop(start.instance, 1.0)
    for start in [*single, *gang, *both[0], *both[1]]:
        await eyes.comes_to(start.instance, Life.GONE)


def test_every_right_that_is_granted_is_used_and_no_other(bed: KubeBed) -> None:
    node = f"{bed.nodes[0]}-claims"
    bed.add_nodes(node, resources={})
    slices = device_slices(node, device_profile("h100"), 4)
    for thing in slices:
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
        bed.cluster.request("POST", RESOURCE_SLICES.path(), {**kind, **thing})
    used: set[Right] = set()

    async def test() -> None:
        async with recording(bed, used):
            async with bed.carrier() as carrier, watching(carrier) as eyes:
                await carry_everything(bed, eyes, node)
                await asyncio.sleep(1.0)  # informers that just listed begin to watch
            await lead_and_remember(bed)

    try:
        run(test)
    finally:
        for number in range(len(slices)):
            bed.cluster.request("DELETE", RESOURCE_SLICES.path("", f"{node}-{DRIVER}-{number}"))
    rare = {Right("tenant", "resourceclaims", "delete")}
    """Claims of Pods that were never made, after minutes."""
    assert granted() - used == rare
    assert {right.where for right in used - granted()} <= {"elsewhere"}


def test_nothing_more_is_allowed(bed: KubeBed) -> None:
    async def test() -> None:
        async with KubeClient(bed.access) as client:
            forbidden = [
                client.list(SECRETS),
                client.list(SECRETS, Scope("kube-system")),
                client.get(SECRETS, "any", bed.namespace),
                client.get(SECRETS, "any", "kube-system"),
                client.delete(NODES, bed.nodes[0]),
                client.patch(NODES, bed.nodes[0], {"metadata": {"labels": {"a": "b"}}}),
                client.create(PODS, _pod("default")),
                client.create(PODS, _pod(SYSTEM)),
                client.delete(CONFIG_MAPS, "kube-root-ca.crt", namespace=bed.namespace),
                client.create(SECRETS, {"metadata": {"name": "x", "namespace": bed.namespace}}),
            ]
            for request in forbidden:
                with pytest.raises(KubeForbiddenError):
                    await request

    run(test)


def _pod(namespace: str) -> dict[str, Any]:
    container = {"name": "main", "image": "x"}
    return {"metadata": {"name": "x", "namespace": namespace}, "spec": {"containers": [container]}}


@pytest.mark.parametrize("name", sorted(path.name for path in MANIFESTS.glob("*.yaml")))
def test_the_cluster_takes_every_manifest(kube: KubeCluster, name: str) -> None:
    install(kube, "default")
    for stated in manifests(name):
        resource, metadata = KINDS[stated["kind"]], dict(stated["metadata"])
        space = metadata.get("namespace", "")
        if space and not kube.has(f"/api/v1/namespaces/{space}"):
            space = metadata["namespace"] = "default"
        if not kube.has(resource.path(space, metadata["name"])):
            path = f"{resource.path(space)}?dryRun=All&fieldValidation=Strict"
            kube.request("POST", path, {**stated, "metadata": metadata})
