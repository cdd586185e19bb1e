"""What must hold after every event: capacity, slots, gangs, homes, books that agree."""

from collections import Counter

import numpy as np

from dure.domain.errors import InvariantError
from dure.domain.fleet.slices import WHOLE_MILLI
from dure.fleet.local.fields import Field
from dure.fleet.local.floor import Floor
from dure.fleet.local.instances import Instance, Spot, Task
from dure.fleet.local.yard import Yard


def check(floor: Floor) -> None:
    """Raise `InvariantError` where the books of a cluster are impossible."""
    spots: list[Spot] = []
    for task in floor.tasks.values():
        _check_task(floor, task)
        for instance in task.instances.values():
            _check_instance(floor, instance)
            spots += instance.places()
        spots += [spot for spot, _ in task.moving.values()]
    _check_devices(floor.yard, spots)
    _check_nodes(floor, spots)
    _check_leases(floor)


def _fail(what: str) -> None:
    raise InvariantError(what, "a bug of the local stage: keep the events that led here")


def _check_task(floor: Floor, task: Task) -> None:
    count = len(task.instances)
    if not (task.serving or task.ending or task.arriving) and 0 < count < task.wanted:
        _fail(f"gang '{task.id}' runs with {count} of {task.wanted} workers")
    if not task.serving and count > task.limit:
        _fail(f"gang '{task.id}' runs with {count} workers, more than it can use")
    queued = any(each is task for each in floor.queue.lines[task.group].tasks)
    if queued != (task.queued_ns >= 0):
        _fail(f"'{task.id}' does not know whether it waits")
    waits = queued or floor.queue.is_later(task) or task.arriving
    if task.missing and not waits:
        _fail(f"'{task.id}' misses {task.missing} instances and waits nowhere")
    if set(task.moving) - set(task.instances):
        _fail(f"'{task.id}' plans to move instances it does not have")


def _check_instance(floor: Floor, instance: Instance) -> None:
    owner = floor.leases.owner(instance.task)
    for spot in instance.places():
        where = floor.yard.fields[spot.group]
        node = spot.node - where.first_node
        if not where.up[node] or not where.powered[node]:
            _fail(f"{instance.id} is on node {spot.node}, which is down or off")
        if where.owner[node] != owner:
            _fail(f"{instance.id} is on node {spot.node}, which is not open to it")
        if floor.on_node[spot.node].get(instance.id) is not instance:
            _fail(f"{instance.id} is missing in the list of node {spot.node}")
        _check_link(where, spot)


def _check_link(where: Field, spot: Spot) -> None:
    devices = [device - where.first_device for device in spot.placement.devices]
    size, domain = where.group.devices, max(1, where.group.link_domain)
    if {device // size for device in devices} != {spot.node - where.first_node}:
        _fail(f"{spot.placement} has devices of another node")
    if len({device % size // domain for device in devices}) > 1:
        _fail(f"{spot.placement} is in several link domains")


def _check_devices(yard: Yard, spots: list[Spot]) -> None:
    compute: Counter[int] = Counter()
    memory: Counter[int] = Counter()
    bandwidth: Counter[int] = Counter()
    guests: Counter[int] = Counter()
    masks: Counter[int] = Counter()
    for spot in spots:
        footprint, where = spot.footprint, yard.fields[spot.group]
        if len(set(spot.placement.devices)) != footprint.devices:
            _fail(f"{spot.placement} has not {footprint.devices} devices")
        for index, device in enumerate(spot.placement.devices):
            compute[device] += footprint.compute_milli
            memory[device] += footprint.memory_bytes
            bandwidth[device] += footprint.bandwidth_milli
            guests[device] += 1
            mask = spot.placement.masks[index] if spot.placement.masks else 0
            if masks[device] & mask:
                _fail(f"slots of device {device} are given out twice")
            masks[device] |= mask
            limits = (
                (compute, WHOLE_MILLI, "compute"),
                (bandwidth, WHOLE_MILLI, "bandwidth"),
                (memory, where.profile.memory_bytes, "memory"),
                (guests, where.limit, "places"),
            )
            for used, limit, what in limits:
                if used[device] > limit:
                    _fail(f"device {device} is given out beyond its {what}")


def _check_nodes(floor: Floor, spots: list[Spot]) -> None:
    for group, where in enumerate(floor.yard.fields):
        used = np.zeros_like(where.used)
        for spot in spots:
            if spot.group == group:
                where.add(used, spot, 1)
        if not np.array_equal(used, where.used):
            _fail(f"the books of group '{where.group.name}' do not add up")
        held = {
            device for spot in spots if spot.group == group for device in spot.placement.devices
        }
        for node in range(where.group.count):
            if held & {where.first_device + row for row in where.foreign.devices(node)}:
                _fail(f"a device of node {where.first_node + node} is ours and others'")
        used = used + where.foreign.amounts
        limits = (where.group.cpu_milli, where.group.host_memory_bytes)
        for row, limit in zip((3, 4), limits, strict=True):
            if (used[row] > limit).any():
                _fail(f"a node of group '{where.group.name}' is given out beyond CPU or memory")
    for node, there in enumerate(floor.on_node):
        for instance in there.values():
            task = instance.task
            known = floor.tasks.get(task.id) is task
            if not known or task.instances.get(instance.id.index) is not instance:
                _fail(f"node {node} lists {instance.id}, which is gone")
            if node not in {spot.node for spot in instance.places()}:
                _fail(f"node {node} lists {instance.id}, which is elsewhere")


def _check_leases(floor: Floor) -> None:
    used: Counter[str] = Counter()
    for task in floor.tasks.values():
        for instance in task.instances.values():
            if instance.pool is not None:
                each = instance.spot.footprint
                used[instance.pool] += each.devices * each.compute_milli
    for name, lease in floor.leases.by_pool.items():
        if lease.used_milli != used[name]:
            _fail(f"pool '{name}' counts {lease.used_milli} used, but {used[name]} are")
        if lease.used_milli > lease.milli:
            _fail(f"pool '{name}' uses more than its {lease.allotment.units} units")
