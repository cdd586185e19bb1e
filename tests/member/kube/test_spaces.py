"""Scoped virtual clusters: a member makes, keeps and removes namespaces with its least rights."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dure.api.virtual import KubeconfigRequest
from dure.domain.fleet.accounts import TenantKind
from dure.domain.fleet.virtual import SpacePhase, VirtualTier
from dure.domain.ids import ClusterId
from dure.member.kube import spaces as spaces_module
from dure.server.virtual.spaces import ask_all, finish
from dure.stores.rows import Tenant, VirtualCluster, VirtualSpace
from tests.kube.cluster import KubeCluster
from tests.kube.fixtures import kube
from tests.kube.programs import ROOT
from tests.member.door.beds import World, declared, job, kubectl, run_kubectl
from tests.member.door.conftest import bare, bed
from tests.member.door.test_rights import conf_of_member
from tests.member.kube.beds import KubeBed
from tests.member.kube.test_rights import SYSTEM

__all__ = ["bare", "bed", "kube"]

pytestmark = [pytest.mark.kube, pytest.mark.timeout(600)]

RIGHTS = ROOT / "deploy" / "kubernetes" / "virtual-rights.yaml"
SPEC = {"quota": {"pods": "5", "requests.cpu": "10"}}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spaces_module, "KEEP_S", 1.0)


@pytest.fixture
def tenant(kube: KubeCluster) -> Iterator[str]:
    """A tenant whose namespace is gone afterwards."""
    name = f"t{secrets.token_hex(3)}"
    yield name
    kubectl(kube, "delete", "namespace", f"dure-{name}", "--ignore-not-found", "--wait=false")


@dataclass
class Own:
    """A world in which a tenant has a virtual cluster of its own."""

    world: World
    tenant: str

    @property
    def namespace(self) -> str:
        return f"dure-{self.tenant}"

    async def change(self, **fields: Any) -> None:
        """Let an administrator change it."""
        async with self.world.store.transaction() as tx:
            row = await tx.virtual.put(replace(await tx.virtual.get("own"), **fields))
            await ask_all(tx, row)
            if row.deleting:
                await finish(tx, row)

    async def space(self) -> VirtualSpace | None:
        async with self.world.store.reading() as tx:
            found = await tx.spaces.all(name="own")
        return found[0] if found else None

    async def phase(self, phase: SpacePhase, holds: Callable[[VirtualSpace], bool]) -> VirtualSpace:
        """Wait until its cluster says so."""

        async def look() -> VirtualSpace | None:
            space = await self.space()
            return space if space and space.phase is phase and holds(space) else None

        found: VirtualSpace = await self.world.until(f"own is {phase.value}", look)
        return found

    async def get(self, *words: str) -> Any:
        """An object of its namespace; None: there is none."""
        done = await asyncio.to_thread(
            run_kubectl, self.world.bed.cluster, "get", *words, "-n", self.namespace, "-o", "json"
        )
        return json.loads(done.stdout) if done.returncode == 0 else None

    async def until(self, what: str, holds: Callable[[], Awaitable[Any]]) -> Any:
        return await self.world.until(what, holds)


@asynccontextmanager
async def own(
    bed: KubeBed, folder: Path, tenant: str, *, rights: bool = True
) -> AsyncIterator[Own]:
    """A member with exactly the rights of the manifests, and a virtual cluster."""
    conf = conf_of_member(bed, folder)
    if rights:
        kubectl(bed.cluster, "apply", "-f", str(RIGHTS))
    else:
        kubectl(bed.cluster, "delete", "-f", str(RIGHTS), "--ignore-not-found")
    # What a member of an earlier test remembers is of another centre.
    kubectl(bed.cluster, "delete", "secrets,leases", "--all", "-n", SYSTEM)
    async with declared(bed, folder) as world:
        async with world.store.transaction() as tx:
            await tx.tenants.add(Tenant(tenant, TenantKind.TENANT))
            row = await tx.virtual.add(VirtualCluster("own", tenant, VirtualTier.SCOPED, SPEC))
            await ask_all(tx, row)
        async with world.centre(), world.member(conf, SYSTEM):
            yield Own(world, tenant)


def test_a_member_makes_keeps_and_opens_the_namespace_of_a_tenant(
    bed: KubeBed, tmp_path: Path, tenant: str
) -> None:
    async def scenario() -> None:
        async with own(bed, tmp_path, tenant) as mine:
            await mine.phase(SpacePhase.READY, lambda space: space.namespace == mine.namespace)
            assert (await mine.get("quota", "dure-quota"))["spec"]["hard"]["pods"] == "5"
            limits = (await mine.get("limits", "dure-defaults"))["spec"]["limits"]
            assert limits[0]["defaultRequest"] == {"cpu": "100m", "memory": "128Mi"}
            policy = (await mine.get("netpol", "dure-isolation"))["spec"]
            assert policy["ingress"] == [{"from": [{"podSelector": {}}]}]
            # Whoever changes or removes one changes nothing.
            cluster = bed.cluster
            where = ("-n", mine.namespace)
            await asyncio.to_thread(kubectl, cluster, "delete", "quota", "dure-quota", *where)
            await mine.until("the quota is back", lambda: mine.get("quota", "dure-quota"))
            # Readers of the cluster see it by its kind.
            shown = await mine.until("a mirror", lambda: mine.get("dvc", "own"))
            assert shown["spec"] == {"tenant": tenant, "tier": "scoped"}
            await see_as_tenant(mine, tmp_path)

    asyncio.run(scenario())


async def see_as_tenant(mine: Own, folder: Path) -> None:
    """What people of the tenant can do with their kubeconfig, verb by verb."""
    world = mine.world
    assert world.core is not None
    wanted = KubeconfigRequest(cluster="here", hours=1)
    access = await world.core.links.access(ClusterId("here"), "own", wanted.hours * 3600)
    assert access.namespace == mine.namespace
    found = json.loads(world.bed.cluster.kubeconfig.read_text(encoding="utf-8"))
    found["users"][0]["user"] = {"token": access.token}
    found["clusters"][0]["cluster"] = {
        "server": access.url,
        "certificate-authority": str(world.bed.cluster.ca_file),
    }
    conf = folder / "tenant.conf"
    conf.write_text(json.dumps(found), encoding="utf-8")
    other = world.bed.namespace

    def kubectl_as(*words: str, stdin: str = "") -> Any:
        return run_kubectl(world.bed.cluster, "--kubeconfig", str(conf), *words, stdin=stdin)

    def may(verb: str, what: str, *where: str) -> bool:
        return bool(kubectl_as("auth", "can-i", verb, what, *where).stdout.strip() == "yes")

    text = job("train", mine.namespace)
    made = await asyncio.to_thread(kubectl_as, "apply", "-f", "-", stdin=text)
    assert made.returncode == 0, made.stderr

    async def accepted() -> Any:
        thing = await mine.get("ajob", "train")
        return ((thing or {}).get("status") or {}).get("jobId")

    await mine.until("its job is its tenant's", accepted)
    (row,) = await world.jobs()
    assert row.tenant == mine.tenant
    here, there = ("-n", mine.namespace), ("-n", other)
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
    kinds = ["pods", "pods/log", "events", "secrets", "acceleratorjobs.dure.io"]
    kinds += ["placements.dure.io", "jobs.batch", "resourcequotas"]

    def look() -> None:
        assert may("create", "pods", *here)
        assert may("get", "pods/log", *here)
        assert not may("update", "resourcequotas", *here)
        assert not may("create", "rolebindings.rbac.authorization.k8s.io", *here)
        for kind in kinds:
            for verb in verbs:
                assert not may(verb, kind, *there), (verb, kind)
        for kind in ("virtualclusters.dure.io", "vnodepools.dure.io", "nodes", "namespaces"):
            assert not may("list", kind)
            assert not may("get", kind)
        for words in (("get", "pods"), ("get", "events"), ("get", "ajob"), ("get", "placements")):
            refused = kubectl_as(*words, *there)
            assert "orbidden" in refused.stderr, refused.stderr
        assert "orbidden" in kubectl_as("get", "dvc").stderr

    await asyncio.to_thread(look)


def test_it_goes_only_when_no_pods_run_unless_forced(
    bed: KubeBed, tmp_path: Path, tenant: str
) -> None:
    async def scenario() -> None:
        async with own(bed, tmp_path, tenant) as mine:
            await mine.phase(SpacePhase.READY, lambda _: True)
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "users", "namespace": mine.namespace},
                "spec": {"containers": [{"name": "c", "image": "paper"}]},
            }

            async def account() -> Any:
                return await mine.get("serviceaccount", "default")

            await mine.until("Pods may be made there", account)
            await asyncio.to_thread(kubectl, bed.cluster, "apply", "-f", "-", stdin=json.dumps(pod))
            await mine.phase(SpacePhase.READY, lambda space: space.pods == 1)
            await mine.change(deleting=True)
            kept = await mine.phase(SpacePhase.LEAVING, lambda space: space.pods == 1)
            assert "1 Pods run in namespace" in kept.reason
            assert await mine.get("pod", "users") is not None
            await mine.change(forced=True)

            async def gone() -> bool:
                async with mine.world.store.reading() as tx:
                    return await tx.virtual.find("own") is None

            await mine.until("it is gone", gone)
            assert not bed.cluster.has(f"/api/v1/namespaces/{mine.namespace}")

    asyncio.run(scenario())


def test_a_member_without_the_rights_says_what_to_apply(
    bed: KubeBed, tmp_path: Path, tenant: str
) -> None:
    async def scenario() -> None:
        async with own(bed, tmp_path, tenant, rights=False) as mine:
            said = await mine.phase(SpacePhase.REFUSED, lambda _: True)
            assert "apply deploy/kubernetes/virtual-rights.yaml" in said.reason
            await asyncio.to_thread(kubectl, bed.cluster, "apply", "-f", str(RIGHTS))
            await mine.phase(SpacePhase.READY, lambda _: True)

    asyncio.run(scenario())


def test_a_namespace_that_was_there_before_stays(bed: KubeBed, tmp_path: Path, tenant: str) -> None:
    kubectl(bed.cluster, "create", "namespace", f"dure-{tenant}")

    async def scenario() -> None:
        async with own(bed, tmp_path, tenant) as mine:
            await mine.phase(SpacePhase.READY, lambda _: True)
            await mine.change(deleting=True)

            async def gone() -> bool:
                async with mine.world.store.reading() as tx:
                    return await tx.virtual.find("own") is None

            await mine.until("it is gone", gone)
            assert await mine.get("quota", "dure-quota") is None
            space = bed.cluster.request("GET", f"/api/v1/namespaces/{mine.namespace}")
            assert "deletionTimestamp" not in space["metadata"]

    asyncio.run(scenario())
