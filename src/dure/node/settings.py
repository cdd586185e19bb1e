"""What a node machine is started with: every number it decides by, with its origin."""

from dataclasses import dataclass, field

from dure.domain.containers import PauseWay
from dure.domain.units import GIB, MIB, NS_PER_MS, NS_PER_S
from dure.node.history import ImageRecord


def _handovers() -> dict[PauseWay, int]:
    # `docker pause` and `unpause` take 35 ms each on a server, the CUDA lock and unlock 0.5 ms;
    # both wait for a look of the monitor (5 ms on average).
    return {PauseWay.DOCKER: 75 * NS_PER_MS, PauseWay.CUDA_LOCK: 6 * NS_PER_MS}


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """How one host's containers are queued. Times are nanoseconds of the machine's clock."""

    strategy: str = "dure"
    """A name of `dure.node.strategies.registry`."""
    ways: tuple[PauseWay, ...] = (PauseWay.DOCKER,)
    """The ways to pause that work on this host, best first; none: nothing is ever paused."""
    history: tuple[ImageRecord, ...] = ()
    """What an earlier machine had learned of images (`NodeMachine.history`)."""

    # Bounds that hold under every strategy

    max_pause_ns: int = 240 * NS_PER_S
    """Longest wait under the CUDA lock; PyTorch's NCCL heartbeat aborts a job after 480 s."""
    max_freeze_ns: int = 120 * NS_PER_S
    """Longest wait frozen by the runtime, where nothing inside the container goes on."""
    max_freeze_checked_ns: int = 25 * NS_PER_S
    """The same where a health check watches; common probes give up after 30 s."""
    max_admission_ns: int = 600 * NS_PER_S
    """Longest wait for memory where no label says less."""
    release_margin_ns: int = 100 * NS_PER_MS
    """A pause ends this long before its deadline, as letting go takes time, too."""
    idle_bound_ns: int = 2 * NS_PER_S
    """Nobody is kept waiting for a GPU on which nothing happens for longer than this.

    NVML's samples lag by up to 1 s, and a first kernel comes up to 0.7 s after a start.
    """
    hands_off_ns: int = 60 * NS_PER_S
    """How long a container that a person let go is left alone."""
    retry_ns: int = 200 * NS_PER_MS
    """When letting go is tried again after it failed."""
    unpausable_ns: int = 30 * NS_PER_S
    """How long a container that could not be paused is left alone."""
    restless_ns: int = 500 * NS_PER_MS
    """The same where it only did not come to rest in time, as twenty contexts at once take 3 to 4 s
    and a lock waits for 4 s; each time in a row it is left alone for twice as long, up to that."""

    # Looking

    fast_poll_ns: int = 10 * NS_PER_MS
    """How often the monitor looks while somebody brings its input beside others."""
    queue_poll_ns: int = 40 * NS_PER_MS
    """The same while somebody queues and nobody does so: ends are foreseen, or last for a while.
    Twice as many looks make no task of the paper's end sooner (simulated)."""
    shared_poll_ns: int = 50 * NS_PER_MS
    """The same while nobody queues but several containers could collide."""
    idle_poll_ns: int = 250 * NS_PER_MS
    """The same while at most one container has a GPU."""
    window_ns: int = 1 * NS_PER_S
    """NVML's longest window of samples."""
    quiet_ns: int = 1_200 * NS_PER_MS
    """No sample of work for this long ends a burst: one window and some."""
    grace_ns: int = 2 * NS_PER_S
    """Who comes back within this time keeps its place in the queue."""
    settle_ns: int = 40 * NS_PER_MS
    """Memory that rose and then stayed for this long: the input is being copied."""

    input_patience_ns: int = 500 * NS_PER_MS
    """The same where memory is still below what is known of the task, or may be."""
    context_bytes: int = 1 * GIB
    """A CUDA context alone takes up to this; less tells nothing of a task's input."""

    context_ns: int = 220 * NS_PER_MS
    """To make a CUDA context; ten at once took 1.4 s each, as the driver makes them by turns."""

    # The strategy `dure`

    sharers: int = 1
    """How many containers with long bursts may compute on one GPU at a time."""
    handover_ns: dict[PauseWay, int] = field(default_factory=_handovers)
    """What it costs to hold a container and let it go again."""
    pays_times: float = 6.0
    """Waiting under the CUDA lock pays for bursts at least this many times a handover (36 ms), and
    to interrupt one where so much is left of it."""
    freeze_pays_times: float = 2.0
    """The same where containers are frozen (0.15 s): who waits is frozen while another computes, so
    that only its thaw can come late. Twenty naive 8,192² matmuls (0.25 s each) that were let run
    beside one another at the first end took 1.07 times as long on an H200 as without Dure.
    """
    inputs: int = 2
    """How many wait-listed containers may copy their input at a time (by the CUDA lock)."""
    input_ahead_ns: int = 400 * NS_PER_MS
    """Longest a container runs ahead of its turn for its input before it is held again."""
    light_share: float = 0.5
    """Who alone uses less than this part of the GPU's time runs beside others, unqueued."""
    lead_share: float = 0.1
    """The next is let go when this part of the burst before it is left.

    The copy of results, in which the GPU computes nothing, takes 5 to 11 % of the bursts measured;
    while two share a GPU they lose 7 to 12 % of that time, an idle GPU loses all of it.
    """
    most_lead_ns: int = 200 * NS_PER_MS
    """But not earlier than this, and what is left of its input: 1.5 GB of results take 0.15 s."""
    copy_bytes_per_s: float = 6e9
    """Pace of an input copy from ordinary memory, measured on one host with an H200. On another it
    was 3.5; in the simulation half of the pace costs less than a pace taken for half."""
    turn_ns: int = 10 * NS_PER_S
    """After this time a burst of unknown end makes room for who waits; a weight multiplies it."""
    ageing_ns: int = 30 * NS_PER_S
    """Each such time of waiting lifts a container one class; a weight divides it."""
    promise_ns: int = 60 * NS_PER_S
    """How long memory is set aside for a container that has not touched its GPU yet."""
    memory_reserve_bytes: int = 256 * MIB
    """Left free on each GPU when memory is promised."""

    # The strategies `paper` and `paper-window`

    paper_loop_ns: int = 60 * NS_PER_MS
    """One round of the paper's loop: its monitor takes 0.06 s to look, its runtime to unpause."""
    paper_memory_share: float = 0.95
    """Above this use of the GPU's memory the paper pauses the last one let in."""
