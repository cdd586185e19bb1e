"""The event loop: host threads issue, the gate admits, the device runs, time jumps ahead."""

import numpy as np

from dure.domain.latency import BUCKET_COUNT, BUCKETS_PER_OCTAVE, FIRST_BUCKET_NS
from dure.domain.plan import PAUSE_NS
from dure.sim.kernel.compiled import compiled
from dure.sim.kernel.gate import ask, launch_signature, rotate, wake_held
from dure.sim.kernel.silicon import (
    dispatch,
    finish_kernel,
    kernel_width,
    occupies,
    stream_event,
)
from dure.sim.kernel.state import (
    HELD_FOR_PROMISE,
    HOST_DONE,
    HOST_FULL,
    HOST_HELD,
    HOST_ISSUING,
    HOST_RETURNING,
    HOST_SYNCING,
    HOST_WAITING,
    HOST_WAKING,
    NEVER,
    PASS,
    SPACE,
    STREAM_EMPTY,
    STREAM_GAP,
    STREAM_PREEMPTED,
    STREAM_READY,
    TIME,
    State,
)

QUICKER_STEP = 8.0
SLOWER_STEP = 256.0

# Kinds of events.
NOTHING = 0
STREAM_EVENT = 1
HOST_EVENT = 2
LINGER_EVENT = 3
SLICE_EVENT = 4
SQUAD_EVENT = 5


@compiled
def _bucket(latency_ns: float) -> int:
    if latency_ns <= FIRST_BUCKET_NS:
        return 0
    bucket = int(BUCKETS_PER_OCTAVE * np.log2(latency_ns / FIRST_BUCKET_NS)) + 1
    return min(bucket, BUCKET_COUNT - 1)


@compiled
def _account(state: State, until: int) -> None:
    """Integrate what the device and the tenants did up to the next event."""
    device = state.device[0]
    span = until - device.now
    if span <= 0:
        return
    used = 0.0
    admissible = 0.0
    protected = 0.0
    anyone = False
    for index in range(state.tenants.size):
        tenant = state.tenants[index]
        if tenant.wants != 0:
            anyone = True
            tenant.r_busy_ns += span
            tenant.busy_ns += span
        if occupies(tenant.stream):
            used += tenant.used_sms
        elif tenant.stream == STREAM_READY or tenant.stream == STREAM_PREEMPTED:
            admissible += kernel_width(state, index)
        if tenant.host == HOST_HELD or tenant.host == HOST_WAKING:
            tenant.r_gated_ns += span
            tenant.gated_ns += span
            if tenant.stream == STREAM_EMPTY:
                if tenant.host == HOST_HELD and tenant.held_why == HELD_FOR_PROMISE:
                    protected += kernel_width(state, index)
                else:
                    admissible += kernel_width(state, index)
    idle = max(0.0, device.sms - used)
    bubble = min(idle, admissible)
    device.bubble_sm_ns += bubble * span
    device.protected_sm_ns += min(idle - bubble, protected) * span
    device.used_sm_ns += used * span
    if anyone:
        device.busy_ns += span


@compiled
def _want(state: State, index: int) -> None:
    """A tenant turns from idle to having work."""
    device = state.device[0]
    tenant = state.tenants[index]
    tenant.linger_at = NEVER
    if tenant.burst_since < 0:
        tenant.burst_since = device.now
        tenant.burst_gpu_ns = 0.0
        if tenant.burst_ended > 0:
            gap = max(1, device.now - tenant.burst_ended)
            if tenant.r_gap_ns == 0 or gap < tenant.r_gap_ns:
                tenant.r_gap_ns = gap
    if tenant.wants == 0:
        tenant.wants = 1
        device.recheck = 1
        if device.now - tenant.burst_ended > PAUSE_NS or tenant.burst_ended == 0:
            tenant.busy_since = device.now
            tenant.lost_ns = 0.0


@compiled
def _start_job(state: State, index: int, arrival: int, iterations: int) -> None:
    tenant = state.tenants[index]
    tenant.job_arrival = arrival
    tenant.iterations = iterations
    tenant.iteration = 0
    tenant.since_sync = 0
    tenant.issue_position = 0
    tenant.host = HOST_ISSUING
    tenant.host_at = state.device[0].now + _host_ns(state, index)


@compiled
def _host_ns(state: State, index: int) -> int:
    """Time the host takes to make its next launch call."""
    tenant = state.tenants[index]
    if tenant.graph != 0:
        return int(tenant.graph_host_ns)
    return int(state.kernels[launch_signature(state, index)].host_ns)


