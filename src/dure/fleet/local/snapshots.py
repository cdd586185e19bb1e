"""The state of a local stage as plain data, and a local stage from it.

What was taken is taken again in an empty cluster, which restores every count exactly; the rest is
copied. A machine made from a snapshot answers every later event as the original would.
"""

from typing import Any

from dure.domain.errors import InputError
from dure.domain.fleet.decisions import InstanceId
from dure.domain.ids import WorkloadId
from dure.fleet.local.admission import Admission
from dure.fleet.local.fields import Field
from dure.fleet.local.floor import Floor
from dure.fleet.local.instances import Instance, Spot, Task
from dure.fleet.local.plain import from_plain, to_plain

VERSION = 4
"""Of the form; a snapshot of another version is refused."""

_TASK = (
    *("order", "group", "shape", "footprint", "least", "priority", "given_ns", "wanted"),
    *("next_index", "queued_ns", "passes", "started_ns", "expected_end_ns", "done_share"),
    *("as_of_ns", "saved_share", "checkpoint_ns", "moving", "ending", "level", "spare", "row"),
    *("id", "replaced", "arriving", "failures", "shunned"),
)
_INSTANCE = ("id", "spot", "started_ns", "pool", "warm", "leaving", "moved_ns")
_FLAGS = ("up", "powered", "owner", "held", "draining", "cordoned")


def save(floor: Floor, admission: Admission) -> dict[str, Any]:
    """Everything that is known of a cluster."""
    return {
        "version": VERSION,
        "cluster": str(floor.yard.cluster.id),
        "fields": [_save_field(each) for each in floor.yard.fields],
        "tasks": [_save_task(task) for task in floor.tasks.values()],
        "on_node": [to_plain(list(there)) for there in floor.on_node],
        "floor": to_plain([floor.movers, floor.changed, floor.ordered, floor.stirred]),
        "queue": _save_queue(floor),
        "leases": _save_leases(floor),
        "power": to_plain([floor.power.empty_since, floor.power.clock]),
        "scaler": _save_scaler(floor),
        "holds": to_plain(admission.holds),
    }


def load(floor: Floor, admission: Admission, state: dict[str, Any]) -> None:
    """Bring an empty cluster into the state of a snapshot."""
    if state.get("version") != VERSION or state.get("cluster") != floor.yard.cluster.id:
        raise InputError(
            f"the snapshot is version {state.get('version')} of cluster '{state.get('cluster')}'",
            f"use one of version {VERSION} of '{floor.yard.cluster.id}'",
        )
    for field, plain in zip(floor.yard.fields, state["fields"], strict=True):
        field.load_shapes(from_plain(plain["shapes"]))
    for plain in state["tasks"]:
        _load_task(floor, plain)
    _load_places(floor, state)
    for field, plain in zip(floor.yard.fields, state["fields"], strict=True):
        for name in _FLAGS:
            getattr(field, name)[:] = from_plain(plain["flags"][name])
        for node, is_up in enumerate(field.up.tolist()):
            cordoned = bool(field.cordoned[node])
            floor.yard.set_up(field.first_node + node, is_up, cordoned)
        field.foreign.load(from_plain(plain["foreign"]))
    floor.movers, floor.changed, floor.ordered, floor.stirred = from_plain(state["floor"])
    _load_queue(floor, state["queue"])
    _load_leases(floor, state["leases"])
    floor.power.empty_since, floor.power.clock = from_plain(state["power"])
    _load_scaler(floor, state["scaler"])
    admission.holds = from_plain(state["holds"])


def _save_field(field: Field) -> dict[str, Any]:
    return {
        "shapes": to_plain(field.save_shapes()),
        "flags": {name: to_plain(getattr(field, name)) for name in _FLAGS},
        "foreign": to_plain(field.foreign.save()),
    }


# Tasks


def _save_task(task: Task) -> dict[str, Any]:
    plain = {name: to_plain(getattr(task, name)) for name in _TASK}
    plain["instances"] = [
        {name: to_plain(getattr(each, name)) for name in _INSTANCE}
        for each in task.instances.values()
    ]
    return plain


def _load_task(floor: Floor, plain: dict[str, Any]) -> None:
    values = {name: from_plain(plain[name]) for name in _TASK}
    task = Task(**values)
    for each in plain["instances"]:
        instance = Instance(task=task, **{name: from_plain(each[name]) for name in _INSTANCE})
        task.instances[instance.id.index] = instance
    floor.tasks[task.id] = task


def _load_places(floor: Floor, state: dict[str, Any]) -> None:
    by_id: dict[InstanceId, Instance] = {}
    spots: list[Spot] = []
    for task in floor.tasks.values():
        for instance in task.instances.values():
            by_id[instance.id] = instance
            spots += instance.places()
        spots += [spot for spot, _ in task.moving.values()]
    for spot in spots:
        floor.yard.take(spot)
    for node, names in enumerate(state["on_node"]):
        floor.on_node[node] = {name: by_id[name] for name in from_plain(names)}


# Queue


def _save_queue(floor: Floor) -> dict[str, Any]:
    return {
        "lines": [
            to_plain([line.ranks, [task.id for task in line.tasks], line.fresh, line.freed])
            for line in floor.queue.lines
        ],
        "later": to_plain([(at_ns, name) for at_ns, name, _ in floor.queue.later]),
        "impatient": to_plain(floor.queue.impatient),
    }


def _load_queue(floor: Floor, plain: dict[str, Any]) -> None:
    tasks: dict[WorkloadId, Task] = floor.tasks
    for line, saved in zip(floor.queue.lines, plain["lines"], strict=True):
        line.ranks, names, line.fresh, line.freed = from_plain(saved)
        line.tasks = [tasks[name] for name in names]
    floor.queue.later = [(at, name, tasks[name]) for at, name in from_plain(plain["later"])]
    floor.queue.impatient = from_plain(plain["impatient"])


# Leases


def _save_leases(floor: Floor) -> Any:
    leases = floor.leases
    given = {name: (each.allotment, each.used_milli) for name, each in leases.by_pool.items()}
    return to_plain([leases.tenants, leases.pools, given, leases.revision, leases.numbers])


def _load_leases(floor: Floor, plain: Any) -> None:
    leases = floor.leases
    leases.tenants, leases.pools, given, leases.revision, leases.numbers = from_plain(plain)
    for name, (allotment, used_milli) in given.items():
        leases.by_pool[name] = leases.make(allotment, used_milli)


# Services


def _save_scaler(floor: Floor) -> Any:
    scaler = floor.scaler
    rows = [task.id if task is not None else None for task in scaler.tasks]
    return to_plain([scaler.figures, scaler.counts, scaler.free, rows])


def _load_scaler(floor: Floor, plain: Any) -> None:
    scaler = floor.scaler
    scaler.figures, scaler.counts, scaler.free, rows = from_plain(plain)
    scaler.tasks = [floor.tasks[name] if name is not None else None for name in rows]
