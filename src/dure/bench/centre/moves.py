"""A service that moves between two clusters of processes while people ask it at a steady rate."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from dure.api.clusters import ClusterKind, ClusterSpec
from dure.api.jobs import JobSpec, Resources, Serving
from dure.api.tenancy import TenantSpec
from dure.bench.centre import bed
from dure.client.fleet import AsyncFleetClient, calls
from dure.domain.fleet.lifecycle import AttemptState, ClusterState
from dure.domain.fleet.workloads import WorkloadKind
from dure.sim.benches.report import Tell

_TENANT, _CLUSTERS = "acme", ("east", "west")
_NODES = "nodes:\n- {name: box, profile: a100, devices: 4, cpu: 32, memory: 64GiB}\n"
_LIMIT_S = 300.0
_POLL_S = 0.2
_ANSWER_S = 30.0
FAILED = ""


@dataclass(frozen=True)
class Load:
    """Requests at a steady rate, whoever waits for them."""

    per_s: float = 200.0
    before_s: float = 20.0
    after_s: float = 10.0
    serves_ms: float = 5.0
    """How long an instance takes for one."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    at_s: float
    took_s: float
    attempt: str
    """That answered; `FAILED`: none did."""


@dataclass
class MoveTimes:
    """What came of it."""

    asked: list[Asked] = field(default_factory=list)
    began_s: float = 0.0
    """When the service was told to leave its cluster."""
    ended_s: float = 0.0
    """When its old place was gone."""

    @property
    def failed(self) -> int:
        """Requests without an answer."""
        return sum(each.attempt == FAILED for each in self.asked)

    def before(self) -> list[float]:
        """How long answers took, before the move."""
        return [each.took_s for each in self.asked if each.at_s < self.began_s]

    def during(self) -> list[float]:
        """And while it moved."""
        return [each.took_s for each in self.asked if self.began_s <= each.at_s < self.ended_s]


async def measure(load: Load, folder: Path, tell: Tell) -> MoveTimes:
    """Start a fleet, a service and a front, ask, and have the service's cluster drained."""
    (folder / "nodes.yaml").write_text(_NODES, encoding="utf-8")
    address = f"sqlite:///{folder / 'state.db'}"
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(bed.server(folder, address))
        client = await stack.enter_async_context(server.client())
        await client.do(calls.put_tenant(_TENANT, TenantSpec(), calls.CREATE))
        for name in _CLUSTERS:
            await stack.enter_async_context(_member(folder, server, client, name))
        tell("starting the service", 0.1)
        (job,) = (await client.do(calls.submit(_service(load)))).ids
        await _until(lambda: _runs(client, job))
        (port,) = bed.free_ports(1)
        words = ("front", job, "--listen", f"{bed.HOST}:{port}")
        who = {"DURE_SERVER": server.url, "DURE_TOKEN": server.token}
        await stack.enter_async_context(bed.dure("front", folder, words, who))
        url = f"http://{bed.HOST}:{port}/"
        await _until(lambda: _answers(url))
        return await _moved(load, client, job, url, tell)


async def _moved(load: Load, client: AsyncFleetClient, job: str, url: str, tell: Tell) -> MoveTimes:
    found, ending = MoveTimes(), asyncio.Event()
    asking = asyncio.create_task(_ask(load, url, found, ending))
    tell("asking where it is", 0.3)
    await asyncio.sleep(load.before_s)
    old = (await client.do(calls.get_job(job))).attempts[0].cluster
    found.began_s = time.perf_counter()
    await client.do(calls.set_cluster_state(old, ClusterState.DRAINING))
    tell("moving it", 0.5)
    await _until(lambda: _left(client, job))
    found.ended_s = time.perf_counter()
    tell("asking where it went", 0.8)
    await asyncio.sleep(load.after_s)
    ending.set()
    await asking
    return found


@contextlib.asynccontextmanager
async def _member(
    folder: Path, server: bed.Server, client: AsyncFleetClient, name: str
) -> AsyncIterator[None]:
    spec = ClusterSpec(kind=ClusterKind.PROCESS, region="kr")
    await client.do(calls.put_cluster(name, spec, calls.CREATE))
    token = folder / f"{name}.token"
    secret = (await client.do(calls.issue_member_token(name))).secret
    token.write_text(secret, encoding="utf-8")
    words = (
        *("member", "--kind", "process", "--cluster", name, "--token-file", token),
        *("--server", f"http://{bed.HOST}:{server.grpc_port}"),
        *("--nodes", folder / "nodes.yaml", "--state", folder / name),
    )
    async with bed.dure(f"member-{name}", folder, words):
        yield


def _service(load: Load) -> JobSpec:
    return JobSpec(
        name="greeter",
        kind=WorkloadKind.SERVING,
        tenant=_TENANT,
        command=[sys.executable, "-m", "dure.bench.workloads.greeter", f"{load.serves_ms:g}"],
        port=8000,
        resources=Resources(memory="1GiB"),
        service=Serving(
            requests_per_second=load.per_s,
            replica_requests_per_second=2 * load.per_s,
            latency="1s",
            service_time=f"{load.serves_ms:g}ms",
            warm=1,
            most=2,
            load_time="1s",
        ),
    )


async def _ask(load: Load, url: str, found: MoveTimes, ending: asyncio.Event) -> None:
    asked = set()
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=_ANSWER_S, limits=limits, trust_env=False) as client:
        at_s = time.perf_counter()
        while not ending.is_set():
            asked.add(task := asyncio.create_task(_ask_once(client, url, at_s, found)))
            task.add_done_callback(asked.discard)
            at_s += 1 / load.per_s
            await asyncio.sleep(max(0.0, at_s - time.perf_counter()))
        await asyncio.gather(*asked)


async def _ask_once(client: httpx.AsyncClient, url: str, due_s: float, found: MoveTimes) -> None:
    said = FAILED
    with contextlib.suppress(httpx.HTTPError):
        told = await client.get(url)
        said = told.text if told.is_success else FAILED
    # From when it was due: who asks late because of another answer waited for that too.
    found.asked.append(Asked(due_s, time.perf_counter() - due_s, said))


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(_LIMIT_S):
        while not await holds():
            await asyncio.sleep(_POLL_S)


async def _runs(client: AsyncFleetClient, job: str) -> bool:
    found = await client.do(calls.get_endpoints(job))
    return bool(found.items)


async def _answers(url: str) -> bool:
    async with httpx.AsyncClient(timeout=_ANSWER_S, trust_env=False) as client:
        with contextlib.suppress(httpx.HTTPError):
            return (await client.get(url)).is_success
    return False


async def _left(client: AsyncFleetClient, job: str) -> bool:
    found = await client.do(calls.get_job(job))
    return len(found.attempts) > 1 and found.attempts[0].state is AttemptState.GONE
