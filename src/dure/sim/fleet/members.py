"""One member cluster in the simulated fleet: its local stage in the loop with true hardware.

What the local stage says is carried out here; what becomes of it (instances that get warm, jobs
that end) goes back as events. How fast work gets on with the instances it has is in `pace`.
"""

import time
from collections.abc import Callable
from typing import Any

from dure.domain.fleet.decisions import Order, Placement
from dure.domain.fleet.events import (
    GlobalEvent,
    InstanceWarm,
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
    Warn,
)
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.sim.fleet.billing import Holding
from dure.sim.fleet.hardware import Hardware
from dure.sim.fleet.jobs import Instance, Run
from dure.sim.fleet.pace import Pace, by_id
from dure.sim.fleet.surroundings import LocalStage, Surroundings

RunKey = tuple[WorkloadId, int]


class Member:
    """A cluster: local stage, hardware, and the orders it has."""

    def __init__(
        self, hardware: Hardware, stage: LocalStage, around: Surroundings, container_start_s: float
    ) -> None:
        self._books = around.books
        self.index = hardware.index
        self.id = hardware.cluster.id
        self.cluster = hardware.cluster
        self.hardware = hardware
        self.stage = stage
        self.runs: dict[RunKey, Run] = {}
        self._named: dict[WorkloadId, list[Run]] = {}
        """The same by workload."""
        self.reachable = True
        self.outbox: list[GlobalEvent] = []
        """What the centre has not heard yet."""
        self.inbox: list[Callable[[int], None]] = []
        """What the centre wanted while the cluster could not be reached."""
        self.stage_s = 0.0
        self.jobs_ended = 0
        self._around = around
        self._start_ns = round(container_start_s * NS_PER_S)
        self.pace = Pace(self, hardware, around)
        self._guests: dict[int, set[Instance]] = {}
        """By node; a set in the order of nothing: only ever walked sorted."""
        self._warming: dict[tuple[int, Run], list[tuple[Instance, int]]] = {}
        self._carry: dict[type[Any], Callable[[Any, int], None]] = {
            StartInstance: self._start,
            StopInstance: self._stop,
            MoveInstance: self._move,
            ResizeInstance: self._resize,
            SizeService: self._size,
            PowerNode: self._power,
            TurnDownOrder: self._turn_down,
            ReportSummary: self._summary,
            Warn: self._warn,
        }

    # --- events in ---------------------------------------------------------------------------

    def tell(self, event: LocalEvent) -> None:
        """Give the local stage an event and do what it says."""
        started = time.perf_counter()
        instructions = self.stage.handle(event)
        self.stage_s += time.perf_counter() - started
        if instructions:
            self._carry_out(instructions, event.now_ns)

    def round(self, now_ns: int) -> None:
        """Its tick."""
        self.tell(RoundDue(now_ns))
        if self.stage.awaited:
            for name in sorted(self.stage.awaited):
                for run in self._named.get(name, ()):
                    self.pace.await_checkpoint(run, now_ns)

    def give(self, order: Order, now_ns: int) -> Run:
        """An order of the centre arrives."""
        group = order.site.group
        account = self._books.open(order.workload, self.index, self.hardware.owned(group), now_ns)
        run = Run(order, self.index, self.hardware.groups[group].profile, account, now_ns)
        self.runs[order.workload.id, order.attempt] = run
        self._named.setdefault(order.workload.id, []).append(run)
        self._around.received(run, self)
        self.tell(OrderGiven(now_ns, order))
        return run

    def withdraw(self, run: Run, now_ns: int) -> None:
        """The centre no longer wants an order here."""
        self.tell(OrderWithdrawn(now_ns, run.workload.id, run.attempt))
        self.close(run, now_ns)

    def close(self, run: Run, now_ns: int) -> None:
        """Forget an order, and take back whatever it still holds."""
        if run.ended:
            return
        del self.runs[run.workload.id, run.attempt]
        self._forget_name(run)
        run.settle(now_ns)
        run.ended = True
        if run.instances:
            for instance in list(run.instances.values()):
                self._drop(instance, now_ns)
            self.pace.settle(now_ns)
        self.pace.set_power(run, 0.0, now_ns)
        self._books.enter(run.account)
        self._around.closed(run, now_ns)

    def _forget_name(self, run: Run) -> None:
        named = self._named[run.workload.id]
        named.remove(run)
        if not named:
            del self._named[run.workload.id]

    def node_lost(self, number: int, now_ns: int) -> None:
        """A node dies with everything on it."""
        node = self.hardware.nodes[number]
        if not node.up:
            return
        for instance in sorted(self._guests.get(number, ()), key=by_id):
            self._drop(instance, now_ns)
        node.up = False
        self.hardware.power(number, False, now_ns)
        self.tell(NodeLost(now_ns, number))
        self.pace.settle(now_ns)

    def node_back(self, number: int, now_ns: int) -> None:
        """A node can be used again."""
        node = self.hardware.nodes[number]
        if node.up:
            return
        node.up = True
        self.hardware.power(number, True, now_ns)
        node.ready_ns = now_ns
        self.tell(NodeBack(now_ns, number))

    # --- instructions out --------------------------------------------------------------------

    def _carry_out(self, instructions: list[LocalInstruction], now_ns: int) -> None:
        carry = self._carry
        for instruction in instructions:
            carry[type(instruction)](instruction, now_ns)
        for (ready_ns, _), waiting in self._warming.items():
            self._around.agenda.note(ready_ns, self._warm, waiting)
        self._warming.clear()
        self.pace.settle(now_ns)

    def _start(self, instruction: StartInstance, now_ns: int) -> None:
        name = instruction.instance
        run = self.runs[name.workload, name.attempt]
        first = not run.instances and run.first_warm_ns < 0
        holding = self._occupy(run, instruction.placement, now_ns)
        instance = Instance(name, run, instruction.placement, holding)
        run.instances[name.index] = instance
        self._prepare(instance, now_ns)
        if run.workload.kind is WorkloadKind.SERVING:
            self._around.count("service_starts")
        if first:
            self._around.started(run, self, now_ns)

    def _prepare(self, instance: Instance, now_ns: int) -> None:
        """Have an instance warm after a while: its node boots, its data comes, it loads."""
        run, placement = instance.run, instance.placement
        guests = self._guests.setdefault(placement.node, set())
        guests.add(instance)
        node = self.hardware.nodes[placement.node]
        if node.turns:
            self.pace.touch_all(guests)
        self.hardware.power(placement.node, True, now_ns)
        ready_ns = max(now_ns, node.ready_ns, self._around.stored_ns(run, self, now_ns))
        ready_ns += self._start_ns
        service = run.workload.service
        if service is not None:
            ready_ns += round(service.load_s * NS_PER_S)
        instance.arrival += 1
        waiting = self._warming.setdefault((ready_ns, run), [])
        waiting.append((instance, instance.arrival))

    def _occupy(self, run: Run, placement: Placement, now_ns: int) -> Holding:
        return self.hardware.take(placement, run.workload.demand, now_ns)

    def _vacate(
        self, instance: Instance, placement: Placement, holding: Holding, now_ns: int
    ) -> None:
        """Give one place of an instance back; those that shared its devices may run faster."""
        holding.end(instance.run.account, now_ns)
        self.hardware.release(placement, instance.run.workload.demand)
        guests = self._guests[placement.node]
        guests.discard(instance)
        if self.hardware.nodes[placement.node].turns:
            self.pace.touch_all(guests)

    def _drop(self, instance: Instance, now_ns: int) -> None:
        """An instance is no more."""
        run = instance.run
        del run.instances[instance.id.index]
        self._vacate(instance, instance.placement, instance.holding, now_ns)
        if instance.leaving is not None:
            self._vacate(instance, *instance.leaving, now_ns)
        if instance.warm:
            run.warm -= 1
        instance.arrival = -1
        self.pace.touch(run)

    def _stop(self, instruction: StopInstance, now_ns: int) -> None:
        name = instruction.instance
        run = self.runs.get((name.workload, name.attempt))
        instance = run.instances.get(name.index) if run is not None else None
        if instance is None:
            return
        self._drop(instance, now_ns)

    def _move(self, instruction: MoveInstance, now_ns: int) -> None:
        name = instruction.instance
        instance = self.runs[name.workload, name.attempt].instances[name.index]
        run = instance.run
        if instance.leaving is not None:
            self._vacate(instance, *instance.leaving, now_ns)
        if instruction.warm_first:
            instance.leaving = (instance.placement, instance.holding)
        else:
            self._vacate(instance, instance.placement, instance.holding, now_ns)
            if instance.warm:
                instance.warm = False
                run.warm -= 1
            self.pace.touch(run)
        instance.placement = instruction.placement
        instance.holding = self._occupy(run, instruction.placement, now_ns)
        self._prepare(instance, now_ns)
        self._around.count("local_moves")

    def _resize(self, instruction: ResizeInstance, now_ns: int) -> None:
        name = instruction.instance
        instance = self.runs[name.workload, name.attempt].instances[name.index]
        self._vacate(instance, instance.placement, instance.holding, now_ns)
        instance.placement = instruction.placement
        instance.holding = self._occupy(instance.run, instruction.placement, now_ns)
        self._guests[instance.placement.node].add(instance)
        self.pace.touch(instance.run)

    def _size(self, instruction: SizeService, now_ns: int) -> None:
        self._around.count("service_sizes")

    def _power(self, instruction: PowerNode, now_ns: int) -> None:
        self.hardware.power(instruction.node, instruction.on, now_ns)
        if not instruction.on:
            self._around.count("powered_down")

    def _turn_down(self, instruction: TurnDownOrder, now_ns: int) -> None:
        run = self.runs.get((instruction.workload, instruction.attempt))
        if run is not None:
            self._around.turned_down(run, self, instruction.why, now_ns)

    def _summary(self, instruction: ReportSummary, now_ns: int) -> None:
        self._around.summarised(self, instruction, now_ns)

    def _warn(self, instruction: Warn, now_ns: int) -> None:
        self._around.warned(instruction)

    # --- what becomes of it ------------------------------------------------------------------

    def _warm(self, now_ns: int, waiting: list[tuple[Instance, int]]) -> None:
        """Instances of one order are ready."""
        ready = [instance for instance, arrival in waiting if instance.arrival == arrival]
        if not ready:
            return
        run = ready[0].run
        for instance in ready:
            if instance.leaving is not None:
                self._vacate(instance, *instance.leaving, now_ns)
                self._guests[instance.placement.node].add(instance)
                instance.leaving = None
            if not instance.warm:
                instance.warm = True
                run.warm += 1
        self.pace.touch(run)
        self.pace.settle(now_ns)
        for instance in ready:
            if instance.arrival > 0:
                self.tell(InstanceWarm(now_ns, instance.id))
