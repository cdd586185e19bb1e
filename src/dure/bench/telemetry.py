"""`dure bench telemetry`: what measuring costs an agent, and the programs it serves.

Agents on the emulator with two tenants at work, in turns: one that measures as by default and one
that does not. The agent itself counts the processor time of its measuring threads; what is asked of
a GPU's own thread is in the difference between the two agents. A launch is timed by a program of
its own under each agent.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from dure.bench.common.agents import DURE, AgentProcess
from dure.bench.kernel.emulated import emulated_surroundings
from dure.devices import library
from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, number, percent, silent

MOST_SHARE = 0.01
_WITH: tuple[str, ...] = ()
_WITHOUT = ("--series", "off", "--measure-every", "1h")
_ARGUMENTS = {"measures": _WITH, "does not": _WITHOUT}
_SETTLE_S = 3.0
_PROGRAMS = ("serve", "train")
_LAUNCH_LIMIT_S = 300.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LAUNCH = "dure.bench.kernel.launch_cost"
_CPU = "dure_telemetry_cpu_seconds_total"
_NOISE = 0.05
"""A launch on the emulator is timed to about this share from run to run."""


@dataclass(slots=True)
class _Found:
    """Runs of one kind of agent."""

    core_shares: list[float] = field(default_factory=list)
    """Of the whole agent."""
    launch_ns: list[float] = field(default_factory=list)
    measure_shares: list[float] = field(default_factory=list)
    keep_shares: list[float] = field(default_factory=list)
    series: int = 0


def bench_telemetry(*, seconds: float = 20.0, repeats: int = 3, tell: Tell = silent) -> BenchReport:
    """Both kinds of agent in turns."""
    found = {kind: _Found() for kind in _ARGUMENTS}
    turns = [(kind, turn) for turn in range(repeats) for kind in _ARGUMENTS]
    for place, (kind, _) in enumerate(turns):
        tell(f"an agent that {kind}", place / len(turns))
        _run(found[kind], _ARGUMENTS[kind], seconds)
    return _report(found, seconds, repeats)


def _run(into: _Found, arguments: tuple[str, ...], seconds: float) -> None:
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="dure-telemetry-")))
        environment = emulated_surroundings(folder / "gpu").isolated
        agent = ends.enter_context(AgentProcess(folder / "run", environment, arguments))
        launched = subprocess.run(
            [*DURE, "run", "--tenant", "launches", "--", sys.executable, "-m", _LAUNCH],
            env={**os.environ, **agent.variables},
            capture_output=True,
            timeout=_LAUNCH_LIMIT_S,
            check=True,
        )
        batches = sorted(json.loads(launched.stdout)["launch_ns"])
        into.launch_ns.append(batches[len(batches) // 10])
        for program in _PROGRAMS:
            ends.enter_context(_ended(_start(agent, program, seconds)))
        time.sleep(_SETTLE_S)
        before, began_s = _taken(agent), time.monotonic()
        time.sleep(seconds)
        after, passed_s = _taken(agent), time.monotonic() - began_s
        into.core_shares.append((after.process_s - before.process_s) / passed_s)
        into.measure_shares.append((after.measure_s - before.measure_s) / passed_s)
        into.keep_shares.append((after.keep_s - before.keep_s) / passed_s)
        into.series = after.series


@dataclass(frozen=True, slots=True)
class _Taken:
    """Processor time so far."""

    process_s: float
    measure_s: float
    keep_s: float
    series: int


def _taken(agent: AgentProcess) -> _Taken:
    values = dict(
        line.rsplit(" ", 1) for line in agent.client.metrics().splitlines() if line[:1] != "#"
    )
    fields = Path(f"/proc/{agent.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return _Taken(
        process_s=(int(fields[11]) + int(fields[12])) / _TICKS_PER_S,
        measure_s=float(values.get(f'{_CPU}{{part="measure"}}', 0.0)),
        keep_s=float(values.get(f'{_CPU}{{part="keep"}}', 0.0)),
        series=int(float(values.get("dure_series", 0.0))),
    )


def _start(agent: AgentProcess, program: str, seconds: float) -> "subprocess.Popen[bytes]":
    length = str(round(seconds + 5 * _SETTLE_S))
    words = [str(library.path("dure-tenant")), program, "--seconds", length]
    return subprocess.Popen(
        [*DURE, "run", "--tenant", program, "--", *words],
        env={**os.environ, **agent.variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _ended(program: "subprocess.Popen[bytes]") -> ExitStack:
    """Ends a program with the context."""
    ends = ExitStack()
    ends.callback(program.wait)
    ends.callback(program.terminate)
    return ends


def _report(found: dict[str, _Found], seconds: float, repeats: int) -> BenchReport:
    with_, without = found["measures"], found["does not"]
    measuring, keeping = (
        statistics.median(each) for each in (with_.measure_shares, with_.keep_shares)
    )
    own = measuring + keeping
    whole = {kind: statistics.median(each.core_shares) for kind, each in found.items()}
    launches = {kind: statistics.median(each.launch_ns) for kind, each in found.items()}
    more = launches["measures"] / launches["does not"] - 1.0
    rows = tuple(
        (
            f"that {kind}",
            percent(whole[kind], 2),
            f"{percent(min(each.core_shares), 2)} to {percent(max(each.core_shares), 2)}",
            number(launches[kind], 0),
            f"{min(each.launch_ns):,.0f} to {max(each.launch_ns):,.0f}",
        )
        for kind, each in found.items()
    )
    return BenchReport(
        name="telemetry",
        title="What measuring costs an agent",
        about=(
            f"{repeats} runs of {seconds:g} s of each kind of agent in turns, on an emulated GPU "
            f"with a service and a trainer at work; {with_.series} series once a second, kept in "
            "SQLite. A launch is of an empty kernel by a program under the same agent, the first "
            "decile of its batches, so that other work of the machine counts little; what the call "
            "from Python costs is in both."
        ),
        grids=(
            Grid(
                "Agents",
                ("agent", "of one core", "spread", "a launch, ns", "spread"),
                rows,
            ),
            Grid(
                "Of one core, by the agent's own count",
                ("part", "share"),
                (
                    ("measuring", percent(measuring, 3)),
                    ("keeping", percent(keeping, 3)),
                ),
            ),
        ),
        verdicts=(
            Verdict(
                "measuring and keeping take at most 1 % of one core",
                percent(own, 3),
                own <= MOST_SHARE,
            ),
            Verdict(
                "the whole agent, with what its GPU's thread is asked: reported",
                f"{percent(whole['measures'] - whole['does not'], 2)} of a core more",
                None,
            ),
            Verdict(
                "nothing measurable per launch: the difference is within what runs differ by",
                f"{percent(more, 1)}",
                abs(more) <= max(_NOISE, _spread(with_), _spread(without)),
            ),
        ),
        simulated=False,
        figures={"kinds": found, "core_share": own},
    )


def _spread(found: _Found) -> float:
    """How far runs of the same agent differ."""
    return max(found.launch_ns) / min(found.launch_ns) - 1.0
