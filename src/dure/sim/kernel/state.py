"""The simulator's memory: plain records that the compiled loop reads and writes.

Every array is one kind of thing: the device and its clock (`device`), tenants (`tenants`),
kernels by signature (`kernels`), the order they are launched in (`sequence`), requests and
jobs (`jobs`), what the plan says of each tenant in each squad (`orders`), and what is handed
out after a step: finished jobs, timed kernels, squad edges, spans for the picture.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dure.domain.latency import BUCKET_COUNT

NEVER = 2**62
"""A time that does not come."""

# How contexts reach the device.
SPACE = 0
"""Kernels of all tenants side by side, as under MPS."""
TIME = 1
"""One tenant at a time, in slices, as without MPS."""

# What a tenant's host thread is doing.
HOST_WAITING = 1
"""For its next request to arrive."""
HOST_ISSUING = 2
HOST_HELD = 3
"""At the gate."""
HOST_WAKING = 4
"""The gate opened; the thread is on its way."""
HOST_FULL = 5
"""The driver's launch queue is full."""
HOST_SYNCING = 6
HOST_RETURNING = 7
"""The stream is empty; the waiting call is about to return."""
HOST_DONE = 8

# What the head of a tenant's stream is doing.
STREAM_EMPTY = 0
STREAM_GAP = 1
"""The next kernel is not ready yet."""
STREAM_READY = 2
STREAM_FULL_WAVES = 3
"""Running, with blocks still to be placed."""
STREAM_LAST_WAVE = 4
STREAM_PREEMPTED = 5

# Why a launch is held.
PASS = 0
HELD_FOR_PROMISE = 1
HELD_IN_ORDER = 2
HELD_BY_BUDGET = 3
HELD_IN_FLIGHT = 4

DEVICE = np.dtype(
    [
        ("now", "i8"),
        ("sharing", "i8"),
        ("gated", "i8"),
        ("sms", "f8"),
        # time slicing
        ("context", "i8"),
        ("slice_end", "i8"),
        ("switch_until", "i8"),
        # squads
        ("squad", "i8"),
        ("squads", "i8"),
        ("squad_until", "i8"),
        ("dormant", "i8"),  # nobody had work at the last edge; the next to want some makes one
        ("plan_waiting", "i8"),
        ("epoch", "i8"),
        # physics
        ("time_slice_ns", "i8"),
        ("context_switch_ns", "i8"),
        ("context_save_ns", "i8"),
        ("launch_latency_ns", "i8"),
        ("sync_return_ns", "i8"),
        ("mps_kernel_ns", "i8"),
        ("cache_penalty", "f8"),
        ("wave_stagger", "f8"),
        ("launch_queue", "i8"),
        ("gate_wake_ns", "i8"),
        # totals
        ("kernels_done", "i8"),
        ("edges", "i8"),
        ("busy_ns", "f8"),
        ("used_sm_ns", "f8"),
        ("bubble_sm_ns", "f8"),
        ("protected_sm_ns", "f8"),
        # output cursors
        ("done_count", "i8"),
        ("sample_count", "i8"),
        ("edge_count", "i8"),
        ("span_count", "i8"),
        ("span_from", "i8"),
        ("span_until", "i8"),
        ("recheck", "i8"),
        ("regroup", "i8"),  # somebody's work ended: sets of compute units may widen
    ]
)

TENANT = np.dtype(
    [
        # program
        ("sequence_first", "i8"),
        ("sequence_length", "i8"),
        ("graph", "i8"),
        ("graph_signature", "i8"),
        ("graph_host_ns", "i8"),
        ("sync_every", "i8"),
        ("think_ns", "i8"),
        ("closed", "i8"),
        ("closed_iterations", "i8"),
        ("jobs_next", "i8"),
        ("jobs_end", "i8"),
        ("leaves", "i8"),
        ("priority", "i8"),
        ("event_every", "i8"),
        ("cap_sms", "f8"),
        ("fixed_low", "i8"),
        ("fixed_high", "i8"),
        ("target_ns", "i8"),
        ("reports", "i8"),
        # host thread
        ("host", "i8"),
        ("host_at", "i8"),
        ("issue_position", "i8"),
        ("iteration", "i8"),
        ("iterations", "i8"),
        ("since_sync", "i8"),
        ("job_arrival", "i8"),
        ("burst_since", "i8"),
        ("burst_gpu_ns", "f8"),
        ("burst_ended", "i8"),
        ("lost_ns", "f8"),
        ("alone_over_predicted", "f8"),
        ("held_since", "i8"),
        ("held_why", "i8"),
        ("wants", "i8"),
        ("busy_since", "i8"),
        ("linger_at", "i8"),
        # stream
        ("stream", "i8"),
        ("stream_at", "i8"),
        ("queued", "i8"),
        ("position", "i8"),
        ("unit_started", "i8"),
        ("ready_since", "i8"),
        ("kernel", "i8"),
        ("started", "i8"),
        ("units", "f8"),
        ("used_sms", "f8"),
        ("span_since", "i8"),
        ("phase_ns", "f8"),
        ("rate", "f8"),
        ("touched", "i8"),
        ("company", "u8"),
        ("allowed_sms", "f8"),
        # ledger
        ("inflight_ns", "f8"),
        ("unseen_ns", "f8"),
        ("inflight_launches", "i8"),
        ("unseen_launches", "i8"),
        ("spent_ns", "f8"),
        ("launch_number", "i8"),
        # readings since the last tick
        ("r_launches", "i8"),
        ("r_gpu_ns", "f8"),
        ("r_busy_ns", "f8"),
        ("r_gated_ns", "f8"),
        ("r_longest_hold_ns", "i8"),
        ("r_bursts", "i8"),
        ("r_late", "i8"),
        ("r_burst_gpu_ns", "f8"),
        ("r_burst_alone_ns", "f8"),
        ("r_gap_ns", "i8"),
        ("r_longest_kernel_ns", "i8"),
        ("r_samples", "i8"),
        # totals for the report
        ("gpu_ns", "f8"),
        ("gated_ns", "f8"),
        ("longest_hold_ns", "i8"),
        ("window_hold_ns", "i8"),  # since the last look at it
        ("busy_ns", "f8"),
        ("solo_ns", "f8"),  # what its finished kernels take alone on the whole device
    ]
)

