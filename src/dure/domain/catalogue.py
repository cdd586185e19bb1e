"""Accelerators known by name.

Values are the vendors' published ones: data sheets for memory, bandwidth and link, the CUDA
programming guide for limits per compute unit, the driver API reference for the granularity of
compute-unit sets by compute capability.
"""

from dataclasses import dataclass

from dure.domain.accelerator import AcceleratorKind, AcceleratorProfile
from dure.domain.errors import InputError
from dure.domain.units import KIB

_GB = 1000**3
_REGISTERS_PER_SM = 65536


@dataclass(frozen=True, slots=True)
class _Generation:
    """What all devices of one compute capability have in common."""

    sm_granule: int
    sm_minimum: int
    threads_per_sm: int
    shared_kib_per_sm: int
    blocks_per_sm: int

    def gpu(
        self, name: str, sms: int, *, memory_gb: int, memory_gb_per_s: int, link_gb_per_s: int
    ) -> AcceleratorProfile:
        """A device of this generation."""
        return AcceleratorProfile(
            name=name,
            kind=AcceleratorKind.GPU,
            sms=sms,
            sm_granule=self.sm_granule,
            sm_minimum=self.sm_minimum,
            memory_bytes=memory_gb * _GB,
            bandwidth_bytes_per_s=float(memory_gb_per_s * _GB),
            copy_bytes_per_s=float(link_gb_per_s * _GB),
            threads_per_sm=self.threads_per_sm,
            registers_per_sm=_REGISTERS_PER_SM,
            shared_bytes_per_sm=self.shared_kib_per_sm * KIB,
            blocks_per_sm=self.blocks_per_sm,
        )


_HOPPER = _Generation(8, 8, 2048, 228, 32)
_AMPERE = _Generation(2, 4, 2048, 164, 32)
_ADA = _Generation(2, 4, 1536, 100, 24)
_TURING = _Generation(2, 2, 1024, 64, 16)

CATALOGUE: dict[str, AcceleratorProfile] = {
    gpu.name: gpu
    for gpu in (
        _HOPPER.gpu("h200", 132, memory_gb=141, memory_gb_per_s=4800, link_gb_per_s=64),
        _HOPPER.gpu("h100", 132, memory_gb=80, memory_gb_per_s=3350, link_gb_per_s=64),
        _AMPERE.gpu("a100", 108, memory_gb=80, memory_gb_per_s=2039, link_gb_per_s=32),
        _ADA.gpu("l4", 58, memory_gb=24, memory_gb_per_s=300, link_gb_per_s=32),
        _TURING.gpu("t4", 40, memory_gb=16, memory_gb_per_s=320, link_gb_per_s=16),
    )
}


def accelerator(name: str) -> AcceleratorProfile:
    """The profile of a known accelerator; raises `InputError` for an unknown name."""
    try:
        return CATALOGUE[name.lower()]
    except KeyError:
        raise InputError(
            f"'{name}' is not a known accelerator", f"use one of {', '.join(CATALOGUE)}"
        ) from None
