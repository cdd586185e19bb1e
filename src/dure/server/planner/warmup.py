"""Lets the machine decide something small once: its compiled loops are then there when needed."""

from dure.domain.fleet.clusters import Cluster, ClusterClass, Fleet, NodeGroup
from dure.domain.fleet.events import ClusterJoined, GlobalEvent, RoundDue, WorkloadSubmitted
from dure.domain.fleet.workloads import (
    Demand,
    Service,
    Work,
    Workload,
    WorkloadKind,
)
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.domain.units import GIB, NS_PER_S
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings


def warm_up() -> None:
    """Takes seconds on a new machine, and a fraction of one where the loops were kept on disk."""
    machine = GlobalMachine(GlobalSettings(Fleet(())))
    for event in _events():
        machine.handle(event)


def _events() -> list[GlobalEvent]:
    now_ns = NS_PER_S
    group = NodeGroup("gpus", 2, "a100-40gb", 4, 64_000, 512 * GIB, 4)
    joins: list[GlobalEvent] = [
        ClusterJoined(
            now_ns, Cluster(ClusterId(name), "here", "own", ClusterClass.ON_PREM, (group,))
        )
        for name in ("one", "two")
    ]
    demand, tenant = Demand(memory_bytes=GIB), TenantId("warm-up")
    jobs: list[GlobalEvent] = [
        WorkloadSubmitted(
            now_ns,
            Workload(WorkloadId(f"job-{number}"), tenant, kind, demand, now_ns, work=Work(3600.0)),
        )
        for number, kind in enumerate((WorkloadKind.TRAINING, WorkloadKind.BATCH) * 2)
    ]
    service = Service(1.0, 10.0, 500.0, 10.0)
    served = Workload(
        WorkloadId("served"), tenant, WorkloadKind.SERVING, demand, now_ns, service=service
    )
    rounds = [RoundDue(now_ns * second) for second in range(2, 5)]
    return [*joins, *jobs, WorkloadSubmitted(now_ns, served), *rounds]
