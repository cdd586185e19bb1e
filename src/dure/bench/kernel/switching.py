"""Switches of policy while tenants run: how soon the next plan is in force, what is forgotten."""

import itertools
import time
from collections.abc import Iterable, Mapping
from typing import Any

from dure.bench.common.statistics import percentile
from dure.bench.kernel.agents import BenchAgent
from dure.bench.kernel.bed import Bed, Surroundings, worker_name
from dure.bench.kernel.budget import Budget
from dure.bench.kernel.orders import POISSON, Order
from dure.bench.kernel.rows import ROWS, Substrate
from dure.bench.kernel.scenarios import SCENARIOS, Role
from dure.bench.kernel.shard import SEED, Settings, Tell
from dure.bench.kernel.store import PARTS, Store
from dure.domain.errors import DureError
from dure.domain.units import NS_PER_S
from dure.sim.benches.report import Grid, Verdict

SWITCHES = 100
ROUND = 24  # switches between two of which what was found is kept; whole turns of the policies
START_S = 45.0
MOST_MS = 50.0
GAP_S = 0.15
TARGET_MS = 50.0
LOAD_PER_S = 200.0
WAIT_LIMIT_S = 5.0
_POLICIES = ("slo", "hybrid", "jct")
_ROW = ROWS["slo"]


def run(store: Store, settings: Settings, surroundings: Surroundings, tell: Tell) -> dict[str, Any]:
    """Pair (b) under Dure, switched again and again; every round of switches is kept."""
    found = store.noted(PARTS) or {"waits_ms": [], "errors": [], "forgotten": []}
    budget = Budget.of(settings.limit_s)
    if complete(found, settings) or not budget.holds(START_S + _length_s(ROUND)):
        return found
    scenario = SCENARIOS["b"]
    targets = {tenant.name: TARGET_MS for tenant in scenario.with_role(Role.SERVICE)}
    with Bed(scenario, surroundings, shares_daemon=False) as bed:
        bed.start(_ROW, targets)
        bed.warm(_ROW)
        agent = bed.agent(Substrate.DURE_ISOLATED)
        agent.set_policy("slo")
        before = _said(agent)
        while (left := _count(settings) - len(found["waits_ms"])) > 0:
            length_s = _length_s(min(ROUND, left))
            if not budget.holds(length_s):
                tell(f"no time for {left} switches: run the same command again")
                break
            names = _load(bed, length_s)
            found["waits_ms"] += _switch_all(agent, min(ROUND, left))
            found["errors"] += _errors(bed, names, length_s)
            found["forgotten"] = forgotten(found["forgotten"], before, _said(agent))
            store.note(PARTS, found)
            p99_ms = percentile(found["waits_ms"], 99.0)
            tell(f"{len(found['waits_ms'])} switches, p99 so far {p99_ms:.1f} ms")
    return found


def complete(found: dict[str, Any], settings: Settings) -> bool:
    """Whether there were as many switches as are wanted."""
    return len(found["waits_ms"]) >= _count(settings)


def _count(settings: Settings) -> int:
    return max(1, round(SWITCHES * settings.scale))


def _length_s(switches: int) -> float:
    """How long tenants run for so many switches."""
    return switches * (GAP_S + 0.1) + 3.0


def _load(bed: Bed, length_s: float) -> list[str]:
    """Have the pair work; the names of its workers."""
    now_s = time.monotonic()
    names = []
    for index, tenant in enumerate(bed.scenario.tenants):
        per_s = LOAD_PER_S if tenant.load == POISSON else 0.0
        order = Order(tenant.load, now_s + 0.7, length_s, 0.5, per_s, SEED + index, tenant.steps)
        names.append(worker_name(_ROW, tenant))
        bed.workers.send(names[-1], order.message())
    time.sleep(1.5)
    return names


def _errors(bed: Bed, names: list[str], length_s: float) -> list[str]:
    """What went wrong with those that worked meanwhile."""
    errors = []
    for name in names:
        try:
            bed.workers.collect(name, length_s + 60.0)
        except DureError as error:
            errors.append(str(error))
    return errors


def _switch_all(agent: BenchAgent, total: int) -> list[float]:
    found = []
    for policy in itertools.islice(itertools.cycle(_POLICIES[::-1]), total):
        agent.set_policy(policy)
        returned_s = time.monotonic()
        found.append((_first_squad_s(agent, policy) - returned_s) * 1e3)
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


def forgotten(
    known: Iterable[str], before: Mapping[str, Any], said: Mapping[str, Any]
) -> list[str]:
    """Tenants of which something was lost: those known of, and those no longer as before."""
    return sorted({*known, *(name for name in before if said.get(name) != before[name])})


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
