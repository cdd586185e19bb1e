"""Brings services to the replicas and slices they should have: stops, queues, larger slices."""

from dataclasses import dataclass, field

from dure.domain.ids import WorkloadId
from dure.fleet.fit import Footprint, slice_speed
from dure.fleet.local.fields import Field
from dure.fleet.local.floor import Floor
from dure.fleet.local.instances import Instance, Task
from dure.fleet.local.scaling import MOST_LEVEL


def larger(where: Field, least: Footprint, level: int) -> Footprint:
    """The footprint some steps above the least one, in slices of the same mode."""
    options = _larger_ones(where, least)
    if level <= 0 or not options:
        return least
    chosen = options[min(level, len(options)) - 1]
    return Footprint(
        template=chosen.template,
        mode=least.mode,
        devices=least.devices,
        compute_milli=chosen.compute_milli,
        memory_bytes=chosen.memory_bytes,
        bandwidth_milli=chosen.bandwidth_milli,
        slots=chosen.slots,
        cpu_milli=least.cpu_milli,
        host_memory_bytes=least.host_memory_bytes,
    )


def _larger_ones(where: Field, least: Footprint) -> list[Footprint]:
    """All slices above the least one, the smallest first."""
    if least.template == "whole":
        return []
    options = [
        each
        for each in where.slices
        if each.template != "whole"
        and each.compute_milli > least.compute_milli
        and each.memory_bytes >= least.memory_bytes
        and each.bandwidth_milli >= least.bandwidth_milli
    ]
    return sorted(options, key=lambda each: (each.compute_milli, each.memory_bytes))


@dataclass(slots=True)
class Resizer:
    """Makes services as large as the autoscaler wants them."""

    floor: Floor
    in_place: frozenset[str] = frozenset()
    """Node groups where a slice can be changed while it is in use."""
    misfits: set[WorkloadId] = field(default_factory=set)
    """Services some of whose replicas are on slices of another size than they should be."""

    def placed(self, task: Task) -> None:
        """A service is here: say by how many steps it can grow where it is."""
        where = self.floor.yard.fields[task.group]
        if where.group.name in self.in_place:
            steps = min(MOST_LEVEL, len(_larger_ones(where, task.least)))
            self.floor.scaler.grows_in_place(task, steps)

    def resize(self, task: Task, why: str, now_ns: int) -> None:
        """Follow `task.wanted` and `task.level`."""
        service = task.order.workload.service
        if service is not None and not task.replaced:
            task.spare = service.standby
        before = task.footprint
        self._set_size(task)
        if task.footprint != before:
            self._change_in_place(task, before)
        surplus = len(task.instances) - task.target
        if surplus > 0:
            for instance in sorted(task.instances.values(), key=self._worth)[:surplus]:
                self.floor.stop(instance, "its load needs fewer replicas", now_ns)
            if not task.level:
                self.placed(task)
        if task.missing:
            self.floor.enqueue(task, now_ns)
        elif task.queued_ns >= 0:
            self.floor.dequeue(task)
        self.floor.say_size(task, why)

    def fit_slices(self, now_ns: int) -> None:
        """Move replicas to slices of the size their service should have, where there are any."""
        for name in sorted(self.misfits):
            task = self.floor.tasks.get(name)
            if task is None or not self._fit(task, now_ns):
                self.misfits.discard(name)

    def _fit(self, task: Task, now_ns: int) -> bool:
        """Move what can be moved now; returns whether some replicas still have the wrong size."""
        yard = self.floor.yard
        for instance in list(task.instances.values()):
            if instance.spot.shape == task.shape or instance.leaving is not None:
                continue
            if self._reshape(instance):
                continue
            allowed = yard.allowed(task.group, self.floor.leases.owner(task))
            spots = yard.choose(task.group, task.shape, 1, allowed)
            if spots is None:
                return True
            if self.floor.leases.at_odds(task):
                yard.give_back(spots[0])
                return True
            self.floor.move(instance, spots[0], "its latency asks for another slice", now_ns)
        return any(each.spot.shape != task.shape for each in task.instances.values())

    def _change_in_place(self, task: Task, before: Footprint) -> None:
        """Change slices while they are in use; where none can grow, replicas come instead."""
        where = self.floor.yard.fields[task.group]
        if where.group.name not in self.in_place or not task.instances:
            return
        changed = [self._reshape(each) for each in list(task.instances.values())]
        grows = task.footprint.compute_milli > before.compute_milli
        if grows and not any(changed):
            self.floor.scaler.set_level(task, task.level - 1)
            self.floor.scaler.grows_in_place(task, task.level)
            self._set_size(task)

    def _reshape(self, instance: Instance) -> bool:
        """Give an instance the size its service should have, where it is; False: that cannot be."""
        task, floor = instance.task, self.floor
        where = floor.yard.fields[task.group]
        if where.group.name not in self.in_place or instance.leaving is not None:
            return False
        spot = floor.yard.reshape(instance.spot, task.shape)
        if spot is None:
            return False
        grows = spot.footprint.compute_milli > instance.spot.footprint.compute_milli
        if grows and not floor.leases.may_grow(instance, spot):
            back = floor.yard.reshape(spot, instance.spot.shape)
            assert back is not None, "what shrinks has room"
            instance.spot = back
            return False
        floor.resize(instance, spot, "its latency asks for another slice")
        return True

    def _set_size(self, task: Task) -> None:
        where = self.floor.yard.fields[task.group]
        wanted = larger(where, task.least, task.level)
        if wanted != task.footprint:
            task.footprint, task.shape = wanted, where.number(wanted)
            smaller = larger(where, task.least, task.level - 1)
            self.floor.scaler.resized(task, slice_speed(task.least, smaller.compute_milli))
            self.misfits.add(task.id)

    def _worth(self, instance: Instance) -> tuple[bool, int, int]:
        """Those go first that are not warm, then those that are nearly alone on their node; with
        some kept warm beside the others, those: they have no requests."""
        alone = 0 if instance.task.spare else len(self.floor.on_node[instance.spot.node])
        return (instance.warm, alone, -instance.id.index)
