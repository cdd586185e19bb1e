"""The bench of the centre as a whole: its parts, each with tables and verdicts against its bar."""

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dure.bench.centre import databases, pages, pods, submits
from dure.bench.common.statistics import percentile
from dure.domain.errors import InputError
from dure.domain.units import MIB
from dure.kit.host import describe_host
from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, number, percent

SUBMITS, PAGES, PODS = "submits", "pages", "pods"
PARTS = (SUBMITS, PAGES, PODS)
LEAST_SUBMITS_PER_S = 300.0
MOST_PAGE_MS = 200.0
MOST_SERVER_BYTES = 500 * MIB
MOST_POD_WAIT_S = 2.0
"""What is to be shown."""
_MS = 1000.0


@dataclass(frozen=True)
class Wanted:
    """What is to be measured, and with how much."""

    parts: tuple[str, ...] = PARTS
    seconds: float | None = None
    """Of each rush of submissions, and of the load of Pods; None: 30 s and 300 s."""
    clients: tuple[int, ...] = (1, 16, 64)
    jobs: int = 100_000
    live: int = 20_000
    looks: int = 50
    per_s: float = 20.0
    postgresql: str = ""
    """Address of a server where databases may be made; empty: SQLite alone."""
    kubeconfig: Path | None = None
    processes: Mapping[str, int] = field(default_factory=dict)
    """Of Kubernetes, by name: their processor time is counted too."""

    @property
    def databases(self) -> tuple[str, ...]:
        """Kinds that are there."""
        if self.postgresql:
            return (databases.SQLITE, databases.POSTGRESQL)
        return (databases.SQLITE,)


@dataclass(frozen=True)
class Part:
    """What one part found."""

    grids: tuple[Grid, ...]
    verdicts: tuple[Verdict, ...]
    figures: dict[str, Any]


def bench_centre(wanted: Wanted, tell: Tell) -> BenchReport:
    """Measure the parts that are asked for, one after the other."""
    makers: dict[str, Callable[[Wanted, Tell], Part]] = {
        SUBMITS: _submits,
        PAGES: _pages,
        PODS: _pods,
    }
    busy = os.getloadavg()[0]
    found = {name: makers[name](wanted, tell) for name in wanted.parts}
    loads = f"{busy:.1f} before, {os.getloadavg()[0]:.1f} after"
    return BenchReport(
        name="centre",
        title="The centre under load",
        about=(
            "`dure server` as a process of its own, asked over HTTP by the typed client; members "
            "over gRPC, one of them on paper except for Pods, where member, API server, scheduler, "
            "controller manager and nodes on paper (KWOK) are real processes on the same machine. "
            f"Load average {loads}: other work on the machine counts against every time."
        ),
        grids=tuple(grid for part in found.values() for grid in part.grids),
        verdicts=tuple(verdict for part in found.values() for verdict in part.verdicts),
        measured_on=describe_host(),
        figures={name: part.figures for name, part in found.items()},
    )


# Submissions


def _submits(wanted: Wanted, tell: Tell) -> Part:
    found: list[submits.SubmitTimes] = []
    for kind in wanted.databases:
        tell(f"submitting to {kind}", 0.0)
        with (
            tempfile.TemporaryDirectory(prefix="dure-bench-") as folder,
            databases.fresh(kind, Path(folder), wanted.postgresql) as address,
        ):
            seconds = wanted.seconds or 30.0
            found += asyncio.run(
                submits.measure(kind, address, Path(folder), wanted.clients, seconds)
            )
    columns = ("database, clients", "a second", "p50, ms", "p99, ms", "server, ms CPU", "client")
    rows = tuple(
        (
            f"{one.database}, {one.clients}",
            number(one.per_s, 0),
            number(_MS * percentile(one.answers_s, 50)),
            number(_MS * percentile(one.answers_s, 99)),
            number(_MS * one.server_cpu_s / len(one.answers_s), 2),
            number(_MS * one.client_cpu_s / len(one.answers_s), 2),
        )
        for one in found
    )
    verdicts = tuple(_fast_enough(kind, found) for kind in wanted.databases)
    figures = {
        f"{one.database}-{one.clients}": {
            "per_s": one.per_s,
            "p50_ms": _MS * percentile(one.answers_s, 50),
            "p99_ms": _MS * percentile(one.answers_s, 99),
            "server_cpu_ms": _MS * one.server_cpu_s / len(one.answers_s),
        }
        for one in found
    }
    return Part(
        (Grid("Submissions, stored before they are answered", columns, rows),), verdicts, figures
    )


def _fast_enough(kind: str, found: Iterable[submits.SubmitTimes]) -> Verdict:
    best = max((one for one in found if one.database == kind), key=lambda one: one.per_s)
    return Verdict(
        f"≥ {LEAST_SUBMITS_PER_S:g} submissions/s stored by {kind} while the planner runs",
        f"{best.per_s:.0f}/s by {best.clients} clients",
        best.per_s >= LEAST_SUBMITS_PER_S,
    )


# Pages


