"""The bench of a service that moves: tables and verdicts against its bars."""

import asyncio
import os
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from dure.bench.centre import moves
from dure.bench.common.statistics import percentile
from dure.kit.host import describe_host
from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, number

MOST_SLOWER = 2.0
"""What is to be shown: the 99th percentile while it moves, of the one before."""
_MS = 1000.0
_BEFORE_S = 10.0
"""Of the time before a move, for the cores that are used then."""


def bench_moves(load: moves.Load, repeats: int, tell: Tell) -> BenchReport:
    """Measure so many moves, each with a fleet of its own."""
    busy = os.getloadavg()[0]
    found = [_measured(load, partial(_part, tell, each, repeats)) for each in range(repeats)]
    loads = f"{busy:.1f} before, {os.getloadavg()[0]:.1f} after"
    rows = tuple(
        (
            str(place + 1),
            f"{len(one.asked):,}",
            str(one.failed),
            number(_MS * percentile(one.before(), 50)),
            number(_MS * percentile(one.before(), 99)),
            number(_MS * percentile(one.during(), 50)),
            number(_MS * percentile(one.during(), 99)),
            number(_slower(one), 2),
            number(one.ended_s - one.began_s),
        )
        for place, one in enumerate(found)
    )
    columns = (
        *("move", "requests", "failed", "p50 before, ms", "p99 before, ms"),
        *("p50 during, ms", "p99 during, ms", "p99 ratio", "lasted, s"),
    )
    slower = sorted(_slower(one) for one in found)[len(found) // 2]
    failed, asked = sum(one.failed for one in found), sum(len(one.asked) for one in found)
    return BenchReport(
        name="moves",
        title="A service that moves while people ask it",
        about=(
            f"{load.per_s:g} requests a second, open loop, to `dure front`; one instance that "
            f"takes {load.serves_ms:g} ms for each. Somebody has it moved, so it starts in the "
            "other cluster, gets requests in steps, and its old place ends. Server, two members of "
            "processes, instances, front and clients are real processes on this machine. Load "
            f"average {loads}."
        ),
        grids=(
            Grid("Moves", columns, rows),
            Grid("Each phase", _PHASE_COLUMNS, tuple(_phase_rows(found))),
            Grid("Cores used by each part", *_parts_grid(found)),
        ),
        verdicts=(
            Verdict("no request fails", f"{failed} of {asked:,}", not failed),
            Verdict(
                f"p99 during a move is at most {MOST_SLOWER:g}× that before",
                f"{slower:.2f}× in the middle of {repeats}",
                slower <= MOST_SLOWER,
            ),
        ),
        measured_on=describe_host(),
        figures={
            "moves": [
                {
                    "requests": len(one.asked),
                    "failed": one.failed,
                    "p99_before_ms": _MS * percentile(one.before(), 99),
                    "p99_during_ms": _MS * percentile(one.during(), 99),
                    "seconds": one.ended_s - one.began_s,
                    "phases": {
                        name: {
                            "p99_ms": _MS * _figures(one.within(name))[1],
                            "busy": one.busy_share(*span),
                        }
                        for name, span in one.phases.items()
                    },
                }
                for one in found
            ]
        },
    )


_PHASE_COLUMNS = (
    *("move", "phase", "seconds", "requests", "p50, ms", "p99, ms", "worst, ms", "cores busy, %"),
)


def _phase_rows(found: Sequence[moves.MoveTimes]) -> Iterator[tuple[str, ...]]:
    """When what was slow, and how busy the machine was then."""
    for place, one in enumerate(found):
        start_s = one.asked[0].at_s if one.asked else one.began_s
        spans = {"before": (start_s, one.began_s)} | one.phases
        for name, (from_s, to_s) in spans.items():
            took = one.before() if name == "before" else one.within(name)
            yield (
                str(place + 1),
                name,
                number(to_s - from_s),
                f"{len(took):,}",
                *(number(_MS * value) for value in _figures(took)),
                number(100.0 * one.busy_share(from_s, to_s), 0),
            )


def _parts_grid(
    found: Sequence[moves.MoveTimes],
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Who uses the cores, in each phase of the first move."""
    one = found[0]
    spans = {"before": (one.began_s - _BEFORE_S, one.began_s)} | one.phases
    cores = {name: one.cores(*span) for name, span in spans.items()}
    parts = sorted({part for each in cores.values() for part in each})
    rows = tuple(
        (part, *(number(cores[name].get(part, 0.0), 2) for name in spans)) for part in parts
    )
    return ("part", *spans), rows


def _figures(took: list[float]) -> tuple[float, float, float]:
    if not took:
        return 0.0, 0.0, 0.0
    return percentile(took, 50), percentile(took, 99), max(took)


def _measured(load: moves.Load, tell: Tell) -> moves.MoveTimes:
    with tempfile.TemporaryDirectory(prefix="dure-bench-") as folder:
        return asyncio.run(moves.measure(load, Path(folder), tell))


def _part(tell: Tell, done: int, of: int, what: str, share: float) -> None:
    tell(what, (done + share) / of)


def _slower(one: moves.MoveTimes) -> float:
    return percentile(one.during(), 99) / percentile(one.before(), 99)
