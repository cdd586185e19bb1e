"""What happens to nodes: they die, come back, take nothing new, or others use them too."""

from dataclasses import dataclass

from dure.domain.fleet.events import ForeignUsed, NodeBack, NodeCordoned, NodeLost
from dure.domain.ids import WorkloadId
from dure.fleet.local.floor import Floor
from dure.fleet.local.foreign import Use
from dure.fleet.local.instances import Task


@dataclass(slots=True)
class NodeNews:
    """Takes in events of nodes; those of nodes that are not there change nothing."""

    floor: Floor

    def lost(self, event: NodeLost) -> None:
        """A node died: what ran there starts again elsewhere."""
        floor = self.floor
        if not self._knows(event.node) or not floor.yard.is_up(event.node):
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
            if not task.arriving:
                self.recover(task, "it lost a worker with its node", event.now_ns)

    def recover(self, task: Task, why: str, now_ns: int) -> None:
        """Start again what lost instances: a service's replicas one by one, a gang as a whole."""
        floor = self.floor
        if not task.serving:
            floor.stop_all(task, why, now_ns)
            each = floor.yard.fields[task.group]
            room = each.per_node(task.shape) * int(each.open.sum())
            if room < task.wanted:
                why = f"the nodes that are left have room for {room} of {task.wanted} instances"
                floor.turn_down(task, why, now_ns)
                return
        floor.restart(task, now_ns)

    def cordoned(self, event: NodeCordoned) -> None:
        """What is on the node stays; nothing new comes, nothing moves there."""
        floor = self.floor
        if not self._knows(event.node) or floor.yard.is_cordoned(event.node):
            return
        if not floor.yard.is_up(event.node):
            floor.power.back(event.node, event.now_ns)
        floor.yard.set_up(event.node, True, cordoned=True)
        floor.cancel_moves_to(event.node)
        floor.changed.add(floor.yard.group_of[event.node])

    def back(self, event: NodeBack) -> None:
        """A node takes something new again."""
        floor = self.floor
        if not self._knows(event.node):
            return
        was_up, cordoned = floor.yard.is_up(event.node), floor.yard.is_cordoned(event.node)
        if was_up and not cordoned:
            return
        floor.yard.set_up(event.node, True)
        if not was_up:
            floor.power.back(event.node, event.now_ns)
        self._more_room(event.node)

    def foreign(self, event: ForeignUsed) -> None:
        """Others use so much of a node: that is not given out."""
        if not self._knows(event.node):
            return
        use = Use(event.devices, event.cpu_milli, event.host_memory_bytes)
        self.floor.yard.set_foreign(event.node, Use(*(max(0, each) for each in use)))
        self._more_room(event.node)

    def _knows(self, node: int) -> bool:
        return 0 <= node < len(self.floor.on_node)

    def _more_room(self, node: int) -> None:
        group = self.floor.yard.group_of[node]
        self.floor.changed.add(group)
        self.floor.queue.lines[group].freed = True
