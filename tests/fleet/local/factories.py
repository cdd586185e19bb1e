"""A small cluster, workloads for it, and a rig that carries instructions out and doubts them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dure.domain.fleet.clusters import Cluster, ClusterClass, NodeGroup, Tariff
from dure.domain.fleet.decisions import InstanceId, Order, Placement, Site, SiteSummary
from dure.domain.fleet.events import (
    CheckpointReached,
    InstanceEnded,
    InstanceWarm,
    LoadsObserved,
    LocalEvent,
    NodeBack,
    NodeLost,
    OrderGiven,
    OrderWithdrawn,
    RoundDue,
)
from dure.domain.fleet.instructions import (
    LocalInstruction,
    MoveInstance,
    PowerNode,
    ReportSummary,
    ResizeInstance,
    SizeService,
    StartInstance,
    StopInstance,
    TurnDownOrder,
)
from dure.domain.fleet.policy import MINUTE_NS
from dure.domain.fleet.profiles import DataType
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import Demand, Gang, Service, Work, Workload, WorkloadKind
from dure.domain.ids import ClusterId, PoolId, TenantId, WorkloadId
from dure.domain.units import GIB
from dure.fleet.local_machine import LocalMachine, LocalSettings

HERE = ClusterId("here")
CPU_MILLI = 64_000
HOST_BYTES = 512 * GIB


def group(
    name: str = "gpus",
    count: int = 2,
    devices: int = 4,
    mode: ShareMode = ShareMode.WHOLE,
    link_domain: int | None = None,
) -> NodeGroup:
    """Nodes with A100s."""
    domain = devices if link_domain is None else link_domain
    return NodeGroup(name, count, "a100", devices, CPU_MILLI, HOST_BYTES, domain, mode=mode)


def cluster(*groups: NodeGroup, owned: bool = False) -> Cluster:
    """A cluster of these groups, rented unless said otherwise."""
    tariff = Tariff() if owned else Tariff(device_hour={"a100": 2.0})
    return Cluster(HERE, "region", "provider", ClusterClass.CLOUD, groups or (group(),), tariff)


def training(
    name: str, workers: int = 1, devices: int = 1, hours: float = 10.0, **more: Any
) -> Workload:
    """A gang on whole devices."""
    demand = Demand(memory_bytes=GIB, cpu_milli=1000, devices=devices, whole=True)
    gang = more.pop("gang", None) or Gang(workers, more.pop("most_workers", None))
    return Workload(
        id=WorkloadId(name),
        tenant=TenantId(more.pop("tenant", "t")),
        kind=WorkloadKind.TRAINING,
        demand=demand,
        work=Work(hours * 3600.0, reference="a100"),
        gang=gang,
        **more,
    )


def batch(name: str, memory_gib: int = 4, hours: float = 1.0, **more: Any) -> Workload:
    """One instance on the smallest slice with enough memory."""
    return Workload(
        id=WorkloadId(name),
        tenant=TenantId(more.pop("tenant", "t")),
        kind=WorkloadKind.BATCH,
        demand=Demand(
            memory_bytes=memory_gib * GIB,
            cpu_milli=500,
            data_type=more.pop("data_type", DataType.FP16),
        ),
        work=Work(hours * 3600.0, reference="a100"),
        **more,
    )


def serving(name: str, warm: int = 1, memory_gib: int = 4, **more: Any) -> Workload:
    """A service: 10 requests a second a replica, 100 ms each, 500 ms promised."""
    service = Service(
        requests_per_s=5.0,
        replica_requests_per_s=10.0,
        target_latency_ms=500.0,
        service_time_ms=100.0,
        warm_minimum=warm,
        most_replicas=more.pop("most_replicas", 16),
        users=more.pop("users", ()),
        reference="a100",
    )
    return Workload(
        id=WorkloadId(name),
        tenant=TenantId(more.pop("tenant", "t")),
        kind=WorkloadKind.SERVING,
        demand=Demand(
            memory_bytes=memory_gib * GIB, cpu_milli=500, whole=bool(more.pop("whole", False))
        ),
        service=service,
        **more,
    )


def order(workload: Workload, instances: int | None = None, **more: Any) -> Order:
    """An order for this cluster."""
    count = instances
    if count is None:
        count = workload.gang.workers if workload.service is None else 1
    where = Site(HERE, more.pop("group", "gpus"))
    return Order(workload, where, more.pop("attempt", 1), count, **more)


def pool_id(name: str) -> PoolId:
    """A pool's name."""
    return PoolId(name)


