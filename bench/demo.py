"""Writes docs/results/demo.md: `make demo` in a fresh clone, with nothing cached, by the clock.

    python bench/demo.py [--out FILE]

The clone is what git would give of this tree: every file it tracks, or would. Caches of packages
and of compiled loops begin empty; packages are fetched from wherever pip is told to.
"""

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from dure.kit.files import write_text
from dure.kit.host import describe_host
from dure.sim.benches.page import Made, markdown
from dure.sim.benches.report import BenchReport, Grid, Verdict

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 180.0
PHASES = (
    ("set up: environment, packages, parts in C", r"dure demo"),
    ("centre, agents and dashboard up", r"all levels: centre"),
    ("first job runs; members and simulator compile their loops", r"chat runs in"),
    ("load rises", r"load of chat rises"),
    ("policy switched", r"the advisor switches"),
    ("price spikes", r"price of \w+ spikes"),
    ("work moved", r"resumed at step"),
    ("tables and report", r": the report"),
)
"""Each ends with a line of what is printed."""


@dataclass
class Run:
    """One demo, from nothing."""

    code: int = 0
    whole_s: float = 0.0
    ends_s: dict[str, float] = field(default_factory=dict)
    load: tuple[float, float] = (0.0, 0.0)
    """Mean number of runnable processes in the minute before and in the last of it."""


def main() -> int:
    """Run it, write the page; 1 where the demo failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "demo.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dure-clone-") as folder:
        clone = Path(folder) / "clone"
        _clone_into(clone)
        run = _demo(clone, Path(folder) / "empty")
    made = Made(
        datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        f"{describe_host()}, no GPU",
        "python bench/demo.py",
    )
    write_text(options.out, markdown(_report(run), made))
    return 1 if run.code else 0


def _clone_into(folder: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in listed:
        source, target = ROOT / name, folder / name
        if name and source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def _demo(clone: Path, empty: Path) -> Run:
    run, before = Run(), os.getloadavg()[0]
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("VIRTUAL", "UV_"))
    }
    env |= {
        "PIP_NO_CACHE_DIR": "1",
        "XDG_CACHE_HOME": str(empty),
        "NUMBA_CACHE_DIR": str(empty / "loops"),
        "PYTHONUNBUFFERED": "1",
    }
    began_s = time.monotonic()
    with subprocess.Popen(
        ["make", "demo"], cwd=clone, env=env, text=True, stdout=subprocess.PIPE, stderr=sys.stderr
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            now_s = time.monotonic() - began_s
            print(f"{now_s:6.1f}  {line}", end="", flush=True)
            for phase, ending in PHASES:
                if phase not in run.ends_s and re.search(ending, line):
                    run.ends_s[phase] = now_s
    run.code, run.whole_s = process.returncode, time.monotonic() - began_s
    run.load = before, os.getloadavg()[0]
    return run


def _report(run: Run) -> BenchReport:
    rows, last_s = [], 0.0
    for phase, _ in PHASES:
        if phase in run.ends_s:
            rows.append((phase, f"{run.ends_s[phase] - last_s:.1f}", f"{run.ends_s[phase]:.1f}"))
            last_s = run.ends_s[phase]
    rows.append(("everything ended", f"{run.whole_s - last_s:.1f}", f"{run.whole_s:.1f}"))
    found = f"{run.whole_s:.0f} s, exit code {run.code}"
    return BenchReport(
        name="demo",
        title="From a fresh clone to the end of the demo",
        about=(
            "`make demo` once, in a copy of what git tracks, without a virtual environment, with "
            "empty caches of packages and compiled loops. Load of the machine by others included: "
            f"{run.load[0]:.1f} processes wanted to run on average in the minute before, "
            f"{run.load[1]:.1f} in its last minute."
        ),
        grids=(Grid("Where the time goes", ("phase", "s", "over after, s"), tuple(rows)),),
        verdicts=(
            Verdict(
                f"it succeeds within {LIMIT_S / 60:g} minutes, set-up included",
                found,
                run.code == 0 and run.whole_s <= LIMIT_S,
            ),
        ),
        simulated=False,
        measured_on="the machine below, with emulated GPUs",
    )


if __name__ == "__main__":
    sys.exit(main())
