"""A Docker daemon for the bench: the one of this host, or one of its own while it runs."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker

from dure.domain.errors import DureError, InputError

HOST_VARIABLE = "DOCKER_HOST"
_UNIX = "unix://"
_START_LIMIT_S = 60.0
_STOP_LIMIT_S = 30.0
_POLL_S = 0.1
_ANSWER_S = 60.0
_CONNECTIONS = 32


class DaemonFailedError(DureError):
    """The daemon did not start."""


def connect(host: str) -> Any:
    """A client of the daemon there."""
    return docker.DockerClient(base_url=host, timeout=_ANSWER_S, max_pool_size=_CONNECTIONS)


def answers(host: str) -> bool:
    """Whether a daemon answers there."""
    if host.startswith(_UNIX):
        # The library would leave its socket open where nobody listens.
        with socket.socket(socket.AF_UNIX) as tried:
            try:
                tried.connect(host.removeprefix(_UNIX))
            except OSError:
                return False
    with contextlib.closing(connect(host)) as client:
        try:
            return bool(client.ping())
        except (docker.errors.DockerException, OSError):
            return False


@contextlib.contextmanager
def docker_daemon(folder: Path, programs: Path | None) -> Iterator[str]:
    """Its address. Where programs are named, or nobody answers, one is started in the folder."""
    if programs is None:
        host = os.environ.get(HOST_VARIABLE) or f"{_UNIX}/var/run/docker.sock"
        if answers(host):
            yield host
            return
    with _own_daemon(folder, programs) as host:
        yield host


@contextlib.contextmanager
def _own_daemon(folder: Path, programs: Path | None) -> Iterator[str]:
    environment = dict(os.environ)
    if programs is not None:
        environment["PATH"] = f"{programs}:{environment.get('PATH', os.defpath)}"
        environment["LD_LIBRARY_PATH"] = str(programs.parent / "lib")
    program = shutil.which("dockerd", path=environment["PATH"])
    if program is None:
        raise InputError(
            "no Docker daemon answers here, and there is no dockerd to start",
            "start Docker, set DOCKER_HOST, or name the folder of dockerd with --docker-bin",
        )
    host = f"{_UNIX}{folder}/docker.sock"
    log = folder / "dockerd.log"
    # Should the bench be killed, its daemon and containers go, too.
    tied = ("setpriv", "--pdeathsig", "TERM") if shutil.which("setpriv") else ()
    command = [
        *(*tied, program, "--host", host, "--data-root", str(folder / "data")),
        *("--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid")),
        *("--iptables=false", "--ip6tables=false", "--bridge=none"),
    ]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    try:
        _await(process, host, log)
        yield host
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(process: "subprocess.Popen[bytes]", host: str, log: Path) -> None:
    until_s = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < until_s and process.poll() is None:
        if answers(host):
            return
        time.sleep(_POLL_S)
    said = " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
    raise DaemonFailedError(f"dockerd did not start ({said})", "run it by hand as root")
