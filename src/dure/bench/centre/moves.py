"""A service that moves between two clusters of processes while people ask it at a steady rate."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from dure.api.base import moment_ns
from dure.api.job_views import JobDocument
from dure.api.jobs import JobSpec, Resources, Serving
from dure.api.migrations import MigrationRequest
from dure.api.tenancy import TenantSpec
from dure.bench.centre import bed
from dure.bench.centre.asking import FAILED, Asked, Asker, answers
from dure.bench.centre.parts import used_by_parts
from dure.client.fleet import AsyncFleetClient, calls
from dure.domain.fleet.lifecycle import AttemptState
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.units import NS_PER_S
from dure.server.settings import ServerSettings
from dure.sim.benches.report import Tell

_TENANT, _CLUSTERS = "acme", ("east", "west")
_NODES = "nodes:\n- {name: box, profile: a100, devices: 4, cpu: 32, memory: 64GiB}\n"
_LIMIT_S = 300.0
_POLL_S = 0.2
_CORES_S = 0.25
_LEAST_LOOKS = 2
SHIFT_S = ServerSettings().shift_s


@dataclass(frozen=True)
class Load:
    """Requests at a steady rate, whoever waits for them."""

    per_s: float = 200.0
    before_s: float = 20.0
    after_s: float = 10.0
    serves_ms: float = 5.0
    """How long an instance takes for one."""


@dataclass
class MoveTimes:
    """What came of it."""

    asked: list[Asked] = field(default_factory=list)
    began_s: float = 0.0
    """When the service was told to leave its cluster."""
    ended_s: float = 0.0
    """When its old place was gone."""
    phases: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Of the move, by name: from when until when."""
    busy: list[tuple[float, float]] = field(default_factory=list)
    """Moments, and what share of all cores was busy since the one before."""
    used: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    """Moments, and seconds of a core that each part has used since its start."""

    @property
    def failed(self) -> int:
        """Requests without an answer."""
        return sum(each.attempt == FAILED for each in self.asked)

    def before(self) -> list[float]:
        """How long answers took, before the move."""
        return [each.took_s for each in self.asked if each.at_s < self.began_s]

    def within(self, phase: str) -> list[float]:
        """And in one phase of the move."""
        from_s, to_s = self.phases[phase]
        return [each.took_s for each in self.asked if from_s <= each.at_s < to_s]

    def busy_share(self, from_s: float, to_s: float) -> float:
        """What share of all cores was busy then."""
        seen = [share for at_s, share in self.busy if from_s <= at_s < to_s]
        return sum(seen) / len(seen) if seen else 0.0

    def cores(self, from_s: float, to_s: float) -> dict[str, float]:
        """Cores that each part used then, as far as was looked."""
        seen = [(at_s, parts) for at_s, parts in self.used if from_s <= at_s < to_s]
        if len(seen) < _LEAST_LOOKS:
            return {}
        (first_s, first), (last_s, last) = seen[0], seen[-1]
        return {
            name: (seconds - first.get(name, 0.0)) / (last_s - first_s)
            for name, seconds in last.items()
        }

    def during(self) -> list[float]:
        """And while it moved."""
        return [each.took_s for each in self.asked if self.began_s <= each.at_s < self.ended_s]


async def measure(load: Load, folder: Path, tell: Tell) -> MoveTimes:
    """Start a fleet, a service and a front, ask, and have the service moved."""
    (folder / "nodes.yaml").write_text(_NODES, encoding="utf-8")
    address = f"sqlite:///{folder / 'state.db'}"
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(bed.server(folder, address))
        client = await stack.enter_async_context(server.client())
        await client.do(calls.put_tenant(_TENANT, TenantSpec(), calls.CREATE))
        for name in _CLUSTERS:
            await stack.enter_async_context(bed.process_member(folder, server, client, name))
        tell("starting the service", 0.1)
        (job,) = (await client.do(calls.submit(_service(load)))).ids
        await _until(lambda: _runs(client, job))
        (port,) = bed.free_ports(1)
        words = ("front", job, "--listen", f"{bed.HOST}:{port}")
        who = {"DURE_SERVER": server.url, "DURE_TOKEN": server.token}
        await stack.enter_async_context(bed.dure("front", folder, words, who))
        url = f"http://{bed.HOST}:{port}/"
        await _until(lambda: answers(url))
        return await _moved(load, client, job, url, tell)


async def _moved(load: Load, client: AsyncFleetClient, job: str, url: str, tell: Tell) -> MoveTimes:
    asker = Asker(url, load.per_s)
    found = MoveTimes(asker.asked)
    async with asker.asking(), _looking_at_cores(found):
        tell("asking where it is", 0.3)
        await asyncio.sleep(load.before_s)
        found.began_s = time.perf_counter()
        await client.do(calls.migrate_job(job, MigrationRequest()))
        tell("moving it", 0.5)
        await _until(lambda: _left(client, job))
        found.ended_s = time.perf_counter()
        found.phases = _phases(found, await client.do(calls.get_job(job)))
        tell("asking where it went", 0.8)
        await asyncio.sleep(load.after_s)
    return found


def _phases(found: MoveTimes, job: JobDocument) -> dict[str, tuple[float, float]]:
    """When the new instance ran and the old one was told to end, by the server's clock."""
    past_s = time.time() - time.perf_counter()
    old, new = job.attempts[0], job.attempts[-1]
    runs_s = moment_ns(new.running_at or "") / NS_PER_S - past_s
    told_s = moment_ns(old.releasing_at or "") / NS_PER_S - past_s
    half_s = runs_s + SHIFT_S / 2
    whole_s = min(told_s, runs_s + SHIFT_S)
    return {
        "it starts": (found.began_s, runs_s),
        "it has 10 %": (runs_s, half_s),
        "it has 50 %": (half_s, whole_s),
        "it has all": (whole_s, told_s),
        "the old one ends": (told_s, found.ended_s),
    }


@contextlib.asynccontextmanager
async def _looking_at_cores(found: MoveTimes) -> AsyncIterator[None]:
    """Note meanwhile how busy the machine is."""
    looking = asyncio.create_task(_look_at_cores(found))
    try:
        yield
    finally:
        looking.cancel()


async def _look_at_cores(found: MoveTimes) -> None:
    before = _ticks()
    while True:
        await asyncio.sleep(_CORES_S)
        now = _ticks()
        idle, all_of = now[0] - before[0], now[1] - before[1]
        found.busy.append((time.perf_counter(), 1.0 - idle / max(1, all_of)))
        found.used.append((time.perf_counter(), await asyncio.to_thread(used_by_parts)))
        before = now


def _ticks() -> tuple[int, int]:
    """Idle, and all, of all cores since the start of the machine."""
    counts = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()[1:9]
    numbers = [int(each) for each in counts]
    return numbers[3] + numbers[4], sum(numbers)


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


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(_LIMIT_S):
        while not await holds():
            await asyncio.sleep(_POLL_S)


async def _runs(client: AsyncFleetClient, job: str) -> bool:
    found = await client.do(calls.get_endpoints(job))
    return bool(found.items)


async def _left(client: AsyncFleetClient, job: str) -> bool:
    found = await client.do(calls.get_job(job))
    return len(found.attempts) > 1 and found.attempts[0].state is AttemptState.GONE
