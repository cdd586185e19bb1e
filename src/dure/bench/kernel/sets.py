"""Disjoint sets of compute units across processes, under MPS: kept, and taken up when idle."""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from dure.bench.common.statistics import percentile
from dure.bench.kernel.agents import SPLIT_AGENT, BenchAgent
from dure.bench.kernel.bed import Bed, Surroundings, worker_name
from dure.bench.kernel.budget import Budget
from dure.bench.kernel.orders import CLOSED, TRAIN, Answer, Order
from dure.bench.kernel.rows import ROWS, Substrate
from dure.bench.kernel.scenarios import BenchScenario, BenchTenant, Role
from dure.bench.kernel.shard import Settings, Tell
from dure.bench.kernel.store import PARTS, Store
from dure.domain.errors import DureError
from dure.sim.benches.report import Grid, Verdict, number, percent

GROUPS = 16  # of 8 SMs on an H200; its last 4 SMs belong to no group
SPLITS = ((4, 12), (8, 8), (12, 4))
GROUP_SMS = 8
MOST_OFF = 0.05
MOST_SLOWED = 0.05
MOST_IDLE_MS = 1.0
KERNELS_PER_SYNC = 16
"""Enough that the device never waits for the host."""
TOKENS_PER_SYNC = 64
OWN_SET_S = 3.0
"""Window of one tenant on its set, beside another that only has work there."""
TRIALS = 20
BURST_S = 0.25
START_S = 40.0
IDLE_S = TRIALS * (0.2 + 2.0 * BURST_S + 0.1)
"""What its trials take."""
FAST = 1.15
"""A kernel within this of its full-width time ran at full width."""
_ROW = ROWS["hybrid-mps"]
_KINDS = {"compute-bound": "matmul-wide", "memory-bound": "stream-bound"}
_QUICK = "matmul-short"


def run(store: Store, settings: Settings, surroundings: Surroundings, tell: Tell) -> dict[str, Any]:
    """Two tenants of a kind at each split, then one that goes idle, then a graph."""
    found = store.noted(PARTS) or {}
    budget = Budget.of(settings.limit_s)
    window_s = settings.seconds + settings.ramp_s + 1.0
    split = replace(surroundings, agent=SPLIT_AGENT)
    for kind, workload in (*_KINDS.items(), ("idle", _QUICK)):
        own_s = 2 * len(SPLITS) * (min(settings.seconds, OWN_SET_S) + settings.ramp_s + 0.5)
        length_s = IDLE_S if kind == "idle" else (len(SPLITS) + 2) * window_s + own_s
        if kind in found or not budget.holds(START_S + length_s):
            continue
        tenants = tuple(BenchTenant(name, workload, CLOSED, Role.PEER) for name in ("one", "two"))
        with Bed(BenchScenario("sets", kind, tenants), split, shares_daemon=False) as bed:
            bed.start(_ROW, {})
            bed.warm(_ROW)
            agent = bed.agent(Substrate.DURE_MPS)
            if kind == "idle":
                found[kind] = _idle(bed, agent, tell)
            else:
                found[kind] = _splits(bed, agent, settings, tell)
        store.note(PARTS, found)
    if "graph" not in found and budget.holds(START_S + len(SPLITS) * window_s):
        found["graph"] = _graph(split, settings)
        store.note(PARTS, found)
        tell(f"graph: {found['graph']}")
    return found


def complete(found: dict[str, Any], _settings: Settings) -> bool:
    """Whether every part was measured."""
    return {*_KINDS, "idle", "graph"} <= set(found)


def _splits(bed: Bed, agent: BenchAgent, settings: Settings, tell: Tell) -> dict[str, Any]:
    names = [worker_name(_ROW, tenant) for tenant in bed.scenario.tenants]
    order = Order(TRAIN, 0.0, settings.seconds, settings.ramp_s, sync_every=KERNELS_PER_SYNC)
    alone = [bed.workers.measure({name: order})[name].per_s for name in names]
    tokens = _start_tokens(bed, agent)
    splits = []
    for split in SPLITS:
        _ask_for(agent, bed, split)
        own = _on_own_sets(bed, names, tokens, settings)
        answers = bed.workers.measure(dict.fromkeys(names, order))
        splits.append(
            {
                "split": list(split),
                "speeds": [
                    answers[name].per_s / rate for name, rate in zip(names, alone, strict=True)
                ],
                "own_set": [rate / of for rate, of in zip(own, alone, strict=True)],
                "sets": _sets_in_force(agent),
                "moved": _moved(agent),
                "said": {name: bed.workers.said_by_shim(name) for name in names},
            }
        )
        tell(f"{split}: {splits[-1]}")
    return {"alone_per_s": alone, "splits": splits, "sms": agent.client.status().gpus[0].sms}


