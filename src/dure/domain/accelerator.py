"""What an accelerator is: the facts a scheduler needs, and how its units can be divided."""

from dataclasses import dataclass
from enum import Enum


class AcceleratorKind(Enum):
    """Families that differ in how they are shared."""

    GPU = "gpu"
    NPU = "npu"


@dataclass(frozen=True, slots=True)
class AcceleratorProfile:
    """A model of accelerator, from its public data sheet."""

    name: str
    kind: AcceleratorKind
    sms: int
    """Compute units that work can be confined to (streaming multiprocessors)."""
    sm_granule: int
    """Sets of compute units come in multiples of this."""
    sm_minimum: int
    """The smallest set of compute units."""
    memory_bytes: int
    bandwidth_bytes_per_s: float
    """Of the device's own memory."""
    copy_bytes_per_s: float
    """Of its link to the host, one direction."""
    threads_per_sm: int
    registers_per_sm: int
    shared_bytes_per_sm: int
    blocks_per_sm: int

    @property
    def sm_groups(self) -> int:
        """How many whole granules the device has; a remainder belongs to unconfined work."""
        return self.sms // self.sm_granule

    def resident_blocks(self, threads: int, registers: int = 0, shared_bytes: int = 0) -> int:
        """How many blocks of a kernel one compute unit holds at a time, at least one."""
        limits = [self.blocks_per_sm, self.threads_per_sm // max(threads, 1)]
        if registers:
            limits.append(self.registers_per_sm // (registers * max(threads, 1)))
        if shared_bytes:
            limits.append(self.shared_bytes_per_sm // shared_bytes)
        return max(1, min(limits))

    def snap_sms(self, wanted: float) -> int:
        """The nearest set size the device really offers, between its minimum and all groups."""
        groups = round(wanted / self.sm_granule)
        least = -(-self.sm_minimum // self.sm_granule)
        return min(max(groups, least), self.sm_groups) * self.sm_granule
