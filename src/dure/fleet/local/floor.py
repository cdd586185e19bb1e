"""Who runs where: the tasks and instances of a cluster, and the only ways to change them.

Whatever changes here is written down as an instruction in the same breath, so that the world can
never be told less, more or something else than what the books say.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.instructions import (
    LocalInstruction,
    MoveInstance,
    ResizeInstance,
    SizeService,
    StartInstance,
    StopInstance,
    TurnDownOrder,
)
from dure.domain.ids import WorkloadId
from dure.fleet.fit import runtime_ns
from dure.fleet.local.allotments import Leases
from dure.fleet.local.autoscale import Autoscaler
from dure.fleet.local.fields import Flags
from dure.fleet.local.instances import NEVER_NS, Instance, Spot, Task
from dure.fleet.local.power import Power
from dure.fleet.local.queue import Queue
from dure.fleet.local.yard import Yard


def earlier(workload: WorkloadId, attempt: int) -> WorkloadId:
    """The name under which an order that was replaced is kept."""
    return WorkloadId(f"{workload}@{attempt}")


@dataclass(slots=True)
class Floor:
    """The books of one cluster."""

    yard: Yard
    queue: Queue
    leases: Leases
    power: Power
    scaler: Autoscaler
    tasks: dict[WorkloadId, Task] = field(default_factory=dict)
    on_node: list[dict[InstanceId, Instance]] = field(default_factory=list)
    """Instances that hold something on each node."""
    movers: set[WorkloadId] = field(default_factory=set)
    """Jobs with moves that wait for a checkpoint."""
    changed: set[int] = field(default_factory=set)
    """Groups whose summary is out of date."""
    ordered: set[int] = field(default_factory=set)
    """Groups that were given orders since: the centre counts these itself until it is told anew."""
    stirred: bool = True
    """Whether anything changed since idle devices were last handed out."""
    out: list[LocalInstruction] = field(default_factory=list)
    """What is to be done, in this order."""

    def __post_init__(self) -> None:
        self.on_node = [{} for _ in self.yard.group_of]

    # Tasks

    def enqueue(self, task: Task, now_ns: int) -> None:
        """Let a task wait for (more) places; one that is replaced wants no more than it has."""
        if task.replaced:
            task.wanted = len(task.instances)
            return
        self.queue.add(task, now_ns)
        self.changed.add(task.group)

    def dequeue(self, task: Task) -> None:
        """It waits for nothing any more."""
        self.queue.remove(task)
        self.changed.add(task.group)
        self.stirred = True

    def rank_anew(self, task: Task, priority: int) -> None:
        """A task's priority changed."""
        waits_since = task.queued_ns
        if waits_since >= 0:
            self.queue.lines[task.group].leave(task)
        task.priority = priority
        if waits_since >= 0:
            self.queue.lines[task.group].join(task)

    def set_aside(self, task: Task) -> None:
        """A newer order for a service came: keep what runs until that one has taken over."""
        self.dequeue(task)
        self.scaler.drop(task)
        del self.tasks[task.id]
        task.id = earlier(task.order.workload.id, task.order.attempt)
        task.replaced, task.wanted, task.spare = True, len(task.instances), 0
        self.tasks[task.id] = task

    def reinstate(self, task: Task) -> None:
        """The newer order came to nothing: go on with the older one."""
        del self.tasks[task.id]
        task.id, task.replaced = task.order.workload.id, False
        self.tasks[task.id] = task
        self.scaler.add(task, self.yard.fields[task.group].profile)
        self.scaler.warming(task, sum(not each.warm for each in task.instances.values()))

    def close(self, task: Task) -> None:
        """Forget a task that has no instances."""
        self.dequeue(task)
        self.scaler.drop(task)
        del self.tasks[task.id]

    def turn_down(self, task: Task, why: str, now_ns: int) -> None:
        """Give an order back to the centre; whatever it has is stopped."""
        self.stop_all(task, why, now_ns)
        self.close(task)
        self.out.append(TurnDownOrder(task.order.workload.id, task.order.attempt, why))

    def stop_all(self, task: Task, why: str, now_ns: int) -> None:
        """End all instances of a task."""
        for instance in list(task.instances.values()):
            self.stop(instance, why, now_ns)

    def restart(self, task: Task, now_ns: int) -> None:
        """Queue a task that lost its instances; it goes on from its last checkpoint."""
        task.done_share = task.saved_share
        task.expected_end_ns = NEVER_NS
        self.enqueue(task, now_ns)

    # Instances

    def start(self, task: Task, spots: Iterable[Spot], now_ns: int) -> None:
        """Run instances of a task on places that are taken."""
        self.advance(task, now_ns)
        if not task.instances:
            task.started_ns = task.checkpoint_ns = now_ns
        for spot in spots:
            index = task.next_index
            task.next_index += 1
            name = InstanceId(task.order.workload.id, task.order.attempt, index)
            self.enter(Instance(name, task, spot, now_ns))
            self.out.append(StartInstance(name, task.order, spot.placement))
        self.predict_end(task, now_ns)

    def enter(self, instance: Instance) -> None:
        """An instance is to run, or runs, on a place that is taken."""
        task, spot = instance.task, instance.spot
        instance.pool = self.leases.charge(task, spot)
        task.instances[instance.id.index] = instance
        self._settle(instance, spot)
        if not instance.warm:
            self.scaler.warming(task, 1)

    def stop(self, instance: Instance, why: str, now_ns: int) -> None:
        """End an instance."""
        self.out.append(StopInstance(instance.id, why))
        self.remove(instance, now_ns)

    def remove(self, instance: Instance, now_ns: int) -> None:
        """An instance is gone."""
        self.advance(instance.task, now_ns)
        self._cancel_plan(instance)
        self.settle_move(instance, now_ns)
        self.leases.release(instance)
        if not instance.warm:
            self.scaler.warming(instance.task, -1)
        del instance.task.instances[instance.id.index]
        self._vacate(instance, instance.spot, now_ns)

    def move(self, instance: Instance, spot: Spot, why: str, now_ns: int) -> None:
        """Put an instance on a place that is taken; a service keeps the old one until warm."""
        self.settle_move(instance, now_ns)
        old, warm_first = instance.spot, instance.task.serving
        self._settle(instance, spot)
        self.leases.release(instance)
        instance.pool = self.leases.charge(instance.task, spot)
        instance.spot, instance.moved_ns = spot, now_ns
        self.out.append(MoveInstance(instance.id, spot.placement, why, warm_first))
        if warm_first:
            if instance.warm:
                self.scaler.warming(instance.task, 1)
            instance.leaving, instance.warm = old, False
        else:
            self._vacate(instance, old, now_ns)

    def resize(self, instance: Instance, spot: Spot, why: str) -> None:
        """Give an instance the other shape on its devices that was taken instead of its own."""
        self.leases.release(instance)
        instance.pool = self.leases.charge(instance.task, spot)
        grown = spot.footprint.compute_milli > instance.spot.footprint.compute_milli
        instance.spot = spot
        self.out.append(ResizeInstance(instance.id, spot.placement, why))
        self.changed.add(spot.group)
        self.stirred = True
        if not grown:
            self.queue.lines[spot.group].freed = True

    def say_size(self, task: Task, why: str) -> None:
        """Tell the world how large a service is to be, and why."""
        order = task.order
        standby = task.target - task.wanted
        self.out.append(
            SizeService(order.workload.id, order.attempt, task.wanted, standby, task.level, why)
        )

    def undo_move(self, instance: Instance, now_ns: int) -> None:
        """What should have replaced an instance did not start: it stays where it was."""
        if instance.leaving is None:
            return
        new, instance.spot, instance.leaving = instance.spot, instance.leaving, None
        self.leases.release(instance, new)
        instance.pool = self.leases.charge(instance.task, instance.spot)
        instance.moved_ns = now_ns
        if not instance.warm:
            instance.warm = True
            self.scaler.warming(instance.task, -1)
        self._vacate(instance, new, now_ns)

    def plan_move(self, instance: Instance, spot: Spot, why: str) -> None:
        """Keep a place that is taken for a job's instance until its next checkpoint."""
        instance.task.moving[instance.id.index] = (spot, why)
        self.movers.add(instance.task.id)
        self._set_draining(instance.spot.node)
        self.changed.update((spot.group, instance.spot.group))

    def make_moves(self, task: Task, now_ns: int) -> None:
        """A job is at a checkpoint: make the moves that waited for it."""
        for index in list(task.moving):
            instance = task.instances[index]
            spot, why = self._take_plan(instance)
            self.move(instance, spot, why, now_ns)

    def cancel_moves_to(self, node: int) -> None:
        """A node cannot be moved to any more."""
        for name in sorted(self.movers):
            task = self.tasks[name]
            for index in [each for each, plan in task.moving.items() if plan[0].node == node]:
                self._cancel_plan(task.instances[index])

    def warm(self, instance: Instance, now_ns: int) -> None:
        """An instance is ready, at the place it was last told."""
        if not instance.warm:
            instance.warm = True
            self.scaler.warming(instance.task, -1)
        self.settle_move(instance, now_ns)

    def settle_move(self, instance: Instance, now_ns: int) -> None:
        """The replacement is warm (or all is over): the old place is free."""
        if instance.leaving is not None:
            old, instance.leaving = instance.leaving, None
            self._vacate(instance, old, now_ns)

    def advance(self, task: Task, now_ns: int) -> None:
        """Bring the estimate of a job's progress up to date, before its workers change."""
        workload = task.order.workload
        if task.instances and workload.work is not None:
            profile = self.yard.fields[task.group].profile
            whole_ns = max(1, runtime_ns(workload, profile, len(task.instances)))
            task.done_share = min(1.0, task.done_share + (now_ns - task.as_of_ns) / whole_ns)
        task.as_of_ns = now_ns

    def untroubled(self, task: Task, allowed: Flags, now_ns: int) -> Flags:
        """Of some nodes of its group those where no start of a task lately came to nothing."""
        first = self.yard.fields[task.group].first_node
        task.shunned = {node: until for node, until in task.shunned.items() if until > now_ns}
        others: Flags = allowed.copy()
        others[[node - first for node in task.shunned]] = False
        return others

    # Inner

    def _take_plan(self, instance: Instance) -> tuple[Spot, str]:
        task = instance.task
        plan = task.moving.pop(instance.id.index)
        if not task.moving:
            self.movers.discard(task.id)
        self._set_draining(instance.spot.node)
        return plan

    def _cancel_plan(self, instance: Instance) -> None:
        if instance.id.index in instance.task.moving:
            spot, _ = self._take_plan(instance)
            self.yard.give_back(spot)
            self.changed.add(spot.group)
            self.queue.lines[spot.group].freed = True

    def _set_draining(self, node: int) -> None:
        """A node from which somebody is to move takes nothing new."""
        where = self.yard.fields[self.yard.group_of[node]]
        there = self.on_node[node].values()
        where.draining[node - where.first_node] = any(
            each.id.index in each.task.moving and each.spot.node == node for each in there
        )

    def _settle(self, instance: Instance, spot: Spot) -> None:
        self.out += self.power.used(spot.node)
        self.on_node[spot.node][instance.id] = instance
        self.changed.add(spot.group)
        self.stirred = True

    def _vacate(self, instance: Instance, spot: Spot, now_ns: int) -> None:
        self.yard.give_back(spot)
        if instance.spot is spot or instance.spot.node != spot.node:
            del self.on_node[spot.node][instance.id]
        if not self.on_node[spot.node] and self.yard.is_up(spot.node):
            self.power.emptied(spot.node, now_ns)
        self.changed.add(spot.group)
        self.queue.lines[spot.group].freed = self.stirred = True

    def predict_end(self, task: Task, now_ns: int) -> None:
        """Predict the end of a job from what it has left to do."""
        workload = task.order.workload
        if workload.work is not None:
            profile = self.yard.fields[task.group].profile
            left_ns = runtime_ns(workload, profile, len(task.instances), task.done_share)
            task.expected_end_ns = now_ns + left_ns
