"""A service of real processes whose load is three times as large for a while."""

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from dure.api.jobs import JobSpec, Resources, Serving
from dure.api.tenancy import TenantSpec
from dure.bench.centre import bed
from dure.bench.centre.asking import FAILED, Asked, Asker, answers
from dure.client.fleet import AsyncFleetClient, calls
from dure.domain.fleet.workloads import WorkloadKind
from dure.sim.benches.report import Tell

_TENANT, _CLUSTER = "acme", "east"
_NODES = "nodes:\n- {name: box, profile: a100, devices: 8, cpu: 32, memory: 64GiB}\n"
_LIMIT_S = 300.0
_LOOK_S = 0.1


@dataclass(frozen=True)
class Step:
    """A load that is so many times as large for a while."""

    per_s: float = 12.0
    factor: float = 3.0
    steady_s: float = 20.0
    """Before the step, and after the service is as small again."""
    high_s: float = 20.0
    serves_ms: float = 20.0
    replica_per_s: float = 16.0
    """What one instance serves."""
    shrink_after_s: float = 5.0
    standby: int = 0


@dataclass
class StepTimes:
    """What came of it."""

    asked: list[Asked] = field(default_factory=list)
    stepped_s: float = 0.0
    """When the load grew."""
    warned_s: float = 0.0
    """When the service was told to be larger."""
    ready_s: float = 0.0
    """When as many instances took requests as the higher load needs."""
    fell_s: float = 0.0
    """When the load was as before."""
    small_s: float = 0.0
    """When the service was of its former size."""
    before: int = 0
    most: int = 0
    sizes: list[int] = field(default_factory=list)
    """Instances that take requests, each time they changed since the load fell."""

    @property
    def failed(self) -> int:
        """Requests without an answer."""
        return sum(each.attempt == FAILED for each in self.asked)

    def took_s(self, since_s: float, until_s: float) -> list[float]:
        """How long answers took to what was asked in between."""
        return [each.took_s for each in self.asked if since_s <= each.at_s < until_s]


async def measure(step: Step, folder: Path, tell: Tell) -> StepTimes:
    """Start a fleet, a service and a front; ask more for a while, and then as before."""
    (folder / "nodes.yaml").write_text(_NODES, encoding="utf-8")
    address = f"sqlite:///{folder / 'state.db'}"
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(bed.server(folder, address))
        client = await stack.enter_async_context(server.client())
        await client.do(calls.put_tenant(_TENANT, TenantSpec(), calls.CREATE))
        await stack.enter_async_context(bed.process_member(folder, server, client, _CLUSTER))
        tell("starting the service", 0.1)
        (job,) = (await client.do(calls.submit(_service(step)))).ids
        await _until(lambda: _settled(client, job))
        (port,) = bed.free_ports(1)
        words = ("front", job, "--listen", f"{bed.HOST}:{port}")
        who = {"DURE_SERVER": server.url, "DURE_TOKEN": server.token}
        await stack.enter_async_context(bed.dure("front", folder, words, who))
        url = f"http://{bed.HOST}:{port}/"
        await _until(lambda: answers(url))
        return await _stepped(step, client, job, url, tell)


async def _stepped(
    step: Step, client: AsyncFleetClient, job: str, url: str, tell: Tell
) -> StepTimes:
    asker = Asker(url, step.per_s)
    found = StepTimes(asker.asked)
    async with asker.asking():
        tell("asking steadily", 0.2)
        await asyncio.sleep(step.steady_s)
        await _until(lambda: _settled(client, job))
        found.before = (await _size(client, job))[0]
        tell("asking more", 0.4)
        found.stepped_s = time.perf_counter()
        asker.per_s = step.factor * step.per_s
        await _grown(step, client, job, found)
        tell("asking as before", 0.6)
        found.fell_s = time.perf_counter()
        asker.per_s = step.per_s
        found.sizes = [found.most]
        while found.sizes[-1] > found.before:
            await asyncio.sleep(_LOOK_S)
            ready, _ = await _size(client, job)
            if ready != found.sizes[-1]:
                found.sizes.append(ready)
            _check(found.fell_s)
        found.small_s = time.perf_counter()
        await asyncio.sleep(step.steady_s / 2)
    return found


async def _grown(step: Step, client: AsyncFleetClient, job: str, found: StepTimes) -> None:
    """Watch until all that the higher load needs is there, and for as long as it lasts."""
    until_s = found.stepped_s + step.high_s
    while not found.ready_s or time.perf_counter() < until_s:
        await asyncio.sleep(_LOOK_S)
        ready, wanted = await _size(client, job)
        now_s = time.perf_counter()
        if wanted > found.before and not found.warned_s:
            found.warned_s = now_s
        if wanted > found.most:
            found.most, found.ready_s = wanted, 0.0
        if found.warned_s and ready >= found.most and not found.ready_s:
            found.ready_s = now_s
        _check(found.stepped_s)


def _check(since_s: float) -> None:
    if time.perf_counter() - since_s > _LIMIT_S:
        raise bed.BedError(
            "the service does not follow its load", "look into the logs of its parts"
        )


def _service(step: Step) -> JobSpec:
    return JobSpec(
        name="greeter",
        kind=WorkloadKind.SERVING,
        tenant=_TENANT,
        command=[sys.executable, "-m", "dure.bench.workloads.greeter", f"{step.serves_ms:g}"],
        port=8000,
        grace="5s",
        resources=Resources(memory="1GiB", whole=True),
        service=Serving(
            requests_per_second=step.per_s,
            replica_requests_per_second=step.replica_per_s,
            latency="1s",
            service_time=f"{step.serves_ms:g}ms",
            warm=1,
            most=8,
            reference="a100",
            load_time="1s",
            standby=step.standby,
            shrink_after=f"{step.shrink_after_s:g}s",
            keep_for_bursts=False,
        ),
    )


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(_LIMIT_S):
        while not await holds():
            await asyncio.sleep(_LOOK_S)


async def _size(client: AsyncFleetClient, job: str) -> tuple[int, int]:
    found = await client.do(calls.get_job(job))
    return found.ready or 0, found.wanted or 0


async def _settled(client: AsyncFleetClient, job: str) -> bool:
    ready, wanted = await _size(client, job)
    return ready == wanted > 0
