"""The modelled device: blocks placed on compute units in waves, bandwidth shared by demand.

Side by side (`SPACE`), kernels are placed in order of priority, then arrival. One that does
not fit at once keeps taking what becomes free and lets nobody of its rank past until its last
blocks are placed. A kernel of higher priority gets compute units when a wave of a lower one
ends: blocks are never interrupted. In turns (`TIME`), one context has the device for a slice,
kernels are interrupted at its end, and every change of context costs time.
"""

import numpy as np

from dure.sim.kernel.compiled import compiled
from dure.sim.kernel.state import (
    HOST_HELD,
    NEVER,
    SAMPLE_EVERY,
    SAMPLES_PER_TENANT,
    SPACE,
    STREAM_EMPTY,
    STREAM_FULL_WAVES,
    STREAM_GAP,
    STREAM_LAST_WAVE,
    STREAM_PREEMPTED,
    STREAM_READY,
    TIME,
    State,
)

_LITTLE = 1e-6
_LEAST_SMS = 0.5
"""Fewer free compute units than this are not worth starting on."""
_LEAST_BANDWIDTH_PART = 0.6
"""Part of the compute units that can draw all memory bandwidth: fewer of them go faster each."""
_PREDICTION_STEP = 0.2
"""How fast a predicted duration follows what was measured."""


@compiled
def occupies(stream: int) -> bool:
    """Whether the head of a stream is on the device."""
    return stream in (STREAM_FULL_WAVES, STREAM_LAST_WAVE)


@compiled
def _catch_up(state: State, index: int) -> None:
    """Bring a running kernel's remaining work up to the present."""
    tenant = state.tenants[index]
    now = state.device[0].now
    if occupies(tenant.stream):
        progress = (now - tenant.touched) * tenant.rate
        if tenant.stream == STREAM_FULL_WAVES:
            wave_ns = state.kernels[tenant.kernel].wave_ns
            tenant.units = max(_LITTLE, tenant.units - tenant.used_sms * progress / wave_ns)
        tenant.phase_ns = max(0.0, tenant.phase_ns - progress)
    tenant.touched = now


@compiled
def _note_span(state: State, index: int) -> None:
    """Keep the stretch that a kernel has had its present compute units, for the picture."""
    device = state.device[0]
    tenant = state.tenants[index]
    since = tenant.span_since
    tenant.span_since = device.now
    if tenant.used_sms < _LITTLE or since >= device.now:
        return
    outside = device.now <= device.span_from or since >= device.span_until
    if outside or device.span_count >= state.spans.size:
        return
    span = state.spans[device.span_count]
    span.tenant = index
    span.start = since
    span.end = device.now
    span.sms = tenant.used_sms
    first = 0.0
    if device.sharing != TIME:
        for group in range(state.free.size):
            if state.held[index, group] > _LITTLE:
                break
            first += state.group_sms[group]
    span.low = first
    device.span_count += 1


@compiled
def _release(state: State, index: int) -> None:
    """Give back the compute units a tenant's kernel is on."""
    _note_span(state, index)
    for group in range(state.free.size):
        state.free[group] += state.held[index, group]
        state.held[index, group] = 0.0
    state.tenants[index].used_sms = 0.0


@compiled
def _enter_phase(state: State, index: int, sms: float) -> None:
    """Decide how the remaining blocks run on this many compute units: whole waves, then a last."""
    tenant = state.tenants[index]
    wave_ns = state.kernels[tenant.kernel].wave_ns
    waves = np.ceil(tenant.units / sms - _LITTLE)
    if waves <= 1.0:
        tenant.stream = STREAM_LAST_WAVE
        tenant.phase_ns = wave_ns
    else:
        tenant.stream = STREAM_FULL_WAVES
        tenant.phase_ns = (waves - 1.0) * wave_ns
    tenant.touched = state.device[0].now


@compiled
def _begin(state: State, index: int) -> None:
    """Note the start of a kernel that is placed for the first time."""
    tenant = state.tenants[index]
    if tenant.started < 0:
        tenant.started = state.device[0].now