@compiled
def _next_job(state: State, index: int) -> None:
    """Take the next request, now if it has arrived, else when it does."""
    device = state.device[0]
    tenant = state.tenants[index]
    if tenant.leaves <= device.now:
        tenant.host = HOST_DONE
        tenant.host_at = NEVER
    elif tenant.closed != 0:
        _start_job(state, index, device.now, tenant.closed_iterations)
    elif tenant.jobs_next == tenant.jobs_end:
        tenant.host = HOST_DONE
        tenant.host_at = NEVER
    else:
        job = state.jobs[tenant.jobs_next]
        if job.arrival <= device.now:
            tenant.jobs_next += 1
            _start_job(state, index, job.arrival, job.iterations)
        else:
            tenant.host = HOST_WAITING
            tenant.host_at = job.arrival


@compiled
def _end_hold(state: State, index: int) -> None:
    tenant = state.tenants[index]
    if tenant.held_since >= 0:
        held = state.device[0].now - tenant.held_since
        tenant.r_longest_hold_ns = max(tenant.r_longest_hold_ns, held)
        tenant.longest_hold_ns = max(tenant.longest_hold_ns, held)
        tenant.window_hold_ns = max(tenant.window_hold_ns, held)
        tenant.held_since = -1


@compiled
def _issue(state: State, index: int) -> None:
    """Try to make the next launch: gate, call, account."""
    device = state.device[0]
    tenant = state.tenants[index]
    _want(state, index)
    if tenant.queued >= device.launch_queue:
        tenant.host = HOST_FULL
        tenant.host_at = NEVER
        return
    rotate(state)
    why = ask(state, index)
    if why != PASS:
        if tenant.held_since < 0:
            tenant.held_since = device.now
        tenant.host = HOST_HELD
        tenant.held_why = why
        tenant.host_at = NEVER
        device.recheck = 1
        return
    _end_hold(state, index)
    predicted = state.kernels[launch_signature(state, index)].predicted_ns
    tenant.inflight_ns += predicted
    tenant.spent_ns += predicted
    tenant.inflight_launches += 1
    tenant.r_launches += 1
    count = tenant.sequence_length if tenant.graph != 0 else 1
    if tenant.queued == 0:
        extra = device.mps_kernel_ns if device.sharing == SPACE else 0
        tenant.stream = STREAM_GAP
        tenant.stream_at = device.now + device.launch_latency_ns + extra
        if device.sharing == TIME:
            device.recheck = 1
    tenant.queued += count
    tenant.issue_position += count
    if tenant.issue_position < tenant.sequence_length:
        tenant.host = HOST_ISSUING
        tenant.host_at = device.now + _host_ns(state, index)
        return
    tenant.issue_position = 0
    tenant.iteration += 1
    tenant.since_sync += 1
    if tenant.iteration == tenant.iterations or tenant.since_sync == tenant.sync_every:
        tenant.host = HOST_SYNCING
        tenant.host_at = NEVER
    else:
        tenant.host = HOST_ISSUING
        tenant.host_at = device.now + _host_ns(state, index)


@compiled
def _alone_ns(state: State, index: int, took_ns: int) -> float:
    """What a burst would have taken without company, as `alone_ns` of the data plane."""
    tenant = state.tenants[index]
    if tenant.burst_gpu_ns <= 0.0:
        return float(took_ns)
    seen = took_ns / tenant.burst_gpu_ns
    known = tenant.alone_over_predicted
    if known == 0.0:
        known = seen
    known += (seen - known) / (QUICKER_STEP if seen < known else SLOWER_STEP)
    tenant.alone_over_predicted = known
    return float(min(took_ns, tenant.burst_gpu_ns * known))


@compiled
def _end_burst(state: State, index: int) -> None:
    """The host saw its work complete: the tenant is idle unless it goes on at once."""
    device = state.device[0]
    tenant = state.tenants[index]
    tenant.r_bursts += 1
    tenant.r_burst_gpu_ns += tenant.burst_gpu_ns
    latency = device.now - tenant.burst_since
    alone = _alone_ns(state, index, latency)
    tenant.r_burst_alone_ns += alone
    tenant.lost_ns += latency - alone
    state.losses[index, _bucket(int(tenant.lost_ns))] += 1
    if tenant.reports == 0:
        state.latencies[index, _bucket(latency)] += 1
        if 0 < tenant.target_ns < latency:
            tenant.r_late += 1
    tenant.burst_since = -1
    tenant.burst_ended = device.now
    linger = state.orders[device.squad, index].linger_ns if device.gated != 0 else 0
    if linger > 0:
        tenant.linger_at = device.now + linger
    else:
        tenant.wants = 0
        device.recheck = 1
        device.regroup = 1


