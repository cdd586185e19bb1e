"""A Docker daemon for tests: started in a folder of its own, or the one DURE_TEST_DOCKER names.

A test module imports the fixture: `from tests.docker_bed import docker_bed  # noqa: F401`. All
tests of one process share one daemon; containers that a test leaves behind go with the next
`bed.clean()` and at the end.
"""

import atexit
import functools
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import docker
import pytest

ROOT = Path(__file__).resolve().parents[1]
LIB = ROOT / "src" / "dure" / "devices" / "lib"
IMAGE = "dure-test:base"
OWN_LABEL = "dure.test.bed"
"""On every container made here, so that a daemon that others use, too, stays tidy."""
UNABLE_RUNTIME = "unable"
"""A runtime of the own daemon that cannot pause: `bed.run(..., runtime=UNABLE_RUNTIME)`."""
DOCKER_VARIABLE = "DURE_TEST_DOCKER"
"""Address of a running daemon to use instead of an own one, such as unix:///run/docker.sock."""

LIMIT_S = 60.0
"""Generous: a daemon takes a second to start, a busy machine many."""
_LOOK_S = 0.02
_APPLETS = ("sh", "sleep", "cat", "echo", "true", "false", "date", "ls", "touch", "kill", "sync")
_LIBRARIES = (
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libm.so.6",
)
"""What dure-tenant and the emulator's libraries need."""


class Bed:
    """One daemon, a client of it, and a base image with busybox."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dure-docker-"))
        stated = os.environ.get(DOCKER_VARIABLE)
        self.own = not stated
        self.url = stated or f"unix://{self.folder}/docker.sock"
        self.process: subprocess.Popen[bytes] | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
        if self.own:
            self._start_keeper()
            self.start_daemon(live_restore=True)
        self.client: Any = docker.DockerClient(base_url=self.url, timeout=LIMIT_S)
        self._import_image()

    # The daemon

    def start_daemon(self, *, live_restore: bool = True) -> None:
        """Start the own daemon, also one that was killed, and wait for its first answer."""
        assert self.own, "the daemon belongs to somebody else"
        for stale in ("dockerd.pid", "docker.sock"):
            (self.folder / stale).unlink(missing_ok=True)
        runtimes = {UNABLE_RUNTIME: {"path": str(self._unable_runtime())}}
        (self.folder / "config.json").write_text(json.dumps({"runtimes": runtimes}))
        self.process = self._start(
            *("dockerd", "--host", self.url, "--pidfile", str(self.folder / "dockerd.pid")),
            *("--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "exec")),
            *("--config-file", str(self.folder / "config.json")),
            *("--containerd", str(self.folder / "containerd.sock")),
            *("--bridge=none", "--iptables=false", "--ip6tables=false"),
            *(("--live-restore",) if live_restore else ()),
        )
        self._wait_for_answer()

    def _unable_runtime(self) -> Path:
        """runc without a pause, as some runtimes are."""
        script = self.folder / "unable"
        script.write_text(
            "#!/bin/sh\n"
            'for word; do if [ "$word" = pause ]; then\n'
            "echo 'pause is not supported by this runtime' >&2; exit 1; fi; done\n"
            'exec runc "$@"\n'
        )
        script.chmod(0o755)
        return script

    def _start_keeper(self) -> None:
        """containerd as a process of its own, as hosts have it: a killed dockerd leaves it be."""
        config = self.folder / "containerd.toml"
        config.write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        self._keeper = self._start(
            *("containerd", "--config", str(config)),
            *("--root", str(self.folder / "keeper"), "--state", str(self.folder / "keeper-state")),
            *("--address", str(self.folder / "containerd.sock")),
        )

    def _start(self, *command: str) -> "subprocess.Popen[bytes]":
        with (self.folder / "dockerd.log").open("ab") as log:
            return subprocess.Popen(
                # So that a killed test leaves no daemon behind.
                ["setpriv", "--pdeathsig", "TERM", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait_for_answer(self) -> None:
        assert self.process is not None
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            if _answers(self.folder / "docker.sock"):
                return
            time.sleep(_LOOK_S)
        raise AssertionError(f"dockerd does not come up: {self.log()[-2000:]}")

    def kill_daemon(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill (or end) dockerd alone: its containers and their keeper stay as they are."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(LIMIT_S)
        self.client.close()

    def log(self) -> str:
        """What the daemon wrote."""
        return (self.folder / "dockerd.log").read_text(encoding="utf-8", errors="replace")

    # Containers

    def run(
        self,
        *command: object,
        name: str | None = None,
        gpu: bool = True,
        emulator: Path | None = None,
        environment: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        binds: Sequence[str] = (),
        **more: Any,
    ) -> Any:
        """Start a container, "given a GPU" as the NVIDIA runtime says it, by its environment.

        `emulator` is the folder of a broker that must run outside already: inside, its PIDs
        would mean nothing to the host. The built libraries are at the same path as outside.
        """
        given: dict[str, str] = {"NVIDIA_VISIBLE_DEVICES": "all" if gpu else "void"}
        mounts = list(binds)
        if emulator is not None:
            given |= {
                "DURE_EMULATOR_DIR": str(emulator),
                "LD_LIBRARY_PATH": str(LIB / "emulator"),
            }
            mounts += [f"{LIB}:{LIB}:ro", f"{emulator}:{emulator}"]
        return self.client.containers.run(
            IMAGE,
            [str(word) for word in command] or ["sleep", "1000"],
            name=name,
            detach=True,
            environment=given | dict(environment or {}),
            labels={OWN_LABEL: str(os.getpid())} | dict(labels or {}),
            volumes=mounts,
            network_mode="none",
            **({"stop_signal": "SIGKILL"} | more),  # a shell as process 1 would sit out SIGTERM
        )

    def ticker(self, **more: Any) -> "Ticker":
        """A container that counts in a file of the host, so that its standing still is seen."""
        folder = Path(tempfile.mkdtemp(prefix="ticks-", dir=self.folder))
        loop = "n=0; while true; do n=$((n+1)); echo $n > /ticks/n; sleep 0.05; done"
        binds = [*more.pop("binds", ()), f"{folder}:/ticks"]
        return Ticker(self.run("sh", "-c", loop, binds=binds, **more), folder / "n")

    def clean(self) -> None:
        """Remove every container made by this process, frozen ones too."""
        mine = {"label": f"{OWN_LABEL}={os.getpid()}"}
        for container in self.client.containers.list(all=True, filters=mine):
            try:
                container.remove(force=True)
            except docker.errors.NotFound:
                continue

    def close(self) -> None:
        """End the daemon and everything in it."""
        try:
            if self.own and self.process is not None and self.process.poll() is not None:
                self.start_daemon(live_restore=True)
            self.clean()
            self.client.close()
        finally:
            self._end()

    def _end(self) -> None:
        for process in (self.process, self._keeper):
            if process is None:
                continue
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        _unmount_under(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    # Its image

    def _import_image(self) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name in ("bin", "lib", "lib64", "tmp", "proc", "dev", "etc", "ticks"):
                folder = tarfile.TarInfo(name)
                folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(folder)
            tar.add(_busybox(), "bin/busybox")
            for applet in _APPLETS:
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
            for library in _LIBRARIES:
                tar.add(Path(library).resolve(), library.lstrip("/"))
        repository, tag = IMAGE.split(":")
        self.client.api.import_image_from_data(packed.getvalue(), repository=repository, tag=tag)


class Ticker:
    """A container that writes a growing number several times a second."""

    def __init__(self, container: Any, file: Path) -> None:
        self.container = container
        self.file = file
        until = time.monotonic() + LIMIT_S
        while self.count() == 0:
            assert time.monotonic() < until, "the ticker does not start"
            time.sleep(_LOOK_S)

    @property
    def id(self) -> str:
        """The container's full id."""
        return str(self.container.id)

    def count(self) -> int:
        """How far it has counted."""
        try:
            return int(self.file.read_text(encoding="utf-8") or 0)
        except (FileNotFoundError, ValueError):
            return 0

    def seconds_until_it_moves(self, limit_s: float = LIMIT_S) -> float:
        """How long it took until it counted on; fails past the limit."""
        began, before = time.monotonic(), self.count()
        while (now := self.count()) in (before, 0):
            waited = time.monotonic() - began
            assert waited < limit_s, f"still frozen at {now} after {waited:.1f} s"
            time.sleep(0.005)
        return time.monotonic() - began

    def stands_still(self, for_s: float = 0.4) -> bool:
        """Whether it did not count for so long."""
        time.sleep(0.05)  # a number it was about to write when it was frozen
        before = self.count()
        time.sleep(for_s)
        return self.count() == before


