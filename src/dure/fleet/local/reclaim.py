"""Makes the floor agree with the leases: nodes set apart, units given back, guests sent away."""

from dataclasses import dataclass

from dure.fleet.local.admission import Admission
from dure.fleet.local.allotments import OPEN, Lease
from dure.fleet.local.fields import Field
from dure.fleet.local.floor import Floor
from dure.fleet.local.instances import Instance, Task, displacement_cost


@dataclass(slots=True)
class Reclaim:
    """Carries out what changed leases mean for those who run."""

    floor: Floor
    admission: Admission

    def settle(self, now_ns: int) -> None:
        """Leases changed: charge everybody anew, set nodes apart, send guests away."""
        floor = self.floor
        floor.leases.recount(
            instance for task in floor.tasks.values() for instance in task.instances.values()
        )
        self._free_nodes()
        leases = floor.leases.by_pool
        for name in sorted(leases):
            if leases[name].dedicated:
                self._set_apart(leases[name], now_ns)
        self._send_strangers_away(now_ns)
        for name in sorted(leases):
            if not leases[name].dedicated:
                self._make_room(leases[name], now_ns)
        for group, line in enumerate(floor.queue.lines):
            line.freed = True
            floor.changed.add(group)

    def _free_nodes(self) -> None:
        """Nodes of pools that have no dedicated lease any more are open to all."""
        known = {lease.number for lease in self.floor.leases.by_pool.values() if lease.dedicated}
        for where in self.floor.yard.fields:
            for node, owner in enumerate(where.owner.tolist()):
                if owner != OPEN and owner not in known:
                    where.owner[node] = OPEN

    def _set_apart(self, lease: Lease, now_ns: int) -> None:
        """Give a dedicated pool as many nodes as its units need, the cheapest to clear first."""
        units = lease.allotment.units
        for group in lease.groups:
            where = self.floor.yard.fields[group]
            mine = (where.owner == lease.number) & where.open
            needed = self._nodes_for(lease, where, units)
            have = int(mine.sum())
            for node in sorted(mine.nonzero()[0].tolist(), reverse=True):
                if have > needed and not self.floor.on_node[where.first_node + node]:
                    where.owner[node] = OPEN
                    have -= 1
            free = ((where.owner == OPEN) & where.open).nonzero()[0].tolist()
            free.sort(key=lambda node: self._cost_to_clear(where, node, lease, now_ns))
            for node in free[: max(0, needed - have)]:
                where.owner[node] = lease.number
                have += 1
            units -= have * self._units_per_node(lease, where)
            if units <= 0:
                return

    def _nodes_for(self, lease: Lease, where: Field, units: int) -> int:
        return -(-max(0, units) // self._units_per_node(lease, where))

    def _units_per_node(self, lease: Lease, where: Field) -> int:
        template = lease.pool.template if lease.pool is not None else ""
        for name, shape in where.probes:
            if name == template:
                return max(1, where.per_node(shape))
        return max(1, where.group.devices)

    def _cost_to_clear(
        self, where: Field, node: int, lease: Lease, now_ns: int
    ) -> tuple[int, tuple[object, ...], int, int]:
        """Strangers on a node, what stopping the dearest of them costs, then those of the pool's
        own that are there already (the more the better), its number."""
        there = [each.task for each in self.floor.on_node[where.first_node + node].values()]
        strangers = [task for task in there if self.floor.leases.owner(task) != lease.number]
        dearest = max((displacement_cost(task, now_ns) for task in strangers), default=())
        return (len(strangers), dearest, len(strangers) - len(there), node)

    def _send_strangers_away(self, now_ns: int) -> None:
        """Nobody stays on a node that is not his."""
        for where in self.floor.yard.fields:
            for node, owner in enumerate(where.owner.tolist()):
                strangers = {
                    instance.task.id: instance
                    for instance in self.floor.on_node[where.first_node + node].values()
                    if self.floor.leases.owner(instance.task) != owner
                }
                for instance in strangers.values():
                    self.admission.evict(
                        [self._unit(instance, where.first_node + node)],
                        "its node was set apart for a pool",
                        now_ns,
                    )

    def _unit(self, instance: Instance, node: int) -> list[Instance]:
        """What stops when an instance must leave a node: a service there, a gang everywhere."""
        task: Task = instance.task
        if not task.serving:
            return list(task.instances.values())
        return [
            each
            for each in task.instances.values()
            if any(spot.node == node for spot in each.places())
        ]

    def _make_room(self, lease: Lease, now_ns: int) -> None:
        """Stop guests until what a pool has not lent is free for it."""
        for group in lease.groups:
            while not self.floor.leases.guest_room(group):
                unit = next(self.admission.guests(lease.groups, now_ns), None)
                if unit is None:
                    return
                why = f"pool '{lease.allotment.pool}' takes its units back"
                self.admission.evict([unit], why, now_ns)
