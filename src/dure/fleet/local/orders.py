"""What becomes of orders and their instances: given, found, warm, ended, failed, withdrawn."""

from dataclasses import dataclass, field

from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.events import (
    InstanceEnded,
    InstanceFound,
    InstanceWarm,
    OrderGiven,
    OrderWithdrawn,
    SizeFound,
    StartFailed,
)
from dure.domain.fleet.instructions import TurnDownOrder, Warn
from dure.domain.fleet.policy import HOUR_NS
from dure.domain.ids import WorkloadId
from dure.fleet.local.admission import Admission
from dure.fleet.local.adoption import Adoption
from dure.fleet.local.floor import Floor, earlier
from dure.fleet.local.instances import Instance, Task
from dure.fleet.local.nodes import NodeNews
from dure.fleet.local.resize import Resizer
from dure.fleet.local.starts import Starts
from dure.fleet.local.tasks import make_task, too_large


@dataclass(slots=True)
class Orders:
    """Takes in events of orders and instances."""

    floor: Floor
    admission: Admission
    resizer: Resizer
    adoption: Adoption
    nodes: NodeNews
    starts: Starts
    attempts: dict[WorkloadId, int] = field(default_factory=dict)
    """The highest attempt that is over, by workload."""

    def given(self, event: OrderGiven) -> None:
        """A new order waits for a place; an older one for the same makes way."""
        order, floor = event.order, self.floor
        name = order.workload.id
        known = floor.tasks.get(name)
        if order.attempt <= self.attempts.get(name, -1):
            return
        if known is not None and order.attempt <= known.order.attempt:
            if known.arriving and order.attempt == known.order.attempt:
                known.order = order
            return
        task = make_task(floor, order, event.now_ns)
        why = task if isinstance(task, str) else too_large(floor, task)
        if isinstance(task, str) or why:
            floor.out.append(TurnDownOrder(name, order.attempt, why))
            return
        self._make_way(name, order.attempt, event.now_ns)
        floor.tasks[name] = task
        where = floor.yard.fields[task.group]
        where.expect(task.shape, task.wanted)
        if task.serving:
            floor.scaler.add(task, where.profile)
        self.adoption.number(task)
        floor.enqueue(task, event.now_ns)
        floor.ordered.add(task.group)
        if task.serving:
            self.resizer.placed(task)
            floor.say_size(task, "as the centre ordered it")

    def _make_way(self, name: WorkloadId, attempt: int, now_ns: int) -> None:
        """Older orders end for a newer one; what a service runs stays until that is warm."""
        while (known := self.floor.tasks.get(name)) is not None:
            if known.serving and known.instances:
                self.resizer.misfits.discard(name)
                self.admission.forget(known)
                self.floor.set_aside(known)
            else:
                self._end(known, f"attempt {attempt} replaces it", now_ns)

    def found(self, event: InstanceFound) -> None:
        """An instance runs already: enter it, or say why it cannot stay."""
        task = self._task_of(event)
        if isinstance(task, str):
            self.adoption.refuse(event.instance, task)
            return
        if event.instance.index in task.instances:
            return
        if self.floor.tasks.get(task.id) is not task:
            self._take_over(task, event)
            return
        if not task.arriving:
            self.floor.dequeue(task)
            self.adoption.expect(task)
        self.adoption.enter(task, event)

    def sized(self, event: SizeFound) -> None:
        """A service was to be so large before: it is, until its load asks for something else."""
        task = self.floor.tasks.get(event.workload)
        if task is None or task.order.attempt != event.attempt or not task.serving:
            return
        task.wanted, task.level = event.serving, event.level
        self.floor.scaler.found(task, event.now_ns)
        if task.arriving:
            self.adoption.sizes[task.id] = event.why
        else:
            self.resizer.resize(task, event.why, event.now_ns)

    def _take_over(self, task: Task, event: InstanceFound) -> None:
        """Begin a task with an instance that runs; where that cannot be there is no task."""
        floor, where = self.floor, self.floor.yard.fields[task.group]
        if task.serving and not task.replaced:
            floor.scaler.add(task, where.profile)
        if not self.adoption.enter(task, event):
            floor.scaler.drop(task)
            return
        if not task.replaced:
            self._make_way(task.id, task.order.attempt, event.now_ns)
        floor.tasks[task.id] = task
        where.expect(task.shape, task.order.instances)
        self.adoption.expect(task)

    def _task_of(self, event: InstanceFound) -> Task | str:
        """The task that a found instance belongs to, maybe a new one; or why it has none."""
        order, name = event.order, event.order.workload.id
        if (event.instance.workload, event.instance.attempt) != (name, order.attempt):
            return f"it is not of attempt {order.attempt} of '{name}'"
        if order.attempt <= self.attempts.get(name, -1):
            return f"attempt {order.attempt} is over"
        newest = self.floor.tasks.get(name)
        older = newest is not None and order.attempt < newest.order.attempt
        known = self.floor.tasks.get(earlier(name, order.attempt)) if older else newest
        if known is not None and known.order.attempt == order.attempt:
            untouched = not known.instances and not known.next_index
            fits = known.arriving or untouched or event.instance.index in known.instances
            return known if fits else "it was ended before"
        task = make_task(self.floor, order, event.now_ns)
        if older and isinstance(task, Task):
            if not task.serving:
                return "a newer attempt is here"
            task.id, task.replaced, task.wanted = earlier(name, order.attempt), True, 0
            task.spare = 0
        return task

    def withdrawn(self, event: OrderWithdrawn) -> None:
        """The centre no longer wants it."""
        tasks = self.floor.tasks
        known = self.attempts.get(event.workload, -1)
        self.attempts[event.workload] = max(known, event.attempt)
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
        self.attempts[name] = max(self.attempts.get(name, -1), task.order.attempt)
        self.floor.close(task)
        self.admission.forget(task)
        self._reinstate_earlier(task)

    # Instances

    def _task(self, name: InstanceId) -> Task | None:
        task = self.floor.tasks.get(name.workload)
        if task is None or name.attempt != task.order.attempt:
            task = self.floor.tasks.get(earlier(name.workload, name.attempt))
        return task

    def _instance(self, name: InstanceId) -> Instance | None:
        task = self._task(name)
        return task.instances.get(name.index) if task is not None else None

    def warm(self, event: InstanceWarm) -> None:
        """An instance is ready; what a service ran under older orders may be over with that."""
        instance = self._instance(event.instance)
        if instance is not None:
            instance.task.failures = 0
            self.floor.warm(instance, event.now_ns)
            if instance.task.serving:
                self._retire_earlier(instance.task, event.now_ns)

    def _retire_earlier(self, task: Task, now_ns: int) -> None:
        """A service is warm under its newest order: what ran under older ones can go."""
        ready = sum(each.warm for each in task.instances.values())
        if task.replaced or ready < task.wanted:
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

    def ended(self, event: InstanceEnded) -> None:
        """An instance is over: a replica is replaced, a gang ends with its last worker."""
        instance = self._instance(event.instance)
        if instance is None:
            task = self._was(event.instance)
            if task is not None and task.arriving:
                task.ending = not task.serving
            return
        task = instance.task
        self.floor.remove(instance, event.now_ns)
        if task.serving:
            if task.missing:
                self.floor.enqueue(task, event.now_ns)
            return
        task.ending = True
        if not task.instances and not task.arriving:
            self._close(task)

    def _was(self, name: InstanceId) -> Task | None:
        """Something is over that is not known here: its index stays used. Returns its task."""
        task = self._task(name)
        if task is not None:
            task.next_index = max(task.next_index, name.index + 1)
        elif name.attempt > self.attempts.get(name.workload, -1):
            self.adoption.was(name)
        return task

    def start_failed(self, event: StartFailed) -> None:
        """An instance never came to its node."""
        instance = self._instance(event.instance)
        if instance is None:
            self._was(event.instance)
        elif self.starts.failed(instance, event.why, event.now_ns):
            self._reinstate_earlier(instance.task)

    # In rounds

    def arrived(self, now_ns: int) -> None:
        """All that ran before this stage is told: complete what is incomplete."""
        for task in self.adoption.arrived():
            if task.serving and not task.replaced:
                self.resizer.placed(task)
                why = self.adoption.sizes.get(task.id)
                if why is None:
                    self.floor.say_size(task, "as it was found")
                else:
                    self.resizer.resize(task, why, now_ns)
            if task.serving:
                if task.missing:
                    self.floor.enqueue(task, now_ns)
                self._retire_earlier(task, now_ns)
            elif not task.instances and task.ending:
                self._close(task)
            elif len(task.instances) < task.wanted and not task.ending:
                self.nodes.recover(task, "it lost a worker while nobody looked", now_ns)
        self.adoption.sizes.clear()

    def lose_patience(self, task: Task, now_ns: int) -> None:
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
