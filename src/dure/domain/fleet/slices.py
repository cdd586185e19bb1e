"""Slice templates: the shapes in which a device can be given out, one type for every vendor.

Two families share the type. *Placed* templates (MIG, core groups, whole devices) take neighbouring
slots of the device and may start only where the hardware lets them; `masks` lists their placements
as bitmasks, lowest start first. *Counted* templates (MPS, time slices, queue units) have no place:
their only mask is 0, and what bounds them is compute, memory and how many a device serves at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from dure.domain.errors import InputError
from dure.domain.fleet.series import Floats

WHOLE_MILLI = 1000
"""Shares of a device are counted in thousandths, as Kubernetes counts processors."""

MPS_MOST_CLIENTS = 48
"""Clients of one MPS server on one GPU (CUDA Multi-Process Service documentation)."""

MIG_SLOTS = 8
"""Memory slices of an A100, H100 or H200: what the placement of a MIG instance is counted in."""

MIG_COMPUTE_SLICES = 7
"""Compute slices of the same devices, and the most instances one of them holds."""


class ShareMode(Enum):
    """How a device is divided; a device is in one mode at a time."""

    WHOLE = "whole"
    MIG = "mig"
    MPS = "mps"
    TIME_SLICE = "time-slice"
    CORE_GROUP = "core-group"
    QUEUE = "queue"


_PLACED = frozenset({ShareMode.WHOLE, ShareMode.MIG, ShareMode.CORE_GROUP})
_UNENFORCED_MEMORY = frozenset({ShareMode.TIME_SLICE, ShareMode.QUEUE})


@dataclass(frozen=True, slots=True)
class SliceTemplate:
    """One shape in which a device can be given out, and what its holder gets."""

    name: str
    """As its vendor calls it where the vendor does: `1g.10gb`, `vir06_1c_16g`."""
    mode: ShareMode
    slots: int
    """Neighbouring slots it takes; 0 where slices have no place on the device."""
    starts: tuple[int, ...]
    """First slots it may take, in ascending order; empty where slices have no place."""
    device_slots: int
    """Slots of the whole device; 0 where slices have no place."""
    compute_milli: int
    """Share of the device's compute, in thousandths."""
    memory_bytes: int
    """Device memory of its holder: a limit, or by agreement where `memory_enforced` is false."""
    bandwidth_milli: int
    """Share of the device's memory bandwidth, in thousandths."""
    most: int
    """Instances of this template one device holds at most."""
    mode_most: int
    """Instances of any templates of this mode one device holds at most."""
    resource_name: str
    """The Kubernetes resource a holder asks for."""

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise InputError(f"slice template '{self.name}' {problem}", "correct the template")

    def _problem(self) -> str:
        """What makes the template impossible, in words; empty when nothing does."""
        for share in (self.compute_milli, self.bandwidth_milli):
            if not 0 < share <= WHOLE_MILLI:
                return f"has a share of {share} thousandths, not 1 to {WHOLE_MILLI}"
        if self.memory_bytes <= 0:
            return f"has {self.memory_bytes} bytes of memory"
        if not 1 <= self.most <= self.mode_most:
            return f"allows {self.most} instances where its mode allows {self.mode_most}"
        return self._slot_problem()

    def _slot_problem(self) -> str:
        """The same of its slots alone."""
        if not self.placed:
            given = self.slots or self.starts or self.device_slots
            return f"has slots, which mode '{self.mode.value}' does not know" if given else ""
        if not 0 < self.slots <= self.device_slots:
            return f"takes {self.slots} of {self.device_slots} slots"
        if not self.starts or list(self.starts) != sorted(set(self.starts)):
            return "needs start slots in ascending order"
        if self.starts[0] < 0 or self.starts[-1] + self.slots > self.device_slots:
            return f"reaches outside its {self.device_slots} slots"
        return ""

    @property
    def placed(self) -> bool:
        """Whether an instance has a place on the device, and so can be in another's way."""
        return self.mode in _PLACED

    @property
    def memory_enforced(self) -> bool:
        """Whether the device or its driver stops a holder that takes more memory than its own."""
        return self.mode not in _UNENFORCED_MEMORY


