"""A Dure agent of the bench's own: started in a private folder, spoken to, and ended."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from dure.bench.kernel.scenarios import BenchTenant, Role
from dure.client.api import AgentClient, AgentUnreachableError
from dure.client.places import RUN_DIR_VARIABLE, Places
from dure.client.schema import LatencyPromise, PolicyRequest, Sharing, TenantPatch
from dure.domain.errors import DureError
from dure.domain.units import NS_PER_MS

DURE = (sys.executable, "-c", "from dure.cli.main import main; main()")
"""The command line of this very installation, whatever `dure` is on the path."""
AGENT = (*DURE, "agent")
START_LIMIT_S = 60.0
STOP_LIMIT_S = 60.0
END_GRACE_S = 0.5
_POLL_S = 0.05


class AgentFailedError(DureError):
    """The agent of the bench did not start."""


@dataclass(slots=True)
class BenchAgent:
    """One agent; a context manager that ends it."""

    sharing: Sharing
    run_dir: Path
    environment: Mapping[str, str]
    """Of the agent and of what runs under it, over this process's own."""
    command: tuple[str, ...] = AGENT

    _process: "subprocess.Popen[bytes] | None" = None
    _client: AgentClient | None = None

    def __enter__(self) -> "BenchAgent":
        self.run_dir.mkdir(parents=True, exist_ok=True)
        log = self.run_dir / "bench-agent.log"
        with log.open("wb") as stream:
            self._process = subprocess.Popen(
                [*self.command, "--sharing", self.sharing],
                env={**os.environ, **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )
        self._await(log)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            self._client.close()
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def variables(self) -> dict[str, str]:
        """What a process needs to find it."""
        return {**self.environment, RUN_DIR_VARIABLE: str(self.run_dir)}

    @property
    def client(self) -> AgentClient:
        if self._client is None:
            raise AgentFailedError("the agent has not started", "start it first")
        return self._client

    @property
    def pid(self) -> int:
        """Of the agent."""
        return self._process.pid if self._process is not None else 0

    def prefix(self, tenant: BenchTenant, target_ms: float | None) -> list[str]:
        """What to put before a tenant's command."""
        words = [*DURE, "run", "--require", "--tenant", tenant.name]
        if tenant.role is Role.BEST_EFFORT:
            words += ["--class", "best-effort"]
        elif tenant.role is Role.SERVICE:
            words += ["--class", "guaranteed"]
            if target_ms is not None:
                words += ["--latency-slo", f"p99={target_ms:.4f}ms"]
        return [*words, "--"]

    def set_policy(self, policy: str, parameters: Mapping[str, float] | None = None) -> None:
        """Switch; returns when the agent has taken it."""
        self.client.set_policy(PolicyRequest(policy=policy, parameters=dict(parameters or {})))

    def set_target(self, tenant: str, target_ms: float) -> None:
        """Give a running tenant another latency target."""
        promise = LatencyPromise(target_ns=round(target_ms * NS_PER_MS))
        self.client.change(tenant, TenantPatch(latency_slo=promise))

    def set_share(self, tenant: str, share: float) -> None:
        """Give a running tenant a least share of the device."""
        self.client.change(tenant, TenantPatch(sm_share=share))

    def end_tenant(self, tenant: str) -> None:
        """End its processes in the way that harms nobody."""
        self.client.end(tenant, END_GRACE_S)

    def status(self) -> dict[str, Any]:
        """All it says, as plain data; what happened long ago left out."""
        found: dict[str, Any] = self.client.status().model_dump(mode="json", by_alias=True)
        found["events"] = found.get("events", [])[-20:]
        return found

    def _await(self, log: Path) -> None:
        places = Places(self.run_dir)
        until_s = time.monotonic() + START_LIMIT_S
        while time.monotonic() < until_s:
            if self._process is not None and self._process.poll() is not None:
                break
            client = AgentClient(places)
            try:
                client.status()
            except AgentUnreachableError:
                client.close()
                time.sleep(_POLL_S)
            else:
                self._client = client
                return
        said = log.read_text(errors="replace").strip().splitlines()[-3:]
        self.__exit__(None, None, None)
        raise AgentFailedError(
            f"`dure agent --sharing {self.sharing}` did not start ({' / '.join(said) or 'silent'})",
            "run it by hand, or `dure doctor`",
        )
