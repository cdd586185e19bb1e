"""Half hours of noisy load on the local stage of a cluster, in virtual time: does it tremble?"""

import random
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dure.domain.fleet.clusters import Cluster, ClusterClass, NodeGroup
from dure.domain.fleet.decisions import InstanceId, Order, Site
from dure.domain.fleet.events import InstanceWarm, LoadsObserved, OrderGiven, RoundDue
from dure.domain.fleet.instructions import LocalInstruction, StartInstance, StopInstance
from dure.domain.fleet.workloads import Demand, Service, Workload, WorkloadKind
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.domain.units import GIB, NS_PER_S
from dure.fleet.local_machine import LocalMachine, LocalSettings

MINUTES = 30
_EVERY_S = 2
_WARM_S = 20
"""From the start of an instance until it is warm."""
_JOB, _HERE, _GROUP = WorkloadId("chat"), ClusterId("here"), "gpus"


@dataclass(frozen=True, slots=True)
class Noise:
    """A load that wavers around a mean, and latencies around what is promised."""

    name: str
    per_s: float
    spread: float
    """Share of the mean by which the rate is off at most."""
    latency_ms: tuple[float, float]


NOISES = (
    Noise("rate ± 25 %, calm latencies", 30.0, 0.25, (100.0, 440.0)),
    Noise("rate ± 60 %, calm latencies", 30.0, 0.6, (100.0, 440.0)),
    Noise("latencies around the warning", 30.0, 0.1, (300.0, 500.0)),
)


@dataclass(frozen=True, slots=True)
class Trembling:
    """What came of one half hour."""

    least: int
    most: int
    grew: int
    """Times that replicas were started after the first."""
    shrank: int


def run(noise: Noise, seed: int, *, forgets_bursts: bool) -> Trembling:
    """One service of 10 requests/s a replica and 500 ms promised, every two seconds a look."""
    chance = random.Random(seed)
    machine = LocalMachine(LocalSettings(_cluster(), validate=False))
    world = _World(machine)
    world.tell(OrderGiven(0, Order(_workload(noise, forgets_bursts), Site(_HERE, _GROUP), 1, 4)))
    sizes = []
    for step in range(1, MINUTES * 60 // _EVERY_S + 1):
        now_ns = step * _EVERY_S * NS_PER_S
        world.warm(now_ns)
        rate = noise.per_s * chance.uniform(1.0 - noise.spread, 1.0 + noise.spread)
        figures = (rate, float(chance.randrange(4)), chance.uniform(*noise.latency_ms))
        columns = (np.array([each]) for each in figures)
        world.tell(LoadsObserved(now_ns, (_JOB,), *columns))
        world.tell(RoundDue(now_ns))
        sizes.append(len(world.since_ns))
    changes = [after - before for before, after in pairwise(sizes)]
    return Trembling(
        min(sizes), max(sizes), sum(each > 0 for each in changes), sum(each < 0 for each in changes)
    )


class _World:
    """Carries out what the local stage says; instances are warm after a while."""

    def __init__(self, machine: LocalMachine) -> None:
        self._machine = machine
        self.since_ns: dict[InstanceId, int] = {}
        self._cold: set[InstanceId] = set()

    def tell(self, event: OrderGiven | LoadsObserved | RoundDue | InstanceWarm) -> None:
        for instruction in self._machine.handle(event):
            self._carry_out(instruction, event.now_ns)

    def _carry_out(self, instruction: LocalInstruction, now_ns: int) -> None:
        match instruction:
            case StartInstance(instance=name):
                self.since_ns[name] = now_ns
                self._cold.add(name)
            case StopInstance(instance=name):
                del self.since_ns[name]
                self._cold.discard(name)

    def warm(self, now_ns: int) -> None:
        """Those that were started long enough ago are ready."""
        ready = [name for name in self._cold if now_ns - self.since_ns[name] >= _WARM_S * NS_PER_S]
        for name in sorted(ready, key=lambda each: each.index):
            self._cold.discard(name)
            self.tell(InstanceWarm(now_ns, name))


def _cluster() -> Cluster:
    nodes = NodeGroup(_GROUP, 8, "a100", 4, 64_000, 512 * GIB, 4)
    return Cluster(_HERE, "region", "provider", ClusterClass.CLOUD, (nodes,))


def _workload(noise: Noise, forgets_bursts: bool) -> Workload:
    return Workload(
        id=_JOB,
        tenant=TenantId("acme"),
        kind=WorkloadKind.SERVING,
        demand=Demand(memory_bytes=GIB, cpu_milli=500, whole=True),
        service=Service(
            requests_per_s=noise.per_s,
            replica_requests_per_s=10.0,
            target_latency_ms=500.0,
            service_time_ms=100.0,
            reference="a100",
            forgets_bursts=forgets_bursts,
        ),
    )
