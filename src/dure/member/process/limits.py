"""What the kernel holds programs to: host memory as a limit, CPU as a weight, by control groups.

Only where this user may make groups below the member's own, in either version of them; elsewhere
programs take what they take, and the inventory says so.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dure.domain.fleet.workloads import Demand

_ROOT, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_MEMORY, _CPU = "memory", "cpu"
_FILES = {
    (_MEMORY, False): "memory.limit_in_bytes",
    (_MEMORY, True): "memory.max",
    (_CPU, False): "cpu.shares",
    (_CPU, True): "cpu.weight",
}
"""By controller and whether it is of version 2."""
_SHARES = (2, 262_144)
"""Least and most of version 1, where a whole CPU has 1024; version 2 counts from 1 to 10,000."""
NO_LIMITS = "no-limits"


@dataclass(frozen=True, slots=True)
class Place:
    """Where groups of one controller can be made."""

    folder: Path
    file: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What can be limited here."""

    places: Mapping[str, Place]

    @property
    def features(self) -> frozenset[str]:
        """For the inventory."""
        return frozenset(f"{name}-limits" for name in self.places) or frozenset({NO_LIMITS})

    def groups(self, name: str, demand: Demand) -> dict[str, dict[str, str]]:
        """Folders of groups for a program of that name, with what is to be written there."""
        wanted = {_MEMORY: demand.host_memory_bytes, _CPU: demand.cpu_milli}
        made: dict[str, dict[str, str]] = {}
        for controller, place in self.places.items():
            amount = wanted[controller]
            if amount > 0:
                value = amount if controller == _MEMORY else _weight(amount, place.file)
                made.setdefault(str(place.folder / f"dure-{name}"), {})[place.file] = str(value)
        return made


def _weight(cpu_milli: int, file: str) -> int:
    least, most = _SHARES
    shares = min(max(cpu_milli * 1024 // 1000, least), most)
    return shares if file == "cpu.shares" else 1 + (shares - least) * 9999 // (most - least)


def find_limits(root: Path = _ROOT, own: Path = _OWN) -> Limits:
    """What this process may limit; blocking."""
    places: dict[str, Place] = {}
    with suppress(OSError):
        for line in own.read_text(encoding="utf-8").splitlines():
            _, listed, path = line.split(":", 2)
            below = path.lstrip("/")
            for controller in (_MEMORY, _CPU):
                if not listed:
                    place = Place(root / below, _FILES[controller, True])
                elif controller in listed.split(","):
                    place = Place(root / controller / below, _FILES[controller, False])
                else:
                    continue
                if controller not in places and _usable(place):
                    places[controller] = place
    return Limits(places)


def _usable(place: Place) -> bool:
    """Whether a group can be made there and limited."""
    probe = place.folder / f"dure-probe-{os.getpid()}"
    try:
        probe.mkdir()
    except OSError:
        return False
    try:
        return os.access(probe / place.file, os.W_OK)
    finally:
        with suppress(OSError):
            probe.rmdir()