@compiled
def _settle_rates(state: State) -> None:
    """How fast each running kernel goes beside the others, and when its phase ends."""
    device = state.device[0]
    demand = 0.0
    occupied = 0.0
    running = np.uint64(0)
    for index in range(state.tenants.size):
        tenant = state.tenants[index]
        if occupies(tenant.stream):
            kernel = state.kernels[tenant.kernel]
            demand += kernel.bandwidth * tenant.used_sms / min(kernel.units, device.sms)
            occupied += tenant.used_sms
            running |= np.uint64(1) << np.uint64(index)
    for index in range(state.tenants.size):
        tenant = state.tenants[index]
        if tenant.stream == STREAM_READY or occupies(tenant.stream):
            tenant.company |= running & ~(np.uint64(1) << np.uint64(index))
        if not occupies(tenant.stream):
            continue
        _catch_up(state, index)
        kernel = state.kernels[tenant.kernel]
        crowding = max(0.0, occupied - tenant.used_sms) / device.sms
        own = max(_LEAST_BANDWIDTH_PART, tenant.used_sms / min(kernel.units, device.sms))
        pressure = demand if demand > 1.0 else min(1.0, own)
        slow = 1.0 + kernel.bandwidth * (pressure - 1.0)
        tenant.rate = 1.0 / (slow * (1.0 + device.cache_penalty * crowding))
        tenant.stream_at = device.now + int(np.ceil(tenant.phase_ns / tenant.rate))


@compiled
def _confined(state: State, index: int) -> bool:
    """Whether one of the tenants it runs beside has work that may run."""
    beside = state.orders[state.device[0].squad, index].beside
    if beside == np.uint64(0):
        return False
    for other in range(state.tenants.size):
        neighbour = state.tenants[other]
        if beside & (np.uint64(1) << np.uint64(other)) == np.uint64(0) or neighbour.wants == 0:
            continue
        if neighbour.queued > 0 or neighbour.host != HOST_HELD:
            return True
    return False


@compiled
def _range_low(state: State, index: int) -> int:
    """First group of compute units the tenant may use now."""
    device = state.device[0]
    if device.gated == 0:
        return int(state.tenants[index].fixed_low)
    if not _confined(state, index):
        return 0
    return int(state.orders[device.squad, index].low)


@compiled
def _range_high(state: State, index: int) -> int:
    """One past the last group of compute units the tenant may use now."""
    device = state.device[0]
    if device.gated == 0:
        return int(state.tenants[index].fixed_high)
    if not _confined(state, index):
        return state.free.size
    return int(state.orders[device.squad, index].high)


@compiled
def _comes_before(state: State, one: int, other: int) -> bool:
    """The order in which the hardware places kernels."""
    a = state.tenants[one]
    b = state.tenants[other]
    if a.priority != b.priority:
        return bool(a.priority > b.priority)
    return bool(a.ready_since < b.ready_since)


