"""Orders as tasks of this cluster, or why they can never be carried out here."""

from dure.domain.fleet.decisions import Order
from dure.fleet.fit import footprint
from dure.fleet.local.floor import Floor
from dure.fleet.local.instances import Task


def make_task(floor: Floor, order: Order, now_ns: int) -> Task | str:
    """The order as a task, or why nothing here meets its demand."""
    yard = floor.yard
    group = yard.by_name.get(order.site.group)
    if group is None or order.site.cluster != yard.cluster.id:
        return f"there is no site '{order.site}' here"
    each = yard.fields[group]
    workload = order.workload
    needed = footprint(workload.demand, each.profile, each.group.mode)
    if needed is None:
        return (
            f"no slice of a {each.group.profile} in mode '{each.group.mode.value}' meets its demand"
        )
    tenant = floor.leases.tenants.get(workload.tenant)
    service = workload.service
    return Task(
        order=order,
        group=group,
        shape=each.number(needed),
        footprint=needed,
        least=needed,
        priority=workload.priority + (tenant.priority if tenant is not None else 0),
        given_ns=now_ns,
        wanted=order.instances,
        spare=service.standby if service is not None else 0,
        done_share=order.resume_share,
        saved_share=order.resume_share,
    )


def too_large(floor: Floor, task: Task) -> str:
    """Why all nodes together could not hold it; empty: they could."""
    each = floor.yard.fields[task.group]
    room = each.per_node(task.shape) * int(each.open.sum())
    least = 1 if task.order.workload.service is not None else task.order.instances
    if room >= least:
        return ""
    return f"all nodes of '{task.order.site}' have room for {room} of its {least} instances"
