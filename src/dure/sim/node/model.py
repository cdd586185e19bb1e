"""What a host and its GPUs do to containers: the measured figures the simulation stands on.

Unless stated otherwise they were measured on one H200 with Docker and driver 580 (the paper's naive
float32 matrix product, one thread per element).
"""

from dataclasses import dataclass

from dure.domain.catalogue import CATALOGUE
from dure.domain.units import MIB, NS_PER_MS, NS_PER_S, NS_PER_US

_GB = 1000**3

MATMUL_SIDE = 19_456
"""Side of the product whose times are known best."""
MATMUL_KERNEL_NS = 2_930 * NS_PER_MS
"""Its kernel alone; 13,312² follows from the cube of the side (0.94 s, as measured)."""
FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One GPU, shared by time-slicing."""

    memory_bytes: int = CATALOGUE["h200"].memory_bytes
    switch_loss: float = 0.0725
    """Time lost to switching while two or more processes have kernels, over their work alone:
    7 % with five products of 19,456², 7.5 % with ten of 13,312²; the paper's Table 1 has 7 to 8 %
    from two to ten containers, so it does not grow with their number."""
    slice_ns: int = 2 * NS_PER_MS
    """How long one process keeps the GPU while another waits; the driver's default."""
    copy_in_bytes_per_s: float = 6.06 * _GB
    """Of one process from ordinary memory: 0.5 s for the two inputs of a 19,456² product."""
    copy_out_bytes_per_s: float = 10.1 * _GB
    """Of one process: 0.15 s for the result of a 19,456² product."""
    link_bytes_per_s: float = 14.0 * _GB
    """Of all processes together, per direction. Fitted: five products of 19,456² take 17.5 s from
    the first start to the last end, of which the kernels are 15.1 to 15.7 s."""
    context_ns: int = 200 * NS_PER_MS
    """To make a CUDA context; with the copy, 0.7 s from a 19,456² product's start to its kernel."""
    context_turn_ns: int = 0
    """The driver makes contexts by turns, and each of several takes so much of its time; 0: they
    do not hinder one another."""
    context_parts: int = 4
    """A context is made in so many parts, of which a freeze lets the one under way end."""
    context_hidden_parts: int = 2
    """Parts before its memory is seen: ten started together were seen after 0.6 of 1.4 s."""
    context_busy_ns: int = 0
    """Of the making of a context, how long kernels of the driver run; samples count them."""
    copy_busy: float = 0.0
    """Part of a window as which a copy into the GPU shows while nothing computes, though not as
    that of its own process."""
    context_look_ns: int = 0
    """How long a look at the GPU waits for the driver while that makes contexts."""
    context_bytes: int = 512 * MIB
    """Memory of a context by itself."""
    memory_call_ns: int = 200 * NS_PER_US
    """Of an allocation or its reverse; of the size that is usual for arrays of gigabytes."""
    sample_window_ns: int = NS_PER_S // 6
    """NVML's samples cover the last whole window, 1/6 to 1 s."""
    sample_one: bool = False
    """Where several computed in a window, its sample is of one of them only."""
    idle_w: float = 120.0
    busy_w: float = 600.0
    spinning_w: float = 200.0
    """Power while kernels only wait for a peer."""
    limit_w: float = 700.0
    peer_patience_ns: int = 480 * NS_PER_S
    """A collective is given up after this long; the heartbeat of PyTorch's NCCL."""

    def context_rate(self, contexts: int) -> float:
        """Pace of each of so many contexts that are made at once, over that of one alone."""
        turns_ns = self.context_turn_ns * contexts
        return min(1.0, self.context_ns / turns_ns) if turns_ns else 1.0


SECOND_H200 = GpuModel(
    switch_loss=0.115,
    copy_in_bytes_per_s=3.45 * _GB,
    copy_out_bytes_per_s=12.0 * _GB,
    link_bytes_per_s=28.0 * _GB,
    context_ns=220 * NS_PER_MS,
    context_turn_ns=145 * NS_PER_MS,
    context_busy_ns=40 * NS_PER_MS,
    copy_busy=0.08,
    context_look_ns=60 * NS_PER_MS,
    sample_one=True,
)
"""As measured on another host with an H200 and Docker: slower copies, of which several go on beside
one another; contexts of which one takes 0.22 s, five at once 0.8 s, ten 1.4 s, twenty 3.0 s, and
whose making shows as 4 to 31 % of a window of 0.19 s. Copies show, too: 7 to 9 % while one goes on,
17 % while two do, as work of the program that was started last, even where that one is locked. Of
several that share the GPU each window shows one, so that one of three was not seen for 2.3 s. Looks
came every 0.1 s while twenty made contexts, and waited for the driver most of that."""


@dataclass(frozen=True, slots=True)
class HostModel:
    """How the host starts, pauses and watches containers."""

    docker_pause_ns: int = 35 * NS_PER_MS
    docker_resume_ns: int = 35 * NS_PER_MS
    lock_ns: int = 450 * NS_PER_US
    """`cuCheckpointProcessLock` and its reverse took 0.4 to 0.5 ms."""
    unlock_ns: int = 450 * NS_PER_US
    event_ns: int = 10 * NS_PER_MS
    """From the start or end of a container to the runtime's event."""
    lockable: bool = True
    """Whether the driver has the CUDA lock."""
    watchdog_ns: int = 500 * NS_PER_MS
    """From the death of the agent to the watchdog's thaw; the promise is 2 s."""
    overdue_ns: int = 200 * NS_PER_MS
    """The watchdog lets a container go when its pause is so much past its deadline."""


def matmul_kernel_ns(side: int) -> int:
    """Time of the naive product's kernel alone."""
    return round(MATMUL_KERNEL_NS * (side / MATMUL_SIDE) ** 3)
