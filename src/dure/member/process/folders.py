"""Folders of instances: what each consists of, how it begins, and what it says of its program.

Blocking, and meant for threads. What the files in a folder mean is written in `supervisor`.
"""

import contextlib
import fcntl
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dure.client.report import CHECKPOINT_DONE_FILE, CHECKPOINT_FILE
from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.protocol.desired import Desired
from dure.domain.ids import WorkloadId
from dure.domain.units import MIB
from dure.kit.files import write_text
from dure.member.core.held import MOST_FENCE_GRACE_S
from dure.member.ports import Start
from dure.member.process import supervisor
from dure.wire.plain import pack, unpack

_SUPERVISOR = Path(supervisor.__file__)
MOST_OUTPUT_BYTES = 64 * MIB
"""Of one instance on the disk, about; beyond that what it wrote first is given up."""


GENTLE_NICE = 10
"""Of a program that may take its time to start: others of the host come first until it answers."""
_NICE_LIMIT = 20
"""Of RLIMIT_NICE, from which on an ordinary priority can be had back."""


def may_hurry() -> bool:
    """Whether this process may give a program its ordinary priority back."""
    return os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_NICE)[0] >= _NICE_LIMIT


@dataclass(frozen=True, slots=True)
class Spec:
    """What an instance was started with."""

    instance: InstanceId
    desired: Desired
    placement: Placement
    node: str
    devices: tuple[int, ...]
    gang: tuple[int, ...]
    """Indices of those that start together; one alone needs no barrier."""
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    port: int | None = None
    """Where it answers."""
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Control groups it runs in, by folder, and what is written there."""

    @classmethod
    def of(cls, start: Start, gang: tuple[int, ...], line: "CommandLine") -> "Spec":
        """From what the core wants and how the host runs it."""
        return cls(
            instance=start.instance,
            desired=start.desired,
            placement=start.placement,
            node=start.node,
            devices=start.devices,
            gang=gang,
            argv=line.argv,
            env=line.env,
            cwd=line.cwd,
            port=line.port,
            groups=line.groups,
        )


@dataclass(frozen=True, slots=True)
class CommandLine:
    """How the host runs a program."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str = ""
    port: int | None = None
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a folder says now."""

    begun: bool
    running: Mapping[str, Any] | None
    stopping: bool
    exit: Mapping[str, Any] | None
    supervised: bool
    """Whether its supervisor lives."""


@dataclass(slots=True)
class Folder:
    """The folder of one instance."""

    path: Path
    spec: Spec = field(init=False)

    def read_spec(self) -> Spec:
        """What it was started with, from its file."""
        data = json.loads((self.path / "spec.json").read_text(encoding="utf-8"))
        self.spec = Spec(
            instance=InstanceId(WorkloadId(data["job"]), data["attempt"], data["index"]),
            desired=unpack(Desired, data["desired"]),
            placement=unpack(Placement, data["placement"]),
            node=data["node"],
            devices=tuple(data["devices"]),
            gang=tuple(data["gang"]),
            argv=tuple(data["argv"]),
            env=data["env"],
            cwd=data["cwd"],
            port=data["port"],
            groups=data["groups"],
        )
        return self.spec

    @property
    def output(self) -> Path:
        """What the program wrote."""
        return self.path / "output.log"

    @property
    def progress(self) -> Path:
        """Where the program says how far it is."""
        return self.path / "progress.json"

    @property
    def control(self) -> Path:
        """Where the program is asked for something, and answers."""
        return self.path / "control"

    def request(self, number: int) -> None:
        """Ask the program for a checkpoint; 0: not any more."""
        with contextlib.suppress(FileNotFoundError):  # its folder was just removed
            if number:
                write_text(self.control / CHECKPOINT_FILE, f"{number}\n")
            else:
                (self.control / CHECKPOINT_FILE).unlink()

    def hurry(self) -> None:
        """Give a program that was started gently the priority of any other."""
        running = _read(self.path / "running.json")
        if self.spec.desired.gentle and running is not None:
            with contextlib.suppress(OSError):  # it has just ended, or may not be touched
                os.setpriority(os.PRIO_PGRP, int(running["pid"]), 0)

    def checkpointed(self) -> int:
        """The last checkpoint that the program says to have saved; 0: none."""
        try:
            return int((self.control / CHECKPOINT_DONE_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0

    def facts(self) -> Facts:
        """Its state; in an order in which no end is missed."""
        supervised = self.supervised()
        return Facts(
            begun=(self.path / "begun").exists(),
            running=_read(self.path / "running.json"),
            stopping=(self.path / "stop.json").exists(),
            exit=_read(self.path / "exit.json"),
            supervised=supervised,
        )

    def replace_placement(self, placement: Placement) -> None:
        """It has another slice of its devices from now on."""
        self.spec = replace(self.spec, placement=placement)
        write_text(self.path / "spec.json", json.dumps(_plain(self.spec)))

    def supervised(self) -> bool:
        """Whether the lock is held."""
        try:
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def supervisor_pid(self) -> int | None:
        """Its process id; valid while the lock is held."""
        pid, _, _ = self._begun()
        return int(pid) if pid.isdecimal() else None

    def _begun(self) -> tuple[str, str, str]:
        """What its supervisor wrote of itself: process id, boot and tick; as far as it did."""
        try:
            words = (self.path / "begun").read_text(encoding="utf-8").split()
        except OSError:
            words = []
        pid, boot, born = [*words, "", "", ""][:3]
        return pid, boot, born

    def spawn(self) -> int:
        """Start a supervisor; where one has ever begun this one ends at once."""
        nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        argv = [sys.executable, "-I", str(_SUPERVISOR), str(self.path)]
        return os.posix_spawn(
            sys.executable, argv, {}, file_actions=nothing, setsid=True, setsigmask=()
        )

    def let_go(self) -> None:
        """Open the barrier."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / "go").touch()

    def ask_to_stop(self, grace_s: float) -> bool:
        """Tell its supervisor to end the program; False where there is none to tell."""
        if not (self.path / "stop.json").exists():
            write_text(self.path / "stop.json", json.dumps({"grace_s": grace_s}))
        try:
            handle = os.open(self.path / "begun", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return self.signal(signal.SIGTERM)
        os.close(handle)  # no supervisor will ever begin now
        return False

    def signal(self, number: int) -> bool:
        """Send its supervisor a signal; False where it is dead."""
        pid = self.supervisor_pid()
        if pid is None:  # where it lives it has yet to look whether it shall stop
            return self.supervised()
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        try:
            if not self.supervised():
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True

    def kill_left_over(self) -> None:
        """Its supervisor was killed: end what is left of its session."""
        session = self._session()
        if session is None or self.supervised():
            return
        for pid, their_session in _sessions():
            if their_session == session and pid != session:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _session(self) -> int | None:
        """The session of its supervisor; None where that number may be a stranger's by now. Numbers
        begin anew when the host does, and are given again once all were used."""
        pid, boot, born = self._begun()
        if not (pid.isdecimal() and born) or boot != supervisor.boot():
            return None
        return int(pid) if supervisor.born(int(pid)) in ("", born) else None

    def remove(self) -> None:
        """Remove everything; it counts as removed once its name is gone."""
        grave = self.path.with_name(f".{self.path.name}")
        shutil.rmtree(grave, ignore_errors=True)
        for group in self.spec.groups:  # left behind where its supervisor was killed
            with contextlib.suppress(OSError):
                Path(group).rmdir()
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(grave)
        shutil.rmtree(grave, ignore_errors=True)


def folder_of(root: Path, instance: InstanceId) -> Folder:
    """Where an instance lives."""
    return Folder(root / f"{instance.workload}.{instance.attempt}.{instance.index}")


def make(root: Path, spec: Spec) -> Folder:
    """Make an instance's folder, whole or not at all; one that exists stays as it is."""
    folder = folder_of(root, spec.instance)
    folder.spec = spec
    if folder.path.exists():
        return folder
    draft = root / f".{folder.path.name}.new"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True, mode=0o700)
    (draft / "control").mkdir(mode=0o700)
    write_text(draft / "spec.json", json.dumps(_plain(spec)))
    draft.rename(folder.path)
    handle = os.open(root, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    return folder


def found(root: Path) -> Iterator[Folder]:
    """All folders there are, with what they were started with."""
    for path in sorted(root.iterdir()):
        if path.name.startswith("."):
            shutil.rmtree(path, ignore_errors=True)
            continue
        folder = Folder(path)
        folder.read_spec()
        yield folder


def _plain(spec: Spec) -> dict[str, Any]:
    return {
        "job": spec.instance.workload,
        "attempt": spec.instance.attempt,
        "index": spec.instance.index,
        "desired": pack(spec.desired),
        "placement": pack(spec.placement),
        "node": spec.node,
        "devices": spec.devices,
        "gang": spec.gang,
        "barrier": len(spec.gang) > 1,
        "fence_after_s": spec.desired.fence_after_s,
        "fence_grace_s": min(spec.desired.program.grace_s, MOST_FENCE_GRACE_S),
        "argv": spec.argv,
        "env": dict(spec.env),
        "cwd": spec.cwd,
        "port": spec.port,
        "groups": spec.groups,
        "output_bytes": MOST_OUTPUT_BYTES,
        "nice": GENTLE_NICE if spec.desired.gentle and may_hurry() else 0,
    }


def _read(file: Path) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found


def _sessions() -> Iterator[tuple[int, int]]:
    """Every process with the session it belongs to."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                yield int(entry.name), int(text.rpartition(")")[2].split()[3])
