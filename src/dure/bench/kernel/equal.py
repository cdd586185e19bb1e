"""Whether programs compute the same under Dure, bit by bit, while they are held and moved."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from dataclasses import replace
from functools import partial
from typing import Any

from dure.bench.kernel.agents import SPLIT_AGENT, BenchAgent
from dure.bench.kernel.bed import Bed, Surroundings, worker_name
from dure.bench.kernel.budget import Budget
from dure.bench.kernel.orders import POISSON, Order
from dure.bench.kernel.rows import ROWS, Row
from dure.bench.kernel.scenarios import BenchScenario, BenchTenant, Role
from dure.bench.kernel.shard import SEED, Settings, Tell
from dure.bench.kernel.store import PARTS, Store
from dure.domain.errors import DureError
from dure.sim.benches.report import Grid, Verdict, percent

PROGRAMS = ("eager", "graph", "compiled", "libraries", "cupy", "jax")
ONE_OF = frozenset({"cupy", "jax"})
"""One of these is enough; a machine may lack the other."""
SECONDS = 4.0
LIMIT_S = 90.0
PLAIN_S, BESIDE_S, START_S = 45.0, 30.0, 45.0
"""What all programs at once, some beside the service, and its start take."""
WATCH_S = 0.25
TARGET_MS = 20.0
LOAD_S = 1.0
"""Of the service at a time; the program may end in the middle of it."""
LOAD_PER_S = 150.0
"""Of the service beside: enough that the program is held again and again."""
_BESIDE = BenchScenario(
    "equal",
    "a service beside a program whose result is known",
    (BenchTenant("service", "encoder-infer", POISSON, Role.SERVICE, per_s=LOAD_PER_S),),
    slo_factor=1.0,
)
PLAIN = ("plain", "again")
GATED, MOVED = "gated", "moved"
_ROWS = {GATED: ROWS["slo"], MOVED: ROWS["hybrid-mps"]}
_SHARES = {GATED: "held_share", MOVED: "moved_share"}
"""What shows that it was."""
AT_ONCE = 3
"""Programs beside the service."""
HALF, SHARE = 0.5, 0.125
"""Of the GPU for the service, and for each of the programs, while they are moved."""


def run(store: Store, settings: Settings, surroundings: Surroundings, tell: Tell) -> dict[str, Any]:
    """Each program plain twice, then held for a service, then moved whenever it has requests."""
    found = store.noted(PARTS) or {name: {} for name in PROGRAMS}
    budget = Budget.of(settings.limit_s)

    def keep(key: str, name: str, part: dict[str, Any]) -> None:
        found[name][key] = part
        store.note(PARTS, found)
        tell(f"{name}, {key}: {_brief(part)}")

    for attempt in PLAIN:
        names = [name for name in PROGRAMS if _missing(found[name], attempt)]
        if names and budget.holds(PLAIN_S):
            _run_plain(names, surroundings, partial(keep, attempt))
    split = replace(surroundings, agent=SPLIT_AGENT)
    for key, row in _ROWS.items():
        names = [name for name in PROGRAMS if _missing(found[name], key)]
        if not names or not budget.holds(START_S + BESIDE_S):
            continue
        where = split if key == MOVED else surroundings
        with Bed(_BESIDE, where, shares_daemon=False) as bed:
            bed.start(row, {"service": TARGET_MS})
            bed.warm(row)
            agent = bed.agent(row.substrate)
            agent.set_policy(row.policy)
            if key == MOVED:
                agent.set_share("service", HALF)
            for at in range(0, len(names), AT_ONCE):
                if not budget.holds(BESIDE_S):
                    break
                batch = names[at : at + AT_ONCE]
                for name, part in _run_beside(bed, row, batch, surroundings.answers).items():
                    keep(key, name, part)
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
    environment = dict(surroundings.isolated)
    with ThreadPoolExecutor(len(names)) as pool:
        runs = {
            pool.submit(_run_program, [*surroundings.answers, name], environment): name
            for name in names
        }
        for done in as_completed(runs):
            keep(runs[done], done.result())


def _missing(program: dict[str, Any], key: str) -> bool:
    """Whether it is still to be run, or to be tried again."""
    return "error" in program.get(key, {"error": "not run"})


def _run_program(command: Sequence[str], environment: dict[str, str]) -> dict[str, Any]:
    with subprocess.Popen(
        [*command, f"{SECONDS:g}"],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            # the program below `dure run` has its pipes too, and would be waited for
            os.killpg(process.pid, signal.SIGKILL)
            return {"error": f"took longer than {LIMIT_S:g} s"}
    if process.returncode != 0:
        last = err.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        return {"error": last[0]}
    try:
        found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": f"said no results but {out[-100:]!r}"}
    return found


def _run_beside(
    bed: Bed, row: Row, names: Sequence[str], answers: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Programs under Dure while the service has requests; how much each was held and moved."""
    agent = bed.agent(row.substrate)
    worker = worker_name(row, bed.scenario.tenants[0])
    stop = threading.Event()
    seen = {name: {"held_share": 0.0, "moved_share": 0.0} for name in names}
    watcher = threading.Thread(target=_watch, args=(agent, stop, seen), daemon=True)
    watcher.start()
    with ThreadPoolExecutor(len(names)) as pool:
        runs = {
            name: pool.submit(
                _run_program, [*_prefix(agent, row, name), *answers, name], agent.variables
            )
            for name in names
        }
        repeat = 0
        try:
            while not all(run.done() for run in runs.values()):
                order = Order(POISSON, 0.0, LOAD_S, 0.0, LOAD_PER_S, SEED + repeat)
                bed.workers.measure({worker: order})
                repeat += 1
        finally:
            wait(runs.values())
            stop.set()
            watcher.join()
    return {name: {**run.result(), **seen[name]} for name, run in runs.items()}


