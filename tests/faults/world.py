"""One emulated GPU with an agent that may be killed, and programs whose stalls are measured."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dure.client.api import AgentClient
from dure.client.places import Places
from dure.client.schema import LatencyPromise, TenantSpec, TenantStatus
from dure.devices import library
from dure.domain.errors import DureError
from tests.processes import read_to_end

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0
"""Generous: the machine may be slow and busy."""

WEB = TenantSpec(latency_slo=LatencyPromise(target_ns=20_000_000), keep=True)
TRAIN = TenantSpec(tenant_class="best-effort", keep=True)


def wait_for(what: str, check: Callable[[], object], limit_s: float = LIMIT_S) -> float:
    """Seconds until a check came true; fails with words after the limit."""
    began = time.monotonic()
    while not check():
        if time.monotonic() - began > limit_s:
            raise AssertionError(f"{what} did not happen within {limit_s:g} s")
        time.sleep(0.01)
    return time.monotonic() - began


def show(text: str) -> None:
    """A figure for whoever runs the tests with -s."""
    sys.stdout.write(text + "\n")


class Jitter:
    """How long this machine kept a thread that only wants to sleep 5 ms from running: what a wait
    on it may be longer by, with nothing wrong."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Jitter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            before = time.monotonic()
            time.sleep(0.005)
            self.longest_s = max(self.longest_s, time.monotonic() - before - 0.005)


class Stepper:
    """A program that computes in steps until it is told to stop; see `programs.step`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

    def stop(self) -> "Steps":
        """Its account of itself; fails where it did not end well."""
        self.process.send_signal(signal.SIGTERM)
        out, err = read_to_end(self.process, LIMIT_S)
        assert self.process.returncode == 0, err
        said = json.loads(out.splitlines()[-1])
        assert said["correct"], said
        return Steps(said["steps"], [(begin, took) for begin, took in said["long"]])


class Steps:
    """What a program said of its steps: how many, and when each that took over 20 ms began."""

    def __init__(self, count: int, long: list[tuple[int, int]]) -> None:
        self.count = count
        self.long = long

    def longest_ms(self, from_ns: int, to_ns: int) -> float:
        """The longest step that began in a time, at most 20 ms where none took longer."""
        return max([took for begin, took in self.long if from_ns <= begin < to_ns], default=0) / 1e6


class World:
    """One machine: a folder each for agent and emulator, and all that runs there."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.folder = folder
        self.places = Places(folder / "run")
        self.emulator = folder / "emulator"
        self.emulator.mkdir()
        words = {"idle_exit_s": 5, **settings}
        config = "".join(f"{key}={value}\n" for key, value in words.items())
        (self.emulator / "config").write_text(config, encoding="utf-8")
        kept = {key: value for key, value in os.environ.items() if not key.startswith("DURE_")}
        kept.pop("LD_PRELOAD", None)
        self.environment = {
            **kept,
            "DURE_RUN_DIR": str(self.places.run_dir),
            "DURE_EMULATOR_DIR": str(self.emulator),
            "LD_LIBRARY_PATH": str(library.FOLDER / "emulator"),
            "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        }
        self.agent: subprocess.Popen[str] | None = None
        self.running: list[subprocess.Popen[str]] = []
        self._clients: list[AgentClient] = []

    # The agent

    def start_agent(
        self,
        *,
        sharing: str = "isolated",
        policy: str = "slo",
        places: Places | None = None,
        module: str = "dure.agent",
    ) -> AgentClient:
        """An agent, as soon as it answers."""
        where = places or self.places
        command = [sys.executable, "-m", module, "--run-dir", str(where.run_dir)]
        agent = self._spawn([*command, "--sharing", sharing, "--policy", policy])
        if places is None:
            self.agent = agent
        client = AgentClient(places or self.places, 20.0)
        self._clients.append(client)

        def answers() -> bool:
            assert agent.poll() is None, self.agent_log()
            try:
                client.policy()
            except DureError:
                return False
            return True

        wait_for("an answer of the agent", answers)
        return client

    def _spawn(self, command: list[str]) -> "subprocess.Popen[str]":
        with (self.folder / "agent.out").open("ab") as log:
            agent = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, text=True
            )
        self.running.append(agent)
        return agent

    def kill_agent(self) -> None:
        """As a crash does."""
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait(LIMIT_S)

    def agent_log(self) -> str:
        return (self.folder / "agent.out").read_text(encoding="utf-8")

    # Programs

    def start(
        self, command: list[str], given: Mapping[str, str], **more: str
    ) -> "subprocess.Popen[str]":
        """A program with what its tenant's processes need."""
        process = subprocess.Popen(
            command,
            env={**self.environment, **given, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def tenant(
        self, given: Mapping[str, str], *arguments: object, **more: str
    ) -> "subprocess.Popen[str]":
        """`dure-tenant` with these arguments."""
        return self.start([str(library.path("dure-tenant")), *map(str, arguments)], given, **more)

    def program(
        self, given: Mapping[str, str], name: str, *arguments: object, **more: str
    ) -> "subprocess.Popen[str]":
        """One of the programs of `programs.py`."""
        command = [sys.executable, "-m", "tests.faults.programs", name, *map(str, arguments)]
        return self.start(command, given, **more)

    def stepper(self, given: Mapping[str, str], *, pause_ms: float = 0.0) -> Stepper:
        """A program that computes in steps, at work already."""
        return Stepper(self.program(given, "step", pause_ms))

    def broker_pids(self) -> list[int]:
        """The emulator's own processes."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and self._is_broker(entry):
                    found.append(int(entry.name))
        return found

    def _is_broker(self, entry: Path) -> bool:
        command = (entry / "cmdline").read_bytes().split(b"\0")
        ours = f"DURE_EMULATOR_DIR={self.emulator}".encode()
        if not command[0].endswith(b"dure-broker"):
            return False
        return ours in (entry / "environ").read_bytes().split(b"\0")

    def close(self) -> None:
        """End everything started here."""
        for client in self._clients:
            client.close()
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=LIMIT_S)
        for pid in self.broker_pids():
            os.kill(pid, signal.SIGTERM)


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Exit code, stdout, stderr of a program that ends by itself."""
    out, err = read_to_end(process, LIMIT_S)
    return process.returncode, out, err


def tenant(client: AgentClient, name: str) -> TenantStatus:
    """A tenant as the agent sees it."""
    return next(each for each in client.tenants() if each.name == name)


def processes(client: AgentClient, name: str) -> int:
    """How many processes of a tenant are registered."""
    return len(tenant(client, name).clients)


def descriptors(pid: int) -> int:
    """Open descriptors of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def resident_mib(pid: int) -> float:
    """Memory of a process that is its own, without what it shares."""
    fields = dict(
        line.split(":", 1)
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    )
    return int(fields["RssAnon"].split()[0]) / 1024


def last_json(text: str) -> dict[str, Any]:
    """The last JSON object a program printed."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    found: dict[str, Any] = json.loads(lines[-1])
    return found
