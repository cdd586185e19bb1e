"""Elastic gangs: they grow into what is idle, and give it back at a checkpoint when others wait."""

from dataclasses import dataclass

from dure.fleet.local.floor import Floor
from dure.fleet.local.instances import NEVER_NS, Task
from dure.fleet.local.settings import ElasticRules


@dataclass(slots=True)
class Elastic:
    """Grows and shrinks gangs."""

    floor: Floor
    rules: ElasticRules
    look_ns: int = 0
    """When idle devices may be handed out next."""

    def next_ns(self) -> int:
        """When to look next: after some time, if anything changed since."""
        return self.look_ns if self.floor.stirred else NEVER_NS

    def grow(self, now_ns: int) -> None:
        """Give idle devices to gangs that can use them, one worker each in turn."""
        if now_ns < self.look_ns or not self.floor.stirred:
            return
        self.look_ns = now_ns + self.rules.interval_ns
        self.floor.stirred = False
        tasks = [
            task
            for task in self.floor.tasks.values()
            if 0 < len(task.instances) < task.limit and self._can_grow(task)
        ]
        tasks.sort(key=lambda task: task.rank)
        while tasks:
            tasks = [task for task in tasks if self._grow_one(task, now_ns)]

    def shrink(self, task: Task, now_ns: int) -> bool:
        """A gang is at a checkpoint: give workers back if somebody waits for such nodes."""
        if not task.surplus or not self._others_wait(task):
            return False
        count = max(1, round(task.surplus * self.rules.shrink_share))
        on_node = self.floor.on_node
        workers = sorted(
            task.instances.values(), key=lambda each: (len(on_node[each.spot.node]), -each.id.index)
        )
        for instance in workers[:count]:
            self.floor.stop(instance, "it gives its devices to an order that waits", now_ns)
        self.floor.predict_end(task, now_ns)
        return True

    def _others_wait(self, task: Task) -> bool:
        return any(other.missing for other in self.floor.queue.waiting(task.group))

    def _can_grow(self, task: Task) -> bool:
        free = not (task.serving or task.ending or task.moving)
        return free and not self._others_wait(task)

    def _grow_one(self, task: Task, now_ns: int) -> bool:
        """Start one more worker; returns whether another may follow."""
        floor, yard = self.floor, self.floor.yard
        where = yard.fields[task.group]
        allowed = yard.allowed(task.group, floor.leases.owner(task))
        onto_empty = self.rules.onto_empty_nodes
        if onto_empty is None:
            onto_empty = yard.cluster.owned(where.group.profile)
        allowed &= where.powered if onto_empty else where.in_use()
        if task.shunned:
            allowed = floor.untroubled(task, allowed, now_ns)
        reserve = self.rules.reserve_devices
        if (
            reserve
            and int(where.empty_devices()[where.open].sum()) - task.footprint.devices < reserve
        ):
            return False
        spots = yard.choose(task.group, task.shape, 1, allowed)
        if spots is None:
            return False
        if floor.leases.at_odds(task):
            yard.give_back(spots[0])
            return False
        floor.start(task, spots, now_ns)
        return len(task.instances) < task.limit
