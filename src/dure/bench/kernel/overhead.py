"""What Dure costs a tenant that has the GPU to itself: throughput, and one launch."""

import json
import os
import subprocess
import sys
from typing import Any

from dure.bench.common.statistics import bootstrap, mean, percentile
from dure.bench.kernel.bed import Bed, Surroundings, worker_name
from dure.bench.kernel.orders import CLOSED, TRAIN, Order
from dure.bench.kernel.rows import ROWS, Substrate
from dure.bench.kernel.scenarios import BenchScenario, BenchTenant, Role
from dure.bench.kernel.shard import Settings, Tell
from dure.bench.kernel.store import Store
from dure.sim.benches.report import Grid, Verdict, number

LEAST_SPEED = 0.99
MOST_LAUNCH_NS = 500.0
LAUNCH_RUNS = 3
LAUNCH_LIMIT_S = 120.0
_PLAIN, _DURE = ROWS["time-slice"], ROWS["hybrid"]
_COST = (sys.executable, "-m", "dure.bench.kernel.launch_cost")

TENANTS = (
    BenchTenant("train", "resnet50-train", TRAIN, Role.PEER),
    BenchTenant("encoder", "encoder-infer", CLOSED, Role.PEER),
    BenchTenant("decode", "llm-decode-eager", CLOSED, Role.PEER),
)
"""Many launches, one graph a request, and launches that the host is the limit of."""


def run(
    _store: Store, settings: Settings, surroundings: Surroundings, tell: Tell
) -> dict[str, Any]:
    """Each alone, without Dure and with it, in turns."""
    found: dict[str, Any] = {"tenants": {}}
    for tenant in TENANTS:
        scenario = BenchScenario(tenant.name, tenant.name, (tenant,))
        with Bed(scenario, surroundings, shares_daemon=False) as bed:
            for row in (_PLAIN, _DURE):
                bed.start(row, {})
            for row in (_PLAIN, _DURE):
                bed.warm(row)
            if "launch_ns" not in found:
                found["launch_ns"] = _launches(bed, surroundings)
                tell(f"launch: {found['launch_ns']['extra_median_ns']:.0f} ns more under Dure")
            found["tenants"][tenant.name] = _speeds(bed, tenant, settings)
        tell(f"{tenant.name}: {mean(found['tenants'][tenant.name]['speeds']):.4f}× under Dure")
    return found


def _speeds(bed: Bed, tenant: BenchTenant, settings: Settings) -> dict[str, Any]:
    order = Order(tenant.load, 0.0, settings.seconds, settings.ramp_s)
    rates: dict[str, list[float]] = {"plain": [], "dure": []}
    for repeat in range(settings.repeats):
        pair = [("plain", _PLAIN), ("dure", _DURE)]
        for key, row in pair if repeat % 2 == 0 else reversed(pair):
            name = worker_name(row, tenant)
            rates[key].append(bed.workers.measure({name: order})[name].per_s)
    speeds = [dure / plain for dure, plain in zip(rates["dure"], rates["plain"], strict=True)]
    return {**rates, "speeds": speeds}


def _launches(bed: Bed, surroundings: Surroundings) -> dict[str, Any]:
    """An empty kernel, without Dure and with it; the tenant of the bench is idle meanwhile."""
    agent = bed.agent(Substrate.DURE_ISOLATED)
    tenant = bed.scenario.tenants[0]
    runs: dict[str, list[float]] = {"plain": [], "dure": []}
    for _ in range(LAUNCH_RUNS):
        for key, prefix, environment in (
            ("plain", [], dict(surroundings.isolated)),
            ("dure", agent.prefix(tenant, None), agent.variables),
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
    return {**medians, "extra_median_ns": medians["dure"] - medians["plain"]}


def verdicts(found: dict[str, Any]) -> list[Verdict]:
    """Whether it costs little enough."""
    result = []
    for name, tenant in found["tenants"].items():
        speed = bootstrap([[value] for value in tenant["speeds"]], mean)
        result.append(
            Verdict(
                f"{name} alone under Dure ≥ {LEAST_SPEED:g}× its throughput without",
                f"{speed.value:.4f} [{speed.low:.4f}, {speed.high:.4f}]",
                speed.value >= LEAST_SPEED,
            )
        )
    extra_ns = found["launch_ns"]["extra_median_ns"]
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
        (name, number(mean(tenant["plain"]), 2), number(mean(tenant["dure"]), 2))
        for name, tenant in found["tenants"].items()
    )
    return [Grid("One tenant alone", ("tenant", "without Dure /s", "under Dure /s"), rows)]
