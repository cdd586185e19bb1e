"""Accelerators known by name.

Values are the vendors' published ones: data sheets for memory and bandwidth, the CUDA
programming guide for limits per compute unit, the driver API reference for the
granularity of compute-unit sets by compute capability.
"""

from dure.domain.accelerator import AcceleratorKind, AcceleratorProfile
from dure.domain.errors import InputError
from dure.domain.units import KIB

_GB = 1000**3


def _gpu(
    name: str,
    sms: int,
    memory_gb: int,
    bandwidth_gb_per_s: int,
    *,
    link_gb_per_s: int,
    granule: tuple[int, int],
    threads: int = 2048,
    shared_kib: int,
    blocks: int = 32,
) -> AcceleratorProfile:
    return AcceleratorProfile(
        name=name,
        kind=AcceleratorKind.GPU,
        sms=sms,
        sm_granule=granule[0],
        sm_minimum=granule[1],
        memory_bytes=memory_gb * _GB,
        bandwidth_bytes_per_s=float(bandwidth_gb_per_s * _GB),
        copy_bytes_per_s=float(link_gb_per_s * _GB),
        threads_per_sm=threads,
        registers_per_sm=65536,
        shared_bytes_per_sm=shared_kib * KIB,
        blocks_per_sm=blocks,
    )


_HOPPER = (8, 8)
_AMPERE = (2, 4)
_TURING = (2, 2)

CATALOGUE: dict[str, AcceleratorProfile] = {
    gpu.name: gpu
    for gpu in (
        _gpu("h200", 132, 141, 4800, link_gb_per_s=64, granule=_HOPPER, shared_kib=228),
        _gpu("h100", 132, 80, 3350, link_gb_per_s=64, granule=_HOPPER, shared_kib=228),
        _gpu("a100", 108, 80, 2039, link_gb_per_s=32, granule=_AMPERE, shared_kib=164),
        _gpu(
            "l4",
            58,
            24,
            300,
            link_gb_per_s=32,
            granule=_AMPERE,
            threads=1536,
            shared_kib=100,
            blocks=24,
        ),
        _gpu(
            "t4",
            40,
            16,
            320,
            link_gb_per_s=16,
            granule=_TURING,
            threads=1024,
            shared_kib=64,
            blocks=16,
        ),
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
