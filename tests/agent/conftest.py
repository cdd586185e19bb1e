"""Agents and tenants in processes of their own, ended with the test."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dure.client.api import AgentClient, AgentUnreachableError
from dure.client.places import Places
from tests.agent import stand

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 30.0
"""Generous: the machine may be slow and busy."""


def wait_for(what: str, check: Callable[[], object], limit_s: float = LIMIT_S) -> object:
    """The first true answer of a check; fails with words after the limit."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        found = check()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {limit_s:g} s")


@dataclass
class Bench:
    """One agent's folder, and everything started for it."""

    folder: Path
    gpus: int = 1
    stranger: int = 0
    policy: str = "slo"
    http_port: int = 0
    agent: "subprocess.Popen[bytes] | None" = None
    programs: "list[subprocess.Popen[str]]" = field(default_factory=list)
    _clients: list[AgentClient] = field(default_factory=list)

    @property
    def places(self) -> Places:
        return Places(self.folder)

    def start_agent(self, adapt: str = "off") -> AgentClient:
        command = [sys.executable, "-m", "tests.agent.stand", str(self.folder)]
        command += [str(self.gpus), str(self.stranger), self.policy, str(self.http_port)]
        command += [adapt]
        with (self.folder.parent / "agent.out").open("ab") as log:
            self.agent = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        client = self.client()
        wait_for("an answer of the agent", lambda: _answers(client))
        return client

    def client(self) -> AgentClient:
        client = AgentClient(self.places, 20.0)
        self._clients.append(client)
        return client

    def log(self) -> str:
        return (self.folder.parent / "agent.out").read_text()

    def start(
        self,
        tenant: str,
        mode: str,
        kernel_us: int = 1000,
        *,
        gpu: int = 0,
        env: dict[str, str] | None = None,
    ) -> "subprocess.Popen[str]":
        """A tenant's program; its first line was read into `said`."""
        command = [sys.executable, "-m", "tests.agent.tenant", str(self.places.shim_socket)]
        command += [tenant, stand.UUIDS[gpu], mode, str(kernel_us)]
        program = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=env)
        self.programs.append(program)
        return program

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        started: list[subprocess.Popen[str] | subprocess.Popen[bytes]] = [*self.programs]
        if self.agent is not None:
            started.append(self.agent)
        for program in started:
            if program.poll() is None:
                program.kill()
            program.wait(LIMIT_S)
            if program.stdout is not None:
                program.stdout.close()


def first_line(program: "subprocess.Popen[str]") -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def _answers(client: AgentClient) -> bool:
    try:
        client.policy()
    except AgentUnreachableError:
        return False
    return True


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    folder = tmp_path / "run"
    made = Bench(folder)
    try:
        yield made
    finally:
        made.stop()