def masks(template: SliceTemplate) -> tuple[int, ...]:
    """Every placement as a bitmask of slots (bit 0 is slot 0), lowest start first."""
    if not template.placed:
        return (0,)
    taken = (1 << template.slots) - 1
    return tuple(taken << start for start in template.starts)


def place_all(templates: Sequence[SliceTemplate], occupied: int = 0) -> tuple[int, ...] | None:
    """A mask for each template, none overlapping another or `occupied`; None if there is none.

    Searched exhaustively, larger templates first, so None means that no order would have worked.
    """
    order = sorted(range(len(templates)), key=lambda index: (-templates[index].slots, index))
    chosen = [0] * len(templates)

    def place(rank: int, used: int) -> bool:
        if rank == len(order):
            return True
        index = order[rank]
        for mask in masks(templates[index]):
            if not mask & used:
                chosen[index] = mask
                if place(rank + 1, used | mask):
                    return True
        return False

    return tuple(chosen) if place(0, occupied) else None


def coexist(templates: Sequence[SliceTemplate], device_memory_bytes: int) -> bool:
    """Whether one device can hold an instance of each of these at once, in every dimension."""
    modes = {template.mode for template in templates}
    most = min((template.mode_most for template in templates), default=0)
    if len(modes) > 1 or len(templates) > most:
        return False
    within = (
        sum(template.compute_milli for template in templates) <= WHOLE_MILLI
        and sum(template.bandwidth_milli for template in templates) <= WHOLE_MILLI
        and sum(template.memory_bytes for template in templates) <= device_memory_bytes
        and all(templates.count(template) <= template.most for template in set(templates))
    )
    return within and place_all(templates) is not None


def expected_wait_s(service_s: float | Floats, load: float | Floats) -> Floats:
    """How long a request of a queue unit waits on average before or between its turns.

    wait = service × load / (1 - load), with `service_s` the time the request would take alone on
    the device and `load` the share of time the device is busy. It is the mean wait of a
    first-come queue with random arrivals and service times (M/M/1), and as well the mean delay of
    equal processor sharing, so it holds whether units run to completion or take turns. A device
    that is always busy never catches up: infinite.
    """
    service, busy = np.asarray(service_s, dtype=np.float64), np.asarray(load, dtype=np.float64)
    if np.any(service < 0) or np.any(busy < 0):
        raise InputError(f"service {service_s} s at load {load} is not possible", "use >= 0")
    idle = np.maximum(1.0 - busy, _NEVER_IDLE)
    return np.asarray(np.where(busy < 1.0, service * busy / idle, np.inf))


_NEVER_IDLE = 1e-300
"""Instead of nothing, in a quotient that is not used."""


def worst_wait_s(
    service_s: float | Floats, own_load: float | Floats, compute_milli: int | Floats
) -> Floats:
    """The mean wait of a queue unit while every other unit of the device is always busy.

    Weights then leave the unit a device of its own that is `compute_milli` thousandths as fast:
    a request takes service / share, queued at load own_load / share; what exceeds `service_s` is
    the wait. Infinite when the unit asks for more than its share.
    """
    share = compute_milli / WHOLE_MILLI
    alone_s = service_s / share
    return np.asarray(alone_s - service_s + expected_wait_s(alone_s, own_load / share))


def whole_device(memory_bytes: int, resource_name: str) -> SliceTemplate:
    """The device undivided."""
    return SliceTemplate(
        name="whole",
        mode=ShareMode.WHOLE,
        slots=1,
        starts=(0,),
        device_slots=1,
        compute_milli=WHOLE_MILLI,
        memory_bytes=memory_bytes,
        bandwidth_milli=WHOLE_MILLI,
        most=1,
        mode_most=1,
        resource_name=resource_name,
    )


_MIG_ROWS: tuple[tuple[int, int, tuple[int, ...]], ...] = (
    (1, 1, (0, 1, 2, 3, 4, 5, 6)),
    (1, 2, (0, 2, 4, 6)),
    (2, 2, (0, 2, 4)),
    (3, 4, (0, 4)),
    (4, 4, (0,)),
    (7, 8, (0,)),
)
"""Compute slices, memory slots and start slots (MIG User Guide; `nvidia-smi mig -lgipp`)."""


