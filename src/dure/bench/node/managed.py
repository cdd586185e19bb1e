"""The agent of a row, started for it and ended after it."""

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dure.agent.containers.watchdog import PID_NAME
from dure.bench.common.agents import AgentProcess
from dure.bench.node.bed import Bed
from dure.bench.node.daemon import HOST_VARIABLE
from dure.bench.node.rows import Row
from dure.bench.node.sets import Member
from dure.client.places import Places
from dure.client.schema import TenantSpec
from dure.domain.errors import DureError
from dure.domain.units import NS_PER_S

_FIND_LIMIT_S = 20.0
_POLL_S = 0.05
_END_LIMIT_S = 10.0
_SETTLE_S = 2.0
"""A fresh agent loads its last parts in its first second or two; what that takes is the price of a
start, not of queueing."""
_LOOK_EVERY_S = 1.0
"""Each look costs the agent some milliseconds, which count as its own."""


class ManagerError(DureError):
    """The agent does not look after the containers."""


class Manager:
    """What a row is managed by: an agent, or nobody."""

    def __init__(self, agent: AgentProcess | None) -> None:
        self.agent = agent

    def await_containers(self, count: int) -> None:
        """Until the agent knows of so many; at once where nobody manages."""
        if self.agent is None:
            return
        until_s = time.monotonic() + _FIND_LIMIT_S
        seen = 0
        troubles: tuple[str, ...] = ()
        while time.monotonic() < until_s:
            found = self.agent.client.containers()
            seen, troubles = len(found.containers), found.troubles
            if seen >= count and not troubles:
                return
            time.sleep(_POLL_S)
        raise ManagerError(
            f"the agent manages {seen} of {count} containers ({' / '.join(troubles)})",
            "look at its log",
        )

    def settle(self) -> None:
        """Until the agent has started whole; at once where nobody manages."""
        if self.agent is not None:
            time.sleep(_SETTLE_S)

    def used_s(self) -> float | None:
        """Processor time that agent and monitor used so far; None where nobody manages."""
        if self.agent is None:
            return None
        monitor = self.agent.client.containers().monitor
        return processor_s(self.agent.pid) + monitor.cpu_ns / NS_PER_S

    def tenants(self, members: tuple[Member, ...]) -> dict[str, dict[str, Any]]:
        """Options that make the serving members tenants of the agent, by member."""
        if self.agent is None:
            return {}
        found: dict[str, dict[str, Any]] = {}
        for member in members:
            if member.serves:
                spec = TenantSpec(tenant_class="guaranteed", keep=True)
                declared = self.agent.client.declare(member.name, spec)
                run_dir = str(self.agent.run_dir)
                found[member.name] = {
                    "environment": dict(declared.environment),
                    "volumes": [f"{run_dir}:{run_dir}"],
                }
        return found


class Waits:
    """The longest wait of each container, as the agent reports it."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._longest_ns: dict[str, int] = {}
        self._looked_s = 0.0

    def look(self) -> None:
        """Ask the agent, now and then."""
        agent = self._manager.agent
        now_s = time.monotonic()
        if agent is None or now_s - self._looked_s < _LOOK_EVERY_S:
            return
        self._looked_s = now_s
        for view in agent.client.containers().containers:
            before_ns = self._longest_ns.get(view.id, 0)
            self._longest_ns[view.id] = max(before_ns, view.waited_ns)

    def of(self, container: str) -> float | None:
        """Seconds; None where nobody reports."""
        if self._manager.agent is None:
            return None
        return self._longest_ns.get(container, 0) / NS_PER_S


def processor_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path("/proc", str(pid), "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def managed(row: Row, docker_host: str, bed: Bed, record: Path | None = None) -> Iterator[Manager]:
    """The agent of a row, which starts its watchdog; nobody for a row without a strategy."""
    if row.strategy is None:
        yield Manager(None)
        return
    environment = {**bed.environment, HOST_VARIABLE: docker_host}
    with tempfile.TemporaryDirectory(prefix="dure-run-", ignore_cleanup_errors=True) as folder:
        arguments = (
            *("--manage-containers", "--strategy", row.strategy),
            *("--pause-with", row.pause_with),
            *(("--record", str(record)) if record is not None else ()),
        )
        agent = AgentProcess(Path(folder), environment, arguments)
        try:
            with agent:
                yield Manager(agent)
        finally:
            _end_watchdog(Places(agent.run_dir).containers_dir)


def _end_watchdog(folder: Path) -> None:
    """End the watchdog that the agent started, which would stay for some seconds more."""
    try:
        pid = int((folder / PID_NAME).read_text(encoding="utf-8"))
        command = Path("/proc", str(pid), "cmdline").read_bytes()
    except (OSError, ValueError):
        return
    if str(folder).encode() not in command:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    until_s = time.monotonic() + _END_LIMIT_S
    while Path("/proc", str(pid)).exists() and time.monotonic() < until_s:
        time.sleep(_POLL_S)
