"""From a submission to its Pod: jobs at a steady rate through centre and member to Kubernetes."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dure.api.clusters import ClusterKind, ClusterSpec
from dure.api.jobs import JobSpec, Resources, Work
from dure.api.tenancy import TenantSpec
from dure.bench.centre import bed
from dure.bench.centre.procfs import Shares
from dure.client.fleet import AsyncFleetClient, FleetError, calls
from dure.domain.fleet.workloads import WorkloadKind
from dure.kube.access import load_access
from dure.kube.client import KubeClient
from dure.kube.errors import KubeExistsError, KubeNotFoundError
from dure.kube.informer import Change, ChangeKind, Informer, Synced
from dure.kube.requests import Scope
from dure.kube.resources import NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS, Object, Resource
from dure.sim.benches.report import Tell

_CLUSTER, _TENANT, _SYSTEM = "paper", "acme", "dure-system"
_OWN = f"dure-{_TENANT}"
_JOB = "dure.io/job"
_RUNS_FOR = "paper.dure.test/runs-for"
"""Annotation by which nodes on paper end a Pod."""
_NODES, _DEVICES = 32, 8
_NODE_HAS = {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(_DEVICES)}
_NODE_LABELS = {
    "kubernetes.io/os": "linux",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
}
_WAIT_S = 180.0
"""For what is on its way when the last job was submitted."""
_POLL_S = 0.1
_END_POLL_S = 5.0
"""Between two looks at all jobs, which cost the server more than anything else here."""


@dataclass(frozen=True)
class Load:
    """Jobs at a steady rate, whoever waits for them."""

    kubeconfig: Path
    seconds: float = 300.0
    per_s: float = 20.0
    runs_s: float = 3.0
    """How long a job runs."""
    processes: Mapping[str, int] = field(default_factory=dict)
    """Further processes whose processor time is counted, by name."""


@dataclass(frozen=True)
class PodTimes:
    """What came of a load."""

    submitted: int
    failed: int
    """Submissions that were refused or not answered."""
    waits_s: list[float]
    """From when a job was due to be submitted until its Pod was seen."""
    answers_s: list[float]
    """Until the submission was answered."""
    ended: int
    """Jobs that had succeeded when all was over."""
    took_s: float
    taken_s: dict[str, float]
    """Processor time by process, while jobs were submitted."""
    whole_s: dict[str, float]
    """The same until the last job had ended."""


async def measure(load: Load, folder: Path, tell: Tell) -> PodTimes:
    """Have a centre of its own on SQLite with one member, and submit."""
    tell("preparing the cluster", 0.0)
    async with KubeClient(load_access(load.kubeconfig)) as kube, _prepared(kube):
        address = f"sqlite:///{folder / 'state.db'}"
        async with bed.server(folder, address) as server, server.client() as client:
            await client.do(calls.put_tenant(_TENANT, TenantSpec(), calls.CREATE))
            spec = ClusterSpec(kind=ClusterKind.KUBERNETES, region="kr")
            await client.do(calls.put_cluster(_CLUSTER, spec, calls.CREATE))
            token = folder / "member-token"
            token.write_text((await client.do(calls.issue_member_token(_CLUSTER))).secret)
            async with bed.dure("member", folder, _member(load, server, token)) as member:
                await _joined(client)
                watching = {"server": server.process.pid, "member": member.pid}
                return await _run(load, kube, client, {**watching, **load.processes}, tell)


def _member(load: Load, server: bed.Server, token: Path) -> tuple[object, ...]:
    door = f"http://{bed.HOST}:{server.grpc_port}"
    return (
        *("member", "--cluster", _CLUSTER, "--server", door, "--token-file", token),
        *("--kubeconfig", load.kubeconfig, "--namespace", _SYSTEM),
    )


@asynccontextmanager
async def _prepared(kube: KubeClient) -> AsyncIterator[None]:
    """A cluster with nodes on paper, and namespaces in which Pods may be made; what was not there
    before is removed again."""
    made: list[tuple[Resource, str]] = []
    try:
        for name in (_SYSTEM, _OWN):
            labels = {} if name == _SYSTEM else {"dure.io/tenant": _TENANT}
            made += await _create(kube, NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        for number in range(_NODES):
            name = f"bench-{number}"
            labels = _NODE_LABELS | {"kubernetes.io/hostname": name}
            status = {"capacity": dict(_NODE_HAS), "allocatable": dict(_NODE_HAS)}
            node = {"metadata": {"name": name, "labels": labels}, "status": status}
            made += await _create(kube, NODES, node)
        async with asyncio.timeout(_WAIT_S):
            while not await _has(kube, _OWN):
                await asyncio.sleep(_POLL_S)
        yield
    finally:
        for resource, name in made:
            with suppress(KubeNotFoundError):
                await kube.delete(resource, name)


async def _create(
    kube: KubeClient, resource: Resource, thing: Object
) -> list[tuple[Resource, str]]:
    """Make it; tells of it unless it was there."""
    try:
        await kube.create(resource, thing)
    except KubeExistsError:
        return []
    return [(resource, thing["metadata"]["name"])]


async def _has(kube: KubeClient, namespace: str) -> bool:
    try:
        await kube.get(SERVICE_ACCOUNTS, "default", namespace)
    except KubeNotFoundError:
        return False
    return True


async def _joined(client: AsyncFleetClient) -> None:
    """Wait until the centre knows the cluster's devices."""
    async with asyncio.timeout(_WAIT_S):
        while (await client.do(calls.get_cluster(_CLUSTER))).devices < _NODES * _DEVICES:
            await asyncio.sleep(_POLL_S)