def _prefix(agent: BenchAgent, row: Row, name: str) -> list[str]:
    """What makes a program a tenant of its own name."""
    words = agent.prefix(BenchTenant(name, "", POISSON, Role.BEST_EFFORT), None)
    if row is _ROWS[MOVED]:
        words[-1:-1] = ["--sm-share", f"{SHARE:g}"]
    return words


def _watch(agent: BenchAgent, stop: threading.Event, seen: dict[str, dict[str, float]]) -> None:
    """Keep the largest shares in which the programs were held, and moved."""
    while not stop.wait(WATCH_S):
        try:
            tenants = agent.client.tenants()
        except DureError:
            continue
        for tenant in tenants:
            if (most := seen.get(tenant.name)) is not None:
                most["held_share"] = max(most["held_share"], tenant.held_share)
                most["moved_share"] = max(most["moved_share"], tenant.moved_share)


def _brief(part: dict[str, Any]) -> str:
    return part.get("error") or f"{part['first']}, {part['runs']} runs"


def judge(program: dict[str, Any], key: str) -> tuple[bool, str]:
    """Whether a run under Dure gave what plain runs give, and in what sense."""
    parts = [program.get(which, {"error": "not run"}) for which in (*PLAIN, key)]
    for part in parts:
        if "error" in part:
            return False, part["error"]
    plain, again, other = parts
    share = other.get(_SHARES[key], 1.0)
    done = f"{key} for {percent(share)} at most" if share else f"never {key}"
    allowed = {*plain["digests"], *again["digests"]}
    if set(other["digests"]) <= allowed:
        same = "same bits" if len(allowed) == 1 else "bits of a plain run"
        return share > 0.0, f"{same}; {done}"
    own = max(part.get("spread", 0.0) for part in (plain, again))
    spread = max(own, _apart(plain["shown"], again["shown"]))
    apart = _apart(plain["shown"], other["shown"])
    words = f"apart by {apart:.3g}, two plain runs by {spread:.3g}; {done}"
    return apart <= spread and share > 0.0, words


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    return max((abs(a - b) for a, b in zip(one, other, strict=True)), default=0.0)


def verdicts(found: dict[str, Any]) -> list[Verdict]:
    """One for each program and substrate."""
    result = []
    for key in _ROWS:
        judged = {name: judge(program, key) for name, program in found.items()}
        spare = any(judged[name][0] for name in ONE_OF & judged.keys())
        for name, (same, words) in judged.items():
            missing = spare and name in ONE_OF and "No module named" in words
            claim = f"{name} computes the same while {key}"
            result.append(Verdict(claim, words, None if missing else same))
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