def _answers(where: Path) -> bool:
    """Whether a daemon answers; asked by hand, since the SDK leaves failed sockets open."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(LIMIT_S)
        try:
            connection.connect(str(where))
            connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(64)
        except OSError:
            return False


def _busybox() -> Path:
    for place in ("/bin/busybox", "/usr/bin/busybox"):
        if Path(place).exists():
            return Path(place).resolve()
    pytest.skip("there is no busybox; install busybox-static")


def _unmount_under(folder: Path) -> None:
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    under = [line.split()[1] for line in mounts if line.split()[1].startswith(str(folder))]
    for place in reversed(under):
        subprocess.run(["umount", "-l", place], check=False, capture_output=True)


@functools.cache
def shared_bed() -> Bed:
    """The one bed of this process; gone when it ends."""
    if not os.environ.get(DOCKER_VARIABLE):
        if shutil.which("dockerd") is None:
            pytest.skip("there is no dockerd; install docker.io or set DURE_TEST_DOCKER")
        if os.geteuid() != 0:
            pytest.skip("only root can start dockerd; set DURE_TEST_DOCKER to use a running one")
    bed = Bed()
    atexit.register(bed.close)
    return bed


@pytest.fixture
def docker_bed() -> Iterator[Bed]:
    """A daemon without containers of earlier tests."""
    bed = shared_bed()
    yield bed
    bed.clean()