@compiled
def _place(state: State, index: int, closed: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> float:
    """Place what fits of one kernel; close its range to later ones while it wants more.

    Returns how many compute units it would still take.
    """
    tenant = state.tenants[index]
    low = _range_low(state, index)
    high = max(low + 1, _range_high(state, index))
    available = 0.0
    size = 0.0
    for group in range(low, high):
        size += state.group_sms[group]
        if not closed[group]:
            available += state.free[group]
    wanted = min(tenant.units, tenant.cap_sms, size)
    missing = wanted - tenant.used_sms
    if missing > _LITTLE and available >= min(_LEAST_SMS, missing):
        _catch_up(state, index)
        _note_span(state, index)
        taken = min(missing, available)
        for group in range(low, high):
            if not closed[group]:
                part = state.free[group] * taken / available
                state.free[group] -= part
                state.held[index, group] += part
        tenant.used_sms += taken
        tenant.allowed_sms = size
        _begin(state, index)
        _enter_phase(state, index, tenant.used_sms)
        missing = wanted - tenant.used_sms
    if tenant.stream != STREAM_LAST_WAVE and missing > _LITTLE:
        for group in range(low, high):
            closed[group] = True
    return float(max(0.0, missing))


@compiled
def _place_all(state: State) -> None:
    """Place ready and growing kernels in hardware order; ask lower ones to yield at a wave end."""
    count = state.tenants.size
    closed = np.zeros(state.free.size, np.bool_)
    seen = np.zeros(count, np.bool_)
    starving_priority = -1
    for _ in range(count):
        best = -1
        for index in range(count):
            stream = state.tenants[index].stream
            if seen[index] or not (stream == STREAM_READY or stream == STREAM_FULL_WAVES):
                continue
            if best < 0 or _comes_before(state, index, best):
                best = index
        if best < 0:
            break
        seen[best] = True
        if _place(state, best, closed) > _LEAST_SMS:
            starving_priority = max(starving_priority, state.tenants[best].priority)
    _settle_rates(state)
    if starving_priority < 0:
        return
    for index in range(count):
        tenant = state.tenants[index]
        if tenant.stream == STREAM_FULL_WAVES and tenant.priority < starving_priority:
            wave_ns = state.kernels[tenant.kernel].wave_ns
            until_wave_end = tenant.phase_ns % wave_ns
            if until_wave_end < 1.0:
                until_wave_end = wave_ns
            until_room = until_wave_end * state.device[0].wave_stagger
            boundary = state.device[0].now + int(np.ceil(until_room / tenant.rate))
            tenant.stream_at = min(tenant.stream_at, boundary)


@compiled
def _take_turns(state: State) -> None:
    """Give the device to one context; change when it has nothing to do or its slice is over."""
    device = state.device[0]
    count = state.tenants.size
    if device.switch_until > device.now:
        return
    current = device.context
    over = current < 0 or state.tenants[current].queued == 0 or device.slice_end <= device.now
    if over:
        chosen = -1
        for step in range(1, count + 1):
            candidate = (current + step) % count
            if state.tenants[candidate].queued > 0:
                chosen = candidate
                break
        if chosen < 0:
            device.slice_end = NEVER
            return
        if chosen != current:
            cost = device.context_switch_ns if current >= 0 else 0
            if current >= 0 and occupies(state.tenants[current].stream):
                cost = device.context_save_ns
                _catch_up(state, current)
                _note_span(state, current)
                state.tenants[current].stream = STREAM_PREEMPTED
                state.tenants[current].stream_at = NEVER
            device.context = chosen
            device.switch_until = device.now + cost
            device.slice_end = device.switch_until + device.time_slice_ns
            if device.switch_until > device.now:
                return
        else:
            device.slice_end = device.now + device.time_slice_ns
    tenant = state.tenants[device.context]
    if tenant.stream == STREAM_READY:
        tenant.used_sms = min(tenant.units, tenant.cap_sms)
        tenant.allowed_sms = tenant.cap_sms
        tenant.span_since = device.now
        _begin(state, device.context)
        _enter_phase(state, device.context, tenant.cap_sms)
    elif tenant.stream == STREAM_PREEMPTED:
        last = tenant.units <= tenant.used_sms + _LITTLE
        tenant.stream = STREAM_LAST_WAVE if last else STREAM_FULL_WAVES
        tenant.touched = device.now
        tenant.span_since = device.now
    _settle_rates(state)


@compiled
def dispatch(state: State) -> None:
    """Bring the device in line with what is ready: called after every change."""
    if state.device[0].sharing == SPACE:
        _place_all(state)
    else:
        _take_turns(state)


@compiled
def kernel_width(state: State, index: int) -> float:
    """Compute units the next or current kernel of a tenant could use."""
    tenant = state.tenants[index]
    position = tenant.position if tenant.queued > 0 else tenant.issue_position
    kernel = state.kernels[state.sequence[tenant.sequence_first + position]]
    return float(min(kernel.units, state.device[0].sms))


@compiled
def stream_event(state: State, index: int) -> bool:
    """Something happened at the head of a stream; true when a kernel finished."""
    device = state.device[0]
    tenant = state.tenants[index]
    if tenant.stream == STREAM_GAP:
        kernel = state.sequence[tenant.sequence_first + tenant.position]
        tenant.kernel = kernel
        tenant.units = state.kernels[kernel].units
        tenant.used_sms = 0.0
        tenant.stream = STREAM_READY
        tenant.stream_at = NEVER
        tenant.ready_since = device.now
        tenant.started = -1
        if tenant.graph == 0 or tenant.position == 0:
            tenant.unit_started = device.now
            tenant.company = np.uint64(0)
        return False
    _catch_up(state, index)
    if tenant.stream == STREAM_FULL_WAVES:
        if tenant.phase_ns > 1.0:
            _release(state, index)
            tenant.stream = STREAM_READY
            tenant.stream_at = NEVER
            return False
        last = min(tenant.units, tenant.used_sms)
        _note_span(state, index)
        if device.sharing == SPACE:
            keep = last / max(tenant.used_sms, _LITTLE)
            for group in range(state.free.size):
                state.free[group] += state.held[index, group] * (1.0 - keep)
                state.held[index, group] *= keep
        tenant.used_sms = last
        tenant.units = last
        tenant.stream = STREAM_LAST_WAVE
        tenant.phase_ns = state.kernels[tenant.kernel].wave_ns
        tenant.stream_at = device.now + int(np.ceil(tenant.phase_ns / tenant.rate))
        return False
    if tenant.phase_ns > 1.0:
        tenant.stream_at = device.now + int(np.ceil(tenant.phase_ns / tenant.rate))
        return False
    return True


@compiled
def finish_kernel(state: State, index: int) -> None:
    """Account for a finished kernel and line up the next one of its stream."""
    device = state.device[0]
    tenant = state.tenants[index]
    if device.sharing == SPACE:
        _release(state, index)
    else:
        _note_span(state, index)
    tenant.used_sms = 0.0
    device.kernels_done += 1
    done = state.kernels[tenant.kernel]
    tenant.solo_ns += done.wave_ns * max(1.0, np.ceil(done.units / device.sms - _LITTLE))
    tenant.queued -= 1
    tenant.position += 1
    unit_over = tenant.graph == 0 or tenant.position == tenant.sequence_length
    if unit_over:
        _finish_unit(state, index)
    if tenant.position == tenant.sequence_length:
        tenant.position = 0
    if tenant.queued > 0:
        kernel = state.kernels[state.sequence[tenant.sequence_first + tenant.position]]
        extra = device.mps_kernel_ns if device.sharing == SPACE else 0
        tenant.stream = STREAM_GAP
        tenant.stream_at = device.now + kernel.gap_ns + extra
    else:
        tenant.stream = STREAM_EMPTY
        tenant.stream_at = NEVER


@compiled
def _finish_unit(state: State, index: int) -> None:
    """A launch (one kernel, or a whole graph) is complete: ledger, prediction, sample."""
    device = state.device[0]
    tenant = state.tenants[index]
    signature = tenant.graph_signature if tenant.graph != 0 else tenant.kernel
    kernel = state.kernels[signature]
    took = device.now - tenant.unit_started
    tenant.launch_number += 1
    tenant.unseen_ns += kernel.predicted_ns
    tenant.unseen_launches += 1
    tenant.r_gpu_ns += kernel.predicted_ns
    tenant.gpu_ns += kernel.predicted_ns
    tenant.burst_gpu_ns += kernel.predicted_ns
    if tenant.unseen_launches >= tenant.event_every or tenant.queued == 0:
        tenant.inflight_ns = max(0.0, tenant.inflight_ns - tenant.unseen_ns)
        tenant.inflight_launches -= tenant.unseen_launches
        tenant.unseen_ns = 0.0
        tenant.unseen_launches = 0
        device.recheck = 1
    if tenant.queued == 0:
        tenant.inflight_ns = 0.0
    timed = tenant.graph != 0 or tenant.launch_number % SAMPLE_EVERY == 0
    if not timed:
        return
    tenant.r_longest_kernel_ns = max(tenant.r_longest_kernel_ns, took)
    if tenant.company == np.uint64(0) or kernel.predicted_samples == 0:
        first = kernel.predicted_samples == 0
        step = 1.0 if first else _PREDICTION_STEP
        kernel.predicted_ns += step * (took - kernel.predicted_ns)
        kernel.predicted_samples += 1
    if tenant.r_samples < SAMPLES_PER_TENANT and device.sample_count < state.samples.size:
        sample = state.samples[device.sample_count]
        sample.tenant = index
        sample.signature = signature
        sample.ns = took
        sample.sms = tenant.allowed_sms
        sample.company = tenant.company
        device.sample_count += 1
        tenant.r_samples += 1
