"""What Dure costs a tenant that has the GPU to itself: throughput, and one launch.

A process differs from the next of its kind (where its memory and threads lie, which algorithm it
finds fastest) by more than Dure costs. So both sides run the algorithms the library proposes, there
are several pairs of processes, all alive at once, and windows are short and in the order ABBA, so
that what drifts falls on both sides alike.
"""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from dure.bench.common.statistics import bootstrap, mean, percentile
from dure.bench.kernel.bed import Bed, Surroundings
from dure.bench.kernel.budget import Budget
from dure.bench.kernel.orders import CLOSED, TRAIN, Order
from dure.bench.kernel.rows import Substrate
from dure.bench.kernel.scenarios import BenchScenario, BenchTenant, Role
from dure.bench.kernel.shard import Settings, Tell
from dure.bench.kernel.store import PARTS, Store
from dure.sim.benches.report import Grid, Verdict, number

LEAST_SPEED = 0.99
MOST_LAUNCH_NS = 500.0
LAUNCH_RUNS = 3
LAUNCH_LIMIT_S = 120.0
PAIRS = 2
"""Of processes, for each tenant."""
BLOCKS = 3
"""Of each pair: windows plain, Dure, Dure, plain."""
WINDOW_S, RAMP_S = 0.8, 0.2
WINDOW_COST_S = 0.5
"""What a window takes beyond its length."""
START_S = 60.0
"""To start, build and warm up what is missing."""
LAUNCHES_S = 20.0
PLAIN, DURE = "plain", "dure"
_ABBA = (PLAIN, DURE, DURE, PLAIN)
_COST = (sys.executable, "-m", "dure.bench.kernel.launch_cost")

TENANTS = (
    BenchTenant("train", "resnet50-train", TRAIN, Role.PEER),
    BenchTenant("encoder", "encoder-infer", CLOSED, Role.PEER),
    BenchTenant("decode", "llm-decode-eager", CLOSED, Role.PEER),
)
"""Many launches, one graph a request, and launches that the host is the limit of."""


@dataclass(frozen=True, slots=True)
class _Stand:
    """One tenant with an agent of its own, so that it is alone there, and its processes."""

    tenant: BenchTenant
    bed: Bed

    def name(self, side: str, pair: int) -> str:
        return f"{self.tenant.name}+{side}+{pair}"

    def names(self) -> list[str]:
        return [self.name(side, pair) for pair in range(PAIRS) for side in (PLAIN, DURE)]

    def start(self, surroundings: Surroundings) -> None:
        agent = self.bed.agent(Substrate.DURE_ISOLATED)
        for pair in range(PAIRS):
            workload = self.tenant.workload
            self.bed.workers.start(self.name(PLAIN, pair), workload, surroundings.isolated)
            prefix = agent.prefix(self.tenant, None)
            self.bed.workers.start(self.name(DURE, pair), workload, agent.variables, prefix)


def run(store: Store, settings: Settings, surroundings: Surroundings, tell: Tell) -> dict[str, Any]:
    """Each alone, without Dure and with it, in turns; what was measured is kept."""
    found: dict[str, Any] = store.noted(PARTS) or {"tenants": {}}
    wanted = [tenant for tenant in TENANTS if tenant.name not in found["tenants"]]
    budget = Budget.of(settings.limit_s)
    if complete(found, settings) or not budget.holds(START_S + LAUNCHES_S):
        return found
    with contextlib.ExitStack() as stack:
        stands = [
            _Stand(
                tenant,
                stack.enter_context(
                    Bed(
                        BenchScenario(tenant.name, tenant.name, (tenant,)),
                        surroundings,
                        shares_daemon=False,
                    )
                ),
            )
            for tenant in wanted or TENANTS[:1]
        ]
        _ready(stands, surroundings)
        tell("warm")
        if "launch_ns" not in found:
            found["launch_ns"] = _launches(stands[0], surroundings)
            store.note(PARTS, found)
            tell(f"launch: {found['launch_ns']['extra_median_ns']:.0f} ns more under Dure")
        for stand in stands if wanted else ():
            if not budget.holds(PAIRS * BLOCKS * len(_ABBA) * _window_s(settings)):
                tell(f"no time for {stand.tenant.name}: run the same command again")
                break
            found["tenants"][stand.tenant.name] = measured = _speeds(stand, settings)
            store.note(PARTS, found)
            by_pair = ", ".join(f"{mean(speeds):.4f}" for speeds in measured["by_pair"])
            tell(f"{stand.tenant.name}: {by_pair}× under Dure")
    return found


