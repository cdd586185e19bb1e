"""Who gets a place: the queue is walked by rank, and each order takes its best-fitting slice.

Small orders may pass one that is blocked, but not without bound: after so many passes or so much
time, the nodes that will be free soonest are kept for the first blocked order of each group.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dure.domain.ids import WorkloadId
from dure.fleet.local.allotments import OPEN, Lease
from dure.fleet.local.floor import Floor
from dure.fleet.local.instances import NEVER_NS, Instance, Spot, Task, displacement_cost
from dure.fleet.local.queue import Line
from dure.fleet.local.settings import QueueRules

Flags = NDArray[np.bool_]

_PAIR = 2
"""Replicas that a service keeps when another has none, whatever its load."""
_MOST_SPARE = 16
"""Replicas tried when room is made for the first one of a service."""


@dataclass(slots=True)
class Hold:
    """Nodes kept for one blocked order."""

    workload: WorkloadId
    until_ns: int
    """When they are chosen anew."""


@dataclass(slots=True)
class Admission:
    """Hands out places."""

    floor: Floor
    rules: QueueRules
    holds: dict[int, Hold] = field(default_factory=dict)
    """By group."""

    def walk(self, now_ns: int) -> None:
        """Place whatever can be placed."""
        for group, line in enumerate(self.floor.queue.lines):
            while line.tasks and (line.freed or line.fresh):
                self._walk(group, line, now_ns)
            line.freed = False

    def release(self, group: int) -> None:
        """Keep nodes for nobody."""
        if self.holds.pop(group, None) is not None:
            self.floor.yard.fields[group].held[:] = False
            self.floor.queue.lines[group].freed = True

    def forget(self, task: Task) -> None:
        """A task waits no longer: what was kept for it is free for all."""
        hold = self.holds.get(task.group)
        if hold is not None and hold.workload == task.id:
            self.release(task.group)

    def _walk(self, group: int, line: Line, now_ns: int) -> None:
        all_again, fresh = line.freed, line.fresh
        line.freed, line.fresh = False, set()
        failed: dict[tuple[int, int, bool], int] = {}
        head: Task | None = None
        for task in tuple(line.tasks):
            if (all_again or task.id in fresh) and self._place(task, failed, now_ns):
                if head is not None:
                    head.passes += 1
                    self._keep_nodes(head, now_ns)
                continue
            if head is None:
                head = task
                self._keep_nodes(head, now_ns)

    # One order

    def _place(self, task: Task, failed: dict[tuple[int, int, bool], int], now_ns: int) -> bool:
        """Give a task all that it misses; a service may get a part of it."""
        step = 1 if task.serving else task.missing
        while task.missing:
            lease = self.floor.leases.home(task, step)
            key = (task.shape, self.floor.leases.owner(task), lease is None)
            short = lease is None and self._short(task)
            if failed.get(key, step + 1) <= step and not self._holds(task) and not short:
                return False
            spots = self._spots(task, step, lease, now_ns)
            if spots is None and lease is not None and not lease.dedicated:
                spots = self._reclaim(task, step, lease, now_ns)
            if spots is None and short:
                spots = self._from_spare(task, now_ns)
            if spots is None:
                failed[key] = min(step, failed.get(key, step))
                return False
            self.floor.start(task, spots, now_ns)
        self.floor.dequeue(task)
        self.forget(task)
        return True

    def _spots(self, task: Task, count: int, lease: Lease | None, now_ns: int) -> list[Spot] | None:
        yard, leases = self.floor.yard, self.floor.leases
        owner = leases.owner(task)
        allowed = yard.allowed(task.group, owner, held=self._holds(task))
        spots: list[Spot] | None = None
        if task.shunned:
            spots = yard.choose(
                task.group, task.shape, count, self.floor.untroubled(task, allowed, now_ns)
            )
        if spots is None:
            spots = yard.choose(task.group, task.shape, count, allowed)
        if spots is None or lease is not None or owner != OPEN or leases.guest_room(task.group):
            return spots
        for spot in spots:
            yard.give_back(spot)
        return None

    def _holds(self, task: Task) -> bool:
        hold = self.holds.get(task.group)
        return hold is not None and hold.workload == task.id

    # Nodes kept for a blocked order

    def _keep_nodes(self, task: Task, now_ns: int) -> None:
        """Once an order was passed often or long enough, keep the nodes that are free soonest."""
        hold = self.holds.get(task.group)
        if hold is not None and hold.workload == task.id and now_ns < hold.until_ns:
            return
        blocked_ns = now_ns - task.queued_ns
        if task.passes < self.rules.most_passes and blocked_ns < self.rules.hold_after_ns:
            if hold is not None and hold.workload != task.id:
                self.release(task.group)
            return
        self.keep(task, self._soonest(task, now_ns), now_ns)

    def keep(self, task: Task, nodes: list[int], now_ns: int) -> None:
        """Let nobody else onto these nodes of its group for a while."""
        where = self.floor.yard.fields[task.group]
        where.held[:] = False
        where.held[nodes] = True
        self.holds[task.group] = Hold(task.id, now_ns + self.rules.hold_renew_ns)

    def _soonest(self, task: Task, now_ns: int) -> list[int]:
        """Nodes that together will have room for a task, by when their jobs are expected to end.

        Devices of services stay taken: those do not end.
        """
        yard = self.floor.yard
        where = yard.fields[task.group]
        whole, size = where.per_node(task.shape), max(1, where.group.devices)
        ready: list[int] = []
        room: list[int] = []
        nodes = self.floor.on_node[where.first_node : where.first_node + where.group.count]
        for node, there in enumerate(nodes):
            end_ns = now_ns
            kept = {where.first_device + row for row in where.foreign.devices(node)}
            for instance in there.values():
                if instance.task.serving:
                    kept.update(instance.spot.placement.devices)
                else:
                    end_ns = max(end_ns, instance.task.expected_end_ns)
            ready.append(end_ns)
            room.append(whole * (size - len(kept)) // size)
        allowed = yard.allowed(task.group, self.floor.leases.owner(task), held=True)
        chosen: list[int] = []
        missing = task.missing
        for node in sorted(range(len(ready)), key=lambda each: (ready[each], -room[each], each)):
            if missing > 0 and allowed[node] and room[node] > 0 and ready[node] < NEVER_NS:
                chosen.append(node)
                missing -= room[node]
        return chosen if missing <= 0 else []

    # Replicas that can be spared

    def _short(self, task: Task) -> bool:
        """Whether a service for which others give way has less than its load needs."""
        if not (task.order.makes_room and task.serving):
            return False
        return len(task.instances) < max(1, self.floor.scaler.needed(task))

    def _from_spare(self, task: Task, now_ns: int) -> list[Spot] | None:
        """Stop replicas that services of no higher priority can spare until one of it fits."""
        spare = itertools.islice(self._spare(task), _MOST_SPARE)
        victims = self._victims(task, 1, ([each] for each in spare))
        if victims is None:
            return None
        self.evict(victims, f"'{task.order.workload.id}' has too few replicas", now_ns)
        return self._spots(task, 1, None, now_ns)

    def _spare(self, task: Task) -> Iterator[Instance]:
        """Replicas beyond what their load needs, who has the most of them first; for the first
        replica of a service then any third one."""
        floor, scaler = self.floor, self.floor.scaler
        others: list[tuple[int, int, int, Task]] = []
        for other in floor.tasks.values():
            service = other.order.workload.service
            if service is None or other is task or other.group != task.group:
                continue
            if other.priority > task.priority or floor.leases.owner(other) != OPEN:
                continue
            have, least = len(other.instances), max(1, service.warm_minimum)
            idle = have - max(least, scaler.needed(other, scaler.rules.headroom))
            third = have - max(least, _PAIR) if not task.instances else 0
            if max(idle, third) > 0:
                others.append((idle, third, have, other))
        others.sort(key=lambda each: (each[3].priority, -each[0], -each[2], each[3].id))
        for past_load in (True, False):
            for idle, third, _, other in others:
                count = max(idle, 0) if past_load else max(third - max(idle, 0), 0)
                known = [each for each in other.instances.values() if each.pool is None]
                known.sort(key=lambda each: (each.warm, -each.id.index))
                skip = 0 if past_load else max(idle, 0)
                yield from known[skip : skip + count]

    # Guests

    def _reclaim(self, task: Task, count: int, lease: Lease, now_ns: int) -> list[Spot] | None:
        """Stop guests, the cheapest first, until a task has room in its own pool's units."""
        victims = self._victims(task, count, self.guests((task.group,), now_ns))
        if victims is None:
            return None
        self.evict(victims, f"pool '{lease.allotment.pool}' takes its units back", now_ns)
        return self._spots(task, count, lease, now_ns)

    def _victims(
        self, task: Task, count: int, units: Iterable[list[Instance]]
    ) -> list[list[Instance]] | None:
        """Of units that stop together, in this order, those after which a task has room."""
        yard = self.floor.yard
        allowed = yard.allowed(task.group, self.floor.leases.owner(task), held=self._holds(task))
        chosen: list[list[Instance]] = []
        fits = False
        with yard.what_if(task.group):
            for unit in units:
                if unit[0].task is task:
                    continue
                given = {each.id for other in chosen for each in other}
                chosen.append(unit)
                self._give_back([each for each in unit if each.id not in given])
                if yard.copies(task.group, task.shape, allowed) >= count:
                    fits = True
                    break
        return self._spared(task, count, chosen, allowed) if fits else None

    def _spared(
        self, task: Task, count: int, chosen: list[list[Instance]], allowed: Flags
    ) -> list[list[Instance]]:
        """Of those chosen one by one, the ones without which it would still not fit."""
        yard = self.floor.yard
        kept = list(chosen)
        for unit in reversed(chosen[:-1]):
            trial = [each for each in kept if each is not unit]
            with yard.what_if(task.group):
                self._give_back({each.id: each for other in trial for each in other}.values())
                if yard.copies(task.group, task.shape, allowed) >= count:
                    kept = trial
        return kept

    def _give_back(self, instances: Iterable[Instance]) -> None:
        for instance in instances:
            for spot in instance.places():
                self.floor.yard.give_back(spot)

    def guests(self, groups: Iterable[int], now_ns: int) -> Iterator[list[Instance]]:
        """Instances that are at home in no pool, as units that stop together, cheapest first.

        What elastic gangs have beyond their least comes before anything else.
        """
        wanted = set(groups)
        tasks = [
            task
            for task in self.floor.tasks.values()
            if task.group in wanted and task.instances and self.floor.leases.owner(task) == OPEN
        ]
        tasks.sort(key=lambda task: displacement_cost(task, now_ns))
        foreign = {
            task.id: [each for each in reversed(task.instances.values()) if each.pool is None]
            for task in tasks
        }
        for task in tasks:
            if task.surplus and foreign[task.id]:
                yield foreign[task.id][: task.surplus]
        for task in tasks:
            if task.serving:
                yield from ([each] for each in foreign[task.id])
            elif len(foreign[task.id]) > task.surplus:
                yield list(task.instances.values())

    def evict(self, units: Iterable[list[Instance]], why: str, now_ns: int) -> None:
        """Stop instances and let their tasks wait for other places."""
        for unit in units:
            task = unit[0].task
            for instance in unit:
                if instance.id.index in task.instances:
                    self.floor.stop(instance, why, now_ns)
            if task.missing:
                self.floor.restart(task, now_ns)
