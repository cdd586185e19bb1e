"""Small simulated fleets for tests, and a centre that does what it is told."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dure.domain.fleet.clusters import Cluster, ClusterClass, Fleet, NodeGroup, Tariff
from dure.domain.fleet.decisions import Order, Site
from dure.domain.fleet.events import GlobalEvent, RoundDue
from dure.domain.fleet.instructions import GlobalInstruction
from dure.domain.fleet.policy import HOUR_NS, MINUTE_NS
from dure.domain.fleet.series import Series
from dure.domain.fleet.workloads import (
    Demand,
    Gang,
    Service,
    Sla,
    Work,
    Workload,
    WorkloadKind,
)
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.domain.units import GIB, NS_PER_S
from dure.sim.fleet.modes import MODES, Mode
from dure.sim.fleet.setting import LoadCurves, Setting
from dure.sim.fleet.world import World

START_NS = 1_696_118_400 * NS_PER_S
"""1 October 2023, a Sunday, 00:00 UTC."""
BOOT_S = 100.0
CONTAINER_S = 8.0
"""`Physics.container_start_s` as it is by default; from a node that is off to a running job it is
`BOOT_S` more."""


def group(name: str = "g", nodes: int = 2, devices: int = 4, **changes: Any) -> NodeGroup:
    """Nodes with a100 devices."""
    made = NodeGroup(
        name=name,
        count=nodes,
        profile="a100",
        devices=devices,
        cpu_milli=64_000,
        host_memory_bytes=512 * GIB,
        link_domain=devices,
        boot_s=BOOT_S,
    )
    return replace(made, **changes)


def cluster(
    name: str,
    groups: Sequence[NodeGroup] = (),
    price: float | None = 2.0,
    carbon: Sequence[float] = (300.0,),
    electricity: Sequence[float] = (100.0,),
    calendar: Sequence[float] = (1.0,),
) -> Cluster:
    """A cluster whose a100 cost so much an hour; None: they are owned."""
    return Cluster(
        id=ClusterId(name),
        region=name,
        provider="any",
        cluster_class=ClusterClass.ON_PREM if price is None else ClusterClass.CLOUD,
        groups=tuple(groups) or (group(),),
        tariff=Tariff(
            device_hour={} if price is None else {"a100": price}, calendar=tuple(calendar)
        ),
        carbon_g_per_kwh=Series(np.array(carbon, dtype=np.float64), START_NS),
        electricity_per_mwh=Series(np.array(electricity, dtype=np.float64), START_NS),
        pue=1.5,
    )


def job(name: str, at_s: float = 0.0, runs_s: float = 3600.0, **changes: Any) -> Workload:
    """A job that takes so long on one whole a100 of each worker."""
    made = Workload(
        id=WorkloadId(name),
        tenant=TenantId("ann"),
        kind=WorkloadKind.TRAINING,
        demand=Demand(memory_bytes=GIB, cpu_milli=1000, host_memory_bytes=GIB, whole=True),
        submitted_ns=START_NS + round(at_s * NS_PER_S),
        work=Work(runs_s, reference="a100"),
        gang=Gang(checkpoint_s=600.0),
    )
    return replace(made, **changes)


def service(name: str, rate: float = 8.0, **changes: Any) -> Workload:
    """A service whose instances serve 10 requests a second each, 100 ms apiece."""
    made = Workload(
        id=WorkloadId(name),
        tenant=TenantId("sue"),
        kind=WorkloadKind.SERVING,
        demand=Demand(memory_bytes=GIB, cpu_milli=1000, host_memory_bytes=GIB, whole=True),
        submitted_ns=START_NS,
        service=Service(
            requests_per_s=rate,
            replica_requests_per_s=10.0,
            target_latency_ms=1000.0,
            service_time_ms=100.0,
            reference="a100",
        ),
        sla=Sla(penalty_per_violated_minute=1.0, penalty_cap=50.0),
    )
    return replace(made, **changes)


def setting(
    clusters: Sequence[Cluster], workloads: Sequence[Workload], hours: float = 6.0, **changes: Any
) -> Setting:
    """A setting of these."""
    ordered = sorted(workloads, key=lambda workload: workload.submitted_ns)
    return Setting(
        **{
            "fleet": Fleet(tuple(clusters)),
            "workloads": tuple(ordered),
            "start_ns": START_NS,
            "duration_ns": round(hours * HOUR_NS),
            "round_ns": MINUTE_NS,
            "validate": True,
            **changes,
        }
    )


def flat_load(name: str, rates: Sequence[float], step_ns: int = HOUR_NS) -> LoadCurves:
    """A load that changes by the step."""
    return LoadCurves((WorkloadId(name),), np.array([rates], dtype=np.float64), START_NS, step_ns)


class Script:
    """A centre that gives the instructions written for each minute, and keeps what it hears."""

    def __init__(self, *lines: tuple[float, GlobalInstruction]) -> None:
        self.heard: list[GlobalEvent] = []
        self._lines = sorted(
            ((START_NS + round(minute * MINUTE_NS), line) for minute, line in lines),
            key=lambda entry: entry[0],
        )

    def handle(self, event: GlobalEvent) -> list[GlobalInstruction]:
        """Take an event, answer with what is due."""
        if not isinstance(event, RoundDue):
            self.heard.append(event)
            return []
        due = [line for at_ns, line in self._lines if at_ns <= event.now_ns]
        self._lines = self._lines[len(due) :]
        return due

    def all_of(self, kind: type) -> list[Any]:
        """What it heard of one kind."""
        return [event for event in self.heard if isinstance(event, kind)]


def order(workload: Workload, where: str, attempt: int = 1, instances: int = 0) -> Order:
    """An order for a cluster's group `g`."""
    workers = instances or workload.gang.workers
    return Order(workload, Site(ClusterId(where), "g"), attempt, workers)


def play(made: Setting, script: Script, mode: Mode | None = None) -> World:
    """Run a setting under a script to its end."""
    packer = mode or MODES["first-fit"]
    world = World(made, script, lambda index: packer.make_local(made, index))
    now_ns = made.start_ns
    while now_ns < made.end_ns:
        world.round(now_ns)
        now_ns += made.round_ns
    world.finish(made.end_ns)
    return world


def at_s(moment_ns: int) -> float:
    """Seconds since the start."""
    return (moment_ns - START_NS) / NS_PER_S