def complete(found: dict[str, Any], _settings: Settings) -> bool:
    """Whether nothing is missing."""
    return "launch_ns" in found and len(found["tenants"]) == len(TENANTS)


def _ready(stands: list[_Stand], surroundings: Surroundings) -> None:
    """Start and build all at once, warm up one by one; nobody tunes, so all run the same."""
    for stand in stands:
        stand.start(surroundings)
    for stand in stands:
        stand.bed.workers.ask_to_build(stand.names())
    for stand in stands:
        for error in stand.bed.workers.built(stand.names()).values():
            raise error
    for stand in stands:
        for name in stand.names():
            stand.bed.workers.warm_up(name, tune=False)


def _window_s(settings: Settings) -> float:
    return min(settings.seconds, WINDOW_S) + RAMP_S + WINDOW_COST_S


def _speeds(stand: _Stand, settings: Settings) -> dict[str, Any]:
    """Rates of every window; the speed under Dure of each block, pair by pair."""
    order = Order(stand.tenant.load, 0.0, min(settings.seconds, WINDOW_S), RAMP_S)
    rates: dict[str, list[float]] = {PLAIN: [], DURE: []}
    by_pair: list[list[float]] = [[] for _ in range(PAIRS)]
    for _ in range(BLOCKS):
        for pair, speeds in enumerate(by_pair):
            block: dict[str, list[float]] = {PLAIN: [], DURE: []}
            for side in _ABBA:
                name = stand.name(side, pair)
                block[side].append(stand.bed.workers.measure({name: order})[name].per_s)
            speeds.append(mean(block[DURE]) / mean(block[PLAIN]))
            for side, values in block.items():
                rates[side] += values
    return {**rates, "by_pair": by_pair}


def _launches(stand: _Stand, surroundings: Surroundings) -> dict[str, Any]:
    """An empty kernel, without Dure and with it; the tenant of the bench is idle meanwhile."""
    agent = stand.bed.agent(Substrate.DURE_ISOLATED)
    runs: dict[str, list[float]] = {PLAIN: [], DURE: []}
    for _ in range(LAUNCH_RUNS):
        for key, prefix, environment in (
            (PLAIN, [], dict(surroundings.isolated)),
            (DURE, agent.prefix(stand.tenant, None), agent.variables),
        ):
            done = subprocess.run(
                [*prefix, *_COST],
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                timeout=LAUNCH_LIMIT_S,
                check=True,
            )
            runs[key] += json.loads(done.stdout.strip().splitlines()[-1])["launch_ns"]
    medians = {key: percentile(values, 50.0) for key, values in runs.items()}
    return {**medians, "extra_median_ns": medians[DURE] - medians[PLAIN]}


def verdicts(found: dict[str, Any]) -> list[Verdict]:
    """Whether it costs little enough."""
    result = []
    for name, tenant in found["tenants"].items():
        blocks = [[speed] for speeds in tenant["by_pair"] for speed in speeds]
        speed = bootstrap(blocks, mean)
        pairs = ", ".join(f"{mean(speeds):.4f}" for speeds in tenant["by_pair"])
        result.append(
            Verdict(
                f"{name} alone under Dure ≥ {LEAST_SPEED:g}× its throughput without",
                f"{speed.value:.4f} [{speed.low:.4f}, {speed.high:.4f}]; by pair of processes "
                f"{pairs}",
                speed.value >= LEAST_SPEED,
            )
        )
    if launch := found.get("launch_ns"):
        extra_ns = launch["extra_median_ns"]
        result.append(
            Verdict(
                f"an un-gated launch costs ≤ {MOST_LAUNCH_NS / 1e3:g} µs more, median",
                f"{extra_ns / 1e3:.3f} µs",
                extra_ns <= MOST_LAUNCH_NS,
            )
        )
    return result


def grids(found: dict[str, Any]) -> list[Grid]:
    """Rates with and without."""
    rows = tuple(
        (name, number(mean(tenant[PLAIN]), 2), number(mean(tenant[DURE]), 2))
        for name, tenant in found["tenants"].items()
    )
    return [Grid("One tenant alone", ("tenant", "without Dure /s", "under Dure /s"), rows)]
