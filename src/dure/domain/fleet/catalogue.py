"""Accelerators the fleet knows by name."""

from dure.domain.errors import InputError
from dure.domain.fleet.catalogue_gpus import GPUS
from dure.domain.fleet.catalogue_npus import NPUS
from dure.domain.fleet.profiles import DeviceProfile

CATALOGUE: dict[str, DeviceProfile] = {profile.name: profile for profile in (*GPUS, *NPUS)}
"""By name, GPUs first."""


def device_profile(name: str) -> DeviceProfile:
    """The profile of a known accelerator; raises `InputError` for an unknown name."""
    try:
        return CATALOGUE[name.lower()]
    except KeyError:
        raise InputError(
            f"'{name}' is not a known accelerator", f"use one of {', '.join(CATALOGUE)}"
        ) from None
