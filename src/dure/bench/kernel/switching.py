"""Switches of policy while tenants run: how soon the next plan is in force, what is forgotten."""

import itertools
import time
from typing import Any

from dure.bench.common.statistics import percentile
from dure.bench.kernel.agents import BenchAgent
from dure.bench.kernel.bed import Bed, Surroundings, worker_name
from dure.bench.kernel.orders import POISSON, Order
from dure.bench.kernel.rows import ROWS, Substrate
from dure.bench.kernel.scenarios import SCENARIOS, Role
from dure.bench.kernel.shard import SEED, Settings, Tell
from dure.bench.kernel.store import Store
from dure.domain.errors import DureError
from dure.domain.units import NS_PER_S
from dure.sim.benches.report import Grid, Verdict

SWITCHES = 100
MOST_MS = 50.0
GAP_S = 0.15
TARGET_MS = 50.0
LOAD_PER_S = 200.0
WAIT_LIMIT_S = 5.0
_POLICIES = ("slo", "hybrid", "jct")
_ROW = ROWS["slo"]


def run(
    _store: Store, settings: Settings, surroundings: Surroundings, tell: Tell
) -> dict[str, Any]:
    """Pair (b) under Dure, switched again and again."""
    scenario = SCENARIOS["b"]
    targets = {tenant.name: TARGET_MS for tenant in scenario.with_role(Role.SERVICE)}
    with Bed(scenario, surroundings, shares_daemon=False) as bed:
        bed.start(_ROW, targets)
        bed.warm(_ROW)
        agent = bed.agent(Substrate.DURE_ISOLATED)
        agent.set_policy("slo")
        before = _said(agent)
        count = max(1, round(SWITCHES * settings.scale))
        length_s = count * (GAP_S + 0.1) + 5.0
        now_s = time.monotonic()
        names = {tenant.name: worker_name(_ROW, tenant) for tenant in scenario.tenants}
        for index, tenant in enumerate(scenario.tenants):
            per_s = LOAD_PER_S if tenant.load == POISSON else 0.0
            order = Order(
                tenant.load, now_s + 1.0, length_s, 0.5, per_s, SEED + index, tenant.steps
            )
            bed.workers.send(names[tenant.name], order.message())
        time.sleep(2.0)
        waits_ms = _switch_all(agent, count, tell)
        errors = []
        for name in names.values():
            try:
                bed.workers.collect(name, length_s + 60.0)
            except DureError as error:
                errors.append(str(error))
        return {
            "waits_ms": waits_ms,
            "errors": errors,
            "forgotten": sorted(
                key for key, value in _said(agent).items() if before.get(key) != value
            ),
        }


def _switch_all(agent: BenchAgent, total: int, tell: Tell) -> list[float]:
    found = []
    for count, policy in enumerate(itertools.islice(itertools.cycle(_POLICIES[::-1]), total)):
        agent.set_policy(policy)
        returned_s = time.monotonic()
        found.append((_first_squad_s(agent, policy) - returned_s) * 1e3)
        if count % 25 == 24:
            tell(f"{count + 1} switches, p99 so far {percentile(found, 99.0):.1f} ms")
        time.sleep(GAP_S)
    return found


def _first_squad_s(agent: BenchAgent, policy: str) -> float:
    """When the first squad of a plan of that policy began, or a little later.

    Plans may follow one another faster than they are adopted, so the first one seen counts.
    """
    until_s = time.monotonic() + WAIT_LIMIT_S
    first: int | None = None
    while time.monotonic() < until_s:
        gpu = agent.client.status().gpus[0]
        if first is None and gpu.plan is not None and gpu.plan.policy == policy:
            first = gpu.plan.epoch
        if first is not None and gpu.adopted_epoch >= first:
            return gpu.adopted_ns / NS_PER_S
    raise DureError(f"no squad of {policy} began within {WAIT_LIMIT_S:g} s", "see the agent's log")


def _said(agent: BenchAgent) -> dict[str, Any]:
    """What was said of each tenant."""
    return {tenant.name: tenant.spec.model_dump(mode="json") for tenant in agent.client.tenants()}


def verdicts(found: dict[str, Any]) -> list[Verdict]:
    """Soon, without error, without loss."""
    p99_ms = percentile(found["waits_ms"], 99.0)
    return [
        Verdict(
            f"policy set → first squad of the new plan, p99 over {len(found['waits_ms'])} switches "
            f"≤ {MOST_MS:g} ms",
            f"p50 {percentile(found['waits_ms'], 50.0):.1f} ms, p99 {p99_ms:.1f} ms",
            len(found["waits_ms"]) >= SWITCHES and p99_ms <= MOST_MS,
        ),
        Verdict(
            "no tenant error while policies switch",
            "; ".join(found["errors"]) or "none",
            not found["errors"],
        ),
        Verdict(
            "nothing said of a tenant is forgotten",
            ", ".join(found["forgotten"]) or "all as before",
            not found["forgotten"],
        ),
    ]


def grids(_found: dict[str, Any]) -> list[Grid]:
    """The verdicts say all."""
    return []
