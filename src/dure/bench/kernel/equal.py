"""Whether programs compute the same under Dure, bit by bit, while they are held and moved."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any

from dure.bench.kernel.agents import BenchAgent
from dure.bench.kernel.bed import Bed, Surroundings, worker_name
from dure.bench.kernel.budget import Budget
from dure.bench.kernel.orders import POISSON, Order
from dure.bench.kernel.rows import ROWS, Row
from dure.bench.kernel.scenarios import BenchScenario, BenchTenant, Role
from dure.bench.kernel.shard import SEED, Settings, Tell
from dure.bench.kernel.store import Store
from dure.domain.errors import DureError
from dure.sim.benches.report import Grid, Verdict, percent

PROGRAMS = ("eager", "graph", "compiled", "libraries", "cupy", "jax")
SECONDS = 4.0
LIMIT_S = 150.0
PLAIN_S, BESIDE_S, START_S = 45.0, 20.0, 45.0
"""What all programs at once, one beside the service, and its start take."""
WATCH_S = 0.25
TARGET_MS = 20.0
LOAD_PER_S = 150.0
"""Of the service beside: enough that the program is held again and again."""
_SUBJECT = BenchTenant("subject", "", POISSON, Role.BEST_EFFORT)
_BESIDE = BenchScenario(
    "equal",
    "a service beside a program whose result is known",
    (BenchTenant("service", "encoder-infer", POISSON, Role.SERVICE, per_s=LOAD_PER_S),),
    slo_factor=1.0,
)
PLAIN = ("plain", "again")
_ROWS = {"gated": ROWS["slo"], "moved": ROWS["hybrid-mps"]}


def run(store: Store, settings: Settings, surroundings: Surroundings, tell: Tell) -> dict[str, Any]:
    """Each program plain twice, then beside a service on both substrates."""
    found = store.noted("parts") or {name: {} for name in PROGRAMS}
    budget = Budget.of(settings.limit_s)

    def keep(key: str, name: str, part: dict[str, Any]) -> None:
        found[name][key] = part
        store.note("parts", found)
        tell(f"{name}, {key}: {_brief(part)}")

    for attempt in PLAIN:
        names = [name for name in PROGRAMS if _missing(found[name], attempt)]
        if names and budget.holds(PLAIN_S):
            _run_plain(names, surroundings, partial(keep, attempt))
    for key, row in _ROWS.items():
        names = [name for name in PROGRAMS if _missing(found[name], key)]
        if not names or not budget.holds(START_S + BESIDE_S):
            continue
        with Bed(_BESIDE, surroundings, shares_daemon=False) as bed:
            bed.start(row, {"service": TARGET_MS})
            bed.warm(row)
            bed.agent(row.substrate).set_policy(row.policy)
            for name in names:
                if budget.holds(BESIDE_S):
                    keep(key, name, _run_beside(bed, row, name))
    return found


def complete(found: dict[str, Any], _settings: Settings) -> bool:
    """Whether every program was run in every way; one that cannot run was."""
    return all(key in found.get(name, {}) for name in PROGRAMS for key in (*PLAIN, *_ROWS))


def _run_plain(
    names: Sequence[str],
    surroundings: Surroundings,
    keep: Callable[[str, dict[str, Any]], None],
) -> None:
    """All at once: what they compute does not depend on who shares the GPU with them."""
    with ThreadPoolExecutor(len(names)) as pool:
        runs = {pool.submit(_run_program, name, [], surroundings.isolated): name for name in names}
        for done in as_completed(runs):
            keep(runs[done], done.result())


def _missing(program: dict[str, Any], key: str) -> bool:
    """Whether it is still to be run, or to be tried again."""
    return "error" in program.get(key, {"error": "not run"})


def _run_program(
    name: str, prefix: Sequence[str], environment: "dict[str, str] | Any"
) -> dict[str, Any]:
    command = [sys.executable, "-m", "dure.bench.workloads.answers", name, f"{SECONDS:g}"]
    try:
        done = subprocess.run(
            [*prefix, *command],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"took longer than {LIMIT_S:g} s"}
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return {"error": last[0]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _run_beside(bed: Bed, row: Row, name: str) -> dict[str, Any]:
    """The program under Dure while the service has requests; how much it was held and moved."""
    agent = bed.agent(row.substrate)
    service = bed.scenario.tenants[0]
    worker = worker_name(row, service)
    stop = threading.Event()
    seen: dict[str, float] = {"held_share": 0.0, "moved_share": 0.0}
    watcher = threading.Thread(target=_watch, args=(agent, stop, seen), daemon=True)
    watcher.start()
    results: dict[str, Any] = {}

    def subject() -> None:
        results.update(_run_program(name, agent.prefix(_SUBJECT, None), agent.variables))

    runner = threading.Thread(target=subject)
    runner.start()
    repeat = 0
    while runner.is_alive():
        order = Order(POISSON, 0.0, 2.0, 0.0, LOAD_PER_S, SEED + repeat)
        bed.workers.measure({worker: order})
        repeat += 1
    runner.join()
    stop.set()
    watcher.join()
    return {**results, **seen}


def _watch(agent: BenchAgent, stop: threading.Event, seen: dict[str, float]) -> None:
    """Keep the largest shares in which the subject was held, and moved."""
    while not stop.wait(WATCH_S):
        try:
            tenants = agent.client.tenants()
        except DureError:
            continue
        for tenant in tenants:
            if tenant.name == _SUBJECT.name:
                seen["held_share"] = max(seen["held_share"], tenant.held_share)
                seen["moved_share"] = max(seen["moved_share"], tenant.moved_share)


def _brief(part: dict[str, Any]) -> str:
    return part.get("error") or f"{part['first']}, {part['runs']} runs"


def judge(program: dict[str, Any], key: str) -> tuple[bool, str]:
    """Whether a run under Dure gave what plain runs give, and in what sense."""
    parts = [program.get(which, {"error": "not run"}) for which in (*PLAIN, key)]
    for part in parts:
        if "error" in part:
            return False, part["error"]
    plain, again, other = parts
    allowed = {*plain["digests"], *again["digests"]}
    if set(other["digests"]) <= allowed:
        return True, "same bits" if len(allowed) == 1 else "bits of a plain run"
    spread = _apart(plain["shown"], again["shown"])
    apart = _apart(plain["shown"], other["shown"])
    return apart <= spread, f"apart by {apart:.3g}, two plain runs by {spread:.3g}"


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    return max((abs(a - b) for a, b in zip(one, other, strict=True)), default=0.0)


def verdicts(found: dict[str, Any]) -> list[Verdict]:
    """One for each program and substrate."""
    result = []
    for key in _ROWS:
        for name, program in found.items():
            same, words = judge(program, key)
            result.append(Verdict(f"{name} computes the same while {key}", words, same))
    return result


def grids(found: dict[str, Any]) -> list[Grid]:
    """How much each was held and moved."""
    rows = tuple(
        (
            f"{name}, {key}",
            str(part.get("runs", "–")),
            percent(part.get("held_share")),
            percent(part.get("moved_share")),
        )
        for name, program in found.items()
        for key in _ROWS
        if (part := program.get(key))
    )
    columns = ("program", "runs", "held, most in a second", "launches moved")
    return [Grid("Results under Dure", columns, rows)]
