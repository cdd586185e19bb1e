"""A kernel as the shim sees it: its launch shape, its class, and what was learned of it."""

from dataclasses import dataclass
from enum import IntEnum

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.units import NS_PER_MS


class KernelClass(IntEnum):
    """What kind of neighbour a kernel is; the index into a co-run matrix."""

    COMPUTE = 0
    """Fills the device and lives on arithmetic."""
    MEMORY = 1
    """Fills the device and lives on memory bandwidth."""
    SMALL = 2
    """Leaves at least half of the device unused."""
    LONG = 3
    """Runs so long that a neighbour cannot wait for it."""


LONG_KERNEL_NS = 1 * NS_PER_MS
"""A kernel this long holds up a neighbour's whole request (requests take 1 to 10 ms)."""

SMALL_WIDTH_SHARE = 0.5
"""A kernel on fewer than this share of the device leaves room for another as large."""


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """What identifies a kernel for prediction: same function, same shape, same duration."""

    function: int
    """The function's identity within its tenant."""
    blocks: int
    threads: int
    resident: int
    """Blocks of it that one compute unit holds."""
    memory_bound: bool = False
    """Hint from the function's name and the device's counters."""

    def width_sms(self, profile: AcceleratorProfile) -> int:
        """Compute units it can occupy at once."""
        return min(profile.sms, -(-self.blocks // self.resident))

    def waves(self, sms: int) -> int:
        """How many times the device must be refilled to run all its blocks."""
        return -(-self.blocks // (self.resident * max(sms, 1)))


def classify(
    signature: KernelSignature, duration_ns: float, profile: AcceleratorProfile
) -> KernelClass:
    """The class of a kernel, by duration first, then width, then what bounds it."""
    if duration_ns >= LONG_KERNEL_NS:
        return KernelClass.LONG
    if signature.width_sms(profile) < SMALL_WIDTH_SHARE * profile.sms:
        return KernelClass.SMALL
    return KernelClass.MEMORY if signature.memory_bound else KernelClass.COMPUTE


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """What was learned of one kernel signature."""

    signature: KernelSignature
    solo_ns: float
    samples: int
    kernel_class: KernelClass
