"""Desired sets, inventories and a cluster in virtual time for tests of the member's core."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.decisions import InstanceId, Order, Site
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.programs import Program
from dure.domain.fleet.protocol.desired import (
    AttemptKey,
    Desired,
    Plan,
    PlanAnswer,
    Surroundings,
    Want,
)
from dure.domain.fleet.protocol.reports import AttemptStatus, Inventory, NodeFact, RunPhase
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import ClusterId, WorkloadId
from dure.domain.units import GIB, NS_PER_S
from dure.member.core.actions import Action, Begin, End, Forget
from dure.member.core.desk import Desk
from dure.member.ports import InventoryChanged, Life, Seen, Start, Synced
from tests.fleet.factories import cluster, job, service

CLUSTER = ClusterId("seoul")
GROUP = "gpu"


def group(nodes: int = 2, devices: int = 4, name: str = GROUP) -> NodeGroup:
    return NodeGroup(name, nodes, "a100", devices, 64_000, 512 * GIB, devices)


def inventory(
    nodes: int = 2, devices: int = 4, down: Iterable[str] = (), why: str = "not ready"
) -> Inventory:
    names = [f"n{number}" for number in range(nodes)]
    lost = set(down)
    facts = tuple(
        NodeFact(name, GROUP, up=name not in lost, why=why if name in lost else "")
        for name in names
    )
    return Inventory((group(nodes, devices),), facts)


def surroundings(**rest: Any) -> Surroundings:
    return Surroundings(cluster(CLUSTER, groups=(group(),)), FleetPolicy(), **rest)


def desired(
    workload: Workload, attempt: int = 1, *, instances: int | None = None, **rest: Any
) -> Desired:
    count = instances if instances is not None else workload.gang.workers
    order = Order(workload, Site(CLUSTER, GROUP), attempt, count)
    program = Program(command=("run", str(workload.id)), grace_s=1.0)
    return Desired(order, program, "dure-ann", **rest)


def released(each: Desired) -> Desired:
    return replace(each, want=Want.RELEASE)


def a_job(
    name: str = "j", attempt: int = 1, *, workers: int = 1, devices: int = 1, **rest: Any
) -> Desired:
    return desired(job(name, workers=workers, devices=devices), attempt, **rest)


def a_service(name: str = "s", attempt: int = 1, *, replicas: int = 1, **rest: Any) -> Desired:
    return desired(service(name), attempt, instances=replicas, **rest)


def seconds(count: float) -> int:
    return round(count * NS_PER_S)


@dataclass
class SimulatedCluster:
    """What exists in a cluster; outlives members. Nothing happens by itself."""

    objects: dict[InstanceId, Seen] = field(default_factory=dict)
    starts: dict[InstanceId, Start] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=inventory)

    def begin(self, starts: Iterable[Start]) -> list[Seen]:
        seen = []
        for start in starts:
            name = start.instance
            if name not in self.objects:
                self.starts[name] = start
                self.objects[name] = Seen(
                    name,
                    Life.PENDING,
                    start.node,
                    f"{name.workload}-{name.attempt}-{name.index}",
                    placement=start.placement,
                    desired=start.desired,
                    devices=start.devices,
                )
            seen.append(self.objects[name])
        return seen

    def become(self, name: InstanceId, life: Life, **rest: Any) -> Seen:
        seen = replace(self.objects[name], life=life, **rest)
        if life is Life.GONE:
            del self.objects[name]
        else:
            self.objects[name] = seen
        return seen

    def alive(self) -> list[Seen]:
        return [seen for seen in self.objects.values() if not seen.life.over]


class Bench:
    """A desk with a simulated cluster, a memory and a centre that notes what it is told."""

    def __init__(self, cluster: SimulatedCluster | None = None, *, around: bool = True) -> None:
        self.cluster = cluster or SimulatedCluster()
        self.memory: dict[str, Any] = {}
        self.now_ns = seconds(1_000)
        self.ahead_ns = 0
        """How much that is ahead of the host's calendar."""
        self.around = surroundings() if around else None
        self.revision = 0
        self.told: dict[AttemptKey, AttemptStatus] = {}
        self.ending: list[InstanceId] = []
        self.done: list[Action] = []
        self.desk: Desk = None  # type: ignore[assignment]
        self.start()

    def start(self) -> None:
        """A new member over what there is."""
        self.desk = Desk(CLUSTER)
        host_ns = self.now_ns - self.ahead_ns
        self.now_ns = self.desk.load(dict(self.memory), host_ns)
        self.ahead_ns = self.now_ns - host_ns
        self.desk.see(InventoryChanged(self.cluster.inventory), self.now_ns)
        for seen in list(self.cluster.objects.values()):
            self.desk.see(seen, self.now_ns)
        self.desk.see(Synced(), self.now_ns)
        self.desk.tick(self.now_ns)
        self.whole = True
        self.act()

    def plan(
        self, *desired: Desired, epoch: int = 1, revision: int | None = None, **rest: Any
    ) -> PlanAnswer:
        if revision is None:
            self.revision += 1
            revision = self.revision
        plan = Plan(epoch, revision, desired=desired, surroundings=self.around, **rest)
        answer = self.desk.plan(plan, {}, self.now_ns)
        self.act()
        return answer

    def act(self) -> list[Action]:
        """Carry out what is to be done; memory before news, as a member does."""
        self.desk.settle(self.now_ns)
        changed, removed, _ = self.desk.memory(self.ahead_ns)
        self.memory |= changed
        for name in removed:
            self.memory.pop(name, None)
        did: list[Action] = []
        while actions := self.desk.actions():
            did += actions
            for action in actions:
                self._do(action)
            self.desk.settle(self.now_ns)
        report = self.desk.news(self.now_ns, whole=self.whole)
        if report is not None:
            if report.whole:
                self.told = {}
            self.whole = False
            self.told |= {status.key: status for status in report.attempts}
        self.done += did
        return did

    def _do(self, action: Action) -> None:
        match action:
            case Begin(starts):
                for seen in self.cluster.begin(starts):
                    self.desk.see(seen, self.now_ns)
            case End(name, _):
                if name not in self.cluster.objects:
                    self.desk.see(Seen(name, Life.GONE, "", ""), self.now_ns)
                elif name not in self.ending:
                    self.ending.append(name)
                    self.desk.see(self.cluster.become(name, Life.ENDING), self.now_ns)
            case Forget(name):
                if name in self.cluster.objects:
                    assert self.cluster.objects[name].life.over
                    self.desk.see(self.cluster.become(name, Life.GONE), self.now_ns)

    def become(self, name: InstanceId, life: Life, **rest: Any) -> None:
        self.desk.see(self.cluster.become(name, life, **rest), self.now_ns)
        self.act()

    def finish_endings(self) -> None:
        """Everything that was told to stop has stopped."""
        while self.ending:
            name = self.ending.pop(0)
            if name in self.cluster.objects:
                self.become(name, Life.GONE)

    def run_all(self) -> None:
        """Everything that waits to run runs."""
        for seen in list(self.cluster.objects.values()):
            if seen.life is Life.PENDING:
                self.become(seen.instance, Life.READY, started_ns=self.now_ns)

    def settle(self) -> None:
        """Until nothing happens any more."""
        for _ in range(50):
            before = (len(self.done), dict(self.cluster.objects))
            self.wait(1)
            self.finish_endings()
            self.run_all()
            if before == (len(self.done), dict(self.cluster.objects)):
                return
        raise AssertionError("it does not come to rest")

    def wait(self, s: float) -> None:
        self.now_ns += seconds(s)
        self.desk.tick(self.now_ns)
        self.act()

    def of(self, name: str, attempt: int | None = None) -> list[Seen]:
        """Living instances of a job."""
        return [
            seen
            for seen in self.cluster.alive()
            if seen.instance.workload == WorkloadId(name)
            and (attempt is None or seen.instance.attempt == attempt)
        ]

    def phase(self, name: str, attempt: int = 1) -> RunPhase:
        return self.told[AttemptKey(WorkloadId(name), attempt)].phase

    def status(self, name: str, attempt: int = 1) -> AttemptStatus:
        return self.told[AttemptKey(WorkloadId(name), attempt)]


def key(name: str, attempt: int = 1) -> AttemptKey:
    """An attempt of a job."""
    return AttemptKey(WorkloadId(name), attempt)


def put_forward(bench: Bench, s: float) -> None:
    """The centre says that it is so much later."""
    bench.now_ns += seconds(s)
    bench.ahead_ns += seconds(s)
    bench.desk.put_forward(seconds(s), seconds(s))
