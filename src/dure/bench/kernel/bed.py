"""What a shard runs on: worker processes by substrate, with the daemons and agents they need."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from dure.bench.common.agents import AGENT
from dure.bench.kernel.agents import BenchAgent
from dure.bench.kernel.mps import mps_daemon
from dure.bench.kernel.rows import ROWS, Row, Substrate
from dure.bench.kernel.scenarios import BenchScenario, BenchTenant, Role
from dure.bench.kernel.workers import WORKER, WorkerError, Workers
from dure.domain.errors import DureError

ANSWERS = (sys.executable, "-m", "dure.bench.workloads.answers")
_PIPE = "CUDA_MPS_PIPE_DIRECTORY"
_LOG = "CUDA_MPS_LOG_DIRECTORY"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where workers run: on this machine's GPU, or on emulated ones."""

    worker: tuple[str, ...] = WORKER
    isolated: Mapping[str, str] = field(default_factory=dict)
    """Environment of everything that does not use MPS."""
    mps: Mapping[str, str] = field(default_factory=dict)
    """Environment of everything that does."""
    daemon: bool = True
    """Whether MPS needs a daemon."""
    agent: tuple[str, ...] = AGENT
    answers: tuple[str, ...] = ANSWERS
    """Programs whose results are known."""


class Bed:
    """Workers of one scenario; each starts once and runs many cells."""

    def __init__(
        self, scenario: BenchScenario, surroundings: Surroundings, *, shares_daemon: bool
    ) -> None:
        self.scenario = scenario
        self._surroundings = surroundings
        self._shares_daemon = shares_daemon
        """Whether plain MPS rows use the daemon of the agent, as two on one GPU do not mix."""
        self._stack = contextlib.ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="dure-bench-"))
        self.folder = Path(folder)
        self.workers = Workers(self.folder, surroundings.worker)
        self._stack.callback(self.workers.close)
        self._agents: dict[Substrate, BenchAgent] = {}
        self._mps: dict[str, str] | None = None
        self._built: dict[str, WorkerError | None] = {}
        self._warm: set[str] = set()

    def __enter__(self) -> "Bed":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Workers end before the agents and daemons under them.
        self.workers.close()
        self._stack.close()

    def start(self, row: Row, targets_ms: Mapping[str, float]) -> None:
        """Start the workers of a row that do not run yet."""
        for tenant in self.scenario.tenants:
            name = worker_name(row, tenant)
            if name in self.workers:
                continue
            environment = self._environment(row.substrate, targets_ms)
            if tenant.role is Role.BEST_EFFORT:
                environment |= dict(row.best_effort_env)
            prefix: list[str] = []
            if row.substrate.managed:
                agent = self.agent(row.substrate)
                prefix = agent.prefix(tenant, targets_ms.get(tenant.name))
            self.workers.start(name, tenant.workload, environment, prefix)

    def build(self, rows: Iterable[Row]) -> None:
        """Have the workers of rows that were started build their work, all at once.

        One that fails says so when it is to warm up.
        """
        names = [worker_name(row, tenant) for row in rows for tenant in self.scenario.tenants]
        wanted = [
            name
            for name in dict.fromkeys(names)
            if name in self.workers and name not in self._built
        ]
        self.workers.ask_to_build(wanted)
        failed = self.workers.built(wanted)
        self._built |= {name: failed.get(name) for name in wanted}

    def warm(self, row: Row) -> dict[str, Any]:
        """Warm up the workers of a row, one after another, so that none tunes beside another."""
        self.build((row,))
        seen: dict[str, Any] = {}
        for tenant in self.scenario.tenants:
            name = worker_name(row, tenant)
            if name not in self._warm:
                if (failed := self._built[name]) is not None:
                    raise failed
                seen = self.workers.warm_up(name)
                self._warm.add(name)
        return seen

    def agent(self, substrate: Substrate) -> BenchAgent:
        """The agent of a substrate, started when it is first asked for."""
        if substrate not in self._agents:
            mps = substrate is Substrate.DURE_MPS
            agent = BenchAgent(
                "mps" if mps else "isolated",
                self.folder / substrate.value,
                self._surroundings.mps if mps else self._surroundings.isolated,
                self._surroundings.agent,
            )
            self._agents[substrate] = self._stack.enter_context(agent)
        return self._agents[substrate]

    def _environment(self, substrate: Substrate, targets_ms: Mapping[str, float]) -> dict[str, str]:
        if substrate is Substrate.PLAIN:
            return dict(self._surroundings.isolated)
        if substrate is Substrate.MPS:
            if self._mps is None:
                self._mps = self._mps_environment(targets_ms)
            return {**self._surroundings.mps, **self._mps}
        return self.agent(substrate).variables

    def _mps_environment(self, targets_ms: Mapping[str, float]) -> dict[str, str]:
        """What plain MPS clients start with."""
        if not self._surroundings.daemon:
            return {}
        if self._shares_daemon:
            managed = ROWS["slo-mps"]
            with contextlib.suppress(DureError):  # the rows of that substrate say why
                self.start(managed, targets_ms)
                told = self.workers.environment(worker_name(managed, self.scenario.tenants[0]))
                return {_PIPE: told[_PIPE], _LOG: told.get(_LOG, told[_PIPE])}
        own = {**os.environ, **self._surroundings.mps}
        return self._stack.enter_context(mps_daemon(self.folder / "mps", own))


def worker_name(row: Row, tenant: BenchTenant) -> str:
    """Rows whose environment is the same share a worker."""
    parts = [row.substrate.value, tenant.name]
    if row.best_effort_env and tenant.role is Role.BEST_EFFORT:
        parts.append(row.name)
    return "+".join(parts)
