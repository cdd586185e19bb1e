"""SIGKILLs of tenants in mid-kernel: whether anybody else is harmed."""

import signal
import time
from typing import Any

from dure.bench.kernel.bed import Bed, Surroundings, worker_name
from dure.bench.kernel.orders import POISSON, TRAIN, Order
from dure.bench.kernel.rows import ROWS, Row, Substrate
from dure.bench.kernel.scenarios import SCENARIOS, BenchScenario, BenchTenant, Role
from dure.bench.kernel.shard import SEED, Settings, Tell
from dure.bench.kernel.store import Store
from dure.domain.errors import DureError
from dure.sim.benches.report import Grid, Verdict

KILLS = 20
BATCH = 10  # victims that are there at once
RUN_S = 0.5  # of a victim before it is killed, in the middle of a kernel of about 12 ms
GAP_S = 0.3
LOAD_PER_S = 100.0
TARGET_MS = 100.0
_SURVIVORS = SCENARIOS["b"]
_ROWS = {"isolated": ROWS["hybrid"], "mps": ROWS["hybrid-mps"]}


def run(store: Store, settings: Settings, surroundings: Surroundings, tell: Tell) -> dict[str, Any]:
    """On both substrates; under mps tenants are ended through the agent."""
    found = store.noted("parts") or {}
    for name, row in _ROWS.items():
        if name not in found and (not settings.rows or row.name in settings.rows):
            count = max(1, round(KILLS * settings.scale))
            found[name] = _run_on(row, surroundings, tell, count)
            store.note("parts", found)
            tell(f"{name}: {found[name]}")
    return found


def _run_on(row: Row, surroundings: Surroundings, tell: Tell, count: int) -> dict[str, Any]:
    announced = row.substrate is Substrate.DURE_MPS
    batch = min(BATCH, count)
    victims = tuple(
        BenchTenant(f"victim{index}", "matmul-long", TRAIN, Role.BEST_EFFORT)
        for index in range(batch)
    )
    killed, errors = 0, []
    served: dict[str, int] = {}
    for _ in range(-(-count // batch)):
        scenario = BenchScenario("kills", "kills", (*_SURVIVORS.tenants, *victims))
        with Bed(scenario, surroundings, shares_daemon=False) as bed:
            targets = {tenant.name: TARGET_MS for tenant in scenario.with_role(Role.SERVICE)}
            bed.start(row, targets)
            bed.warm(row)
            bed.agent(row.substrate).set_policy(row.policy)
            length_s = batch * (RUN_S + GAP_S + 1.0) + 3.0
            _load(bed, row, length_s)
            time.sleep(1.5)
            for victim in victims:
                _kill(bed, row, victim, announced=announced)
                killed += 1
            for tenant in _SURVIVORS.tenants:
                name = worker_name(row, tenant)
                try:
                    done = int(bed.workers.collect(name, length_s + 60.0)["done"])
                    served[tenant.name] = served.get(tenant.name, 0) + done
                except DureError as error:
                    errors.append(f"{tenant.name}: {error}")
        tell(f"{killed} killed, {len(errors)} survivors harmed")
    return {"killed": killed, "errors": errors, "done": served}


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
    ]


def grids(_found: dict[str, Any]) -> list[Grid]:
    """The verdicts say all."""
    return []
