"""The agent of the kernel bench: its tenants, their promises, its policy."""

import sys
from collections.abc import Mapping
from pathlib import Path

from dure.bench.common.agents import AGENT, DURE, AgentProcess
from dure.bench.kernel.scenarios import BenchTenant, Role
from dure.client.schema import LatencyPromise, PolicyRequest, Sharing, TenantPatch
from dure.domain.units import NS_PER_MS

END_GRACE_S = 0.5
SPLIT_AGENT = (sys.executable, "-m", "dure.bench.kernel.split_agent")
"""One whose plan is stated: every tenant keeps to a set of its share."""


class BenchAgent(AgentProcess):
    """One agent; a context manager that ends it."""

    def __init__(
        self,
        sharing: Sharing,
        run_dir: Path,
        environment: Mapping[str, str],
        command: tuple[str, ...] = AGENT,
    ) -> None:
        super().__init__(run_dir, environment, ("--sharing", sharing), command)

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
