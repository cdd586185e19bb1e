"""The local stage, Elastic Slice Packing: which nodes, devices and slots carry out the orders.

One machine looks after one cluster. Events in, instructions out; it needs nobody else, so a cluster
goes on when the centre is gone. News is taken in as it comes; places are handed out in `RoundDue`.
Whoever feeds the machine may send a `RoundDue` after any batch of news, not only at every tick:
`due` says whether it would do anything, and one that has nothing to do returns at once.

What the world has to know:
- An instance's index is never used twice. A gang that lost a node is started again from its last
  checkpoint with the same order and attempt and new indices; the world knows how far it had come.
- A newer order for a service that runs here starts beside the older one, which is stopped when the
  newer is warm or the centre withdraws it. A newer order for a job stops the older one first.
- Workers beyond `Order.instances` come and go while an elastic gang runs.
- A `MoveInstance` with `warm_first` is answered by `InstanceWarm`: until then both places are held.
- A job's instances move and elastic gangs shrink in answer to `CheckpointReached`.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dure.domain.errors import InvariantError
from dure.domain.fleet.decisions import Order
from dure.domain.fleet.events import (
    AllotmentsSet,
    CheckpointReached,
    InstanceEnded,
    InstanceWarm,
    LoadsObserved,
    LocalEvent,
    NodeBack,
    NodeLost,
    OrderGiven,
    OrderWithdrawn,
    PolicySet,
    RoundDue,
    TenantSet,
)
from dure.domain.fleet.instructions import LocalInstruction, ReportSummary, TurnDownOrder, Warn
from dure.domain.fleet.policy import HOUR_NS
from dure.domain.ids import WorkloadId
from dure.fleet.fit import footprint
from dure.fleet.local import snapshots
from dure.fleet.local.admission import Admission
from dure.fleet.local.allotments import Leases
from dure.fleet.local.autoscale import Autoscaler
from dure.fleet.local.checks import check
from dure.fleet.local.elastic import Elastic
from dure.fleet.local.floor import Floor, earlier
from dure.fleet.local.instances import NEVER_NS, Instance, Task
from dure.fleet.local.plain import from_plain, to_plain
from dure.fleet.local.power import Power
from dure.fleet.local.queue import Line, Queue
from dure.fleet.local.reclaim import Reclaim
from dure.fleet.local.resize import Resizer
from dure.fleet.local.settings import LocalSettings
from dure.fleet.local.summaries import Summaries
from dure.fleet.local.tidy import Tidy
from dure.fleet.local.yard import Yard

__all__ = ["LocalMachine", "LocalSettings"]


@dataclass(slots=True)
class LocalMachine:
    """Decides for one cluster."""

    settings: LocalSettings
    floor: Floor = field(init=False)
    admission: Admission = field(init=False)
    reclaim: Reclaim = field(init=False)
    resizer: Resizer = field(init=False)
    elastic: Elastic = field(init=False)
    tidy: Tidy = field(init=False)
    summaries: Summaries = field(init=False)
    _now_ns: int = -1
    _wake_ns: int = 0
    """When the next round has something to do by the clock alone."""
    _due: bool = True
    _attempts: dict[WorkloadId, int] = field(default_factory=dict)
    """The highest attempt that is over, by workload."""

    def __post_init__(self) -> None:
        settings = self.settings
        yard = Yard(settings.cluster)
        queue = Queue(settings.queue, [Line() for _ in yard.fields])
        power = Power(yard, settings.power, settings.power_down)
        scaler = Autoscaler(
            settings.scaling, settings.round_trip_ms, settings.cluster, settings.rates
        )
        self.floor = Floor(yard, queue, Leases(yard), power, scaler)
        self.admission = Admission(self.floor, settings.queue)
        self.reclaim = Reclaim(self.floor, self.admission)
        self.resizer = Resizer(self.floor)
        self.elastic = Elastic(self.floor, settings.growth)
        self.tidy = Tidy(self.floor, self.admission, settings.tidy)
        self.summaries = Summaries(self.floor)

    def handle(self, event: LocalEvent) -> list[LocalInstruction]:
        """Take in one event; returns what is to be done about it."""
        if event.now_ns < self._now_ns:
            raise InvariantError(
                f"event at {event.now_ns} ns comes after one at {self._now_ns} ns",
                "feed events in the order of their time",
            )
        if self._now_ns < 0:
            self._begin(event.now_ns)
        self._now_ns = event.now_ns
        if type(event) is RoundDue:
            if not self._due and event.now_ns < self._wake_ns:
                return []
            self._round(event.now_ns)
        elif type(event) is LoadsObserved:
            self._loads(event)
        else:
            self._due = True
            self._handlers[type(event)](self, event)
        if self.settings.validate:
            check(self.floor)
        done, self.floor.out = self.floor.out, []
        return done

    @property
    def awaited(self) -> Collection[WorkloadId]:
        """Jobs whose next checkpoint is waited for, beside gangs that have grown."""
        return self.floor.movers

    def due(self, now_ns: int) -> bool:
        """Whether a round at that moment would look at anything."""
        return self._due or now_ns >= self._wake_ns

    # Snapshots

    def snapshot(self) -> dict[str, Any]:
        """Everything it knows, as plain data; its settings are not part of it."""
        state = snapshots.save(self.floor, self.admission)
        clocks = [self._now_ns, self._wake_ns, self._due, self.elastic.look_ns, self.tidy.look_ns]
        state["clocks"] = to_plain(clocks)
        state["attempts"] = to_plain(self._attempts)
        state["tidy"] = to_plain([self.tidy.policy, self.tidy.tried_ns])
        state["misfits"] = to_plain(self.resizer.misfits)
        state["summaries"] = to_plain([self.summaries.revision, self.summaries.latest])
        return state

    @classmethod
    def restore(cls, settings: LocalSettings, state: dict[str, Any]) -> "LocalMachine":
        """A machine that goes on where a snapshot was taken: same events, same instructions."""
        it = cls(settings)
        snapshots.load(it.floor, it.admission, state)
        it._now_ns, it._wake_ns, it._due, it.elastic.look_ns, it.tidy.look_ns = from_plain(
            state["clocks"]
        )
        it._attempts = from_plain(state["attempts"])
        it.tidy.policy, it.tidy.tried_ns = from_plain(state["tidy"])
        it.resizer.misfits = from_plain(state["misfits"])
        it.summaries.revision, it.summaries.latest = from_plain(state["summaries"])
        return it

    def _begin(self, now_ns: int) -> None:
        floor = self.floor
        floor.power.start(self.settings.nodes_on_at_start, now_ns)
        floor.changed.update(range(len(floor.yard.fields)))

    # Orders

    def _given(self, event: OrderGiven) -> None:
        order, floor = event.order, self.floor
        name = order.workload.id
        known = floor.tasks.get(name)
        if order.attempt <= self._attempts.get(name, -1):
            return
        if known is not None and order.attempt <= known.order.attempt:
            return
        task = self._task(order, event.now_ns)
        if isinstance(task, str):
            floor.out.append(TurnDownOrder(name, order.attempt, task))
            return
        self._make_way(name, order.attempt, event.now_ns)
        floor.tasks[name] = task
        where = floor.yard.fields[task.group]
        where.expect(task.shape, task.wanted)
        if task.serving:
            floor.scaler.add(task, where.profile)
        floor.enqueue(task, event.now_ns)

    def _make_way(self, name: WorkloadId, attempt: int, now_ns: int) -> None:
        """Older orders end for a newer one; what a service runs stays until that is warm."""
        while (known := self.floor.tasks.get(name)) is not None:
            if known.serving and known.instances:
                self.resizer.misfits.discard(name)
                self.admission.forget(known)
                self.floor.set_aside(known)
            else:
                self._end(known, f"attempt {attempt} replaces it", now_ns)

    def _task(self, order: Order, now_ns: int) -> Task | str:
        """The order as a task, or why it can never be carried out here."""
        yard = self.floor.yard
        group = yard.by_name.get(order.site.group)
        if group is None or order.site.cluster != yard.cluster.id:
            return f"there is no site '{order.site}' here"
        each = yard.fields[group]
        workload = order.workload
        needed = footprint(workload.demand, each.profile, each.group.mode)
        if needed is None:
            return (
                f"no slice of a {each.group.profile} in mode '{each.group.mode.value}' "
                "meets its demand"
            )
        shape = each.number(needed)
        room = each.per_node(shape) * int(each.up.sum())
        least = 1 if workload.service is not None else order.instances
        if room < least:
            return f"all nodes of '{order.site}' have room for {room} of its {least} instances"
        tenant = self.floor.leases.tenants.get(workload.tenant)
        return Task(
            order=order,
            group=group,
            shape=shape,
            footprint=needed,
            least=needed,
            priority=workload.priority + (tenant.priority if tenant is not None else 0),
            given_ns=now_ns,
            wanted=order.instances,
            done_share=order.resume_share,
            saved_share=order.resume_share,
        )

    def _withdrawn(self, event: OrderWithdrawn) -> None:
        tasks = self.floor.tasks
        known = self._attempts.get(event.workload, -1)
        self._attempts[event.workload] = max(known, event.attempt)
        for name in (event.workload, earlier(event.workload, event.attempt)):
            task = tasks.get(name)
            if task is not None and event.attempt >= task.order.attempt:
                self._end(task, "the centre withdrew it", event.now_ns)

    def _end(self, task: Task, why: str, now_ns: int) -> None:
        """Stop a task and forget it."""
        self.floor.stop_all(task, why, now_ns)
        self._close(task)

    def _close(self, task: Task) -> None:
        name = task.order.workload.id
        self._attempts[name] = max(self._attempts.get(name, -1), task.order.attempt)
        self.floor.close(task)
        self.admission.forget(task)
        self._reinstate_earlier(task)

    # Instances

    def _instance(self, event: InstanceWarm | InstanceEnded) -> Instance | None:
        name, tasks = event.instance, self.floor.tasks
        task = tasks.get(name.workload)
        if task is None or name.attempt != task.order.attempt:
            task = tasks.get(earlier(name.workload, name.attempt))
        return task.instances.get(name.index) if task is not None else None

    def _warm(self, event: InstanceWarm) -> None:
        instance = self._instance(event)
        if instance is not None:
            self.floor.warm(instance, event.now_ns)
            if instance.task.serving:
                self._retire_earlier(instance.task, event.now_ns)

    def _retire_earlier(self, task: Task, now_ns: int) -> None:
        """A service is warm under its newest order: what ran under older ones can go."""
        if task.replaced or task.missing or not all(each.warm for each in task.instances.values()):
            return
        for other in self._earlier(task):
            self._end(other, f"attempt {task.order.attempt} has taken over", now_ns)

    def _reinstate_earlier(self, task: Task) -> None:
        """The newest order for a service is gone: the one it should have replaced goes on."""
        if task.serving and task.order.workload.id not in self.floor.tasks:
            for other in self._earlier(task)[-1:]:
                self.floor.reinstate(other)

    def _earlier(self, task: Task) -> list[Task]:
        """Older orders for the same service that are still here, oldest first."""
        name, tasks = task.order.workload.id, self.floor.tasks
        names = (earlier(name, attempt) for attempt in range(task.order.attempt))
        return [tasks[each] for each in names if each in tasks]

    def _ended(self, event: InstanceEnded) -> None:
        instance = self._instance(event)
        if instance is None:
            return
        task = instance.task
        self.floor.remove(instance, event.now_ns)
        if task.serving:
            if task.missing:
                self.floor.enqueue(task, event.now_ns)
            return
        task.ending = True
        if not task.instances:
            self._close(task)

    def _checkpoint(self, event: CheckpointReached) -> None:
        task = self.floor.tasks.get(event.workload)
        if task is None or not task.instances:
            return
        self.floor.advance(task, event.now_ns)
        task.saved_share, task.checkpoint_ns = task.done_share, event.now_ns
        self.floor.make_moves(task, event.now_ns)
        if self.settings.elastic:
            self.elastic.shrink(task, event.now_ns)

    # Nodes

    def _lost(self, event: NodeLost) -> None:
        floor = self.floor
        if not floor.yard.is_up(event.node):
            return
        floor.yard.set_up(event.node, False)
        floor.power.lost(event.node)
        floor.cancel_moves_to(event.node)
        floor.changed.add(floor.yard.group_of[event.node])
        hurt: dict[WorkloadId, Task] = {}
        for instance in list(floor.on_node[event.node].values()):
            hurt[instance.task.id] = instance.task
            floor.remove(instance, event.now_ns)
        for task in hurt.values():
            self._recover(task, event.now_ns)

    def _recover(self, task: Task, now_ns: int) -> None:
        """Start again what lost a node: a service's replicas one by one, a gang as a whole."""
        floor = self.floor
        if not task.serving:
            floor.stop_all(task, "it lost a worker with its node", now_ns)
            each = floor.yard.fields[task.group]
            room = each.per_node(task.shape) * int(each.up.sum())
            if room < task.wanted:
                why = f"the nodes that are left have room for {room} of {task.wanted} instances"
                floor.turn_down(task, why, now_ns)
                return
        floor.restart(task, now_ns)

    def _back(self, event: NodeBack) -> None:
        floor = self.floor
        if floor.yard.is_up(event.node):
            return
        floor.yard.set_up(event.node, True)
        floor.power.back(event.node, event.now_ns)
        group = floor.yard.group_of[event.node]
        floor.changed.add(group)
        floor.queue.lines[group].freed = True

    # Rounds

    def _round(self, now_ns: int) -> None:
        floor, settings = self.floor, self.settings
        self._due = False
        if now_ns >= floor.leases.next_ns() and floor.leases.expire(now_ns):
            self.reclaim.settle(now_ns)
        floor.queue.ripen(now_ns)
        self.admission.walk(now_ns)
        if self.resizer.misfits:
            self.resizer.fit_slices(now_ns)
        for task in floor.queue.out_of_patience(now_ns, floor.tasks):
            self._lose_patience(task, now_ns)
        if settings.elastic:
            self.elastic.grow(now_ns)
        if settings.defragment:
            self.tidy.run(now_ns)
        floor.out += floor.power.switch_off(now_ns)
        self._report()
        self._wake_ns = min(
            floor.queue.next_ns(),
            floor.power.next_ns(),
            floor.leases.next_ns(),
            self.elastic.next_ns() if settings.elastic else NEVER_NS,
            self.tidy.next_ns() if settings.defragment else NEVER_NS,
        )

    def _lose_patience(self, task: Task, now_ns: int) -> None:
        """Give an order back; a service that runs in part goes on, and somebody should know."""
        hours = (now_ns - task.queued_ns) / HOUR_NS
        size = task.footprint
        what = size.template if size.template != "whole" else f"{size.devices} whole devices"
        why = f"no room for {task.missing} × {what} in '{task.order.site}' within {hours:.3g} h"
        if task.instances:
            self.floor.out.append(Warn(task.id, why, "give it more replicas in another cluster"))
            return
        self.admission.forget(task)
        self.floor.turn_down(task, why, now_ns)
        self._reinstate_earlier(task)

    def _report(self) -> None:
        floor = self.floor
        if floor.changed:
            news = [self.summaries.update(each) for each in sorted(floor.changed)]
            floor.changed.clear()
            if any(news):
                floor.out.append(ReportSummary(self.summaries.all()))

    # What the centre says

    def _tenant(self, event: TenantSet) -> None:
        floor = self.floor
        floor.leases.set_tenant(event.tenant, event.pools)
        floor.leases.refresh()
        for task in floor.tasks.values():
            workload = task.order.workload
            priority = workload.priority + event.tenant.priority
            if workload.tenant == event.tenant.id and task.priority != priority:
                floor.rank_anew(task, priority)
        self.reclaim.settle(event.now_ns)

    def _allotted(self, event: AllotmentsSet) -> None:
        if self.floor.leases.set_all(event.allotments):
            self.reclaim.settle(event.now_ns)

    def _policy(self, event: PolicySet) -> None:
        self.tidy.policy = event.policy

    def _loads(self, event: LoadsObserved) -> None:
        if self.settings.autoscale:
            for task in self.floor.scaler.observe(event, self.floor.tasks):
                self.resizer.resize(task, event.now_ns)
                self._due = True

    _handlers: ClassVar[dict[type, Callable[["LocalMachine", Any], None]]] = {
        OrderGiven: _given,
        OrderWithdrawn: _withdrawn,
        InstanceWarm: _warm,
        InstanceEnded: _ended,
        CheckpointReached: _checkpoint,
        NodeLost: _lost,
        NodeBack: _back,
        AllotmentsSet: _allotted,
        TenantSet: _tenant,
        PolicySet: _policy,
    }
