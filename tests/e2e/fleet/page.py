"""What runs of whole fleets showed, as a page of results.

python -m tests.e2e.fleet.page SUMMARY.json docs/results/e2e.md
"""

import datetime
import json
import sys
from pathlib import Path
from typing import Any

from dure.kit.files import write_text
from dure.kit.host import describe_host
from dure.member.kube.shepherd import EPSILON_S
from dure.sim.benches.page import Made, markdown
from dure.sim.benches.report import BenchReport, Grid, Verdict
from tests.e2e.fleet.verdict import HOLDS_S, WITHIN_S

_COMMAND = "make test-fleet SUMMARY=out/fleet.json"
_MOST_RUN_S = 900.0
_MOST_FAILOVER_S = 10.0
_MOST_DELETE_S = 10.0
_ABOUT = (
    "Real `dure server` and `dure member` processes, PostgreSQL, NATS, Kubernetes with etcd (nodes "
    "and Pods on paper, by KWOK) and programs of the host, all on the cores of one machine. Faults "
    "are SIGKILL, SIGSTOP of the leader past its lease, and lines between network namespaces that "
    "swallow everything; their schedule is drawn from the seed and printed before the run."
)


def page(found: dict[str, Any]) -> BenchReport:
    """The page of one summary."""
    verdicts: list[Verdict] = []
    grids: list[Grid] = []
    for name, figures in found.items():
        if "slowest_delete_s" in figures:
            verdicts.append(_of_kubectl(figures))
        elif "seed" in figures:
            verdicts += _of_run(figures)
            grids.append(_faults(figures))
        elif "most_s" in figures:
            verdicts.append(_of_failover(name, figures))
        elif "down_s" in figures:
            verdicts.append(_of_outage(figures))
        elif "longest_partly_s" in figures:
            verdicts.append(_of_gang(figures))
    return BenchReport(
        name="e2e",
        title="A whole fleet while its parts die",
        about=_ABOUT,
        grids=tuple(grids),
        verdicts=tuple(verdicts),
        measured_on="the machine below, nodes and Pods of Kubernetes on paper",
        figures=found,
    )


def _of_run(figures: dict[str, Any]) -> list[Verdict]:
    jobs, seed = figures["jobs"], figures["seed"]
    bad = figures["wrong"] + figures["lost"] + figures["doubled"]
    whole_s = figures["ended_s"]
    return [
        Verdict(
            f"{jobs} jobs (seed {seed}): every one ends as its manifest says, none lost or doubled",
            f"{figures['wrong']} wrong, {figures['lost']} lost, {figures['doubled']} doubled, over "
            f"{sum(figures['faults'].values())} faults and {figures['attempts']} attempts",
            bad == 0,
        ),
        Verdict(
            f"{jobs} jobs: desired = observed for {HOLDS_S:g} s within {WITHIN_S:g} s of the last "
            "killed process being ready",
            f"{figures['converged_s']:.1f} s",
            figures["converged_s"] <= WITHIN_S,
        ),
        Verdict(f"{jobs} jobs: over within 15 minutes", f"{whole_s:.0f} s", whole_s <= _MOST_RUN_S),
    ]


def _faults(figures: dict[str, Any]) -> Grid:
    rows = tuple((what, str(times)) for what, times in sorted(figures["faults"].items()))
    return Grid(f"Faults of the run with {figures['jobs']} jobs", ("what", "times"), rows)


def _of_failover(name: str, figures: dict[str, Any]) -> Verdict:
    how = "stopped" if "stopped" in name else "killed"
    return Verdict(
        f"leader {how} {figures['times']} times: a new job's object is there within 10 s",
        f"median {figures['median_s']:.1f} s, longest {figures['most_s']:.1f} s",
        figures["most_s"] <= _MOST_FAILOVER_S,
    )


def _of_outage(figures: dict[str, Any]) -> Verdict:
    admitted, agreed_s = figures["admitted_without_centre"], figures["converged_s"]
    return Verdict(
        f"the centre is down for {figures['down_s']:g} s, leases 1:10: clusters admit on, catch up",
        f"{admitted} Pods started meanwhile; agreed in {agreed_s:.1f} s",
        admitted > 0 and agreed_s <= WITHIN_S,
    )


def _of_kubectl(figures: dict[str, Any]) -> Verdict:
    slowest_s = figures["slowest_delete_s"]
    return Verdict(
        f"{figures['jobs']} jobs by kubectl in three clusters (seed {figures['seed']}), the centre "
        "killed twice: each ends once, as expected; what is deleted meanwhile goes at once and "
        "stays away",
        f"all; {figures['deletes']} deleted without a centre, {figures['never a job']} of them "
        f"before it ever heard of them, the slowest in {slowest_s:.1f} s",
        slowest_s <= _MOST_DELETE_S,
    )


def _of_gang(figures: dict[str, Any]) -> Verdict:
    limit_s, partly_s = figures["limit_s"], figures["longest_partly_s"]
    return Verdict(
        f"a gang of 8 is never partly bound for longer than {limit_s:g} s, then starts whole",
        f"{partly_s:.1f} s; whole {figures['whole_after_s']:.1f} s after there was room",
        partly_s <= limit_s + EPSILON_S,
    )


def main(summary: Path, out: Path) -> None:
    """Write the page."""
    report = page(json.loads(summary.read_text(encoding="utf-8")))
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    write_text(out, markdown(report, Made(today, describe_host(), _COMMAND)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
