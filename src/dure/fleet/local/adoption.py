"""Takes over instances that run already: the books as if this stage had placed them itself.

A restarted member tells what there is, instance by instance, and then a round is due. Until that
round a task is *arriving*: a gang may seem incomplete. The round looks whether it is: a gang that
has lost a worker starts again as a whole, a service gets the replicas it misses.
"""

from dataclasses import dataclass, field

from dure.domain.errors import DureError
from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.events import InstanceFound
from dure.domain.fleet.instructions import StopInstance
from dure.domain.ids import WorkloadId
from dure.fleet.fit import Footprint, slice_speed
from dure.fleet.local.allotments import NOWHERE
from dure.fleet.local.fields import Field
from dure.fleet.local.floor import Floor
from dure.fleet.local.instances import Instance, Spot, Task
from dure.fleet.local.resize import Resizer, larger
from dure.fleet.local.scaling import MOST_LEVEL


@dataclass(slots=True)
class Adoption:
    """Enters what is found."""

    floor: Floor
    resizer: Resizer
    arriving: list[Task] = field(default_factory=list)
    """Tasks to be looked at in the next round."""
    indices: dict[tuple[WorkloadId, int], int] = field(default_factory=dict)
    """By workload and attempt of no task here: the first index that was surely never used."""
    sizes: dict[WorkloadId, str] = field(default_factory=dict)
    """Why services that arrive were as large as they were told to be before."""

    def enter(self, task: Task, event: InstanceFound) -> bool:
        """Give a task an instance that runs; returns whether its place was possible."""
        full = not task.serving and len(task.instances) >= task.limit
        found = "its gang is complete" if full else self._spot(task, event.placement)
        if isinstance(found, str):
            self.refuse(event.instance, found)
            return False
        self._own(found, self.floor.leases.owner(task))
        self._note(task, event, found)
        return True

    def refuse(self, instance: InstanceId, why: str) -> None:
        """It cannot stay."""
        task = self.floor.tasks.get(instance.workload)
        if task is not None and task.order.attempt == instance.attempt:
            task.next_index = max(task.next_index, instance.index + 1)
        else:
            self.was(instance)
        self.floor.out.append(StopInstance(instance, f"it cannot stay where it was found: {why}"))

    def expect(self, task: Task) -> None:
        """From now on until the next round, more of this task may be told."""
        task.arriving = True
        self.arriving.append(task)
        self.number(task)

    def number(self, task: Task) -> None:
        """Begin with an index that no instance of this attempt ever had."""
        known = self.indices.pop((task.order.workload.id, task.order.attempt), 0)
        task.next_index = max(task.next_index, known)

    def was(self, instance: InstanceId) -> None:
        """An instance is over that is not known here: its index stays used."""
        key = (instance.workload, instance.attempt)
        self.indices[key] = max(self.indices.get(key, 0), instance.index + 1)

    # Places

    def _spot(self, task: Task, placement: Placement) -> Spot | str:
        """The place, taken; or why it is impossible."""
        yard, where = self.floor.yard, self.floor.yard.fields[task.group]
        problem = self._problem(task, placement)
        if problem:
            return problem
        size = self._size(task, where, placement)
        if size is None:
            name = placement.template or "whole devices"
            return f"{name} at {placement.compute_milli} thousandths is no slice for it"
        level, footprint = size
        if level != task.level and not task.instances:
            task.level, task.footprint, task.shape = level, footprint, where.number(footprint)
            smaller = larger(where, task.least, level - 1)
            self.floor.scaler.resized(task, slice_speed(task.least, smaller.compute_milli))
        spot = Spot(placement, where.number(footprint), footprint, task.group)
        try:
            yard.take_found(spot)
        except DureError as error:
            return error.what
        return spot

    def _problem(self, task: Task, placement: Placement) -> str:
        """What is impossible about a place before it is looked at what is free; empty: nothing."""
        where = self.floor.yard.fields[task.group]
        node = placement.node - where.first_node
        if not 0 <= node < where.group.count:
            return f"node {placement.node} is none of '{task.order.site}'"
        if not where.up[node]:
            return f"node {placement.node} is down"
        owner = self.floor.leases.owner(task)
        if owner == NOWHERE:
            return f"its pool '{task.order.workload.pool}' has nothing here"
        if where.owner[node] != owner and not self._alike(placement.node, owner):
            return f"node {placement.node} is set apart for others"
        return _device_problem(where, placement)

    def _alike(self, node: int, owner: int) -> bool:
        """Whether all that is on a node belongs to one owner."""
        there = self.floor.on_node[node].values()
        return all(self.floor.leases.owner(each.task) == owner for each in there)

    def _size(self, task: Task, where: Field, placement: Placement) -> tuple[int, Footprint] | None:
        """By how many steps its slice is larger than the least, and what it takes; None: neither.

        Where what it takes now is right that comes first: others of its task are like that."""
        template = placement.template or "whole"
        levels = range(MOST_LEVEL + 1) if task.serving else range(1)
        for level in sorted(levels, key=lambda each: each != task.level):
            size = larger(where, task.least, level)
            if (size.template, size.compute_milli) == (template, placement.compute_milli):
                return level, size
        return None

    def _own(self, spot: Spot, owner: int) -> None:
        """Its node belongs to whom it belongs to; leases are settled anew in the next round."""
        where = self.floor.yard.fields[spot.group]
        where.owner[spot.node - where.first_node] = owner

    # Books

    def _note(self, task: Task, event: InstanceFound, spot: Spot) -> None:
        floor, now_ns, index = self.floor, event.now_ns, event.instance.index
        if not task.instances:
            task.started_ns = task.checkpoint_ns = task.as_of_ns = now_ns
        floor.advance(task, now_ns)
        instance = Instance(event.instance, task, spot, now_ns, warm=event.warm)
        floor.power.found(spot.node)
        floor.enter(instance)
        task.next_index = max(task.next_index, index + 1)
        if task.serving:
            task.wanted = max(task.wanted, len(task.instances) - task.spare)
            floor.scaler.found(task, now_ns)
            if spot.shape != task.shape:
                self.resizer.misfits.add(task.id)
        floor.predict_end(task, now_ns)

    def arrived(self) -> list[Task]:
        """Nothing more is to come: the tasks that were told of and are still here."""
        told, self.arriving = self.arriving, []
        for task in told:
            task.arriving = False
        return [task for task in told if self.floor.tasks.get(task.id) is task]


def _device_problem(where: Field, placement: Placement) -> str:
    """What is impossible about its devices; empty: nothing."""
    size, domain = where.group.devices, max(1, where.group.link_domain)
    first = where.first_device + (placement.node - where.first_node) * size
    if not all(first <= each < first + size for each in placement.devices):
        return f"it has devices of another node than {placement.node}"
    if len({(each - first) // domain for each in placement.devices}) > 1:
        return "its devices are in several link domains"
    if placement.masks and len(placement.masks) != len(placement.devices):
        return "it has not a set of slots for each of its devices"
    return ""
