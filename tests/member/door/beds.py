"""A real centre, a real member and a real Kubernetes with Dure's kinds, for people with kubectl."""

import asyncio
import contextlib
import json
import secrets
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from dure.domain.fleet.accounts import Role, TenantKind
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.ids import ClusterId
from dure.member.door import book as book_module
from dure.member.door import door as door_module
from dure.member.door import mirrors as mirrors_module
from dure.member.link.servers import Server
from dure.member.link.session import Centre as CentreAddress
from dure.member.main import serve
from dure.member.options import KubernetesOptions, MemberOptions
from dure.server.core import Core, running
from dure.server.settings import Listening, ServerSettings
from dure.stores.bus.local import LocalBus
from dure.stores.repos.access import Grant
from dure.stores.rows import Cluster, Job, NewEvent, Tenant
from dure.stores.store import Store
from dure.stores.submissions import Submission
from tests.kube.cluster import KubeCluster
from tests.kube.programs import ROOT, kube_programs, wait_until
from tests.kube.things import eventually
from tests.member.kube.beds import KubeBed
from tests.server.centres import QUICK, job_row

CRDS = ROOT / "deploy" / "crds"
HERE = ClusterId("here")
SPEC = {"region": "kr", "carbon": 400, "tariff": {"deviceHour": {"h100": 2.5}}}
WAIT_S = 120.0


