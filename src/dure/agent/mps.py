"""The MPS daemon that an agent supervises: started in its folder, found again, ended in order.

The daemon outlives an agent that crashed, so that tenants go on; the next agent finds it. A client
is ended through the daemon before it is killed: killed in mid-kernel it would take others along.
"""

import logging
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dure.devices import library
from dure.domain.errors import DureError, InputError
from dure.domain.tenant import Tenant

_log = logging.getLogger(__name__)

_CONTROL = "nvidia-cuda-mps-control"
_ANSWER_S = 10.0
EMULATOR_VARIABLE = "DURE_EMULATOR_DIR"
_PRIORITY_VARIABLE = "CUDA_MPS_CLIENT_PRIORITY"
_NORMAL, _BELOW_NORMAL = "0", "1"
"""As MPS numbers them. Where the hardware has a choice, blocks of whoever was promised something go
first: a kernel that the gate let in before a request came then holds it up for a wave at most."""


@dataclass(frozen=True, slots=True)
class MpsDaemon:
    """The daemon with its pipes and logs under one folder."""

    folder: Path
    control: str = _CONTROL

    def environment_of(self, tenant: Tenant) -> dict[str, str]:
        """What a tenant's processes need to be its clients, for their lives."""
        priority = _NORMAL if tenant.protected else _BELOW_NORMAL
        return {**self._places, _PRIORITY_VARIABLE: priority}

    @property
    def _places(self) -> dict[str, str]:
        """Where the daemon is found."""
        return {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(self.folder / "log"),
        }

    def ensure(self, *, open_to_all: bool) -> bool:
        """Have it running; whether it had to be started."""
        for name in ("pipe", "log"):
            part = self.folder / name
            part.mkdir(parents=True, exist_ok=True)
            part.chmod(0o755 if open_to_all else 0o700)
        self.folder.chmod(0o755 if open_to_all else 0o700)
        if self.running():
            return False
        started = self._run([self.control, "-d"])
        if started.returncode != 0 or not self.running():
            raise DureError(
                f"the MPS daemon does not start ({_said(started)})",
                f"look into {self.folder / 'log'}, or use --sharing isolated",
            )
        return True

    def running(self) -> bool:
        """Whether it answers."""
        return self._ask("get_default_active_thread_percentage") is not None

    def servers(self) -> list[int]:
        """Process ids of its servers; one for each user it serves."""
        answer = self._ask("get_server_list") or ""
        return [int(word) for word in answer.split() if word.isdigit()]

    def clients(self, server: int) -> list[int]:
        """Process ids of a server's clients."""
        answer = self._ask(f"get_client_list {server}") or ""
        return [int(word) for word in answer.split() if word.isdigit()]

    def terminate(self, pid: int) -> bool:
        """Take a client's work off the GPU so that its death harms nobody; whether it was one."""
        for server in self.servers():
            if pid in self.clients(server):
                return self._ask(f"terminate_client {server} {pid}") is not None
        return False

    def quit(self) -> None:
        """End the daemon."""
        self._ask("quit")

    def _ask(self, command: str) -> str | None:
        try:
            answered = self._run([self.control], command + "\n")
        except DureError:
            return None
        return answered.stdout if answered.returncode == 0 else None

    def _run(self, command: list[str], said: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self._places}
        environment.pop("LD_PRELOAD", None)
        try:
            return subprocess.run(
                command,
                input=said,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_ANSWER_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DureError(f"{self.control} does not answer ({error})", "restart it") from error


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join((done.stderr or done.stdout or f"exit code {done.returncode}").split())


def find_daemon(folder: Path, environment: Mapping[str, str]) -> MpsDaemon:
    """The daemon to supervise, the emulator's own where one is in use; raises without any."""
    if environment.get(EMULATOR_VARIABLE):
        return MpsDaemon(folder, str(library.path(f"emulator/{_CONTROL}")))
    if shutil.which(_CONTROL) is not None:
        return MpsDaemon(folder)
    raise InputError(
        f"there is no {_CONTROL} on this host",
        "install the driver's MPS tools, or use --sharing isolated",
        field="--sharing",
    )
