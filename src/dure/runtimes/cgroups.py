"""What /proc and the cgroup file systems say: whose a process is, and whether it is frozen.

Container ids are read from the paths in /proc/PID/cgroup, in the shapes that Docker, containerd,
CRI-O and podman give them under cgroupfs and systemd, in version 1 and 2. The freezer is written to
only in an emergency and to bring a runtime's own flag in line: it goes behind the runtime's back.
"""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from dure.domain.errors import DureError
from dure.domain.ids import ContainerId

PROC = Path("/proc")
_NO_GROUPS_UNDER = 2
"""Links of a folder without folders in it, on cgroup file systems as elsewhere."""
_LISTING_BYTES = 65_536
"""Read at once; more pids than that come in further parts."""

_LINES_FIRST = ("freezer", "pids", "devices", "name=systemd", "")
"""Which hierarchies to ask first; the rest follows. A program may be moved in one of them alone,
and the runtime freezes by the first."""

_MONITORS = ("conmon", "crio-conmon", "libpod-conmon")
"""Helpers of a runtime that stand beside a container in a group named after it."""
_ID = r"[0-9a-f]{64}"
_PART = re.compile(
    rf"^(?:(?P<prefix>[a-z][a-z-]*)-)?(?P<id>{_ID})(?:\.scope)?$"
    rf"|^[^:]+:(?P<cri>[a-z][a-z-]*):(?P<cri_id>{_ID})$"
)


class Engine(Enum):
    """Which program a container's cgroup is named by."""

    DOCKER = "docker"
    CONTAINERD = "containerd"
    CRIO = "cri-o"
    PODMAN = "podman"
    UNKNOWN = "unknown"


_PREFIXES = {
    "docker": Engine.DOCKER,
    "cri-containerd": Engine.CONTAINERD,
    "containerd": Engine.CONTAINERD,
    "nerdctl": Engine.CONTAINERD,
    "crio": Engine.CRIO,
    "libpod": Engine.PODMAN,
}
_PARENTS = {"docker": Engine.DOCKER, "libpod_parent": Engine.PODMAN, "default": Engine.CONTAINERD}
"""Without a prefix, the folder above may tell."""


@dataclass(frozen=True, slots=True)
class CgroupContainer:
    """A container, as a cgroup's path names it."""

    engine: Engine
    id: ContainerId


def containers_in(text: str) -> tuple[CgroupContainer, ...]:
    """The containers of a process from its /proc/PID/cgroup, outermost first; none: the host's."""
    lines = [line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2]
    for wanted in _LINES_FIRST:
        for _, controllers, path in lines:
            if wanted in controllers.split(",") and (found := _in_path(path)):
                return found
    for _, _, path in lines:
        if found := _in_path(path):
            return found
    return ()


def _in_path(path: str) -> tuple[CgroupContainer, ...]:
    found: list[CgroupContainer] = []
    above = ""
    for part in path.split("/"):
        match = _PART.match(part)
        if match is not None:
            prefix = match["prefix"] or match["cri"] or ""
            named = match["id"] or match["cri_id"]
            if prefix in _MONITORS:
                return tuple(found)
            engine = _PREFIXES.get(prefix) or _PARENTS.get(above, Engine.UNKNOWN)
            if not found or found[-1].id != named:
                found.append(CgroupContainer(engine, ContainerId(named)))
        above = part
    return tuple(found)


def started_ticks(pid: int, proc: Path = PROC) -> int | None:
    """When a process started, in the kernel's ticks since boot; None where there is no such."""
    try:
        stat = (proc / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # Its name is in parentheses and may hold spaces and parentheses itself.
    fields = stat[stat.rfind(b")") + 1 :].split()
    return int(fields[19]) if len(fields) > 19 else None


def boot_id(proc: Path = PROC) -> str:
    """Names this run of the kernel; another one remembers no freeze."""
    return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@dataclass(frozen=True, slots=True)
class Freezer:
    """The freezer of one container's cgroup."""

    folder: Path
    version: int
    """1: `freezer.state`; 2: `cgroup.freeze`."""

    @property
    def file(self) -> Path:
        return self.folder / ("freezer.state" if self.version == 1 else "cgroup.freeze")

    def frozen(self) -> bool | None:
        """Whether it is (or is about to be) frozen; None: the group is gone."""
        try:
            said = self.file.read_text(encoding="ascii").strip()
        except OSError:
            return None
        return said not in ("THAWED", "0")

    def thaw(self) -> None:
        """Let everything in the group run; nothing to do where it is gone."""
        self._write("THAWED" if self.version == 1 else "0")

    def freeze(self) -> None:
        """Stop everything in the group."""
        self._write("FROZEN" if self.version == 1 else "1")

    def pids(self) -> tuple[int, ...]:
        """Processes in the group and in the groups under it."""
        return tuple(map(int, self.listing().split()))

    def listing(self) -> bytes:
        """The same as the kernel writes it: cheap to read, and to compare with an earlier one."""
        with suppress(OSError):
            if os.stat(self.folder).st_nlink == _NO_GROUPS_UNDER:  # noqa: PTH116, asked often
                return _listed_in(str(self.folder))
        return b"".join(_listed_in(folder) for folder, _, _ in os.walk(self.folder))

    def _write(self, word: str) -> None:
        try:
            self.file.write_text(word, encoding="ascii")
        except FileNotFoundError:
            return
        except OSError as error:
            if not self.folder.exists():
                return  # gone while we wrote
            raise DureError(
                f"{self.file} cannot be written ({error.strerror})",
                "run as root in the host's cgroup namespace",
            ) from error


def _listed_in(folder: str) -> bytes:
    try:
        # Opened anew each time: the kernel may repeat an old list to who keeps it open.
        handle = os.open(f"{folder}/cgroup.procs", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        listed = b""
        while part := os.read(handle, _LISTING_BYTES):
            listed += part
        return listed
    except OSError:
        return b""
    finally:
        os.close(handle)


def freezer_of(pid: int, container: ContainerId, proc: Path = PROC) -> Freezer | None:
    """The freezer that a runtime uses for the container of this process."""
    try:
        groups = (proc / str(pid) / "cgroup").read_text(encoding="utf-8")
        mounts = (proc / "self" / "mountinfo").read_text(encoding="utf-8")
    except OSError:
        return None
    for version in (1, 2):
        path, mount = _group(groups, version), _mount(mounts, version)
        if path is None or mount is None:
            continue
        root, place = mount
        inside = path.removeprefix(root.rstrip("/")) if root != "/" else path
        freezer = Freezer(place / _down_to(inside, container).lstrip("/"), version)
        if freezer.file.exists():
            return freezer
    return None


def _group(groups: str, version: int) -> str | None:
    for line in groups.splitlines():
        number, controllers, path = line.split(":", 2)
        if version == 1 and "freezer" in controllers.split(","):
            return path
        if version == 2 and number == "0" and not controllers:
            return path
    return None


def _mount(mounts: str, version: int) -> tuple[str, Path] | None:
    """Root and place of the hierarchy's mount."""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        root, place = left.split()[3:5]
        kind, _, options = right.split(" ", 2)
        if version == 1 and kind == "cgroup" and "freezer" in options.split(","):
            return root, Path(place)
        if version == 2 and kind == "cgroup2":
            return root, Path(place)
    return None


def _down_to(path: str, container: ContainerId) -> str:
    """The part of a path down to the group named after the container: a program in it may have
    moved itself into a group of its own."""
    parts = path.split("/")
    for index, part in enumerate(parts):
        if container in part:
            return "/".join(parts[: index + 1])
    return path