@compiled
def _return(state: State, index: int) -> None:
    """A synchronising call returned: go on with the job, or hand in its result."""
    device = state.device[0]
    tenant = state.tenants[index]
    _end_burst(state, index)
    tenant.since_sync = 0
    if tenant.iteration < tenant.iterations and tenant.leaves > device.now:
        tenant.host = HOST_ISSUING
        tenant.host_at = device.now + tenant.think_ns + _host_ns(state, index)
        return
    done = state.done[device.done_count]
    done.tenant = index
    done.arrival = tenant.job_arrival
    done.finish = device.now
    done.iterations = tenant.iteration
    device.done_count += 1
    if tenant.reports != 0:
        latency = device.now - tenant.job_arrival
        state.latencies[index, _bucket(latency)] += 1
        if 0 < tenant.target_ns < latency:
            tenant.r_late += 1
    if tenant.closed != 0 and tenant.think_ns > 0 and tenant.leaves > device.now:
        _start_job(state, index, device.now + tenant.think_ns, tenant.closed_iterations)
        tenant.host_at = device.now + tenant.think_ns + _host_ns(state, index)
        return
    _next_job(state, index)


@compiled
def _host_event(state: State, index: int) -> None:
    tenant = state.tenants[index]
    if tenant.host == HOST_WAITING:
        _next_job(state, index)
    elif tenant.host == HOST_ISSUING or tenant.host == HOST_WAKING:
        _issue(state, index)
    elif tenant.host == HOST_RETURNING:
        _return(state, index)


@compiled
def _after_kernel(state: State, index: int) -> None:
    """What a finished kernel means for the host thread that waits for it."""
    device = state.device[0]
    tenant = state.tenants[index]
    if tenant.host == HOST_SYNCING and tenant.queued == 0:
        tenant.host = HOST_RETURNING
        tenant.host_at = device.now + device.sync_return_ns
    elif tenant.host == HOST_FULL:
        tenant.host = HOST_ISSUING
        tenant.host_at = device.now


@compiled
def _soonest(state: State, until: int) -> tuple[int, int, int]:
    """The next event before a time: when, what kind, and whose."""
    device = state.device[0]
    when, kind, who = until, NOTHING, -1
    for index in range(state.tenants.size):
        tenant = state.tenants[index]
        if tenant.stream_at < when:
            when, kind, who = tenant.stream_at, STREAM_EVENT, index
        if tenant.host_at < when:
            when, kind, who = tenant.host_at, HOST_EVENT, index
        if tenant.linger_at < when:
            when, kind, who = tenant.linger_at, LINGER_EVENT, index
    if device.sharing == TIME:
        if device.now < device.switch_until < when:
            when, kind = device.switch_until, SLICE_EVENT
        elif device.slice_end < when:
            when, kind = device.slice_end, SLICE_EVENT
    if device.gated != 0 and device.squad_until < when:
        when, kind = device.squad_until, SQUAD_EVENT
    return when, kind, who


@compiled
def _happen(state: State, kind: int, who: int) -> bool:
    """Carry out one event; true when the device must be looked at."""
    device = state.device[0]
    if kind == STREAM_EVENT:
        if stream_event(state, who):
            finish_kernel(state, who)
            _after_kernel(state, who)
        return True
    if kind == HOST_EVENT:
        before = state.tenants[who].queued
        _host_event(state, who)
        return bool(device.sharing == TIME and state.tenants[who].queued != before)
    if kind == LINGER_EVENT:
        state.tenants[who].linger_at = NEVER
        state.tenants[who].wants = 0
        device.recheck = 1
        device.regroup = 1
    elif kind == SQUAD_EVENT:
        rotate(state)
    return kind == SLICE_EVENT


@compiled
def step(state: State, until: int) -> bool:
    """Run to a time; false when an output array must be emptied first."""
    device = state.device[0]
    while device.done_count < state.done.size - state.tenants.size:
        when, kind, who = _soonest(state, until)
        _account(state, when)
        device.now = max(device.now, when)
        if kind == NOTHING:
            return True
        changed = _happen(state, kind, who)
        if device.regroup != 0:
            device.regroup = 0
            changed = changed or (device.gated != 0 and device.sharing == SPACE)
        if changed:
            dispatch(state)
        if device.recheck != 0:
            device.recheck = 0
            rotate(state)
            wake_held(state)
            device.recheck = 0
    return False