def _pages(wanted: Wanted, tell: Tell) -> Part:
    found: list[pages.PageTimes] = []
    size = (wanted.jobs, wanted.live, wanted.looks)
    for kind in wanted.databases:
        with (
            tempfile.TemporaryDirectory(prefix="dure-bench-") as folder,
            databases.fresh(kind, Path(folder), wanted.postgresql) as address,
        ):
            found.append(asyncio.run(pages.measure(kind, address, Path(folder), size, tell)))
    columns = ("of 100 jobs", "p50, ms", "p99, ms", "longest, ms")
    rows = tuple(
        (f"{one.database}, {name} page", *_percentiles_ms(times_s))
        for one in found
        for name, times_s in one.pages_s.items()
    )
    much = ("server", "take-over, s", "member attached, s", "taken over", "peak", "steady, MiB")
    memory = tuple(
        (
            one.database,
            number(one.take_over_s),
            number(one.attached_s),
            number(one.took_over_memory.now_bytes / MIB, 0),
            number(one.end_memory.peak_bytes / MIB, 0),
            number(one.end_memory.now_bytes / MIB, 0),
        )
        for one in found
    )
    title = f"{wanted.jobs:,} jobs, {wanted.live:,} of them live"
    grids = (Grid(f"Pages of {title}", columns, rows), Grid(f"A server with {title}", much, memory))
    verdicts = tuple(verdict for one in found for verdict in _page_verdicts(one))
    return Part(grids, verdicts, {one.database: _page_figures(one) for one in found})


def _page_figures(one: pages.PageTimes) -> dict[str, Any]:
    shares = (50, 99, 100)
    return asdict(one) | {
        "pages_s": {
            name: {str(share): percentile(times_s, share) for share in shares}
            for name, times_s in one.pages_s.items()
        }
    }


def _percentiles_ms(times_s: list[float]) -> tuple[str, ...]:
    return tuple(number(_MS * percentile(times_s, share)) for share in (50, 99, 100))


def _page_verdicts(one: pages.PageTimes) -> tuple[Verdict, ...]:
    slowest_ms = _MS * max(percentile(times, 99) for times in one.pages_s.values())
    peak = one.end_memory.peak_bytes
    return (
        Verdict(
            f"first and last page of 100 within {MOST_PAGE_MS:g} ms, {one.database}",
            f"p99 {slowest_ms:.0f} ms",
            slowest_ms <= MOST_PAGE_MS,
        ),
        Verdict(
            f"the server holds at most {MOST_SERVER_BYTES // MIB} MiB, {one.database}",
            f"{peak / MIB:.0f} MiB at most, {one.end_memory.now_bytes / MIB:.0f} MiB in the end",
            peak <= MOST_SERVER_BYTES,
        ),
        Verdict(
            f"a planner takes {one.live:,} live jobs over, {one.database}",
            f"{one.taken_over:,} in {one.take_over_s:.1f} s",
            None,
        ),
    )


# Pods


def _pods(wanted: Wanted, tell: Tell) -> Part:
    if wanted.kubeconfig is None:
        raise InputError(
            "Pods need a cluster with nodes on paper (KWOK)",
            "name it with --kubeconfig, or run bench/centre.py, which starts one",
            field="--kubeconfig",
        )
    load = pods.Load(
        wanted.kubeconfig,
        seconds=wanted.seconds or 300.0,
        per_s=wanted.per_s,
        processes={**wanted.processes, "clients": os.getpid()},
    )
    with tempfile.TemporaryDirectory(prefix="dure-bench-") as folder:
        found = asyncio.run(pods.measure(load, Path(folder), tell))
    rows = tuple(
        (name, *(number(percentile(times_s, share), 2) for share in (50, 90, 99, 100)))
        for name, times_s in (("answered", found.answers_s), ("Pod exists", found.waits_s))
    )
    title = f"{load.per_s:g} jobs/s for {load.seconds:g} s: seconds since a job was due"
    waits = Grid(title, ("until", "p50", "p90", "p99", "longest"), rows)
    shares = Grid(
        "Who used the processor",
        ("process", "of one core", "ms a job"),
        tuple(
            (
                name,
                percent(found.taken_s[name] / found.took_s),
                number(_MS * found.whole_s[name] / found.submitted),
            )
            for name in found.taken_s
        ),
    )
    return Part((waits, shares), _pod_verdicts(found), _pod_figures(found))


def _pod_verdicts(found: pods.PodTimes) -> tuple[Verdict, ...]:
    p99_s = percentile(found.waits_s, 99)
    missing = found.submitted - len(found.waits_s)
    own_ms = _MS * (found.whole_s["server"] + found.whole_s["member"]) / found.submitted
    return (
        Verdict(
            f"from a submission to its Pod p99 ≤ {MOST_POD_WAIT_S:g} s",
            f"p99 {p99_s:.2f} s, longest {percentile(found.waits_s, 100):.2f} s",
            p99_s <= MOST_POD_WAIT_S and not missing,
        ),
        Verdict(
            "every job gets its Pod and succeeds",
            f"{len(found.waits_s)} Pods, {found.ended} ends of {found.submitted} submissions",
            not missing and found.ended == found.submitted,
        ),
        Verdict("processor time of server and member for a job", f"{own_ms:.1f} ms", None),
    )


def _pod_figures(found: pods.PodTimes) -> dict[str, Any]:
    return {
        "submitted": found.submitted,
        "failed": found.failed,
        "ended": found.ended,
        "pod_s": {str(share): percentile(found.waits_s, share) for share in (50, 90, 99, 100)},
        "answer_s": {str(share): percentile(found.answers_s, share) for share in (50, 90, 99, 100)},
        "cores": {name: used / found.took_s for name, used in found.taken_s.items()},
        "cpu_ms_per_job": {
            name: _MS * used / found.submitted for name, used in found.whole_s.items()
        },
    }
