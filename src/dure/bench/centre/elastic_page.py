"""The bench of services that follow their load: tables and verdicts against its bars."""

import asyncio
import os
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from dure.bench.centre import elastic, noise
from dure.bench.common.statistics import percentile
from dure.kit.host import describe_host
from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, number

READY_S = 15.0
"""What is to be shown: extra capacity takes requests so soon after the load grew."""
MOST_CHANGES = 6
"""And in half an hour of noise a size changes so often at most, up and down together."""
_MS = 1000.0
_SEEDS = range(10)


def bench_elastic(step: elastic.Step, repeats: int, tell: Tell) -> BenchReport:
    """Measure so many steps without and with an instance kept warm; then the noise."""
    busy = os.getloadavg()[0]
    steps = [replace(step, standby=standby) for standby in (0, 1) for _ in range(repeats)]
    found = [_measured(one, partial(_part, tell, at, len(steps))) for at, one in enumerate(steps)]
    loads = f"{busy:.1f} before, {os.getloadavg()[0]:.1f} after"
    noisy = _noisy()
    failed, asked = sum(one.failed for one in found), sum(len(one.asked) for one in found)
    ready = [one.ready_s - one.stepped_s for one in found]
    largest = max(max(each.grew + each.shrank for each in runs) for _, _, runs in noisy)
    stepwise = all(_is_stepwise(one) for one in found)
    return BenchReport(
        name="elastic",
        title="Services that follow their load",
        about=_about(step, loads),
        grids=(_steps_grid(steps, found), _noise_grid(noisy)),
        verdicts=(
            Verdict(
                f"capacity for {step.factor:g} times the load is ready within {READY_S:g} s",
                f"{max(ready):.1f} s at most, {sorted(ready)[len(ready) // 2]:.1f} s in the middle",
                max(ready) <= READY_S,
            ),
            Verdict("it goes back to its former size step by step", _sizes(found), stepwise),
            Verdict("no request fails", f"{failed} of {asked:,}", not failed),
            Verdict(
                f"in half an hour of noise a size changes {MOST_CHANGES} times at most",
                f"{largest} at most",
                largest <= MOST_CHANGES,
            ),
        ),
        measured_on=describe_host(),
        figures={
            "steps": [
                {
                    "standby": one.standby,
                    "warned_s": times.warned_s - times.stepped_s,
                    "ready_s": times.ready_s - times.stepped_s,
                    "small_again_s": times.small_s - times.fell_s,
                    "before": times.before,
                    "most": times.most,
                    "sizes": times.sizes,
                    "requests": len(times.asked),
                    "failed": times.failed,
                }
                for one, times in zip(steps, found, strict=True)
            ]
        },
    )


def _about(step: elastic.Step, loads: str) -> str:
    return (
        f"{step.per_s:g} requests a second, open loop, to `dure front`, then {step.factor:g} times "
        f"as many for {step.high_s:g} s, then as before; an instance takes {step.serves_ms:g} ms "
        f"for each and counts for {step.replica_per_s:g} a second. The front reports what it sees, "
        "the member decides. Server, member, instances, front and clients are real processes on "
        "this machine. The size is looked at every 0.1 s; `warned` is when more instances were "
        "wanted, `ready` when all of them took requests, `small again` with `shrinkAfter: "
        f"{step.shrink_after_s:g}s`. Load average {loads}. The half hours of noise are "
        f"{noise.MINUTES} minutes of virtual time each on the same local stage, seeds "
        f"{_SEEDS.start} to {_SEEDS.stop - 1}, a look every 2 s, instances warm after 20 s."
    )


def _measured(step: elastic.Step, tell: Tell) -> elastic.StepTimes:
    with tempfile.TemporaryDirectory(prefix="dure-bench-") as folder:
        return asyncio.run(elastic.measure(step, Path(folder), tell))


def _part(tell: Tell, done: int, of: int, what: str, share: float) -> None:
    tell(what, (done + share) / of)


def _is_stepwise(one: elastic.StepTimes) -> bool:
    """Whether no step took more than a quarter of the instances, and nothing grew again."""
    pairs = zip(one.sizes, one.sizes[1:], strict=False)
    small = all(0 < was - now <= max(1, -(-was // 4)) for was, now in pairs)
    return small and one.sizes[-1] == one.before


def _sizes(found: list[elastic.StepTimes]) -> str:
    return "; ".join(" → ".join(map(str, one.sizes)) for one in found)


def _steps_grid(steps: list[elastic.Step], found: list[elastic.StepTimes]) -> Grid:
    columns = (
        *("step", "kept warm", "before", "at most", "warned, s", "ready, s", "small again, s"),
        *("requests", "failed", "p95 before, ms", "p95 of the step, ms"),
    )
    rows = tuple(
        (
            str(at + 1),
            str(step.standby),
            str(one.before),
            str(one.most),
            number(one.warned_s - one.stepped_s),
            number(one.ready_s - one.stepped_s),
            number(one.small_s - one.fell_s),
            f"{len(one.asked):,}",
            str(one.failed),
            number(_MS * percentile(one.took_s(0.0, one.stepped_s), 95)),
            number(_MS * percentile(one.took_s(one.stepped_s, one.fell_s), 95)),
        )
        for at, (step, one) in enumerate(zip(steps, found, strict=True))
    )
    return Grid("Three times the load for a while, measured", columns, rows)


def _noisy() -> list[tuple[str, bool, list[noise.Trembling]]]:
    return [
        (each.name, forgets, [noise.run(each, seed, forgets_bursts=forgets) for seed in _SEEDS])
        for each in noise.NOISES
        for forgets in (False, True)
    ]


def _noise_grid(noisy: list[tuple[str, bool, list[noise.Trembling]]]) -> Grid:
    columns = ("noise", "bursts", "replicas", "grew, at most", "shrank, at most", "changes, mean")
    rows = tuple(
        (
            name,
            "forgotten" if forgets else "kept for",
            f"{min(each.least for each in runs)}–{max(each.most for each in runs)}",
            str(max(each.grew for each in runs)),
            str(max(each.shrank for each in runs)),
            number(sum(each.grew + each.shrank for each in runs) / len(runs)),
        )
        for name, forgets, runs in noisy
    )
    return Grid("Half an hour of noise, in virtual time", columns, rows)
