"""SIGKILLs of tenants in mid-kernel: whether anybody else is harmed."""

import signal
import time
from typing import Any

from dure.bench.kernel.bed import Bed, Surroundings, worker_name
from dure.bench.kernel.budget import Budget
from dure.bench.kernel.orders import POISSON, TRAIN, Order
from dure.bench.kernel.rows import ROWS, Row, Substrate
from dure.bench.kernel.scenarios import SCENARIOS, BenchScenario, BenchTenant, Role
from dure.bench.kernel.shard import SEED, Settings, Tell
from dure.bench.kernel.store import PARTS, Store
from dure.domain.errors import DureError
from dure.sim.benches.report import Grid, Verdict

KILLS = 20
BATCH = 10  # victims that are there at once
RUN_S = 0.5  # of a victim before it is killed, in the middle of a kernel of about 12 ms
GAP_S = 0.3
START_S = 60.0
"""To start and warm up a batch and those that must survive it."""
LOAD_PER_S = 100.0
TARGET_MS = 100.0
_SURVIVORS = SCENARIOS["b"]
_ROWS = {"isolated": ROWS["hybrid"], "mps": ROWS["hybrid-mps"]}


def run(store: Store, settings: Settings, surroundings: Surroundings, tell: Tell) -> dict[str, Any]:
    """On both substrates; under mps tenants are ended through the agent."""
    found = store.noted(PARTS) or {}
    budget = Budget.of(settings.limit_s)
    for name, row in _wanted(settings).items():
        part = found.setdefault(name, {"killed": 0, "errors": [], "done": {}})
        while (left := _count(settings) - part["killed"]) > 0 and not part["errors"]:
            batch = min(BATCH, left)
            if not budget.holds(START_S + _length_s(batch)):
                tell(f"no time for {left} kills on {name}: run the same command again")
                break
            try:
                _run_batch(row, surroundings, batch, part)
            finally:
                store.note(PARTS, found)
            tell(f"{name}: {part}")
    return found


def complete(found: dict[str, Any], settings: Settings) -> bool:
    """Whether as many were killed as are wanted, or somebody was harmed before."""
    parts = [found.get(name, {"killed": 0, "errors": []}) for name in _wanted(settings)]
    return all(part["killed"] >= _count(settings) or part["errors"] for part in parts)


def _wanted(settings: Settings) -> dict[str, Row]:
    return {
        name: row for name, row in _ROWS.items() if not settings.rows or row.name in settings.rows
    }


def _count(settings: Settings) -> int:
    return max(1, round(KILLS * settings.scale))


def _length_s(batch: int) -> float:
    return batch * (RUN_S + GAP_S + 1.0) + 3.0


def _run_batch(row: Row, surroundings: Surroundings, batch: int, part: dict[str, Any]) -> None:
    """Kill so many, one after another, and add to the part how the survivors fared."""
    victims = tuple(
        BenchTenant(f"victim{index}", "matmul-long", TRAIN, Role.BEST_EFFORT)
        for index in range(batch)
    )
    scenario = BenchScenario("kills", "kills", (*_SURVIVORS.tenants, *victims))
    with Bed(scenario, surroundings, shares_daemon=False) as bed:
        targets = {tenant.name: TARGET_MS for tenant in scenario.with_role(Role.SERVICE)}
        bed.start(row, targets)
        bed.warm(row)
        bed.agent(row.substrate).set_policy(row.policy)
        length_s = _length_s(batch)
        _load(bed, row, length_s)
        time.sleep(1.5)
        for victim in victims:
            try:
                _kill(bed, row, victim, announced=row.substrate is Substrate.DURE_MPS)
                part["killed"] += 1
            except DureError as error:  # harmed by the one before, or not to be ended
                part["errors"].append(f"{victim.name}: {error}")
                break
        for tenant in _SURVIVORS.tenants:
            name = worker_name(row, tenant)
            try:
                done = int(bed.workers.collect(name, length_s + 60.0)["done"])
                part["done"][tenant.name] = part["done"].get(tenant.name, 0) + done
            except DureError as error:
                part["errors"].append(f"{tenant.name}: {error}")


def _load(bed: Bed, row: Row, length_s: float) -> None:
    now_s = time.monotonic()
    for index, tenant in enumerate(_SURVIVORS.tenants):
        per_s = LOAD_PER_S if tenant.load == POISSON else 0.0
        order = Order(tenant.load, now_s + 0.5, length_s, 0.2, per_s, SEED + index)
        bed.workers.send(worker_name(row, tenant), order.message())


def _kill(bed: Bed, row: Row, victim: BenchTenant, *, announced: bool) -> None:
    name = worker_name(row, victim)
    endless = Order(TRAIN, time.monotonic() + 0.05, 600.0)
    bed.workers.send(name, endless.message())
    time.sleep(RUN_S)
    if announced:
        bed.agent(row.substrate).end_tenant(victim.name)
    else:
        bed.workers.kill(name, signal.SIGKILL)
    bed.workers.forget(name)
    time.sleep(GAP_S)


def verdicts(found: dict[str, Any]) -> list[Verdict]:
    """Nobody harmed."""
    words = {
        "isolated": "SIGKILLs in mid-kernel, isolated: no survivor harmed",
        "mps": "tenants ended in mid-kernel through the agent, mps: no survivor harmed",
    }
    return [
        Verdict(
            f"{part['killed']} {words[name]}",
            "; ".join(part["errors"]) or f"none; they did {part['done']} meanwhile",
            not part["errors"] and part["killed"] >= KILLS,
        )
        for name, part in found.items()
        if part["killed"] or part["errors"]
    ]


def grids(_found: dict[str, Any]) -> list[Grid]:
    """The verdicts say all."""
    return []
