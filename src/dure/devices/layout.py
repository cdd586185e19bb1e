"""The structures of `native/abi.h`, field by field; a test compares every offset with C."""

from ctypes import Array, Structure, c_char, c_uint8, c_uint16, c_uint32, c_uint64, sizeof
from typing import Annotated, TypeVar, get_type_hints

MAGIC = 0x6475726561626921
VERSION = 4

TENANTS = 64
CLIENTS = 64
SQUADS = 128
CLASSES = 4
BUCKETS = 216
SAMPLES = 512
REASONS = 5
NAME_BYTES = 64
UUID_BYTES = 16
PAGE_BYTES = 4096

TENANT_FREE = 1
FLAG_CAPTURING = 1
FLAG_OPEN = 2
FLAG_NO_GREEN = 4
FLAG_COLLECTIVE = 8
FLAG_GRAPH_UNMOVED = 16

U8 = Annotated[int, c_uint8]
U16 = Annotated[int, c_uint16]
U32 = Annotated[int, c_uint32]
U64 = Annotated[int, c_uint64]
Words = Array[c_uint64]

_S = TypeVar("_S", bound=type[Structure])


def _laid_out(cls: _S) -> _S:
    """Give a structure the fields that its annotations name, in their order."""
    hints = get_type_hints(cls, include_extras=True)
    own = [name for name in cls.__annotations__ if name != "_fields_"]
    cls._fields_ = [(name, hints[name].__metadata__[0]) for name in own]
    return cls


@_laid_out
class Order(Structure):
    """What one tenant may do while one squad is in force."""

    member: U32
    group_first: U16
    group_count: U16
    beside: U64
    yields: U64
    budget_ns: U64
    inflight_ns: U64
    patience_ns: U64
    linger_ns: U64
    spare: U64


@_laid_out
class PlanBuffer(Structure):
    """One plan."""

    epoch: U64
    promised: U64
    squads: U32
    spare: U32
    corun: Annotated[Array[Array[c_uint8]], (c_uint8 * CLASSES) * CLASSES]
    duration_ns: Annotated[Words, c_uint64 * SQUADS]
    members: Annotated[Words, c_uint64 * SQUADS]
    budgeted: Annotated[Words, c_uint64 * SQUADS]
    orders: Annotated[Array[Array[Order]], (Order * TENANTS) * SQUADS]


@_laid_out
class TenantEntry(Structure):
    """Slow-moving words of one tenant."""

    clients: U64
    memory_limit_bytes: U64
    memory_reserve_bytes: U64
    copy_bytes_per_s: U64
    target_ns: U64
    flags: U64
    spare: Annotated[Words, c_uint64 * 2]


@_laid_out
class Control(Structure):
    """All that the agent writes."""

    magic: U64
    version: U32
    plan_bytes: U32
    slot_bytes: U32
    sms: U32
    group_sms: U32
    side_by_side: U32
    memory_bytes: U64
    uuid: Annotated[Array[c_uint8], c_uint8 * UUID_BYTES]
    heartbeat_ns: U64
    gated: U64
    published: U64
    sample_every: U64
    live_clients: U64
    tick: U64
    spare: Annotated[Words, c_uint64 * 6]
    tenants: Annotated[Array[TenantEntry], TenantEntry * TENANTS]
    plans: Annotated[Array[PlanBuffer], PlanBuffer * 2]


@_laid_out
class Rotation(Structure):
    """Whose turn it is."""

    turn: U64
    edges: U64
    bell: U32
    sleepers: U32
    adopted_ns: U64
    spare: Annotated[Words, c_uint64 * 4]
    closed: Annotated[Words, c_uint32 * CLIENTS]


@_laid_out
class Activity(Structure):
    """What other clients need to know of one."""

    pid: U64
    tenant: U64
    busy_since_ns: U64
    idle_since_ns: U64
    expires_ns: U64
    running: U64
    spent: U64
    inflight_ns: U64
    memory_bytes: U64
    waiting: U64
    began_ns: U64
    burst_since_ns: U64
    spare: Annotated[Words, c_uint64 * 4]


@_laid_out
class Counters(Structure):
    """Sums since a client began."""

    launches: U64
    graph_launches: U64
    gpu_ns: U64
    busy_ns: U64
    gated_ns: U64
    gated_by_ns: Annotated[Words, c_uint64 * REASONS]
    held_for: Annotated[Words, c_uint64 * TENANTS]
    mark: U64
    longest_hold_ns: U64
    longest_kernel_ns: U64
    gap_ns: U64
    bursts: U64
    late: U64
    burst_gpu_ns: U64
    memory_peak_bytes: U64
    memory_refused: U64
    copied_bytes: U64
    copy_held_ns: U64
    moved_launches: U64
    fallbacks: U64
    passes_open: U64
    flags: U64
    prediction_error_ppm: U64
    reported: U64
    reported_late: U64
    progress_done: U64
    progress_total: U64
    green_contexts: U64
    events: U64
    burst_alone_ns: U64
    spare: Annotated[Words, c_uint64 * 7]


@_laid_out
class Sample(Structure):
    """One timed launch."""

    function: U64
    blocks: U32
    threads: U32
    resident: U32
    sms: U32
    company: U64
    duration_ns: U32
    predicted_ns: U32
    memory_bound: U8
    graph: U8
    spare: Annotated[Array[c_uint8], c_uint8 * 6]
    spare_word: U64
    sequence: U64


@_laid_out
class Slot(Structure):
    """One client's words."""

    activity: Annotated[Activity, Activity]
    first_page_rest: Annotated[Array[c_uint8], c_uint8 * (PAGE_BYTES - sizeof(Activity))]
    magic: U64
    version: U64
    counters: Annotated[Counters, Counters]
    latency: Annotated[Words, c_uint64 * BUCKETS]
    lost: Annotated[Words, c_uint64 * BUCKETS]
    reported_latency: Annotated[Words, c_uint64 * BUCKETS]
    sample_head: U64
    samples: Annotated[Array[Sample], Sample * SAMPLES]


@_laid_out
class Hello(Structure):
    """A client's first message."""

    magic: U64
    version: U32
    plan_bytes: U32
    slot_bytes: U32
    spare: U32
    uuid: Annotated[Array[c_uint8], c_uint8 * UUID_BYTES]
    tenant: Annotated[bytes, c_char * NAME_BYTES]
    program: Annotated[bytes, c_char * NAME_BYTES]


@_laid_out
class Welcome(Structure):
    """The agent's answer."""

    magic: U64
    version: U32
    status: U32
    client: U32
    tenant: U32
    reason: Annotated[bytes, c_char * 128]


STRUCTURES: dict[str, type[Structure]] = {
    "dure_order": Order,
    "dure_plan": PlanBuffer,
    "dure_tenant": TenantEntry,
    "dure_control": Control,
    "dure_rotation": Rotation,
    "dure_activity": Activity,
    "dure_counters": Counters,
    "dure_sample": Sample,
    "dure_slot": Slot,
    "dure_hello": Hello,
    "dure_welcome": Welcome,
}
"""By their names in C."""

CONTROL_BYTES = sizeof(Control)
SLOT_BYTES = sizeof(Slot)


def turn_squad(turn: int) -> int:
    """DURE_TURN_SQUAD."""
    return turn >> 32 & 0x7F


def turn_buffer(turn: int) -> int:
    """DURE_TURN_BUFFER."""
    return turn >> 40 & 1


def turn_round(turn: int) -> int:
    """DURE_TURN_ROUND."""
    return turn >> 41


def turn_dormant(turn: int) -> bool:
    """DURE_TURN_DORMANT."""
    return bool(turn >> 39 & 1)