KERNEL = np.dtype(
    [
        ("units", "f8"),  # compute units its blocks fill, all waves together
        ("wave_ns", "f8"),
        ("bandwidth", "f8"),  # share of device bandwidth while it runs alone
        ("gap_ns", "i8"),
        ("host_ns", "i8"),
        ("kernel_class", "i8"),
        ("predicted_ns", "f8"),
        ("predicted_samples", "i8"),
    ]
)

JOB = np.dtype([("arrival", "i8"), ("iterations", "i8")])

ORDER = np.dtype(
    [
        ("member", "i8"),
        ("low", "i8"),
        ("high", "i8"),
        ("budget_ns", "f8"),
        ("inflight_ns", "f8"),
        ("inflight_launches", "i8"),
        ("yields", "u8"),
        ("beside", "u8"),
        ("linger_ns", "i8"),
        ("patience_ns", "i8"),
    ]
)

DONE = np.dtype([("tenant", "i8"), ("arrival", "i8"), ("finish", "i8"), ("iterations", "i8")])
SAMPLE = np.dtype(
    [("tenant", "i8"), ("signature", "i8"), ("ns", "i8"), ("sms", "f8"), ("company", "u8")]
)
EDGE = np.dtype([("at", "i8"), ("squad", "i8"), ("epoch", "i8")])
SPAN = np.dtype([("tenant", "i8"), ("start", "i8"), ("end", "i8"), ("sms", "f8"), ("low", "f8")])

DONE_ROOM = 1 << 16
SAMPLE_ROOM = 1 << 12
EDGE_ROOM = 1 << 16
SPAN_ROOM = 1 << 16
SAMPLES_PER_TENANT = 8
"""Timed launches a tenant hands over per tick; a ring the agent empties."""
SAMPLE_EVERY = 7
"""One launch in this many is timed; odd, so that it does not lock on to a layer's rhythm."""


class State(NamedTuple):
    """Everything the compiled loop works on."""

    device: NDArray[np.void]
    tenants: NDArray[np.void]
    kernels: NDArray[np.void]
    sequence: NDArray[np.int64]
    jobs: NDArray[np.void]
    orders: NDArray[np.void]  # squad x tenant, in force
    pending: NDArray[np.void]  # squad x tenant, from the next edge on
    durations: NDArray[np.int64]  # 0: squads in force, 1: pending; by squad
    corun: NDArray[np.int64]  # 0: in force, 1: pending; class x class
    promised: NDArray[np.uint64]  # 0: in force, 1: pending; mask of protected tenants
    free: NDArray[np.float64]  # by group of compute units
    group_sms: NDArray[np.float64]
    held: NDArray[np.float64]  # tenant x group
    latencies: NDArray[np.int64]  # tenant x bucket, since the last tick
    losses: NDArray[np.int64]  # the same, of time lost by company in work without a pause
    done: NDArray[np.void]
    samples: NDArray[np.void]
    edges: NDArray[np.void]
    spans: NDArray[np.void]


def blank_state(
    *, tenants: int, kernels: int, sequence: int, jobs: int, group_sms: list[int]
) -> State:
    """A state of the right sizes, with an idle device and absent tenants."""
    squads = 2 * tenants + 2
    groups = len(group_sms)
    sms = np.asarray(group_sms, dtype=np.float64)
    state = State(
        device=np.zeros(1, DEVICE),
        tenants=np.zeros(tenants, TENANT),
        kernels=np.zeros(kernels, KERNEL),
        sequence=np.zeros(sequence, np.int64),
        jobs=np.zeros(max(jobs, 1), JOB),
        orders=np.zeros((squads, tenants), ORDER),
        pending=np.zeros((squads, tenants), ORDER),
        durations=np.zeros((2, squads), np.int64),
        corun=np.zeros((2, 4, 4), np.int64),
        promised=np.zeros(2, np.uint64),
        free=sms.copy(),
        group_sms=sms,
        held=np.zeros((tenants, groups), np.float64),
        latencies=np.zeros((tenants, BUCKET_COUNT), np.int64),
        losses=np.zeros((tenants, BUCKET_COUNT), np.int64),
        done=np.zeros(DONE_ROOM, DONE),
        samples=np.zeros(SAMPLE_ROOM, SAMPLE),
        edges=np.zeros(EDGE_ROOM, EDGE),
        spans=np.zeros(SPAN_ROOM, SPAN),
    )
    device = state.device[0]
    device["sms"] = sms.sum()
    device["context"] = -1
    device["squad_until"] = NEVER
    device["slice_end"] = NEVER
    state.tenants["host_at"] = NEVER
    state.tenants["stream_at"] = NEVER
    state.tenants["linger_at"] = NEVER
    state.tenants["leaves"] = NEVER
    state.tenants["fixed_high"] = groups
    state.tenants["cap_sms"] = device["sms"]
    state.tenants["event_every"] = 1
    return state
