"""What the pages are shown of: an agent on an emulated GPU with tenants, containers, a fleet."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dure.client.api import AgentClient
from dure.client.places import Places
from dure.devices import library
from tests.agent.conftest import wait_for
from tests.emulator.driving import build
from tests.kube.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
DURE = [sys.executable, "-c", "from dure.cli.main import main; main()"]
LIMIT_S = 60.0
SERVE = ("serve", "--seconds", "600", "--rate", "20", "--work-us", "500", "--kernels", "2")
TRAIN = ("train", "--seconds", "600", "--work-us", "800", "--kernels", "2")


class AgentBed:
    """`dure agent` on an emulated GPU, `dure run` for tenants, `dure dashboard` for the browser."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places = Places(folder / "run")
        (folder / "emulator").mkdir()
        kept = {name: text for name, text in os.environ.items() if not name.startswith("DURE_")}
        self.environment = {
            **kept,
            "DURE_EMULATOR_DIR": str(folder / "emulator"),
            "LD_LIBRARY_PATH": str(library.FOLDER / "emulator"),
            "DURE_RUN_DIR": str(self.places.run_dir),
            "XDG_CONFIG_HOME": str(folder),
        }
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.url = ""
        self.http_port = free_port()

    def _start(self, name: str, *arguments: str) -> "subprocess.Popen[str]":
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*DURE, *arguments],
                env=self.environment,
                stdout=subprocess.PIPE if name == "dashboard" else log,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._processes[name] = process
        return process

    def start_agent(self, *options: str) -> None:
        """Start it, and wait until it answers."""
        self._start("agent", "agent", "--policy", "slo", *options)
        wait_for("the agent's answer", self.answers, LIMIT_S)

    def answers(self) -> bool:
        """Whether the agent answers."""
        if not self.places.api_socket.is_socket():
            return False
        try:
            with AgentClient(self.places) as client:
                client.policy()
        except Exception:  # noqa: BLE001, not yet
            return False
        return True

    def kill_agent(self) -> None:
        """Let it die without a word."""
        process = self._processes.pop("agent")
        process.kill()
        process.wait(LIMIT_S)

    def start_tenant(self, name: str, *program: str, options: tuple[str, ...] = ()) -> None:
        """Start a program as a tenant."""
        command = (str(library.path("dure-tenant")), *program)
        self._start(name, "run", "--tenant", name, *options, "--", *command)

    def start_dashboard(self) -> str:
        """The address that `dure dashboard` prints."""
        process = self._start("dashboard", "dashboard", "--run-dir", str(self.places.run_dir))
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "#key=" in line, (self.folder / "dashboard.log").read_text()
        return line.split()[4]

    def policy(self) -> str:
        """As the agent says."""
        with AgentClient(self.places) as client:
            return client.policy().policies[0].policy

    def close(self) -> None:
        """End everything."""
        for process in reversed(self._processes.values()):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(LIMIT_S)
            if process.stdout is not None:
                process.stdout.close()


@contextmanager
def agent_with_tenants() -> Iterator[AgentBed]:
    """Two services with promises and a training job, and the address of the pages."""
    build()
    with ExitStack() as ends:
        # Not below pytest's folder: the paths of sockets must be short.
        folder = ends.enter_context(
            tempfile.TemporaryDirectory(prefix="dure-web-", ignore_cleanup_errors=True)
        )
        bed = AgentBed(Path(folder))
        ends.callback(bed.close)
        bed.start_agent("--http", f"127.0.0.1:{bed.http_port}", "--adapt", "advise")
        bed.start_tenant("web", *SERVE, options=("--latency-slo", "p99=50ms"))
        bed.start_tenant("train", *TRAIN, options=("--best-effort",))
        bed.url = bed.start_dashboard()
        yield bed


@contextmanager
def agent_with_containers(**environment: str) -> Iterator[AgentBed]:
    """An agent whose containers are simulated: one runs, others queue for it."""
    with ExitStack() as ends:
        folder = ends.enter_context(
            tempfile.TemporaryDirectory(prefix="dure-web-", ignore_cleanup_errors=True)
        )
        bed = AgentBed(Path(folder))
        ends.callback(bed.close)
        bed.environment |= environment
        command = [sys.executable, "-m", "tests.web.browser.containers", str(bed.places.run_dir)]
        with (bed.folder / "agent.log").open("ab") as log:
            bed._processes["agent"] = subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=log, text=True, start_new_session=True
            )
        wait_for("the agent's answer", bed.answers, LIMIT_S)
        bed.url = bed.start_dashboard()
        yield bed
