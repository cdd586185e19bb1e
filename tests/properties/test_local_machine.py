"""Whatever happens to a cluster, its local stage oversubscribes, loses and doubles nothing."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dure.domain.fleet.events import (
    AllotmentsSet,
    ForeignUsed,
    InstanceFound,
    InstanceWarm,
    LoadsObserved,
    NodeBack,
    NodeCordoned,
    NodeLost,
    NodesEmptying,
    OrderGiven,
    RoundDue,
    StartFailed,
    TenantSet,
)
from dure.domain.fleet.instructions import ReportSummary
from dure.domain.fleet.policy import MINUTE_NS
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import Allotment, FleetTenant, VNodePool
from dure.domain.fleet.workloads import Workload, WorkloadKind
from dure.domain.ids import PoolId, TenantId, WorkloadId
from dure.domain.units import GIB
from dure.fleet.local.settings import LocalSettings, QueueRules, TidyRules
from dure.fleet.local_machine import LocalMachine
from tests.fleet.local.factories import (
    HERE,
    Rig,
    batch,
    cluster,
    group,
    order,
    pool_id,
    serving,
    training,
)

GROUPS = (
    group("gpus", 3, 4, link_domain=2),
    group("mig", 2, 2, ShareMode.MIG),
    group("mps", 1, 2, ShareMode.MPS),
)
NODES = 6
POOLS = (
    VNodePool(PoolId("shared"), TenantId("a"), "a100"),
    VNodePool(PoolId("alone"), TenantId("b"), "a100", dedicated=True),
    VNodePool(PoolId("slices"), TenantId("b"), "a100", "1g.10gb", ShareMode.MIG),
)
_pools = st.sampled_from([None, "shared", "alone", "slices"])
_tenants = st.sampled_from(["a", "b", "c"])
_priorities = st.integers(-1, 2)


class History(RuleBasedStateMachine):
    """Random events; the rig and the machine's own checks doubt every answer."""

    def __init__(self) -> None:
        super().__init__()
        limits = QueueRules(patience_ns=120 * MINUTE_NS, most_passes=2)
        tidy = TidyRules(
            interval_ns=20 * MINUTE_NS, blocked_ns=0, gain=0.5, rest_ns=0, most_at_once=3
        )
        in_place = frozenset({"mps", "mig"})
        self.rig = Rig(
            LocalSettings(
                cluster(*GROUPS), queue=limits, tidy=tidy, in_place=in_place, validate=True
            )
        )
        self.rig.tell(TenantSet(0, FleetTenant(TenantId("a")), POOLS[:1]))
        self.rig.tell(TenantSet(0, FleetTenant(TenantId("b"), priority=1), POOLS[1:]))
        self.count = 0
        self.down: set[int] = set()
        self.cordoned: set[int] = set()
        self.foreign: dict[int, ForeignUsed] = {}
        self.allotments: tuple[Allotment, ...] = ()
        self.open: dict[str, int] = {}
        """Attempts of orders that were given and neither ended, withdrawn nor turned down."""
        self.services: dict[str, Workload] = {}
        self.revision = 0
        self.twin: LocalMachine | None = None
        """Made from a snapshot."""
        self.saved = (0, 0)

    def _give(self, workload: Any, where: str, instances: int | None = None) -> None:
        self.rig.tell(OrderGiven(self.rig.now_ns, order(workload, instances, group=where)))
        self.open[workload.id] = 1
        if self.count % 3:
            self.rig.round()

    def _name(self) -> str:
        self.count += 1
        return f"w{self.count}"

    @rule(
        workers=st.integers(1, 6),
        devices=st.integers(1, 2),
        most=st.none() | st.integers(1, 8),
        priority=_priorities,
        tenant=_tenants,
        pool=_pools,
    )
    def train(
        self, workers: int, devices: int, most: int | None, priority: int, tenant: str, pool: str
    ) -> None:
        """A gang comes."""
        more: dict[str, Any] = {
            "most_workers": most,
            "priority": priority,
            "tenant": tenant,
            "pool": pool,
        }
        self._give(training(self._name(), workers, devices, **more), "gpus")

    @rule(
        memory=st.sampled_from([4, 15, 30]),
        priority=_priorities,
        tenant=_tenants,
        pool=_pools,
        where=st.sampled_from(["mig", "mps", "gpus"]),
    )
    def fill(self, memory: int, priority: int, tenant: str, pool: str, where: str) -> None:
        """Batch comes."""
        more: dict[str, Any] = {"priority": priority, "tenant": tenant, "pool": pool}
        self._give(batch(self._name(), memory, **more), where)

    @rule(
        warm=st.integers(0, 2),
        memory=st.sampled_from([4, 15]),
        tenant=_tenants,
        where=st.sampled_from(["mig", "mps", "gpus"]),
        most=st.integers(1, 6),
        standby=st.integers(0, 2),
    )
    def serve(
        self, warm: int, memory: int, tenant: str, where: str, most: int, standby: int
    ) -> None:
        """A service comes."""
        workload = serving(self._name(), warm, memory, tenant=tenant, most_replicas=max(1, most))
        assert workload.service is not None
        workload = replace(workload, service=replace(workload.service, standby=standby))
        self._give(workload, where, max(1, min(most, warm)))
        self.services[workload.id] = workload

    @precondition(lambda self: len(self.open) > 6)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        """The centre takes something back."""
        name = data.draw(st.sampled_from(sorted(self.open)))
        for attempt in range(self.open.pop(name), 0, -1):
            self.rig.withdraw(name, attempt)
        assert not self.rig.of(name)

    @precondition(lambda self: self.services)
    @rule(data=st.data(), where=st.sampled_from(["mig", "mps", "gpus"]))
    def order_again(self, data: st.DataObject, where: str) -> None:
        """The centre wants a service in another group of the same cluster."""
        name = data.draw(st.sampled_from(sorted(self.services)))
        if name in self.open:
            self.open[name] += 1
            more = {"group": where, "attempt": self.open[name]}
            self.rig.give(order(self.services[name], 1, **more))

    @precondition(lambda self: len(self.rig.running) > 6)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """A job ends, or a replica fails."""
        name = data.draw(st.sampled_from(sorted(self.rig.running, key=str)))
        if self.rig.orders[name].workload.kind is not WorkloadKind.SERVING:
            self.rig.end(str(name.workload))
            self.open.pop(name.workload, None)

    @rule()
    def warm(self) -> None:
        """Everything is ready."""
        self.rig.warm_all()

    @precondition(lambda self: self.rig.running)
    @rule(data=st.data())
    def warm_one(self, data: st.DataObject) -> None:
        """One instance is ready."""
        name = data.draw(st.sampled_from(sorted(self.rig.running, key=str)))
        self.rig.leaving.pop(name, None)
        self.rig.tell(InstanceWarm(self.rig.now_ns, name))

    @precondition(lambda self: self.rig.running)
    @rule(data=st.data())
    def checkpoint(self, data: st.DataObject) -> None:
        """A job saves its progress."""
        name = data.draw(st.sampled_from(sorted(self.rig.running, key=str)))
        if self.rig.orders[name].workload.kind is WorkloadKind.TRAINING:
            self.rig.checkpoint(str(name.workload))

    @rule(node=st.integers(0, 2 * NODES))
    def node(self, node: int) -> None:
        """A node dies or comes back; most of the time nothing happens."""
        if node >= NODES:
            self.rig.round(1)
        elif node in self.down or node in self.cordoned:
            switched_off = node in self.rig.off and node not in self.down
            self.down.discard(node)
            self.cordoned.discard(node)
            self.rig.tell(NodeBack(self.rig.now_ns, node))
            if switched_off:
                self.rig.off.add(node)
        else:
            self.down.add(node)
            self.rig.tell(NodeLost(self.rig.now_ns, node))

    @rule(node=st.integers(0, 2 * NODES))
    def cordon(self, node: int) -> None:
        """A node takes nothing new; what runs there runs on."""
        if node < NODES:
            self.off_with(node)
            before = dict(self.rig.running)
            assert self.rig.tell(NodeCordoned(self.rig.now_ns, node)) == []
            assert self.rig.running == before
            self.rig.round()

    def off_with(self, node: int) -> None:
        """A node that was down comes back cordoned."""
        if node in self.down:
            self.down.discard(node)
            self.rig.off.discard(node)
        self.cordoned.add(node)

    @rule(
        node=st.integers(0, 2 * NODES),
        devices=st.integers(0, 5),
        cpu_milli=st.integers(0, 80_000),
        memory_gib=st.integers(0, 600),
    )
    def others(self, node: int, devices: int, cpu_milli: int, memory_gib: int) -> None:
        """Others use a node too."""
        if node < NODES:
            use = ForeignUsed(self.rig.now_ns, node, devices, cpu_milli, memory_gib * GIB)
            self.foreign[node] = use
            assert self.rig.tell(use) == []
            self.rig.round()

    @precondition(lambda self: self.rig.running)
    @rule(data=st.data())
    def start_fails(self, data: st.DataObject) -> None:
        """An instance could not be brought to its node."""
        name = data.draw(st.sampled_from(sorted(self.rig.running, key=str)))
        if name in self.rig.leaving:
            self.rig.running[name] = self.rig.leaving.pop(name)
        else:
            self.rig._forget(name)
        self.rig.tell(StartFailed(self.rig.now_ns, name, "no room"))
        self.rig.round()

    @precondition(lambda self: self.rig.running and not self.rig.leaving)
    @rule(data=st.data())
    def take_over(self, data: st.DataObject) -> None:
        """A machine that is told all that runs has room for all of it."""
        rig, now_ns = self.rig, self.rig.now_ns
        made = LocalMachine(rig.settings)
        made.handle(TenantSet(now_ns, FleetTenant(TenantId("a")), POOLS[:1]))
        made.handle(TenantSet(now_ns, FleetTenant(TenantId("b"), priority=1), POOLS[1:]))
        leases = rig.machine.floor.leases.by_pool
        left = tuple(each for each in self.allotments if each.pool in leases)
        made.handle(AllotmentsSet(now_ns, left))
        for node in sorted(self.down):
            made.handle(NodeLost(now_ns, node))
        for node in sorted(self.cordoned):
            made.handle(NodeCordoned(now_ns, node))
        for use in self.foreign.values():
            made.handle(replace(use, now_ns=now_ns))
        for name in data.draw(st.permutations(sorted(rig.running, key=str))):
            found = InstanceFound(now_ns, rig.orders[name], name, rig.running[name], True)
            assert made.handle(found) == []
        made.handle(RoundDue(now_ns))

    @rule(data=st.data())
    def load(self, data: st.DataObject) -> None:
        """Services report."""
        names = tuple(
            WorkloadId(name) for name in sorted({str(each.workload) for each in self.rig.running})
        )
        draw = data.draw(st.lists(st.floats(0, 60), min_size=len(names), max_size=len(names)))
        late = data.draw(st.sampled_from([100.0, 480.0, 5000.0]))
        rates = np.array(draw, dtype=np.float64)
        queue, latency = rates * data.draw(st.sampled_from([0.0, 5.0])), np.full(len(names), late)
        self.rig.tell(LoadsObserved(self.rig.now_ns, names, rates, queue, latency))
        self.rig.round(data.draw(st.sampled_from([1, 10])))

    @rule(
        shared=st.integers(0, 6),
        lent=st.integers(0, 6),
        alone=st.integers(0, 5),
        slices=st.integers(0, 9),
        minutes=st.none() | st.integers(1, 60),
    )
    def lease(self, shared: int, lent: int, alone: int, slices: int, minutes: int | None) -> None:
        """Leases change."""
        self.revision += 1
        until = None if minutes is None else self.rig.now_ns + minutes * MINUTE_NS
        units = (("shared", shared, min(lent, shared)), ("alone", alone, 0), ("slices", slices, 0))
        allotments = tuple(
            Allotment(pool_id(name), HERE, count, part, self.revision, until)
            for name, count, part in units
        )
        self.allotments = allotments
        self.rig.tell(AllotmentsSet(self.rig.now_ns, allotments))
        self.rig.round()

    @rule(nodes=st.frozensets(st.integers(0, 2 * NODES), max_size=2))
    def want_empty(self, nodes: frozenset[int]) -> None:
        """Somebody wants nodes to be empty, or no more."""
        self.rig.tell(NodesEmptying(self.rig.now_ns, nodes))

    @rule(minutes=st.sampled_from([0, 1, 7, 45, 130]))
    def pass_time(self, minutes: int) -> None:
        """Time passes and a round comes; a second one at once has nothing to do."""
        self.rig.round(minutes)
        assert self.rig.round() == []

    @precondition(lambda self: self.rig.events and not self.twin)
    @rule()
    def save(self) -> None:
        """From here on a machine made from a snapshot listens too."""
        state = json.loads(json.dumps(self.rig.machine.snapshot()))
        self.twin = LocalMachine.restore(self.rig.settings, state)
        assert self.twin.snapshot() == self.rig.machine.snapshot()
        self.saved = (len(self.rig.events), len(self.rig.log))

    @invariant()
    def nothing_is_lost(self) -> None:
        """Every order runs, waits, or was given back; none does two of these."""
        tasks = self.rig.machine.floor.tasks.values()
        kept = {task.order.workload.id for task in tasks}
        for answer in self.rig.turned_down:
            if answer.workload not in kept:
                self.open.pop(answer.workload, None)
        assert kept == set(self.open)
        for task in tasks:
            mine = self.rig.of(task.order.workload.id)
            attempt = task.order.attempt
            assert {one.index for one in mine if one.attempt == attempt} == set(task.instances)
        assert len(self.rig.running) == sum(len(task.instances) for task in tasks)

    @invariant()
    def moves_that_tidy_up_are_few(self) -> None:
        """Beside those by which slices grow."""
        floor = self.rig.machine.floor
        assert sum(len(task.moving) for task in floor.tasks.values()) <= 3

    @invariant()
    def no_service_has_more_than_it_may(self) -> None:
        """With those that are kept warm."""
        for task in self.rig.machine.floor.tasks.values():
            service = task.order.workload.service
            if service is not None and not (task.replaced or task.arriving):
                least = max(service.most_replicas, task.order.instances)
                assert task.target <= max(least, len(task.instances))

    @invariant()
    def gangs_are_whole(self) -> None:
        """A gang runs with all its workers or none."""
        for name, count in self.rig.names().items():
            workload = next(
                each.workload for key, each in self.rig.orders.items() if key.workload == name
            )
            if workload.service is None:
                assert workload.gang.workers <= count <= workload.gang.limit

    @invariant()
    def dedicated_nodes_serve_one_tenant(self) -> None:
        """Nobody shares a node with a dedicated pool."""
        leases = self.rig.machine.floor.leases.by_pool
        if "alone" not in leases:
            return
        pools: dict[int, set[Any]] = {}
        for name, place in self.rig.running.items():
            pools.setdefault(place.node, set()).add(self.rig.orders[name].workload.pool)
        for there in pools.values():
            assert "alone" not in there or there == {"alone"}

    def teardown(self) -> None:
        """The same events give the same instructions, from the start or from a snapshot."""
        if self.twin is not None:
            events, answers = self.saved
            log = [each for event in self.rig.events[events:] for each in self.twin.handle(event)]
            assert log == self.rig.log[answers:]
        again = LocalMachine(self.rig.settings)
        log = [each for event in self.rig.events for each in again.handle(event)]
        assert log == self.rig.log
        if self.rig.events:
            after = again.handle(RoundDue(self.rig.now_ns))
            assert again.handle(RoundDue(self.rig.now_ns)) == []
            assert all(not isinstance(each, ReportSummary) or each.sites for each in after)


TestHistory = History.TestCase
TestHistory.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
