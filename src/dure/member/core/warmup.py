"""Lets the local stage decide something small once: its compiled loops are then there when needed.

Making them takes half a minute on a new machine. In a member that is linked, its centre would take
that silence for a cluster that is gone.
"""

import numpy as np

from dure.domain.fleet.clusters import Cluster, ClusterClass, NodeGroup
from dure.domain.fleet.decisions import Order, Site
from dure.domain.fleet.events import InstanceWarm, LoadsObserved, LocalEvent, OrderGiven, RoundDue
from dure.domain.fleet.instructions import StartInstance
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import Demand, Service, Work, Workload, WorkloadKind
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.domain.units import GIB, NS_PER_S
from dure.fleet.local_machine import LocalMachine, LocalSettings

_HERE = ClusterId("warm-up")
_SERVED = WorkloadId("served")
_ROUND_NS = 10 * NS_PER_S


def warm_up() -> None:
    """Takes a fraction of a second where the loops were kept on disk."""
    groups = tuple(
        NodeGroup(mode.value, 2, "a100-40gb", 4, 64_000, 512 * GIB, 4, mode=mode)
        for mode in (ShareMode.WHOLE, ShareMode.MIG)
    )
    machine = LocalMachine(LocalSettings(Cluster(_HERE, "x", "x", ClusterClass.ON_PREM, groups)))
    for event in _orders(groups):
        machine.handle(event)
    for number in range(1, 4):
        now_ns = number * _ROUND_NS
        seen = (np.array([figure]) for figure in (40.0 * number, 5.0, 800.0))
        machine.handle(LoadsObserved(now_ns, (_SERVED,), *seen))
        for told in machine.handle(RoundDue(now_ns)):
            if isinstance(told, StartInstance):
                machine.handle(InstanceWarm(now_ns, told.instance))


def _orders(groups: tuple[NodeGroup, ...]) -> list[LocalEvent]:
    tenant, demand = TenantId("warm-up"), Demand(memory_bytes=GIB)
    service = Service(5.0, 10.0, 500.0, 100.0, most_replicas=8)
    made = [
        Workload(WorkloadId("trained"), tenant, WorkloadKind.TRAINING, demand, work=Work(3600.0)),
        Workload(WorkloadId("done"), tenant, WorkloadKind.BATCH, demand, work=Work(3600.0)),
        Workload(_SERVED, tenant, WorkloadKind.SERVING, demand, service=service),
    ]
    return [
        OrderGiven(0, Order(workload, Site(_HERE, groups[number % 2].name), 1, 1))
        for number, workload in enumerate(made)
    ]