@dataclass
class Rig:
    """A local machine in a world that does what it is told, unless that is impossible."""

    settings: LocalSettings
    now_ns: int = 0
    running: dict[InstanceId, Placement] = field(default_factory=dict)
    leaving: dict[InstanceId, Placement] = field(default_factory=dict)
    orders: dict[InstanceId, Order] = field(default_factory=dict)
    off: set[int] = field(default_factory=set)
    turned_down: list[TurnDownOrder] = field(default_factory=list)
    summary: dict[str, SiteSummary] = field(default_factory=dict)
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of services: instances that take requests, and that are kept warm."""
    machine: LocalMachine = field(init=False)
    log: list[LocalInstruction] = field(default_factory=list)
    events: list[LocalEvent] = field(default_factory=list)
    _ever: set[InstanceId] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.machine = LocalMachine(self.settings)
        if not self.settings.nodes_on_at_start:
            self.off = set(range(sum(each.count for each in self.settings.cluster.groups)))

    # Events

    def tell(self, event: LocalEvent) -> list[LocalInstruction]:
        """Feed an event and carry out the answer."""
        self.now_ns = event.now_ns
        self.events.append(event)
        if isinstance(event, NodeLost):
            for name in [each for each, _ in self._held() if self._on(each, event.node)]:
                self._forget(name)
            self.off.add(event.node)
        if isinstance(event, NodeBack):
            self.off.discard(event.node)
        answer = self.machine.handle(event)
        for instruction in answer:
            self._carry_out(instruction)
        self.log += answer
        return answer

    def give(self, *orders: Order) -> list[LocalInstruction]:
        """Orders come, and a round."""
        for each in orders:
            self.tell(OrderGiven(self.now_ns, each))
        return self.round()

    def round(self, minutes: float = 0.0) -> list[LocalInstruction]:
        """Time passes, then a round is due."""
        return self.tell(RoundDue(self.now_ns + round(minutes * MINUTE_NS)))

    def rounds(self, minutes: int, every: int = 1) -> list[LocalInstruction]:
        """Many rounds."""
        return [each for _ in range(0, minutes, every) for each in self.round(every)]

    def warm_all(self) -> None:
        """Everything that was started is ready, everything that moved has arrived."""
        for name in list(self.running):
            self.leaving.pop(name, None)
            self.tell(InstanceWarm(self.now_ns, name))

    def end(self, workload: str) -> list[LocalInstruction]:
        """A job finishes; a round follows."""
        for name in self.of(workload):
            self._forget(name)
            self.tell(InstanceEnded(self.now_ns, name))
        return self.round()

    def withdraw(self, workload: str, attempt: int = 1) -> list[LocalInstruction]:
        """The centre takes an order back; a round follows."""
        self.tell(OrderWithdrawn(self.now_ns, WorkloadId(workload), attempt))
        return self.round()

    def checkpoint(self, workload: str) -> list[LocalInstruction]:
        """A job saves its progress; a round follows."""
        answer = self.tell(CheckpointReached(self.now_ns, WorkloadId(workload)))
        return answer + self.round()

    def load(self, *rows: tuple[str, float, float, float], minutes: float = 1.0) -> None:
        """Services report name, requests a second, queue, latency; a round follows."""
        figures = np.array([row[1:] for row in rows], dtype=np.float64).reshape(-1, 3).T
        names = tuple(WorkloadId(row[0]) for row in rows)
        self.now_ns += round(minutes * MINUTE_NS)
        self.tell(LoadsObserved(self.now_ns, names, *figures))
        self.round()

    # What is

    def of(self, workload: str) -> list[InstanceId]:
        """Its running instances."""
        return [name for name in self.running if name.workload == workload]

    def nodes(self, workload: str) -> set[int]:
        """Nodes it runs on."""
        return {self.running[name].node for name in self.of(workload)}

    def names(self) -> Counter[str]:
        """How many instances run of what."""
        return Counter(str(name.workload) for name in self.running)

    # Carrying out

    def _carry_out(self, instruction: LocalInstruction) -> None:
        match instruction:
            case StartInstance(instance=name, order=given, placement=place):
                assert name not in self._ever, f"{name} was started before"
                self._ever.add(name)
                self.running[name] = place
                self.orders[name] = given
                assert place.node not in self.off
            case StopInstance(instance=name):
                assert name in self.running, f"{name} is stopped and does not run"
                self._forget(name)
            case MoveInstance(instance=name, placement=place, warm_first=warm_first):
                assert name in self.running, f"{name} is moved and does not run"
                if warm_first:
                    self.leaving[name] = self.running[name]
                self.running[name] = place
                assert place.node not in self.off
            case ResizeInstance(instance=name, placement=place):
                assert name in self.running, f"{name} is resized and does not run"
                assert place.devices == self.running[name].devices
                self.running[name] = place
            case SizeService(workload=workload, serving=serving, standby=standby):
                self.sizes[str(workload)] = (serving, standby)
            case PowerNode(node=node, on=on):
                assert (node in self.off) == on, "a node is switched to what it is"
                assert on or not any(place.node == node for _, place in self._held())
                (self.off.discard if on else self.off.add)(node)
            case TurnDownOrder():
                self.turned_down.append(instruction)
                mine = self.of(instruction.workload)
                assert all(name.attempt != instruction.attempt for name in mine)
            case ReportSummary(sites=sites):
                self.summary = {site.site.group: site for site in sites}
            case _:
                pass
        self._check_capacity()

    def _forget(self, name: InstanceId) -> None:
        self.running.pop(name, None)
        self.leaving.pop(name, None)

    def _held(self) -> list[tuple[InstanceId, Placement]]:
        return [*self.running.items(), *self.leaving.items()]

    def _on(self, name: InstanceId, node: int) -> bool:
        places = (self.running.get(name), self.leaving.get(name))
        return any(place is not None and place.node == node for place in places)

    def _check_capacity(self) -> None:
        """Whole devices have one holder, slots are not shared, shares add up to one device."""
        milli: Counter[int] = Counter()
        masks: Counter[int] = Counter()
        cpu: Counter[int] = Counter()
        for name, place in self._held():
            cpu[place.node] += self.orders[name].workload.demand.cpu_milli
            assert cpu[place.node] <= CPU_MILLI
            for at, device in enumerate(place.devices):
                milli[device] += place.compute_milli
                assert milli[device] <= 1000, f"device {device} is given out twice"
                mask = place.masks[at] if place.masks else 0
                assert not masks[device] & mask, f"slots of device {device} are given out twice"
                masks[device] |= mask


def rig(*groups: NodeGroup, owned: bool = False, **settings: Any) -> Rig:
    """A rig that checks every invariant after every event."""
    return Rig(LocalSettings(cluster(*groups, owned=owned), validate=True, **settings))


def started(answer: Sequence[LocalInstruction]) -> list[StartInstance]:
    """The starts among instructions."""
    return [each for each in answer if isinstance(each, StartInstance)]


def stopped(answer: Sequence[LocalInstruction]) -> list[StopInstance]:
    """The stops among instructions."""
    return [each for each in answer if isinstance(each, StopInstance)]


def moved(answer: Sequence[LocalInstruction]) -> list[MoveInstance]:
    """The moves among instructions."""
    return [each for each in answer if isinstance(each, MoveInstance)]
