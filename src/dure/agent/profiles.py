"""Which profile a GPU is scheduled with: the catalogue's, corrected by what NVML says."""

import subprocess
import sys
from dataclasses import replace

from dure.devices.nvml import GpuFacts
from dure.domain.accelerator import AcceleratorKind, AcceleratorProfile
from dure.domain.catalogue import CATALOGUE
from dure.domain.units import KIB

_GENERIC_SMS = 64
_GENERIC_BANDWIDTH = 600e9
_GENERIC_LINK = 16e9
"""A middling card of recent years; used only to start from where nothing better is known."""

_GRANULES = {7: (2, 2), 8: (2, 4)}
"""Granule and least size of compute-unit sets by major compute capability (driver API reference);
from 9 on both are 8."""

_ASK_LIMIT_S = 30.0
_COUNT_SMS = """
import ctypes, sys
cuda, device, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_int()
multiprocessors = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
failed = (
    cuda.cuInit(0)
    or cuda.cuDeviceGet(ctypes.byref(device), int(sys.argv[1]))
    or cuda.cuDeviceGetAttribute(ctypes.byref(count), multiprocessors, device)
)
print(0 if failed else count.value)
"""


def profile_of(gpu: GpuFacts) -> AcceleratorProfile:
    """The profile of a GPU; a generic one, with its true size, for a card nobody described."""
    known = _from_catalogue(gpu.name)
    sms = gpu.sms or (known.sms if known else None) or _ask_driver(gpu.index) or _GENERIC_SMS
    profile = known or _generic(gpu, sms)
    if sms < profile.sm_granule:
        profile = replace(profile, sm_granule=1, sm_minimum=1)
    return replace(profile, sms=sms, memory_bytes=gpu.memory_bytes)


def _from_catalogue(name: str) -> AcceleratorProfile | None:
    """By a word of the card's name: `NVIDIA H200` is `h200`, `NVIDIA A100-SXM4-80GB` is `a100`."""
    words = name.lower().replace("-", " ").replace("_", " ").split()
    return next((CATALOGUE[word] for word in words if word in CATALOGUE), None)


def _generic(gpu: GpuFacts, sms: int) -> AcceleratorProfile:
    major = gpu.compute_capability[0] if gpu.compute_capability else 9
    granule, least = _GRANULES.get(major, (8, 8) if major >= 9 else (1, 1))
    return AcceleratorProfile(
        name=gpu.name,
        kind=AcceleratorKind.GPU,
        sms=sms,
        sm_granule=granule,
        sm_minimum=least,
        memory_bytes=gpu.memory_bytes,
        bandwidth_bytes_per_s=_GENERIC_BANDWIDTH,
        copy_bytes_per_s=_GENERIC_LINK,
        threads_per_sm=1536,
        registers_per_sm=65536,
        shared_bytes_per_sm=100 * KIB,
        blocks_per_sm=16,
    )


def _ask_driver(index: int) -> int | None:
    """Compute units as the CUDA driver counts them, asked in a process of its own, so that
    nothing of the driver stays in the agent."""
    command = [sys.executable, "-I", "-c", _COUNT_SMS, str(index)]
    try:
        asked = subprocess.run(
            command, capture_output=True, text=True, timeout=_ASK_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    answer = asked.stdout.strip()
    return int(answer) if asked.returncode == 0 and answer.isdigit() and int(answer) else None