def _start_tokens(bed: Bed, agent: BenchAgent) -> list[str]:
    """For each tenant a second process, which only has work: that confines the other tenant."""
    names = []
    for tenant in bed.scenario.tenants:
        names.append(f"{tenant.name}+token")
        bed.workers.start(names[-1], "token", agent.variables, agent.prefix(tenant, None))
    bed.workers.ask_to_build(names)
    for error in bed.workers.built(names).values():
        raise error
    for name in names:
        bed.workers.warm_up(name, tune=False)
    return names


def _on_own_sets(
    bed: Bed, names: Sequence[str], tokens: Sequence[str], settings: Settings
) -> list[float]:
    """The rate of each on its set with the other's set all but empty."""
    seconds = min(settings.seconds, OWN_SET_S)
    work = Order(TRAIN, 0.0, seconds, settings.ramp_s, sync_every=KERNELS_PER_SYNC)
    token = Order(TRAIN, 0.0, seconds + 0.2, settings.ramp_s, sync_every=TOKENS_PER_SYNC)
    return [
        bed.workers.measure({name: work, other: token})[name].per_s
        for name, other in zip(names, reversed(tokens), strict=True)
    ]


def slowed(item: dict[str, Any]) -> list[float]:
    """By how much each is slower than on its set alone; none where that was not measured."""
    pairs = zip(item["speeds"], item.get("own_set", ()), strict=False)
    return [1.0 - both / own for both, own in pairs]


def _ask_for(agent: BenchAgent, bed: Bed, split: tuple[int, int]) -> None:
    for tenant, groups in zip(bed.scenario.tenants, split, strict=True):
        agent.set_share(tenant.name, groups / GROUPS)


def _sets_in_force(agent: BenchAgent) -> list[dict[str, int]]:
    """Of each squad: the compute units of each member."""
    plan = agent.client.status().gpus[0].plan
    if plan is None:
        return []
    return [{member.tenant: member.sm_count for member in squad.members} for squad in plan.squads]


def _moved(agent: BenchAgent) -> dict[str, dict[str, Any]]:
    """Of each tenant: the part of its launches that ran on a set, and what its clients tell."""
    return {
        tenant.name: {
            "share": tenant.moved_share,
            "fallbacks": tenant.fallbacks,
            "flags": sorted({flag for client in tenant.clients for flag in client.flags}),
        }
        for tenant in agent.client.tenants()
    }


def _idle(bed: Bed, agent: BenchAgent, tell: Tell) -> dict[str, Any]:
    """How soon one runs at full width after the other's last kernel ended."""
    _ask_for(agent, bed, (8, 8))
    one, two = (worker_name(_ROW, tenant) for tenant in bed.scenario.tenants)
    waits_ms, confined = [], 0
    for _ in range(TRIALS):
        now_s = time.monotonic() + 0.2
        bed.workers.send(one, Order(CLOSED, now_s, BURST_S).message())
        bed.workers.send(two, Order(CLOSED, now_s, 2.0 * BURST_S).message())
        ended_s = Answer.read(bed.workers.collect(one, 60.0)).last_s
        answer = Answer.read(bed.workers.collect(two, 60.0))
        wait_ms = taken_up_ms(answer, ended_s)
        confined += wait_ms is not None
        waits_ms += [wait_ms] if wait_ms is not None else []
    tell(f"idle: {len(waits_ms)} of {TRIALS} confined, p50 {percentile(waits_ms, 50.0):.2f} ms")
    return {"waits_ms": waits_ms, "confined": confined, "trials": TRIALS}


def taken_up_ms(answer: Answer, idle_s: float) -> float | None:
    """From the other's idleness to the start of the first kernel at full width.

    None where the tenant was not slower beside the other, so that there was nothing to take up.
    """
    ends_s = [answer.first_s + ms / 1e3 for ms in accumulate(answer.latencies_ms)]
    starts_s = [end - ms / 1e3 for end, ms in zip(ends_s, answer.latencies_ms, strict=True)]
    beside = [ms for end, ms in zip(ends_s, answer.latencies_ms, strict=True) if end < idle_s]
    settled = [
        ms for start, ms in zip(starts_s, answer.latencies_ms, strict=True) if start > idle_s + 0.02
    ]
    if not beside or not settled:
        return None
    full_ms = percentile(settled, 50.0)
    if percentile(beside, 50.0) < 1.3 * full_ms:
        return None
    for start, ms in zip(starts_s, answer.latencies_ms, strict=True):
        if start >= idle_s and ms <= FAST * full_ms:
            return (start - idle_s) * 1e3
    return None


