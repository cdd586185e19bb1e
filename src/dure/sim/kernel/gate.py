"""The data plane in virtual time: the launch rule and the rotation of squads.

The same rule the shim applies per launch, on the same words: budgets and in-flight work in
predicted time, tenants to yield to, a class by class matrix of what may pass beside them.
"""

import numpy as np

from dure.sim.kernel.compiled import compiled
from dure.sim.kernel.state import (
    HELD_BY_BUDGET,
    HELD_FOR_PROMISE,
    HELD_IN_FLIGHT,
    HELD_IN_ORDER,
    HOST_HELD,
    HOST_WAKING,
    NEVER,
    PASS,
    State,
)


@compiled
def launch_signature(state: State, index: int) -> int:
    """The signature of the launch a tenant is about to make."""
    tenant = state.tenants[index]
    if tenant.graph != 0:
        return int(tenant.graph_signature)
    return int(state.sequence[tenant.sequence_first + tenant.issue_position])


@compiled
def _running_class(state: State, index: int) -> int:
    tenant = state.tenants[index]
    signature = tenant.graph_signature if tenant.graph != 0 else tenant.kernel
    return int(state.kernels[signature].kernel_class)


@compiled
def _held_for(state: State, index: int, kernel_class: int) -> int:
    """Whether a tenant that this one yields to has work and lost its patience."""
    device = state.device[0]
    yields = state.orders[device.squad, index].yields
    if yields == np.uint64(0):
        return PASS
    why = PASS
    for other in range(state.tenants.size):
        bit = np.uint64(1) << np.uint64(other)
        if yields & bit == np.uint64(0) or state.tenants[other].wants == 0:
            continue
        busy_ns = device.now - state.tenants[other].busy_since
        if busy_ns < state.orders[device.squad, other].patience_ns:
            continue
        if state.corun[0, kernel_class, _running_class(state, other)] != 0:
            continue
        if state.promised[0] & bit != np.uint64(0):
            return HELD_FOR_PROMISE
        why = HELD_IN_ORDER
    return why


@compiled
def ask(state: State, index: int) -> int:
    """Whether a tenant's next launch passes, or why it is held."""
    device = state.device[0]
    if device.gated == 0:
        return PASS
    tenant = state.tenants[index]
    order = state.orders[device.squad, index]
    if order.member == 0 or (order.budget_ns > 0.0 and tenant.spent_ns >= order.budget_ns):
        return HELD_BY_BUDGET
    kernel = state.kernels[launch_signature(state, index)]
    why = _held_for(state, index, kernel.kernel_class)
    if why != PASS:
        return why
    full = order.inflight_launches > 0 and tenant.inflight_launches >= order.inflight_launches
    if order.inflight_ns > 0.0 and tenant.inflight_ns > 0.0:
        full = full or tenant.inflight_ns + kernel.predicted_ns > order.inflight_ns
    return HELD_IN_FLIGHT if full else PASS


@compiled
def _live(state: State, squad: int) -> bool:
    """Whether a squad has something to do: for those with a budget in it, else for anybody."""
    for_some = False
    anybody = False
    for index in range(state.tenants.size):
        tenant = state.tenants[index]
        order = state.orders[squad, index]
        if order.member == 0:
            continue
        if order.budget_ns > 0.0:
            for_some = True
            if tenant.wants != 0 and tenant.spent_ns < order.budget_ns:
                return True
        elif tenant.wants != 0:
            anybody = True
    return anybody and not for_some


@compiled
def _edge(state: State, squad: int) -> None:
    """A squad begins."""
    device = state.device[0]
    device.squad = squad
    device.dormant = 0
    duration = state.durations[0, squad]
    device.squad_until = device.now + duration if duration > 0 else NEVER
    device.edges += 1
    device.recheck = 1
    if device.edge_count < state.edges.size:
        edge = state.edges[device.edge_count]
        edge.at = device.now
        edge.squad = squad
        edge.epoch = device.epoch
        device.edge_count += 1


@compiled
def _adopt(state: State) -> None:
    """Put the waiting plan in force.

    Word by word: for whole arrays the compiler also makes what it says of unlike shapes, which
    takes it three seconds.
    """
    device = state.device[0]
    for squad in range(state.orders.shape[0]):
        state.durations[0, squad] = state.durations[1, squad]
        for index in range(state.orders.shape[1]):
            state.orders[squad, index] = state.pending[squad, index]
    for one in range(state.corun.shape[1]):
        for other in range(state.corun.shape[2]):
            state.corun[0, one, other] = state.corun[1, one, other]
    state.promised[0] = state.promised[1]
    device.squads = device.plan_waiting
    device.plan_waiting = 0
    device.epoch += 1
    for index in range(state.tenants.size):
        state.tenants[index].spent_ns = 0.0
    device.squad = 0


@compiled
def rotate(state: State) -> None:
    """End the squad in force when it is over, and start the next that has something to do."""
    device = state.device[0]
    if device.gated == 0:
        return
    in_force = device.squads > 0 and device.dormant == 0 and device.now < device.squad_until
    if in_force and _live(state, device.squad):
        return
    fresh = device.plan_waiting > 0
    if fresh:
        _adopt(state)
    if device.squads == 0:
        return
    start = 0 if fresh else device.squad + 1
    for step in range(device.squads):
        squad = (start + step) % device.squads
        if squad < start or (squad == 0 and not fresh):
            for index in range(state.tenants.size):
                state.tenants[index].spent_ns = 0.0
        if _live(state, squad):
            _edge(state, squad)
            return
    for index in range(state.tenants.size):
        state.tenants[index].spent_ns = 0.0
    for squad in range(device.squads):
        if _live(state, squad):
            _edge(state, squad)
            return
    if fresh:
        _edge(state, 0)
    device.squad_until = NEVER
    device.dormant = 1


@compiled
def wake_held(state: State) -> None:
    """Send those on their way whose launch would pass now."""
    device = state.device[0]
    for index in range(state.tenants.size):
        tenant = state.tenants[index]
        if tenant.host != HOST_HELD:
            continue
        why = ask(state, index)
        tenant.held_why = why
        if why == PASS:
            tenant.host = HOST_WAKING
            tenant.host_at = device.now + device.gate_wake_ns