def run_kubectl(
    cluster: KubeCluster, *words: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """A person's kubectl, come to its end."""
    return subprocess.run(
        [str(kube_programs()["kubectl"]), "--kubeconfig", str(cluster.kubeconfig), *words],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def kubectl(cluster: KubeCluster, *words: str, stdin: str = "", good: bool = True) -> str:
    """What it prints; of one that fails, what it complains of."""
    done = run_kubectl(cluster, *words, stdin=stdin)
    assert (done.returncode == 0) is good, done.stdout + done.stderr
    return done.stdout if good else done.stderr


def install(cluster: KubeCluster, folder: Path = CRDS) -> None:
    """Dure's kinds, as an administrator installs them; served when it returns."""
    kubectl(cluster, "apply", "-f", str(folder))
    wait = ("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    # It gives up at once where a kind has no conditions yet.
    wait_until("all kinds are served", lambda: run_kubectl(cluster, *wait).returncode == 0)


def job(name: str, namespace: str, **spec: Any) -> str:
    """An AcceleratorJob as a person writes it: on paper, for a minute of work."""
    runs = spec.pop("runs", None)
    notes = {} if runs is None else {"paper.dure.test/runs-for": runs}
    common = {"kind": "batch", "image": "paper", "grace": "1s", "work": {"time": "1m"}}
    common |= {"resources": {"memory": "1GiB"}, "annotations": notes}
    thing = {
        "apiVersion": "dure.io/v1",
        "kind": "AcceleratorJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": common | spec,
    }
    return yaml.safe_dump(thing)


@dataclass
class World:
    """Everything that runs, and a person before it."""

    bed: KubeBed
    store: Store
    address: str
    secret: str
    core: Core | None = None
    grpc_port: int = 0

    def kubectl(self, *words: str, stdin: str = "", good: bool = True) -> str:
        """By whoever may do anything."""
        return kubectl(self.bed.cluster, *words, stdin=stdin, good=good)

    async def kubectl_async(self, *words: str, stdin: str = "", good: bool = True) -> str:
        """The same while the rest goes on."""
        return await asyncio.to_thread(self.kubectl, *words, stdin=stdin, good=good)

    async def apply(self, name: str, namespace: str = "", **spec: Any) -> str:
        """Declare a job; its UID."""
        space = namespace or self.bed.namespace
        text = job(name, space, **spec)
        await self.kubectl_async("apply", "-f", "-", stdin=text)
        return str((await self.shown(name, space))["metadata"]["uid"])

    async def shown(self, name: str, namespace: str = "") -> Any:
        """A job's object."""
        space = namespace or self.bed.namespace
        found = await self.kubectl_async("get", "ajob", name, "-n", space, "-o", "json")
        return json.loads(found)

    async def status(self, name: str, holds: Callable[[Mapping[str, Any]], Any]) -> dict[str, Any]:
        """Wait until a job's status is so."""
        last: dict[str, Any] = {}

        async def look() -> bool:
            nonlocal last
            last = (await self.shown(name)).get("status") or {}
            return bool(holds(last))

        try:
            async with asyncio.timeout(WAIT_S):
                await eventually(f"{name} is so", look)
        except TimeoutError:
            raise AssertionError(f"the status of {name} stays {last}") from None
        return last

    async def items(self, kind: str) -> list[Any]:
        """All objects of one of Dure's kinds that the tenant's people see."""
        space = ("-n", self.bed.namespace)
        return list(
            json.loads(await self.kubectl_async("get", kind, *space, "-o", "json"))["items"]
        )

    async def phase(self, name: str, *phases: str) -> dict[str, Any]:
        """Wait until a job shows one of these phases."""
        return await self.status(name, lambda status: status.get("phase") in phases)

    async def jobs(self) -> tuple[Job, ...]:
        """All that the centre has."""
        async with self.store.reading() as tx:
            return (await tx.jobs.page(limit=1000)).rows

    async def until(self, what: str, holds: Callable[[], Awaitable[Any]]) -> Any:
        """Look again and again until something is so."""
        found: Any = None

        async def look() -> bool:
            nonlocal found
            found = await holds()
            return bool(found)

        async with asyncio.timeout(WAIT_S):
            await eventually(what, look)
        return found

    async def submit(self) -> str:
        """A job of the tenant that comes by other ways than kubectl; its id."""
        made = job_row(command=[], image="paper")
        event = NewEvent("job.submitted", made.id, made.tenant)
        await self.store.submit(Submission((made,), {"id": made.id}, (event,)))
        return made.id

    async def is_running(self, job_id: str) -> bool:
        """Whether a job runs."""
        return any(job.id == job_id and job.phase is JobPhase.RUNNING for job in await self.jobs())

    async def bind(self, namespaces: Mapping[str, str]) -> None:
        """Let an administrator say whose namespaces of the cluster are."""
        async with self.store.transaction() as tx:
            row = await tx.clusters.get(HERE)
            await tx.clusters.put(replace(row, spec={**row.spec, "namespaces": namespaces}))
            tx.events.add(NewEvent("cluster.changed", HERE))

    @asynccontextmanager
    async def centre(self) -> AsyncIterator[None]:
        """A centre that answers while the context lasts, at the same port each time."""
        listening = Listening(grpc_port=self.grpc_port)
        settings: ServerSettings = replace(QUICK, listening=listening)
        async with running(self.store, LocalBus(), settings) as core:
            self.core, self.grpc_port = core, core.grpc_port
            yield

    @asynccontextmanager
    async def member(self, conf: Path | None = None, own: str = "") -> AsyncIterator[None]:
        """A member that acts while the context lasts, as the administrator unless told else."""
        at = CentreAddress([Server("127.0.0.1", self.grpc_port, secure=False)], self.secret)
        where = KubernetesOptions(
            conf or self.bed.cluster.kubeconfig,
            namespace=own or self.bed.namespace,
            identity=secrets.token_hex(4),
        )
        task = asyncio.create_task(serve(MemberOptions(HERE, at, where)))
        try:
            yield
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def declared(bed: KubeBed, folder: Path) -> AsyncIterator[World]:
    """A store with a tenant and a cluster whose namespace is bound to it; nothing runs yet."""
    address = f"sqlite:///{folder / 'centre.db'}"
    async with Store.open(address) as store:
        await store.migrate()
        async with store.transaction() as tx:
            await tx.tenants.add(Tenant("acme", TenantKind.TENANT))
            spec = SPEC | {"namespaces": {"acme": bed.namespace}}
            await tx.clusters.add(Cluster(HERE, "kubernetes", spec))
            _, secret = await tx.tokens.issue(Grant(Role.MEMBER, cluster=HERE))
        yield World(bed, store, address, secret)


@asynccontextmanager
async def whole(bed: KubeBed, folder: Path) -> AsyncIterator[World]:
    """Centre and member at work."""
    async with declared(bed, folder) as world, world.centre(), world.member():
        yield world


def remove_kinds(cluster: KubeCluster) -> None:
    """Take Dure's kinds away, with all objects, whether or not anybody lets go of these."""
    for kind in sorted(CRDS.glob("*.yaml")):
        name = f"{kind.stem}.dure.io"
        if not cluster.has(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"):
            continue
        if kind.stem == "acceleratorjobs":
            let_go(cluster)
        kubectl(cluster, "delete", "crd", name, "--wait=false")
        wait_until(
            f"{name} is gone",
            lambda name=name: (  # type: ignore[misc]
                not cluster.has(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
            ),
        )


def let_go(cluster: KubeCluster) -> None:
    """Remove finalizers of jobs that nobody looks after any more."""
    path = "/apis/dure.io/v1/acceleratorjobs"
    for thing in cluster.request("GET", path)["items"] if cluster.has(path) else ():
        metadata = thing["metadata"]
        where = ("ajob", metadata["name"], "-n", metadata["namespace"])
        kubectl(cluster, "patch", *where, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


door_module.LOOK_S = 0.5
book_module.ASK_AGAIN_S = 2.0
mirrors_module.LIST_S = 3.0