def _graph(surroundings: Surroundings, settings: Settings) -> dict[str, Any]:
    """A graph tenant beside another: whether its launches were moved."""
    tenants = (
        BenchTenant("graph", "encoder-infer", CLOSED, Role.PEER),
        BenchTenant("other", "matmul-short", CLOSED, Role.PEER),
    )
    scenario = BenchScenario("sets", "graph", tenants)
    seen: dict[str, Any] = {"moved_share": 0.0, "flags": [], "sets": []}
    with Bed(scenario, surroundings, shares_daemon=False) as bed:
        bed.start(_ROW, {})
        bed.warm(_ROW)
        agent = bed.agent(Substrate.DURE_MPS)
        for split in SPLITS:
            _ask_for(agent, bed, split)
            order = Order(CLOSED, 0.0, settings.seconds, settings.ramp_s)
            try:
                bed.workers.measure({worker_name(_ROW, tenant): order for tenant in tenants})
            except DureError as error:
                return {**seen, "error": str(error)}
            moved = _moved(agent)["graph"]
            seen["moved_share"] = max(seen["moved_share"], moved["share"])
            seen["flags"] = moved["flags"]
            seen["said"] = bed.workers.said_by_shim(worker_name(_ROW, tenants[0]))
            seen["sets"].append(_sets_in_force(agent))
    return seen


def verdicts(found: dict[str, Any]) -> list[Verdict]:
    """Shares within the bound, taken up in time, graphs moved."""
    result = []
    for kind in _KINDS:
        for item in found.get(kind, {}).get("splits", ()):
            wanted = [groups * GROUP_SMS / found[kind]["sms"] for groups in item["split"]]
            off = max(
                abs(speed / share - 1.0)
                for speed, share in zip(item["speeds"], wanted, strict=True)
            )
            words = "/".join(str(groups) for groups in item["split"])
            speeds = ", ".join(
                f"{speed:.3f} of {share:.3f}"
                for speed, share in zip(item["speeds"], wanted, strict=True)
            )
            judged = kind == "compute-bound"
            if slower := slowed(item):
                result.append(
                    Verdict(
                        f"two {kind} tenants at {words} groups slow each other"
                        + (f" ≤ {MOST_SLOWED:.0%}" if judged else ""),
                        ", ".join(f"{each:.1%}" for each in slower),
                        max(slower) <= MOST_SLOWED if judged else None,
                    )
                )
            result.append(
                Verdict(
                    f"two {kind} tenants at {words} groups"
                    + (f": each within {MOST_OFF:.0%} of its share" if judged else ""),
                    f"speeds {speeds}; sets {item['sets']}",
                    off <= MOST_OFF if judged else None,
                )
            )
    if idle := found.get("idle"):
        p99_ms = percentile(idle["waits_ms"], 99.0)
        result.append(
            Verdict(
                f"the share of an idle member is in use within {MOST_IDLE_MS:g} ms",
                f"p50 {percentile(idle['waits_ms'], 50.0):.2f} ms, p99 {p99_ms:.2f} ms over "
                f"{idle['confined']} of {idle['trials']} trials in which there was one",
                bool(idle["waits_ms"]) and p99_ms <= MOST_IDLE_MS,
            )
        )
    if graph := found.get("graph"):
        result.append(
            Verdict(
                "a graph tenant moves between sets",
                graph.get("error")
                or f"{graph['moved_share']:.0%} of its launches moved; flags {graph['flags']}",
                "error" not in graph and graph["moved_share"] > 0.0,
            )
        )
    return result


def grids(found: dict[str, Any]) -> list[Grid]:
    """Speeds at every split."""
    rows = tuple(
        (
            f"{kind}, {item['split'][0]}/{item['split'][1]} groups",
            *(number(speed, 3) for speed in item["speeds"]),
            number(sum(item["speeds"]), 3),
            *(percent(each) for each in slowed(item) or (None, None)),
        )
        for kind in _KINDS
        for item in found.get(kind, {}).get("splits", ())
    )
    columns = ("tenants", "one", "two", "together", "one slowed", "two slowed")
    return [Grid("Disjoint sets of compute units", columns, rows)]