def mig_templates(memory_bytes: int, slot_names: tuple[str, str, str, str]) -> list[SliceTemplate]:
    """The MIG instances of an A100, H100 or H200, smallest first.

    `slot_names` are the memory sizes the vendor writes for 1, 2, 4 and 8 slots: `10gb`, `20gb`, …
    """
    size_of = dict(zip((1, 2, 4, 8), slot_names, strict=True))
    return [
        SliceTemplate(
            name=f"{compute}g.{size_of[slots]}",
            mode=ShareMode.MIG,
            slots=slots,
            starts=starts,
            device_slots=MIG_SLOTS,
            compute_milli=WHOLE_MILLI * compute // MIG_COMPUTE_SLICES,
            memory_bytes=memory_bytes * slots // MIG_SLOTS,
            bandwidth_milli=WHOLE_MILLI * slots // MIG_SLOTS,
            most=len(starts),
            mode_most=MIG_COMPUTE_SLICES,
            resource_name=f"nvidia.com/mig-{compute}g.{size_of[slots]}",
        )
        for compute, slots, starts in _MIG_ROWS
    ]


@dataclass(frozen=True, slots=True)
class CoreGroups:
    """How the cores of an NPU are grouped: the part all its templates have in common."""

    device_slots: int
    memory_bytes: int
    """Of the whole device."""
    most: int
    """Groups one device holds at most."""

    def template(
        self, name: str, slots: int, starts: tuple[int, ...], resource_name: str
    ) -> SliceTemplate:
        """A group of neighbouring cores with its share of everything."""
        return SliceTemplate(
            name=name,
            mode=ShareMode.CORE_GROUP,
            slots=slots,
            starts=starts,
            device_slots=self.device_slots,
            compute_milli=WHOLE_MILLI * slots // self.device_slots,
            memory_bytes=self.memory_bytes * slots // self.device_slots,
            bandwidth_milli=WHOLE_MILLI * slots // self.device_slots,
            most=len(starts),
            mode_most=self.most,
            resource_name=resource_name,
        )


def mps_share(
    compute_milli: int,
    memory_bytes: int,
    *,
    name: str = "",
    resource_name: str = "nvidia.com/gpu.shared",
    most_clients: int = MPS_MOST_CLIENTS,
) -> SliceTemplate:
    """An MPS client with an active-thread percentage (whole percents) and a memory limit."""
    if compute_milli % 10:
        raise InputError(
            f"an MPS share of {compute_milli} thousandths is no whole percentage",
            "use a multiple of 10",
        )
    return _counted(
        ShareMode.MPS,
        name or f"mps.{compute_milli}m",
        (compute_milli, memory_bytes),
        resource_name,
        most_clients,
    )


def time_slice(
    replicas: int, device_memory_bytes: int, *, resource_name: str = "nvidia.com/gpu.shared"
) -> SliceTemplate:
    """One of `replicas` that take turns; memory is divided by agreement only."""
    if replicas < 1:
        raise InputError(f"{replicas} time slices are not possible", "use 1 or more")
    parts = (max(WHOLE_MILLI // replicas, 1), device_memory_bytes // replicas)
    return _counted(ShareMode.TIME_SLICE, f"ts.{replicas}", parts, resource_name, replicas)


def queue_unit(weight_milli: int, memory_bytes: int, *, resource_name: str) -> SliceTemplate:
    """A weighted share of a device without a fixed slice; see `expected_wait_s` for its price.

    A broker holds the device (`resource_name` is what the broker asks for) and gives it to the
    units' requests by weight; `memory_bytes` is what a unit keeps resident between its requests.
    """
    name = f"queue.{weight_milli}m"
    return _counted(ShareMode.QUEUE, name, (weight_milli, memory_bytes), resource_name, WHOLE_MILLI)


def _counted(
    mode: ShareMode, name: str, parts: tuple[int, int], resource_name: str, mode_most: int
) -> SliceTemplate:
    """A template without a place; bandwidth is shared as compute is, for want of a limit."""
    compute_milli, memory_bytes = parts
    by_compute = WHOLE_MILLI // compute_milli if compute_milli > 0 else 1
    return SliceTemplate(
        name=name,
        mode=mode,
        slots=0,
        starts=(),
        device_slots=0,
        compute_milli=compute_milli,
        memory_bytes=memory_bytes,
        bandwidth_milli=compute_milli,
        most=max(min(by_compute, mode_most), 1),
        mode_most=mode_most,
        resource_name=resource_name,
    )