class _Seen:
    """When Pods of jobs were first seen."""

    def __init__(self, kube: KubeClient) -> None:
        scope = Scope(_OWN, names_only=True)
        self._informer = Informer(kube, PODS, scope)
        self.at_s: dict[str, float] = {}
        self.synced = asyncio.Event()

    async def look(self) -> None:
        """Until cancelled."""
        async with aclosing(self._informer.happenings()) as happenings:
            async for one in happenings:
                if isinstance(one, Synced):
                    self.synced.set()
                elif isinstance(one, Change) and one.kind is ChangeKind.ADDED:
                    job = one.object["metadata"].get("labels", {}).get(_JOB, "")
                    self.at_s.setdefault(job, time.monotonic())


@asynccontextmanager
async def _seeing(kube: KubeClient) -> AsyncIterator[_Seen]:
    seen = _Seen(kube)
    looking = asyncio.create_task(seen.look())
    try:
        async with asyncio.timeout(_WAIT_S):
            await seen.synced.wait()
        yield seen
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


@dataclass
class _Submitted:
    """Jobs by when they were due, and what came of each submission."""

    due_s: dict[str, float] = field(default_factory=dict)
    answers_s: list[float] = field(default_factory=list)
    failed: int = 0

    async def one(self, client: AsyncFleetClient, spec: JobSpec, due_s: float) -> None:
        """Submit a job."""
        try:
            answer = await client.do(calls.submit(spec))
        except FleetError:
            self.failed += 1
            return
        self.answers_s.append(time.monotonic() - due_s)
        self.due_s[answer.ids[0]] = due_s


async def _run(
    load: Load, kube: KubeClient, client: AsyncFleetClient, pids: Mapping[str, int], tell: Tell
) -> PodTimes:
    submitted, count = _Submitted(), round(load.seconds * load.per_s)
    async with _seeing(kube) as seen:
        await submitted.one(client, _spec(load), time.monotonic())
        await _all_seen(submitted, seen)  # what is first of its kind is no steady load
        submitted = _Submitted()
        shares, began_s = Shares(pids), time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                due_s = began_s + number / load.per_s
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                tasks.create_task(submitted.one(client, _spec(load), due_s))
                tell(f"{load.per_s:g} jobs/s", number / count)
        took_s, taken_s = time.monotonic() - began_s, shares.taken_s()
        await _all_seen(submitted, seen)
        ended = await _ended(client, set(submitted.due_s))
    waits_s = [seen.at_s[job] - due for job, due in submitted.due_s.items() if job in seen.at_s]
    return PodTimes(
        submitted=count,
        failed=submitted.failed,
        waits_s=waits_s,
        answers_s=submitted.answers_s,
        ended=ended,
        took_s=took_s,
        taken_s=taken_s,
        whole_s=shares.taken_s(),
    )


def _spec(load: Load) -> JobSpec:
    return JobSpec(
        name="paper",
        kind=WorkloadKind.BATCH,
        tenant=_TENANT,
        image="paper",
        resources=Resources(memory="10GiB"),
        work=Work(time=f"{load.runs_s:g}s"),
        annotations={_RUNS_FOR: f"{load.runs_s:g}s"},
    )


async def _all_seen(submitted: _Submitted, seen: _Seen) -> None:
    """Wait until every job has its Pod, or for as long as anybody would."""
    until_s = time.monotonic() + _WAIT_S
    while not submitted.due_s.keys() <= seen.at_s.keys() and time.monotonic() < until_s:
        await asyncio.sleep(_POLL_S)


async def _ended(client: AsyncFleetClient, jobs: set[str]) -> int:
    """How many of them succeed, if they are waited for."""
    until_s, found = time.monotonic() + _WAIT_S, 0
    while time.monotonic() < until_s:
        found = 0
        async for job in client.each(
            lambda cursor: calls.list_jobs(phase=["succeeded"], limit=1000, cursor=cursor)
        ):
            found += job.id in jobs
        if found == len(jobs):
            break
        await asyncio.sleep(_END_POLL_S)
    return found
